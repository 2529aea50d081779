//! TLBs for loads: entries, ways and latency of the first two levels, for one page size. For fetches, the first level, and the
//! latency of the second.
//!
//! 1. The *excess* of a pattern is what it takes beyond as many lines that lie in few pages. It is the cost of translation:
//!    both have the same lines to load, or the same instructions to fetch and to predict.
//! 2. The excess over the number of contiguous pages has a step where a level is full. The height of the first step is the
//!    latency of the second level.
//! 3. Pages at a stride of 2^k pages use fewer sets the larger k is. The number that fits becomes the number of ways when all
//!    of them share a set, whether the index is a slice of the page number or a hash of up to as many bits as k reaches.
//! 4. Entries of the first level are ways times a power of two, next to the step.
//! 5. Patterns of fetches are tried several times, with different lines, and the fastest counts. Caches of instructions and branch
//!    predictors make some tries slower. A first level whose replacement is not LRU can keep an entry forever that a pattern
//!    does not use; another pattern replaces it. With one page more than fits, a first level with tree-PLRU replacement misses
//!    log2(n) times in a lap of n pages, not n times. Half as many misses show that pages do not fit.
//! 6. The second level sees only what misses in the first. So its patterns have blocks of pages that lie in different sets, and
//!    enough blocks to overflow the first level. Each page of a block has a line of page-table entries for itself, and other
//!    lines displace these from the first-level data cache: a walk that finds its entry there may cost no more than a hit.
//! 7. Sets of the second level: blocks that fill their sets, and the pages from 2^b to before 2^(b+1). These use the sets of the
//!    blocks as soon as there are no more than 2^b sets. So few pages suffice, whose lines stay in the caches.

use super::search::{entries, full_or, last_fit, ways};
use super::{Point, Ways, grid, median};
use crate::bench::{Bench, BenchError};
use crate::pattern::{Access, FILLER, Page, Pattern};
use std::collections::BTreeMap;

/// The most contiguous pages of a curve. No known TLB has more than a quarter.
const MOST: u64 = 16384;
/// The most contiguous pages of a curve of fetches. No known first level has more than a quarter.
const MOST_FETCHED: u64 = 1024;
/// The least rise in cycles that counts as a step.
pub(super) const RISE: f64 = 1.5;
/// Tries of a pattern of fetches, tries with the same lines, and how many lines further those of the next are.
const TRIES: u64 = 4;
const TRIES_OF_LINES: u64 = 2;
const TURN: u64 = 17;
/// Cycles of excess that are always tolerated where pages of fetches fit.
const NOISE: f64 = 0.25;
/// The least rise in cycles at which blocks do not fit: more than a set that entries of page tables take away from pages adds,
/// and less than that all pages are walked for, with their entries in the second-level data cache.
const OVERFULL: f64 = 3.0;
/// The part of the cycles of overfull sets that shows a conflict. Their walks may read several entries, others one.
const CONFLICT: f64 = 1.0 / 6.0;
/// Binary logarithms of strides: beyond 2^18 pages no known index reaches.
const STRIDES: std::ops::RangeInclusive<u32> = 0..=18;
/// Changed bits of the page numbers in patterns with strides, so that they use other sets than the entries of page tables,
/// which some processors keep in the second level.
const ELSEWHERE: u64 = 3;
/// Pages of a block, and the binary logarithm of their distance: a line of page-table entries is for eight pages.
const BLOCK: u64 = 16;
const SPACING: u32 = 3;

/// The most contiguous pages that are expected to fit into every second level.
const CONTIGUOUS: u64 = 1024;

/// A level of TLBs as it was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Contiguous pages before the step. In the second level the step may be one of the data caches. `None`: the step lies
    /// beyond the pages that the bench has.
    pub reach: Option<u64>,
    /// Entries. `None`: no step, no ways, or the two do not agree.
    pub entries: Option<u64>,
    /// Ways. `None`: no two strides agree.
    pub ways: Option<Ways>,
    /// Cycles of a hit beyond a hit in the first level: 0 for the first level.
    pub latency: f64,
}

/// Both levels of TLBs, and what they were inferred from.
#[derive(Clone, Debug, Default)]
pub struct Tlbs {
    /// The excess of contiguous pages.
    pub curve: Vec<Point>,
    /// The first level. `None`: there is no step.
    pub first: Option<Level>,
    /// The second level. `None`: there is no first step.
    pub second: Option<Level>,
}

