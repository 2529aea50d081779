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

/// Returns the picture, in the width of the terminal: a row is 2 MB of addresses or more, a column a span of time. Rows without misses
/// are left out.
pub fn picture(names: &Names, heat: &Heat) -> String {
    let room = tabulate::width().saturating_sub(20).clamp(8, 128);
    let each = heat.spans.len().div_ceil(room).max(1);
    let mut mappings = by_mapping(names, heat, each);
    mappings.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.values().flatten().sum::<u64>()));
    let hidden = mappings.len().saturating_sub(MAPPINGS);
    mappings.truncate(MAPPINGS);
    let mappings: Vec<_> = mappings.into_iter().map(|(name, rows)| (name, fewer(rows))).collect();
    let most = mappings.iter().flat_map(|(_, (_, rows))| rows.values().flatten()).copied().max().unwrap_or(0);
    let each = units::short((heat.references * each as u64) as f64);
    let mut out = tabulate::paragraph(
        "",
        &format!(
            "L1 TLB misses by address and time; a column is {each} references, the darkest cell has {} misses",
            units::short(most as f64)
        ),
    );
    for (name, (each, rows)) in &mappings {
        let size = units::memory(each << EXTENT_SHIFT);
        out += &tabulate::paragraph("", &format!("{name}, {size} a row"));
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

/// Returns the rows of each mapping; a column is `each` spans of time.
fn by_mapping<'a>(names: &'a Names, heat: &Heat, each: usize) -> Vec<(&'a str, Rows)> {
    let spans = heat.spans.len().div_ceil(each).max(1);
    let mut mappings: BTreeMap<&str, Rows> = BTreeMap::new();
    for (at, span) in heat.spans.iter().enumerate() {
        for (&(mapping, extent), misses) in span.iter().filter(|((mapping, _), _)| !names.is_nowhere(*mapping)) {
            let rows = mappings.entry(names.mapping_of(mapping)).or_default();
            rows.entry(extent).or_insert_with(|| vec![0; spans])[at / each] += misses;
        }
    }
    mappings.into_iter().collect()
}

/// Lets rows be of more addresses, all of as many, until they are few enough.
fn fewer(mut rows: Rows) -> (u64, Rows) {
    let mut each = 1;
    while rows.len() > ROWS {
        each *= 2;
        let mut fewer = Rows::new();
        for (extent, cells) in rows {
            let sum = fewer.entry(extent / each * each).or_insert_with(|| vec![0; cells.len()]);
            sum.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += cell);
        }
        rows = fewer;
    }
    (each, rows)
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
        let (each, fewer) = fewer(rows);
        assert_eq!((each, fewer.len()), (4, 8), "{fewer:?}");
        assert_eq!(fewer.values().map(|cells| cells[0]).sum::<u64>(), 30);
        assert_eq!(fewer[&4], [4, 4 + 5 + 6 + 7]);
        let shades: String = [0, 1, 64, 65, 256, 257, 4096].map(|misses| shade(misses, 4096)).iter().collect();
        assert_eq!(shades, " ··░░▒█");
    }
}
