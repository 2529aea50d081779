//! Walks: what a load takes that no TLB has a translation for, by the cache that holds the page-table entry.
//!
//! 1. A pattern visits so many pages that all visits walk. What it takes beyond its data, each time, is the walk.
//! 2. Its data take what the curve of the caches says for as many pairs of lines. They certainly fit into a level, or certainly
//!    do not.
//! 3. First and second level: the eight pages of a line of entries are visited at distances that displace the line from no
//!    cache, or from the first one. Their data lie in the second level, or the third one where TLBs reach too far.
//! 4. Further levels: each page has its own line of entries, which comes again after as many lines as the page's data do.
//! 5. What walks take besides the cache's latency, and the latency of the TLB that was missed, is the look-up.

use super::{Caches, Level, median};
use crate::bench::{Bench, BenchError};
use crate::pattern::{ENTRIES, PAIR, Pattern};

/// The entries of a second level that was not found: those of the largest known one, and more.
const UNKNOWN: u64 = 4096;
/// The part of a cache's pairs of lines of which nearly all fit, however they lie in its sets.
const MOST_FIT: f64 = 0.6;
/// The part of which all fit.
const ALL_FIT: f64 = 0.3;
/// Times as many pairs of lines as a cache has, few of which are still there when they come again, whatever its ways.
const TOO_MANY: f64 = 2.0;
/// The same for the last cache. Its sets may depend on so many bits that single lines fill all sets.
const TOO_MANY_FOR_LAST: f64 = 3.0;
/// The part of memory's cycles that a load takes beyond all caches at least.
const SLOW: f64 = 0.9;
/// Lines of entries that come again before they leave the first level.
const NEAR: u64 = 16;
/// Lines of entries that are visited in turn where each is visited once: of few enough tables for the walk caches.
const ONCE: u64 = 512;
/// Cycles by which look-ups of two levels may differ.
const AGREES: f64 = 3.0;

/// What walks take.
#[derive(Clone, Debug, Default)]
pub struct Walks {
    /// Cycles beyond a hit in the first level of TLBs, by the cache that holds the leaf entry, nearest first: `None` where it was
    /// not measured. The last is memory's.
    pub levels: Vec<Option<f64>>,
    /// The level of the nearest cache that walks read, 1 or 2. `None`: neither explains the difference of the two.
    pub cache_level: Option<u32>,
    /// Cycles of a walk besides its reads. `None`: levels do not agree.
    pub lookup: Option<f64>,
}

/// What the inference of walks starts from.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The data caches: at least two levels.
    pub caches: &'a Caches,
    /// The second level of TLBs for small pages.
    pub second: Level,
}

impl Known<'_> {
    /// Returns the pages that overflow the second level of TLBs, whatever its sets: a power of two, so that a little other number of
    /// entries changes nothing.
    pub(super) fn pages(&self) -> u64 {
        (2 * self.second.entries.or(self.second.reach).unwrap_or(UNKNOWN)).next_power_of_two()
    }

    /// Returns the pairs of lines beyond which loads take as long as from memory, about.
    fn beyond_caches(&self) -> u64 {
        let slow = self.caches.memory.unwrap_or(f64::INFINITY) * SLOW;
        self.caches.curve.iter().find(|point| point.cycles > slow).map_or(0, |point| point.count)
    }

    /// Returns `pairs` if they are no more than `part` of those of the second cache, or so many that it holds hardly any.
    fn settled(&self, pairs: u64, part: f64) -> u64 {
        if self.fits(pairs, part) { pairs } else { pairs.max((TOO_MANY * self.pairs(1) as f64) as u64) }
    }

    /// Returns whether `pairs` are no more than `part` of the pairs of lines of the second cache.
    fn fits(&self, pairs: u64, part: f64) -> bool {
        pairs as f64 <= part * self.pairs(1) as f64
    }

    /// Returns the cycles of a load that visits one line of each of `pairs` pairs in turn.
    pub(super) fn data(&self, pairs: u64) -> f64 {
        let curve = &self.caches.curve;
        let after = curve.iter().position(|point| point.count >= pairs).unwrap_or(curve.len() - 1);
        let (low, high) = (curve[after.saturating_sub(1)], curve[after]);
        let along = (pairs.min(high.count) - low.count.min(pairs)) as f64 / (high.count - low.count).max(1) as f64;
        low.cycles + along * (high.cycles - low.cycles)
    }

    /// Returns the pairs of lines of the cache at `depth`.
    fn pairs(&self, depth: usize) -> u64 {
        self.caches.levels[depth].reach / PAIR
    }
}

/// Measures walks.
///
/// # Errors
/// Those of the bench.
pub fn walks(bench: &mut dyn Bench, known: Known) -> Result<Walks, BenchError> {
    let count = known.caches.levels.len();
    let mut found = Walks { levels: vec![None; count + 1], ..Walks::default() };
    found.levels[0] = near(bench, known, 0, NEAR)?;
    found.levels[1] = near(bench, known, 1, known.pairs(0))?;
    for depth in 2..=count {
        let pairs = |depth: usize| known.pairs(depth) as f64;
        let visited = match depth < count {
            true => (TOO_MANY * pairs(depth - 1) * MOST_FIT * pairs(depth)).sqrt(),
            false => (TOO_MANY_FOR_LAST * pairs(depth - 1)).max(known.beyond_caches() as f64),
        };
        found.levels[depth] = far(bench, known, visited as u64 / 2)?;
    }
    found.conclude(known);
    Ok(found)
}

