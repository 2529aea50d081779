//! Accesses to many lines in a row, as a kernel makes where it zeroes and copies pages: cache by cache, not line by line.
//!
//! Caches that write back ask the next one for lines and send it dirty lines; what the next one holds changes nothing in them. So one can
//! serve all lines of a page before the next sees the first: each serves the same requests, in the same order. The host computer misses on
//! the words of large caches, and where requests are known ahead, these misses overlap.

use super::level::{Level, Placement};
use super::lines::{Sets, Work};
use super::{Access, Caches};
use crate::config::Writes;
use reach_core::PhysAddr;

/// Lines that go through all caches together: those of a page of 4 KB.
const TOGETHER: usize = 64;
/// How many requests ahead the words of a set are prefetched.
const AHEAD: usize = 16;

/// What the core or a cache asks of the next cache.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: PhysAddr,
    /// The index of the line that is wanted; `None`: a dirty line comes.
    wanted: Option<u32>,
}

/// Requests to one cache.
struct Served<'a> {
    placement: Placement,
    latency: u32,
    /// Lines that are wanted become dirty.
    written: bool,
    requests: &'a [Request],
    /// The latency of each line that is wanted and here.
    latencies: &'a mut [u32],
    /// What this asks of the next cache.
    next: &'a mut Vec<Request>,
}

/// What a cache counts.
#[derive(Default)]
struct Counts {
    accesses: u64,
    misses: u64,
    write_backs: u64,
}

impl Work for Served<'_> {
    type Outcome = Counts;

    fn on(self, sets: &mut impl Sets) -> Counts {
        let Served { placement, latency, written, requests, latencies, next } = self;
        let mut counts = Counts::default();
        for (n, &request) in requests.iter().enumerate() {
            if let Some(soon) = requests.get(n + AHEAD) {
                sets.prefetch(placement.of(soon.at).0);
            }
            let (set, line) = placement.of(request.at);
            let dirty = written || request.wanted.is_none();
            let present = sets.touch(set, line, dirty);
            if let Some(index) = request.wanted {
                counts.accesses += 1;
                if present {
                    latencies[index as usize] = latency;
                } else {
                    counts.misses += 1;
                    next.push(request);
                }
            }
            if !present && let Some(victim) = sets.insert(set, line, dirty, false) {
                counts.write_backs += 1;
                next.push(Request { at: placement.at(victim), wanted: None });
            }
        }
        counts
    }
}

impl Level {
    /// Serves `requests` in order, and appends to `next` what this asks of the next cache. Lines that are wanted become dirty if `written`;
    /// of those that are here the latency is noted.
    fn serve(
        &mut self,
        access: Access,
        written: bool,
        requests: &[Request],
        latencies: &mut [u32],
        next: &mut Vec<Request>,
    ) {
        let Level { placement, latency, .. } = *self;
        let counts = self.lines.perform(Served { placement, latency, written, requests, latencies, next });
        self.count_all(access, counts.accesses, counts.misses);
        self.counters.write_backs += counts.write_backs;
    }
}

impl Caches {
    /// Loads or stores each line of the `bytes` bytes (at least 1) at `at`, in order, as [`Caches::access`] would, and calls `each`
    /// with its latency.
    pub fn access_lines(&mut self, access: Access, at: PhysAddr, bytes: u64, mut each: impl FnMut(u32)) {
        let shift = self.line_shift(access);
        let (mut line, last) = (at.0 >> shift, (at.0 + bytes - 1) >> shift);
        if !self.serves_runs(access) {
            (line..=last).for_each(|line| each(self.access(access, PhysAddr(line << shift)).0));
            return;
        }
        let (mut requests, mut next) = (Vec::with_capacity(4 * TOGETHER), Vec::with_capacity(4 * TOGETHER));
        let mut latencies = [0; TOGETHER];
        while line <= last {
            let lines = (last - line + 1).min(TOGETHER as u64) as usize;
            requests.clear();
            requests.extend((0..lines as u32).map(|index| {
                let at = PhysAddr((line + u64::from(index)) << shift);
                Request { at: self.host.map_or(at, |frames| frames.of(at)), wanted: Some(index) }
            }));
            for (depth, &index) in self.data_path.iter().enumerate() {
                next.clear();
                let written = access == Access::Store && depth == 0;
                self.levels[index].serve(access, written, &requests, &mut latencies, &mut next);
                std::mem::swap(&mut requests, &mut next);
            }
            for &Request { at, wanted } in &requests {
                wanted.into_iter().for_each(|index| latencies[index as usize] = self.memory_latency(access, at));
            }
            latencies[..lines].iter().for_each(|&latency| each(latency));
            line += lines as u64;
        }
    }

    /// Returns whether each cache can serve a run of accesses before the next one sees it: all write back, and nothing behind the last
    /// one keeps state of its own.
    fn serves_runs(&self, access: Access) -> bool {
        matches!(access, Access::Load | Access::Store)
            && !self.data_path.is_empty()
            && self.data_path.iter().all(|&index| self.levels[index].writes == Writes::Back)
            && self.controller.is_none()
            && self.back_side.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as reach_hardware;
    use crate::config::{Cache, Replacement};
    use proptest::prelude::*;

    /// Returns three small caches of these widths, with lines of different lengths.
    fn caches(ways: [u32; 3], replacement: Replacement, writes: Writes, seed: u64) -> Caches {
        let mut machine = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/small_machine.rs"));
        let cache = |level: u8, sets: u64, line: u32| {
            let ways = ways[usize::from(level) - 1];
            let bytes = sets * u64::from(ways * line);
            let name = format!("l{level}");
            let writes = if level == 1 { writes } else { Writes::Back };
            let latency = u32::from(level) * 10;
            Cache { name, level, bytes, ways, line, latency, writes, replacement, ..machine.caches[0].clone() }
        };
        machine.caches = vec![cache(1, 4, 32), cache(2, 8, 64), cache(3, 24, 64)];
        Caches::new(&machine, seed)
    }

    proptest! {
        #[test]
        fn runs_of_lines_equal_single_accesses(
            ways in (1..5u32, 4..9u32, 8..13u32),
            random in any::<bool>(),
            through in any::<bool>(),
            runs in prop::collection::vec((any::<bool>(), 0..20_000u64, 1..9000u64), 1..40),
        ) {
            let replacement = if random { Replacement::Random } else { Replacement::Lru };
            let writes = if through { Writes::Through } else { Writes::Back };
            let mut together = caches(ways.into(), replacement, writes, 3);
            let mut single = together.clone();
            for (store, at, bytes) in runs {
                let access = if store { Access::Store } else { Access::Load };
                let mut latencies = Vec::new();
                together.access_lines(access, PhysAddr(at), bytes, |latency| latencies.push(latency));
                let lines = at >> 5..=(at + bytes - 1) >> 5;
                let expected: Vec<u32> = lines.map(|line| single.access(access, PhysAddr(line << 5)).0).collect();
                prop_assert_eq!(latencies, expected);
                prop_assert!(together.counters().eq(single.counters()));
                prop_assert_eq!(together.memory_accesses, single.memory_accesses);
            }
        }
    }
}