/// A bench with the cycles of lines that lie in few pages.
struct Translation<'a> {
    bench: &'a mut dyn Bench,
    page: Page,
    access: Access,
    /// Lines that displace all others from the first-level data cache.
    filler: u64,
    /// By the number of lines: their cycles in few pages.
    without: BTreeMap<u64, f64>,
    /// By the number of pages: the cycles of contiguous ones, with filler.
    contiguous: BTreeMap<u64, f64>,
}

impl Translation<'_> {
    /// Prepares measurements of translation for `access` to pages of size `page`.
    fn new(bench: &mut dyn Bench, page: Page, access: Access, filler: u64) -> Translation<'_> {
        Translation { bench, page, access, filler, without: BTreeMap::new(), contiguous: BTreeMap::new() }
    }

    /// Returns the excess of visiting these pages.
    fn excess(&mut self, pages: Vec<u64>) -> Result<f64, BenchError> {
        self.excess_from(pages, 0)
    }

    /// Returns the excess of visiting these pages, the first of them at line number `line`.
    fn excess_from(&mut self, pages: Vec<u64>, line: u64) -> Result<f64, BenchError> {
        let lines = pages.len() as u64;
        let with = self.bench.cycles(&Pattern::pages_from(self.page, pages, line).by(self.access))?;
        let without = match self.without.get(&lines) {
            Some(&cycles) => cycles,
            None => {
                let has_huge = self.access == Access::Load && self.bench.max_pages(Page::Huge) > 0;
                let dense = if has_huge { Page::Huge } else { Page::Small };
                let cycles = self.fastest(&Pattern::lines(dense, lines).by(self.access))?;
                self.without.insert(lines, cycles);
                cycles
            }
        };
        Ok(with - without)
    }

    /// Returns the cycles of a pattern: of loads, those of one try, and of fetches the least of as many as have the same lines.
    fn fastest(&mut self, pattern: &Pattern) -> Result<f64, BenchError> {
        let tries = if self.access == Access::Load { 1 } else { TRIES_OF_LINES };
        (0..tries).try_fold(f64::INFINITY, |least, _| Ok(self.bench.cycles(pattern)?.min(least)))
    }

    /// Returns the cycles by which a visit of one of these pages exceeds one of as many contiguous pages, which fit into the
    /// second level. Filler in both keeps page-table entries out of the first-level data cache.
    fn conflict(&mut self, pages: Vec<u64>) -> Result<f64, BenchError> {
        let count = pages.len() as u64;
        let lap = (count + self.filler) as f64;
        let with = self.bench.cycles(&Pattern::pages(self.page, pages).with_filler(self.filler))?;
        let without = match self.contiguous.get(&count) {
            Some(&cycles) => cycles,
            None => {
                let cycles = self.bench.cycles(&Pattern::pages(self.page, 0..count).with_filler(self.filler))?;
                self.contiguous.insert(count, cycles);
                cycles
            }
        };
        Ok((with - without) * lap / count as f64)
    }

    /// Returns the least excess of several tries, or the first one below `enough`.
    fn least_excess(&mut self, pages: &[u64], enough: f64) -> Result<f64, BenchError> {
        let mut least = f64::INFINITY;
        for attempt in 0..TRIES {
            least = least.min(self.excess_from(pages.to_vec(), attempt / TRIES_OF_LINES * TURN)?);
            if least < enough {
                break;
            }
        }
        Ok(least)
    }

    /// Returns whether these pages fit into the first level behind which there is `step`. An excess of `rise` shows that loads do not.
    fn fits_first(&mut self, pages: &[u64], step: &FirstStep, rise: f64) -> Result<bool, BenchError> {
        if self.access == Access::Load {
            return Ok(self.excess(pages.to_vec())? < step.ground + rise);
        }
        let count = pages.len() as f64;
        let limit = step.ground + NOISE.max(step.latency * count.log2() / count / 2.0);
        Ok(self.least_excess(pages, limit)? < limit)
    }

    /// Returns how many blocks of `shape` are `fit`, for each binary logarithm of strides that the bench has room for. Leaves
    /// strides out at which as many fit as could be tried.
    fn fits(
        &mut self,
        shape: Shape,
        (least, most): (u64, u64),
        fit: impl Fn(&mut Self, Vec<u64>) -> Result<bool, BenchError>,
    ) -> Result<Vec<(u32, u64)>, BenchError> {
        let mut all: Vec<(u32, u64)> = Vec::new();
        for k in STRIDES.filter(|&k| 1 << k > (shape.pages - 1) << shape.spacing) {
            // A larger stride never has more sets.
            let most = all.iter().map(|&(_, fit)| fit).min().map_or(most, |least| most.min(least * 2 + 2));
            let room = (FILLER.min(self.bench.area()) / self.page.bytes()) >> k;
            let most = most.min((self.bench.max_pages(self.page) - 1) / shape.pages).min(room);
            if most < least {
                break;
            }
            let found = last_fit(least, most, |n| fit(self, shape.repeated(n, k).collect()))?;
            if (least..most).contains(&found) {
                all.push((k, found));
            }
        }
        Ok(all)
    }

    /// Returns the sets of the second level, which has `ways` and whose pages at a stride of `1 << k` share a set. `None`: more
    /// than the bench has pages for.
    fn sets(&mut self, ways: u64, k: u32) -> Result<Option<u64>, BenchError> {
        let overfull: Vec<u64> = SECOND.repeated(ways + 1, k).collect();
        let all = overfull.len() as f64;
        let limit = self.conflict(overfull)? * all * CONFLICT;
        for b in BLOCK.ilog2() + SPACING..k {
            let more = (1 << b..2 << b).map(|page| page ^ ELSEWHERE);
            let pages: Vec<u64> = SECOND.repeated(ways, k).chain(more).collect();
            let count = pages.len() as u64;
            if count + 1 > self.bench.max_pages(self.page) {
                break;
            }
            if self.conflict(pages)? * count as f64 > limit {
                return Ok(Some(1 << b));
            }
        }
        Ok(None)
    }
}

