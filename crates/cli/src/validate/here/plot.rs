//! A plot of measured intervals and predictions, in characters.

use reach_lab::validation::here::HereRow;

/// Columns of the scale.
const WIDTH: usize = 56;

/// Draws a line for each measured program: `[` and `]` around the interval, `|` at its median, `o` at the prediction, `@` where the
/// two meet. Empty if nothing was measured.
pub fn plot(rows: &[HereRow]) -> String {
    let marks = |row: &HereRow| Some((row.low?, row.measured?, row.high?, row.ours?));
    let drawn: Vec<_> = rows.iter().filter_map(|row| Some((row.item.as_str(), marks(row)?))).collect();
    let values = || drawn.iter().flat_map(|(_, (low, median, high, ours))| [*low, *median, *high, *ours]).chain([1.0]);
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
    if drawn.is_empty() || most <= least {
        return String::new();
    }
    let column = |value: f64| ((value - least) / (most - least) * (WIDTH - 1) as f64).round() as usize;
    let name_width = drawn.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, (low, median, high, ours)): &(&str, (f64, f64, f64, f64))| {
        let mut cells = vec![' '; WIDTH];
        cells[column(1.0)] = '.';
        cells[column(*low)..=column(*high)].fill('-');
        cells[column(*low)] = '[';
        cells[column(*high)] = ']';
        cells[column(*median)] = '|';
        let at = column(*ours);
        cells[at] = if cells[at] == '|' { '@' } else { 'o' };
        let cells: String = cells.into_iter().collect();
        format!("{name:name_width$}  {}\n", cells.trim_end())
    };
    let lines: String = drawn.iter().map(line).collect();
    let right = format!("{most:.2}");
    let scale = format!("{least:<0$.2}{right}", WIDTH - right.len());
    format!("{:name_width$}  {scale}\n{lines}[|] measured, o predicted, @ both, . no speedup\n", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_lab::validation::here::{Measured, Predicted, Seconds, programs, row};

    #[test]
    fn marks_lie_where_their_values_do() {
        let zero = Seconds::default();
        let measured = |median: f64, low, high| Ok(Measured { median, low, high, pairs: 9, base: zero, huge: zero });
        let predicted = |speedup| Ok(Predicted { speedup, error: None, base: zero, huge: zero });
        let all = programs();
        let rows = [
            row(&all[0], "m", None, measured(1.5, 1.4, 1.6), predicted(2.1)),
            row(&all[1], "m", None, measured(1.0, 1.0, 1.0), predicted(1.0)),
            row(&all[2], "m", None, Err("install gcc".into()), predicted(1.0)),
        ];
        let drawn = plot(&rows);
        let lines: Vec<_> = drawn.lines().collect();
        assert_eq!(lines.len(), 4, "{drawn}");
        assert!(lines[1].starts_with("hash-join") && lines[1].ends_with('o'), "{drawn}");
        // The name of the program has an o, too.
        let at = |mark| lines[1].rfind(mark).unwrap();
        assert!(at('.') < at('[') && at('[') < at('|') && at('|') < at(']') && at(']') < at('o'), "{drawn}");
        assert_eq!(lines[2].trim_start_matches("tree").trim(), "@");
        assert_eq!(plot(&rows[2..]), "");
    }
}
