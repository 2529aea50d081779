//! Curves of the probe in the terminal.

use reach_probe::Pass;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Columns of the longest bar.
const WIDTH: f64 = 44.0;

/// Draws each curve: one line for each point, with the least cycles of all processes.
pub fn curves(passes: &[Pass]) -> String {
    let names: BTreeSet<&String> = passes.iter().flat_map(|pass| pass.curves.keys()).collect();
    names.into_iter().map(|name| curve(name, passes)).collect::<Vec<_>>().join("\n")
}

fn curve(name: &str, passes: &[Pass]) -> String {
    let all: Vec<_> = passes.iter().filter_map(|pass| pass.curves.get(name)).collect();
    let Some(longest) = all.iter().max_by_key(|curve| curve.points.len()) else { return String::new() };
    let least = |count: u64| {
        let at = all.iter().flat_map(|curve| &curve.points).filter(|point| point.0 == count);
        at.map(|point| point.1).fold(f64::MAX, f64::min)
    };
    let points: Vec<(u64, f64)> = longest.points.iter().map(|&(count, _)| (count, least(count))).collect();
    let most = points.iter().map(|point| point.1).fold(1.0, f64::max);
    // Steps of a few cycles must be seen beside those of hundreds.
    let length = |cycles: f64| ((1.0 + cycles.max(0.0)).ln() / (1.0 + most).ln() * WIDTH).round() as usize;
    let mut out = format!("{name}: cycles over {}, bars logarithmic\n", longest.unit);
    for (count, cycles) in points {
        let _ = writeln!(out, "{count:>9} {cycles:>9.1} {}", "#".repeat(length(cycles)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_probe::Curve;

    #[test]
    fn a_curve_shows_the_least_cycles_of_all_processes_and_its_step() {
        let pass = |points: &[(u64, f64)]| {
            let mut pass = Pass::default();
            pass.curves.insert("tlb.4k".into(), Curve { unit: "pages of 4 KB".into(), points: points.to_vec() });
            pass
        };
        let drawn = curves(&[pass(&[(64, 0.0), (96, 9.0)]), pass(&[(64, 3.0), (96, 7.0)])]);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "tlb.4k: cycles over pages of 4 KB, bars logarithmic");
        assert_eq!(lines[1].trim(), "64       0.0");
        assert!(lines[2].contains("96       7.0") && lines[2].ends_with(&"#".repeat(44)), "{drawn}");
    }
}