/// The shape of patterns with strides: blocks of `pages` pages, `1 << spacing` pages apart.
#[derive(Clone, Copy)]
struct Shape {
    pages: u64,
    spacing: u32,
}

/// For the first level.
const FIRST: Shape = Shape { pages: 1, spacing: 0 };
/// For the second level.
const SECOND: Shape = Shape { pages: BLOCK, spacing: SPACING };

impl Shape {
    /// Returns the pages of `blocks` blocks at a stride of `1 << k`.
    fn repeated(self, blocks: u64, k: u32) -> impl Iterator<Item = u64> {
        (0..blocks).flat_map(move |i| (0..self.pages).map(move |j| (i << k | j << self.spacing) ^ ELSEWHERE))
    }
}

/// What the first step of a curve says.
struct FirstStep {
    /// The index of its first point.
    at: usize,
    /// The excess below it.
    ground: f64,
    /// Its height: the latency of the second level.
    latency: f64,
}

/// Finds the TLBs for loads from pages of size `page`. `filler` lines displace all others from the first-level data cache.
///
/// # Errors
/// Those of the bench.
pub fn tlbs(bench: &mut dyn Bench, page: Page, filler: u64) -> Result<Tlbs, BenchError> {
    let mut translation = Translation::new(bench, page, Access::Load, filler);
    let mut found = Tlbs { curve: translation.curve(MOST)?, ..Tlbs::default() };
    let Some(step) = translation.first_step(&found.curve)? else { return Ok(found) };
    let (first, reach) = translation.first_level(&found.curve, &step)?;
    found.first = Some(first);
    found.second = Some(translation.second_level(&found.curve, &step, reach)?);
    Ok(found)
}

/// Finds the first level of TLBs for fetches from small pages, and the latency of the second.
///
/// # Errors
/// Those of the bench.
pub fn fetch_tlbs(bench: &mut dyn Bench) -> Result<Tlbs, BenchError> {
    let mut translation = Translation::new(bench, Page::Small, Access::Fetch, 0);
    let mut found = Tlbs { curve: translation.curve(MOST_FETCHED)?, ..Tlbs::default() };
    let Some(step) = translation.first_step(&found.curve)? else { return Ok(found) };
    let (first, _) = translation.first_level(&found.curve, &step)?;
    found.first = Some(first);
    found.second = Some(Level { reach: None, entries: None, ways: None, latency: step.latency });
    Ok(found)
}

