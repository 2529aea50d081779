//! One cache of a hierarchy: its lines, its timing and its counters.

use super::counters::CacheCounters;
use super::lines::Lines;
use crate::config::{self, Writes};
use reach_core::PhysAddr;

/// Kinds of access to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A fetch of instruction bytes.
    Fetch,
    /// A load of the program or of a software miss handler.
    Load,
    /// A store.
    Store,
    /// A read of a page table or range table by a walker.
    Walk,
}

impl Access {
    /// Number of kinds.
    pub const KINDS: usize = 4;
}

/// Where a cache keeps each line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub line_shift: u32,
    sets: u64,
    /// 2^64 / `sets`, for remainders without a division.
    inverse: u64,
}

impl Placement {
    /// Returns set and number of the line that holds `at`.
    #[inline(always)]
    pub fn of(&self, at: PhysAddr) -> (usize, u64) {
        let line = at.0 >> self.line_shift;
        let set = if self.sets.is_power_of_two() { line & (self.sets - 1) } else { self.remainder(line) };
        (set as usize, line)
    }

    /// Returns the first byte of a line.
    #[inline(always)]
    pub fn at(&self, line: u64) -> PhysAddr {
        PhysAddr(line << self.line_shift)
    }

    /// Returns `line` modulo the number of sets. The quotient estimate is exact or one too small (Granlund and
    /// Montgomery, PLDI 1994).
    #[inline(always)]
    fn remainder(&self, line: u64) -> u64 {
        let quotient = ((u128::from(line) * u128::from(self.inverse)) >> 64) as u64;
        let rest = line - quotient * self.sets;
        if rest < self.sets { rest } else { rest - self.sets }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Level {
    pub lines: Lines,
    pub placement: Placement,
    lines_in_all: u64,
    /// Cycles from the start of an access that hits here to the use of its value.
    pub latency: u32,
    pub writes: Writes,
    /// All cores share this cache.
    pub shared: bool,
    pub counters: CacheCounters,
}

impl Level {
    pub fn new(cache: &config::Cache, seed: u64) -> Level {
        let entries = (cache.bytes / u64::from(cache.line)) as usize;
        let sets = (entries / cache.ways as usize) as u64;
        Level {
            lines: Lines::new(entries, cache.ways as usize, cache.replacement, seed),
            placement: Placement { line_shift: cache.line.trailing_zeros(), sets, inverse: u64::MAX / sets },
            lines_in_all: entries as u64,
            latency: cache.latency,
            writes: cache.writes,
            shared: cache.shared,
            counters: CacheCounters::default(),
        }
    }

    /// Returns the number of its lines.
    pub fn size(&self) -> u64 {
        self.lines_in_all
    }

    /// Returns set and number of the line that holds `at`.
    #[inline(always)]
    pub fn place(&self, at: PhysAddr) -> (usize, u64) {
        self.placement.of(at)
    }

    /// Counts an access and, if it was one, a miss.
    #[inline(always)]
    pub fn count(&mut self, access: Access, miss: bool) {
        self.count_all(access, 1, u64::from(miss));
    }

    /// Counts `accesses`, of which `missed` are misses.
    #[inline(always)]
    pub fn count_all(&mut self, access: Access, accesses: u64, missed: u64) {
        let c = &mut self.counters;
        let (all, misses) = match access {
            Access::Fetch => (&mut c.fetches, &mut c.fetch_misses),
            Access::Load => (&mut c.loads, &mut c.load_misses),
            Access::Store => (&mut c.stores, &mut c.store_misses),
            Access::Walk => (&mut c.walks, &mut c.walk_misses),
        };
        *all += accesses;
        *misses += missed;
    }
}
