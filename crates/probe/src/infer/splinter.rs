//! Splintering: whether a TLB entry holds a whole page of 2 MB, or a part of it.
//!
//! In a guest, an entry spans the smaller of two pages: the guest's, and the page with which the host backs it. So the entries
//! for a guest's pages of 2 MB span 4 KB where the host's pages do (*page splintering*).
//!
//! 1. A pattern visits one line in each of n parts of 4 KB that lie one after the other in pages of 2 MB. Its excess over as
//!    many lines that lie close together is what the translation of the parts costs.
//! 2. Whole entries: 1,024 parts lie in two pages. The excess stays flat, as every first level holds both.
//! 3. Splintered entries: the excess has the step that small pages have, where the entries span as much as the first level holds
//!    small pages. Larger parts have the step at as many times more parts as they are larger.

use super::search::last_fit;
use super::tlb::{RISE, step};
use super::{Point, grid, median};
use crate::bench::{Bench, BenchError};
use crate::pattern::{Page, Pattern};

/// The most parts that are visited. Their lines fit into every second-level cache.
const MOST: u64 = 1024;
/// The distance of the step from a power of two times the first level's reach, as a binary logarithm, up to which the step
/// counts as that of splintered entries.
const AGREES: f64 = 0.35;

/// What the entries for pages of 2 MB span, and what it was inferred from.
#[derive(Clone, Debug, Default)]
pub struct Splinter {
    /// The excess over the number of parts.
    pub curve: Vec<Point>,
    /// The most parts without the step. `None`: there is no step, as entries hold whole pages.
    pub reach: Option<u64>,
}

impl Splinter {
    /// Returns the bytes that an entry spans. `small` is the number of small pages that fit into the first level. `None`: the
    /// step lies where no part's size would have it.
    pub fn bytes(&self, small: u64) -> Option<u64> {
        let Some(reach) = self.reach else { return Some(Page::Huge.bytes()) };
        let times = (reach as f64 / small as f64).log2();
        let power = times.round();
        (power >= 0.0 && (times - power).abs() <= AGREES).then(|| Page::Small.bytes() << power as u32)
    }

    /// Returns the cycles that translation takes of a visit, on average over visits of `parts` parts in random order, each of
    /// them many times: 0 for whole pages.
    pub fn translation(&self, parts: u64) -> f64 {
        let Some(reach) = self.reach.filter(|&reach| parts > reach) else { return 0.0 };
        let after = self.curve.iter().position(|point| point.count >= parts).unwrap_or(self.curve.len() - 1);
        let (low, high) = (self.curve[after.saturating_sub(1)], self.curve[after]);
        let along = (parts.min(high.count) - low.count) as f64 / (high.count - low.count).max(1) as f64;
        let miss = (low.cycles + along * (high.cycles - low.cycles) - self.ground()).max(0.0);
        // The curve's visits come in the same order every time, and all of them miss. In random order, the first level holds each
        // part with equal probability.
        miss * (1.0 - reach as f64 / parts as f64)
    }

    /// Returns the excess of so few parts that any entries hold them.
    fn ground(&self) -> f64 {
        median(self.curve.iter().take(4).map(|point| point.cycles))
    }
}

/// Finds what the entries for pages of 2 MB span.
///
/// # Errors
/// Those of the bench; there is none without huge pages.
pub fn splinter(bench: &mut dyn Bench) -> Result<Splinter, BenchError> {
    let mut excess = |n: u64| {
        let with = bench.cycles(&Pattern::parts(n))?;
        Ok(with - bench.cycles(&Pattern::lines(Page::Huge, n))?)
    };
    let mut found = Splinter::default();
    for count in grid(4, MOST) {
        found.curve.push(Point { count, cycles: excess(count)? });
    }
    let limit = found.ground() + RISE;
    if let Some(at) = step(&found.curve, 0, limit) {
        let (low, high) = (found.curve[at.saturating_sub(1)].count, found.curve[at].count);
        found.reach = Some(last_fit(low, high, |n| Ok(excess(n)? < limit))?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_tells_the_span_and_translation_costs_its_height() {
        let point = |count: u64| Point { count, cycles: if count > 96 { 7.2 } else { 0.2 } };
        let curve = grid(4, MOST).into_iter().map(point).collect();
        let splinter = Splinter { curve, reach: Some(96) };
        assert_eq!(splinter.bytes(96), Some(4 << 10));
        assert_eq!(splinter.bytes(24), Some(16 << 10));
        assert_eq!(splinter.bytes(64), None, "half of the way between two sizes");
        assert_eq!(splinter.translation(96), 0.0);
        assert!((splinter.translation(192) - 3.5).abs() < 1e-9, "half of the visits miss");
        assert!((splinter.translation(384) - 5.25).abs() < 1e-9, "three quarters miss");
        assert_eq!(Splinter::default().bytes(96), Some(2 << 20));
        assert_eq!(Splinter::default().translation(512), 0.0);
    }
}