impl Translation<'_> {
    /// Returns the excess of contiguous pages, up to `most` of them.
    fn curve(&mut self, most: u64) -> Result<Vec<Point>, BenchError> {
        let counts = grid(4, most.min(self.bench.max_pages(self.page)));
        let mut point = |count| Ok(Point { count, cycles: self.excess((0..count).collect())? });
        counts.into_iter().map(&mut point).collect()
    }

    /// Finds the first step of a curve. `None`: it is flat, or ends with the step.
    fn first_step(&mut self, curve: &[Point]) -> Result<Option<FirstStep>, BenchError> {
        let ground = median(curve.iter().take(4).map(|point| point.cycles));
        let Some(at) = step(curve, 0, ground + RISE) else { return Ok(None) };
        // The second level has at least four times the entries of the first.
        let beyond = curve[at + 2..].iter().take(4);
        let cycles = match self.access {
            Access::Load => median(beyond.map(|point| point.cycles)),
            Access::Fetch => beyond.map(|point| point.count).try_fold(f64::INFINITY, |least, count| {
                let pages: Vec<u64> = (0..count).collect();
                Ok(self.least_excess(&pages, f64::NEG_INFINITY)?.min(least))
            })?,
        };
        let step = FirstStep { at, ground, latency: cycles - ground };
        Ok(Some(step).filter(|step| step.latency.is_finite()))
    }

    /// Finds the first level, and returns it with the contiguous pages that fit into it.
    fn first_level(&mut self, curve: &[Point], step: &FirstStep) -> Result<(Level, u64), BenchError> {
        let FirstStep { at, latency, .. } = *step;
        let (low, high) = (curve[at.saturating_sub(1)].count, curve[at].count);
        let rise = RISE.min(latency / 2.0);
        let reach = last_fit(low, high, |n| self.fits_first(&(0..n).collect::<Vec<_>>(), step, rise))?;
        let fits = self.fits(FIRST, (1, 2 * reach), |all, pages| all.fits_first(&pages, step, latency / 2.0))?;
        let ways = ways(fits.iter().map(|&(_, fit)| fit));
        let entries = ways.and_then(|ways| match u64::from(ways) {
            // Full associativity has one step, without sets that overflow one after another.
            all if all >= reach => Some(all),
            _ => entries(reach, ways),
        });
        let ways = ways.map(|ways| full_or(ways, entries.unwrap_or(0)));
        Ok((Level { reach: Some(reach), entries, ways, latency: 0.0 }, reach))
    }

    /// Finds the second level behind a first one that holds `reach` contiguous pages.
    fn second_level(&mut self, curve: &[Point], first: &FirstStep, reach: u64) -> Result<Level, BenchError> {
        let FirstStep { at, ground, latency } = *first;
        let limit = ground + latency + RISE.max(latency / 4.0);
        let step = step(curve, at + 2, limit).map(|at| curve[at - 1].count);
        // At least what overflows the first level, at most what contiguous pages have room for in the second.
        let blocks = (reach * 5 / 4 / BLOCK + 1, step.unwrap_or(CONTIGUOUS).min(CONTIGUOUS) / BLOCK);
        let fits = self.fits(SECOND, blocks, |all, pages| Ok(all.conflict(pages)? < OVERFULL))?;
        let ways = ways(fits.iter().map(|&(_, fit)| fit));
        let stride = fits.iter().rfind(|&&(_, fit)| Some(fit) == ways.map(u64::from)).map(|&(k, _)| k);
        let sets = match ways.zip(stride) {
            Some((ways, k)) => self.sets(ways.into(), k)?,
            None => None,
        };
        let entries = ways.zip(sets).map(|(ways, sets)| u64::from(ways) * sets);
        Ok(Level { reach: step, entries, ways: ways.map(Ways::Of), latency })
    }
}

/// Returns the first point from `from` on that lies above `limit`, as do the two after it.
pub(super) fn step(curve: &[Point], from: usize, limit: f64) -> Option<usize> {
    (from..curve.len().saturating_sub(2)).find(|&i| curve[i..i + 3].iter().all(|point| point.cycles > limit))
}
