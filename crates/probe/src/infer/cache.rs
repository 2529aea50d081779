//! Data caches: bytes, ways and latency of each level, and the latency of memory.
//!
//! Every second line lies in the pattern, because many processors fetch pairs of lines. Lines lie in huge pages, and all of a
//! page are visited before those of the next, so that translation costs nothing, or, where TLB entries hold parts of pages, what
//! it costs to visit these parts, which is subtracted. The cycles over the number of pairs of lines are flat where the lines fit
//! into a level, and rise where a level is full. Ways are found as those of TLBs: lines at a stride that leaves the set unchanged.

use super::search::{entries, last_fit, ways};
use super::splinter::Splinter;
use super::{Point, grid, median};
use crate::bench::{Bench, BenchError};
use crate::pattern::{LINE, PAIR, Page, Pattern};

/// The fewest and the most pairs of lines of a curve: 4 KB and 256 MB.
const FEWEST: u64 = 32;
const MOST: u64 = 2 << 20;
/// The most lines of a set that are tried.
const MAX_WAYS: u64 = 32;
/// Cycles that no cache takes.
const MEMORY: f64 = 120.0;
/// Times as many bytes as the last cache holds, of which it holds few, whatever it replaces.
const BEYOND: u64 = 4;
/// Chains that read memory line by line: no more than prefetchers of any processor follow.
const STREAMS: usize = 12;
/// A plateau's points differ by no more than this part.
const FLAT: f64 = 0.06;
/// A new plateau is higher than the last by at least this part.
const RISE: f64 = 1.3;
/// Times as many cycles as the cache before it are assumed of a cache whose own are not seen.
const SLOPE: f64 = 3.0;
/// Times its size within which a cache overflows, whatever it replaces and wherever frames lie.
const OVERFLOW: u64 = 4;
/// Bytes at whose multiples lines share a set of the first level, or one of few.
const FIRST_LEVEL_STRIDE: u64 = 4096;
/// Lines at that stride that overflow a set of the first level, together with the lines in the same set of the second.
const GROUPS: u64 = 8;

/// A cache as it was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cache {
    /// The bytes that fit, before rounding.
    pub reach: u64,
    /// Bytes: ways times a power of two of lines. `None` without ways, or where the two do not agree.
    pub bytes: Option<u64>,
    /// Ways. `None`: not measured, as beyond the second level, or strides disagree.
    pub ways: Option<u32>,
    /// Load-to-use cycles. `None`: no part of the curve is flat, as where others use the cache, too.
    pub latency: Option<f64>,
}

/// All caches, and what they were inferred from.
#[derive(Clone, Debug, Default)]
pub struct Caches {
    /// Cycles over the number of pairs of lines.
    pub curve: Vec<Point>,
    /// The levels, nearest first.
    pub levels: Vec<Cache>,
    /// Load-to-use cycles of memory. `None`: no flat part of the curve is slow enough.
    pub memory: Option<f64>,
}

/// A flat part of a curve.
struct Plateau {
    /// Index of the last point.
    last: usize,
    cycles: f64,
    /// Whether it is flat. A sloping part has no cycles of its own, but some that lie between those before and after it.
    is_flat: bool,
}