/// Measures walks whose entries come again after `group` lines of entries: they lie in the cache at `depth` then.
fn near(bench: &mut dyn Bench, known: Known, depth: usize, group: u64) -> Result<Option<f64>, BenchError> {
    let lines = known.pages().div_ceil(ENTRIES).max(group);
    let lines = known.settled((ENTRIES + 1) * lines, ALL_FIT).div_ceil(ENTRIES + 1);
    // A single group has no first visits. Else they come again after all lines, as data do.
    let group = if depth == 1 && known.fits((ENTRIES + 1) * lines, ALL_FIT) { lines } else { group };
    let lines = lines.next_multiple_of(group);
    if lines * ENTRIES > bench.most_walked() {
        return Ok(None);
    }
    let data = known.data((ENTRIES + 1) * lines);
    let Some(hit) = known.caches.levels[depth].latency else { return Ok(None) };
    let first = if lines == group { 0.0 } else { (data - hit) / ENTRIES as f64 };
    Ok(Some(bench.cycles(&Pattern::walks(lines, group, ENTRIES))? - data - first))
}

/// Measures walks whose entries come again after `lines` of them, and as many lines of data.
fn far(bench: &mut dyn Bench, known: Known, lines: u64) -> Result<Option<f64>, BenchError> {
    let lines = lines.max(known.pages());
    if lines > bench.most_walked() {
        return Ok(None);
    }
    Ok(Some(bench.cycles(&Pattern::walks(lines, ONCE, 1))? - known.data(2 * lines)))
}

impl Walks {
    /// Finds the nearest cache that walks read, and what they take besides.
    fn conclude(&mut self, known: Known) {
        let latency = |depth: usize| known.caches.levels[depth].latency;
        let (Some(first), Some(second)) = (self.levels[0], self.levels[1]) else { return };
        let (Some(near), Some(next)) = (latency(0), latency(1)) else { return };
        let part = (second - first) / (next - near);
        self.cache_level = match part {
            ..0.3 => Some(2),
            0.6..1.5 => Some(1),
            _ => None,
        };
        let Some(nearest) = self.cache_level else { return };
        let reads = |depth: usize| latency(depth.max(nearest as usize - 1));
        let caches = known.caches.levels.len();
        let rest = |(depth, walk): (usize, &Option<f64>)| Some((*walk)? - reads(depth)? - known.second.latency);
        let rests: Vec<f64> = self.levels[..caches].iter().enumerate().filter_map(rest).collect();
        self.lookup = ((rests[0] - rests[1]).abs() <= AGREES).then(|| median(rests)).filter(|&rest| rest >= 0.0);
    }
}

/// Returns the pattern of pages that no TLB holds, each with a page table of its own, and the cycles of its data.
pub(super) fn tables(known: Known) -> (Pattern, f64) {
    // A line of data and one of entries for each, and one of upper entries for eight.
    let pairs = known.settled(known.pages() * 17 / 8, MOST_FIT);
    (Pattern::tables(pairs * 8 / 17), known.data(pairs))
}

/// Returns the pages of [`Pattern::regions`]: no TLB holds them, and where the second cache does not hold them for sure, it holds
/// hardly any, unless `most` is too few for that.
pub(super) fn pages_of_regions(known: Known, most: u64) -> u64 {
    let pages = known.pages();
    let settled = known.settled(pages * 9 / 8, MOST_FIT).next_power_of_two();
    if settled <= most { settled } else { pages }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::{Cache, Point};

    fn concluded(walks: [f64; 3]) -> Walks {
        let cache = |latency| Cache { reach: 1 << 20, bytes: None, ways: None, latency: Some(latency) };
        let levels = vec![cache(4.0), cache(14.0), cache(50.0)];
        let curve = vec![Point { count: 1, cycles: 4.0 }];
        let caches = Caches { curve, levels, memory: Some(300.0) };
        let second = Level { reach: None, entries: None, ways: None, latency: 7.0 };
        let mut found = Walks { levels: walks.map(Some).to_vec(), ..Walks::default() };
        found.conclude(Known { caches: &caches, second });
        found
    }

    #[test]
    fn the_look_up_is_what_remains_of_walks_whose_levels_agree() {
        let near = concluded([17.0, 27.5, 63.0]);
        assert_eq!((near.cache_level, near.lookup), (Some(1), Some(6.0)));
        let beyond = concluded([27.0, 27.0, 63.0]);
        assert_eq!((beyond.cache_level, beyond.lookup), (Some(2), Some(6.0)));
        let neither = concluded([17.0, 47.0, 63.0]);
        assert_eq!((neither.cache_level, neither.lookup), (None, None));
        assert_eq!(concluded([2.0, 12.0, 48.0]).lookup, None, "shorter than their reads");
    }

    #[test]
    fn data_take_what_the_curve_says_between_its_points() {
        let curve = [(32, 4.0), (64, 4.0), (128, 14.0)].map(|(count, cycles)| Point { count, cycles }).to_vec();
        let caches = Caches { curve, ..Caches::default() };
        let second = Level { reach: None, entries: None, ways: None, latency: 7.0 };
        let known = Known { caches: &caches, second };
        assert_eq!([8, 32, 64, 96, 128, 500].map(|pairs| known.data(pairs)), [4.0, 4.0, 4.0, 9.0, 14.0, 14.0]);
    }
}
