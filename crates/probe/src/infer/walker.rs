//! Walkers and walk caches.
//!
//! 1. Chains that walk side by side get faster, together, until all walkers are busy. Then a visit takes as long as a walker is
//!    busy for it, divided by the walkers. Each visit reads a page table of its own: so a walk takes longer than its data,
//!    and fewer chains occupy all walkers.
//! 2. A walker is busy for what a visit of a single chain takes beyond its data and the TLB that it misses.
//! 3. Visits in turn to r parts of 2 MB need the same r entries above the leaf again and again. With one more than the walk
//!    cache holds, walks read these entries too.

use super::search::last_fit;
use super::walk::{Known, pages_of_regions, tables};
use super::{Point, grid, median};
use crate::bench::{Bench, BenchError};
use crate::pattern::{Page, Pattern};

/// Chains that are expected to occupy all walkers.
const CHAINS: usize = Pattern::MAX_CHAINS;
/// The least factor by which the visit of a chain gets longer beside others, where all walkers are busy.
const WAITS: f64 = 1.1;
/// The most parts of 2 MB that are visited.
const MOST_REGIONS: u64 = 256;
/// The most pages in these parts: 16 parts have room for them.
const MOST_PAGES: u64 = 8192;
/// The least rise in cycles that counts as a step: every first-level cache takes longer.
const RISE: f64 = 3.0;
/// What the entries of walk caches are multiples of. Sets overflow one after another, so that up to three more seem to fit.
const MULTIPLE: u64 = 4;

/// What was found of the walkers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Walkers {
    /// All walkers are busy: their number, nearly a whole one.
    Busy(f64),
    /// `CHAINS` chains leave some idle: the mean number that is busy, a lower bound.
    AtLeast(f64),
}

/// Returns what chains side by side show of the walkers. `None`: walks take no time.
///
/// # Errors
/// Those of the bench.
pub fn walkers(bench: &mut dyn Bench, known: Known) -> Result<Option<Walkers>, BenchError> {
    let (pattern, data) = tables(known);
    let mut time = |chains: usize| Ok(bench.cycles(&pattern.clone().divided(chains))? / chains as f64);
    let (alone, beside) = (time(1)?, time(CHAINS)?);
    let busy = alone - data - known.second.latency;
    let all = if beside * CHAINS as f64 >= WAITS * alone { Walkers::Busy } else { Walkers::AtLeast };
    Ok((busy > 0.0).then(|| all(busy / beside)))
}

/// What was found of the walk cache for the entries above the leaf.
#[derive(Clone, Debug, Default)]
pub struct WalkCache {
    /// Cycles of visits over the parts of 2 MB.
    pub curve: Vec<Point>,
    /// The entries. `None`: there is no step, as it has more, or none.
    pub entries: Option<u64>,
}

/// Finds the entries of the walk cache for the level above the leaf.
///
/// # Errors
/// Those of the bench.
pub fn walk_cache(bench: &mut dyn Bench, known: Known) -> Result<WalkCache, BenchError> {
    let pages = pages_of_regions(known, MOST_PAGES);
    let mut walk = |count: u64| bench.cycles(&Pattern::regions(count, pages));
    let mut found = WalkCache::default();
    for count in grid((pages * Page::Small.bytes() / Page::Huge.bytes()).max(4), MOST_REGIONS) {
        found.curve.push(Point { count, cycles: walk(count)? });
    }
    let Some((at, limit)) = rise(&found.curve) else { return Ok(found) };
    let (low, high) = (found.curve[at - 1].count, found.curve[at].count);
    let fit = last_fit(low, high, |n| Ok(walk(n)? < limit))?;
    found.entries = Some(fit - fit % MULTIPLE);
    Ok(found)
}

/// Returns the point of a curve before which it rises most, and the cycles half-way up. `None`: it is flat.
fn rise(curve: &[Point]) -> Option<(usize, f64)> {
    let level = |points: &[Point]| median(points.iter().map(|point| point.cycles));
    let around = |at: usize| (level(&curve[at - 3..at]), level(&curve[at..at + 3]));
    let at = (3..curve.len().saturating_sub(2)).max_by(|&a, &b| {
        let score = |at: usize| around(at).1 - around(at).0 + curve[at].cycles - curve[at - 1].cycles;
        score(a).total_cmp(&score(b))
    })?;
    let (low, high) = around(at);
    (high - low >= RISE).then_some((at, f64::midpoint(low, high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rise_is_where_the_curve_rises_most_and_a_flat_one_has_none() {
        let curve = |cycles: &[f64]| -> Vec<Point> {
            cycles.iter().enumerate().map(|(i, &cycles)| Point { count: i as u64, cycles }).collect()
        };
        assert_eq!(rise(&curve(&[69.0, 70.0, 69.0, 70.0, 74.0, 75.0, 74.0, 76.0])), Some((4, 72.0)));
        assert_eq!(rise(&curve(&[69.0, 70.0, 71.0, 70.0, 69.0, 70.0, 71.0])), None);
        assert_eq!(rise(&curve(&[1.0, 9.0])), None);
    }
}
