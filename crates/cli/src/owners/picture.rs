//! The picture of misses by address and time.

use super::names::Names;
use crate::{tabulate, units};
use reach_lab::attribution::{EXTENT_SHIFT, Heat};
use std::collections::BTreeMap;

/// The most rows of a mapping's addresses. More extents share rows.
const ROWS: usize = 12;
/// The most mappings; those with the most misses are shown.
const MAPPINGS: usize = 4;
/// No misses, then at most a 64th, a 16th and a quarter of the most in any cell, and more.
const SHADES: [char; 5] = [' ', '·', '░', '▒', '█'];

/// Misses of one mapping: by extent, by span of time.
type Rows = BTreeMap<u64, Vec<u64>>;

/// Returns the picture, in the width of the terminal: a row is 2 MB of addresses or more, a column a span of time.
pub fn picture(names: &Names, heat: &Heat) -> String {
    let room = tabulate::width().saturating_sub(20).clamp(8, 128);
    let spans = heat.spans.len().div_ceil(heat.spans.len().div_ceil(room).max(1)).max(1);
    let mut mappings = by_mapping(names, heat, spans);
    mappings.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.values().flatten().sum::<u64>()));
    let hidden = mappings.len().saturating_sub(MAPPINGS);
    mappings.truncate(MAPPINGS);
    let mappings: Vec<(&str, Rows)> = mappings.into_iter().map(|(name, rows)| (name, fewer(rows))).collect();
    let most = mappings.iter().flat_map(|(_, rows)| rows.values().flatten()).copied().max().unwrap_or(0);
    let each = units::short((heat.references * (heat.spans.len() / spans).max(1) as u64) as f64);
    let mut out = tabulate::paragraph(
        "",
        &format!(
            "L1 TLB misses by address and time; a column is {each} references, the darkest cell has {} misses",
            units::short(most as f64)
        ),
    );
    for (name, rows) in &mappings {
        out += &tabulate::paragraph("", name);
        for (extent, cells) in rows {
            let cells: String = cells.iter().map(|&misses| shade(misses, most)).collect();
            out += &format!("  {:#014x} |{cells}|\n", extent << EXTENT_SHIFT);
        }
    }
    if hidden > 0 {
        out += &tabulate::paragraph(
            "",
            &format!("{} with fewer misses are not shown", units::plural(hidden as u64, "mapping", "mappings")),
        );
    }
    out
}

fn by_mapping<'a>(names: &'a Names, heat: &Heat, spans: usize) -> Vec<(&'a str, Rows)> {
    let each = heat.spans.len().div_ceil(spans).max(1);
    let mut mappings: BTreeMap<&str, Rows> = BTreeMap::new();
    for (at, span) in heat.spans.iter().enumerate() {
        for (&(mapping, extent), misses) in span {
            let rows = mappings.entry(names.mapping_of(mapping)).or_default();
            rows.entry(extent).or_insert_with(|| vec![0; spans])[at / each] += misses;
        }
    }
    mappings.into_iter().collect()
}

/// Lets neighbours share rows until they are few enough.
fn fewer(rows: Rows) -> Rows {
    let each = rows.len().div_ceil(ROWS).max(1);
    let mut fewer = Rows::new();
    let rows: Vec<_> = rows.into_iter().collect();
    for group in rows.chunks(each) {
        let mut sum = vec![0; group[0].1.len()];
        group.iter().for_each(|(_, cells)| sum.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += cell));
        fewer.insert(group[0].0, sum);
    }
    fewer
}

fn shade(misses: u64, most: u64) -> char {
    let level = match misses {
        0 => 0,
        _ if misses.saturating_mul(64) <= most => 1,
        _ if misses.saturating_mul(16) <= most => 2,
        _ if misses.saturating_mul(4) <= most => 3,
        _ => 4,
    };
    SHADES[level]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_rows_and_shades_grow_with_misses() {
        let rows: Rows = (0..30).map(|extent| (extent, vec![1, extent])).collect();
        let fewer = fewer(rows);
        assert!(fewer.len() <= ROWS, "{fewer:?}");
        assert_eq!(fewer.values().map(|cells| cells[0]).sum::<u64>(), 30);
        assert_eq!(fewer[&3], [3, 3 + 4 + 5]);
        let shades: String = [0, 1, 64, 65, 256, 257, 4096].map(|misses| shade(misses, 4096)).iter().collect();
        assert_eq!(shades, " ··░░▒█");
    }
}