/// Finds the data caches. `splinter` says what entries for huge pages span.
///
/// # Errors
/// Those of the bench; there is none without huge pages.
pub fn caches(bench: &mut dyn Bench, splinter: &Splinter) -> Result<Caches, BenchError> {
    let cycles = |bench: &mut dyn Bench, pairs: u64| {
        // Only parts of the page that is being visited come again, in random order.
        let parts = (pairs * PAIR).div_ceil(Page::Small.bytes()).min(Page::Huge.bytes() / Page::Small.bytes());
        Ok(bench.cycles(&Pattern::page_by_page(Page::Huge, pairs))? - splinter.translation(parts))
    };
    let most = MOST.min(bench.max_pages(Page::Huge) * Page::Huge.bytes() / PAIR);
    let mut found = Caches::default();
    for count in grid(FEWEST, most) {
        found.curve.push(Point { count, cycles: cycles(bench, count)? });
        // Three octaves beyond the first slow lines lie in memory.
        let slow = found.curve.iter().find(|point| point.cycles > MEMORY);
        if slow.is_some_and(|slow| count >= 8 * slow.count) {
            break;
        }
    }
    let mut flat = plateaus(&found.curve);
    insert_sloping(&found.curve, &mut flat);
    for (depth, pair) in flat.windows(2).enumerate() {
        let limit = f64::midpoint(pair[0].cycles, pair[1].cycles);
        let (low, rise) = (found.curve[pair[0].last].count, &found.curve[pair[0].last..]);
        let high = rise.iter().find(|point| point.cycles > limit).map_or(low, |point| point.count);
        let mut fits = |n: u64| Ok(cycles(bench, n)? < limit);
        // Large steps cost too much time to be followed line by line, and are not as sharp.
        let reach = match depth {
            0 | 1 => last_fit(1, 16, |n| fits(low + (high - low) * n / 16))? * (high - low) / 16 + low,
            _ => halfway(bench, low, high, found.curve[found.curve.len() - 1].count)?,
        };
        // Strides beyond a part leave the set of the first level only as it is: the frames of parts are scattered.
        let deepest = if splinter.reach.is_none() { 2 } else { 1 };
        let ways = if depth < deepest { ways(fitting(bench, depth, limit)?) } else { None };
        let bytes = ways.and_then(|ways| entries(reach, ways)).map(|pairs| pairs * PAIR);
        found.levels.push(Cache {
            reach: reach * PAIR,
            bytes,
            ways,
            latency: pair[0].is_flat.then_some(pair[0].cycles),
        });
    }
    found.memory = flat.last().filter(|last| last.cycles > MEMORY).map(|last| last.cycles);
    Ok(found)
}

/// Returns the pairs of lines for which a cache that others use too takes half of the way from its cycles to those of the next
/// level: an LRU cache of this size stands for it. `low` and `high` are around the step where one line of each pair is visited, and
/// `all` pairs are far beyond it.
///
/// Both lines are visited here. Where pairs are not fetched together, twice as many pairs fit if only one line of each is visited.
fn halfway(bench: &mut dyn Bench, low: u64, high: u64, all: u64) -> Result<u64, BenchError> {
    let mut cycles = |pairs| bench.cycles(&Pattern::both_of_pairs(pairs));
    let start = low / 4;
    let count = |sixteenths: u64| (start as f64 * (sixteenths as f64 / 16.0).exp2()) as u64;
    let limit = f64::midpoint(cycles(start)?, cycles(all.min(4 * high))?);
    let most = ((high as f64 / start as f64).log2() * 16.0).ceil() as u64;
    Ok(count(last_fit(1, most, |n| Ok(cycles(count(n))? < limit))?))
}

/// Returns the millions of bytes in a second that one thread reads from memory, beyond caches of `held` bytes. `None`: no cache
/// is known, or the bench has too few pages.
///
/// # Errors
/// Those of the bench.
pub fn stream(bench: &mut dyn Bench, held: u64) -> Result<Option<f64>, BenchError> {
    if held == 0 || bench.max_pages(Page::Huge) * Page::Huge.bytes() < BEYOND * held {
        return Ok(None);
    }
    let cycles = bench.cycles(&Pattern::streams(BEYOND * held / LINE, STREAMS))?;
    Ok(Some((STREAMS as u64 * LINE) as f64 / cycles * bench.megahertz()))
}

/// Returns the flat parts of a curve, each higher than the one before.
fn plateaus(curve: &[Point]) -> Vec<Plateau> {
    let mut all: Vec<Plateau> = Vec::new();
    for (i, three) in curve.windows(3).enumerate() {
        let cycles = median(three.iter().map(|point| point.cycles));
        if three.iter().any(|point| (point.cycles - cycles).abs() > FLAT * cycles) {
            continue;
        }
        match all.last_mut() {
            Some(plateau) if cycles < plateau.cycles * RISE => {
                if (cycles - plateau.cycles).abs() <= FLAT * plateau.cycles {
                    plateau.last = i + 2;
                }
            }
            _ => all.push(Plateau { last: i + 2, cycles, is_flat: true }),
        }
    }
    all
}

/// Inserts a sloping part before memory's where a cache must be between it and the one before. One cache overflows within
/// [`OVERFLOW`] times its size; a curve that takes longer to half of memory's cycles passes through another, whose flat part
/// others' lines have spoilt.
fn insert_sloping(curve: &[Point], all: &mut Vec<Plateau>) {
    let [.., before, memory] = &all[..] else { return };
    let (cycles, half) = (SLOPE * before.cycles, memory.cycles / 2.0);
    if memory.cycles <= MEMORY || cycles >= half {
        return;
    }
    let first_above = |limit: f64| curve.iter().position(|point| point.cycles > limit);
    let (Some(leaves), Some(arrives)) = (first_above(f64::midpoint(before.cycles, cycles)), first_above(half)) else {
        return;
    };
    if curve[arrives].count >= OVERFLOW * curve[leaves].count {
        all.insert(all.len() - 1, Plateau { last: arrives - 1, cycles, is_flat: false });
    }
}

/// Returns how many lines of a set fit into the cache of this depth, for each stride.
fn fitting(bench: &mut dyn Bench, depth: usize, limit: f64) -> Result<Vec<u64>, BenchError> {
    let (groups, strides) = if depth == 0 { (1, 12..=16) } else { (GROUPS, 16..=19) };
    let mut all = Vec::new();
    for k in strides {
        let place = |i: u64, j: u64| (i << k) + j * FIRST_LEVEL_STRIDE;
        let places = |n: u64| (0..n).flat_map(move |i| (0..groups).map(move |j| place(i, j)));
        if bench.max_pages(Page::Huge) << Page::Huge.shift() < (MAX_WAYS + 1) << k {
            break;
        }
        let fits = |n| Ok(bench.cycles(&Pattern::places(Page::Huge, places(n)))? < limit);
        let fit = last_fit(1, MAX_WAYS, fits)?;
        if (1..MAX_WAYS).contains(&fit) {
            all.push(fit);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the plateaus of a curve that doubles the number of pairs from point to point.
    fn found(cycles: &[f64]) -> Vec<(usize, bool)> {
        let curve: Vec<Point> = (5..).zip(cycles).map(|(k, &cycles)| Point { count: 1 << k, cycles }).collect();
        let mut flat = plateaus(&curve);
        insert_sloping(&curve, &mut flat);
        flat.iter().map(|plateau| (plateau.last, plateau.is_flat)).collect()
    }

    #[test]
    fn a_slow_slope_before_memory_is_a_cache_that_others_use_too() {
        let slope = [4.0, 4.0, 4.0, 14.0, 14.0, 14.0, 34.0, 52.0, 83.0, 180.0, 390.0, 550.0, 550.0, 550.0];
        assert_eq!(found(&slope), [(2, true), (5, true), (9, false), (13, true)]);
        let flat = [4.0, 4.0, 4.0, 14.0, 14.0, 14.0, 34.0, 50.0, 50.0, 50.0, 390.0, 550.0, 550.0, 550.0];
        assert_eq!(found(&flat), [(2, true), (5, true), (9, true), (13, true)]);
        let two_levels = [4.0, 4.0, 4.0, 14.0, 14.0, 14.0, 150.0, 390.0, 550.0, 550.0, 550.0];
        assert_eq!(found(&two_levels), [(2, true), (5, true), (10, true)]);
    }
}
