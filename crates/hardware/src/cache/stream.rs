//! Accesses to many lines in a row, as a kernel makes where it zeroes and copies pages: cache by cache, not line by line.
//!
//! Caches that write back ask the next one for lines and send it dirty lines; what the next one holds changes nothing in them. So one can
//! serve all lines of a page before the next sees the first: each serves the same requests, in the same order. The host computer misses on
//! the words of large caches, and where requests are known ahead, these misses overlap.

use super::level::{Level, Placement};
use super::lines::{Sets, each};
use super::{Access, Caches};
use crate::config::Writes;
use reach_core::PhysAddr;

/// Lines that go through all caches together: those of a page of 4 KB.
const TOGETHER: usize = 64;
/// How many requests ahead the words of a set are prefetched.
const AHEAD: usize = 16;

/// Up to so many lines go one by one.
const FEW: u64 = 4;

/// A request of the core, or of a cache to the next one.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: PhysAddr,
    /// The index of the line that is wanted; `None`: a dirty line comes.
    wanted: Option<u32>,
}

/// Requests to a cache.
struct Requests<'a> {
    all: &'a [Request],
    /// Lines that are wanted become dirty.
    written: bool,
}

/// Counts of a cache for some requests.
#[derive(Default)]
struct Counts {
    accesses: u64,
    misses: u64,
    write_backs: u64,
}

/// Serves `requests` in order, and appends the requests to the next cache to `next`. `hits` gets the index of each line that is wanted
/// and here.
fn serve(
    sets: &mut impl Sets,
    placement: Placement,
    requests: &Requests,
    mut hits: impl FnMut(u32),
    next: &mut Vec<Request>,
) -> Counts {
    let mut counts = Counts::default();
    for (n, &request) in requests.all.iter().enumerate() {
        if let Some(soon) = requests.all.get(n + AHEAD) {
            sets.prefetch(placement.of(soon.at).0);
        }
        let (set, line) = placement.of(request.at);
        let dirty = requests.written || request.wanted.is_none();
        let present = sets.touch(set, line, dirty);
        if let Some(index) = request.wanted {
            counts.accesses += 1;
            if present {
                hits(index);
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

impl Level {
    /// Serves `requests`, and notes the latency of each line that is wanted and here.
    fn serve(&mut self, access: Access, requests: &Requests, latencies: &mut [u32], next: &mut Vec<Request>) {
        let Level { placement, latency, .. } = *self;
        let hits = |index: u32| latencies[index as usize] = latency;
        let counts = each!(&mut self.lines, sets => serve(sets, placement, requests, hits, next));
        self.count_all(access, counts.accesses, counts.misses);
        self.counters.write_backs += counts.write_backs;
    }
}

impl Caches {
    /// Loads or stores each line of the `bytes` bytes (at least 1) at `at`, in order, as [`Caches::access`] would, and calls `note`
    /// with its latency in cycles.
    pub fn access_lines(&mut self, access: Access, at: PhysAddr, bytes: u64, mut note: impl FnMut(u32)) {
        let shift = self.line_shift(access);
        let (mut line, last) = (at.0 >> shift, (at.0 + bytes - 1) >> shift);
        if last - line < FEW || !self.serves_runs(access) {
            (line..=last).for_each(|line| note(self.access(access, PhysAddr(line << shift)).0));
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
                let asked = Requests { all: &requests, written: access == Access::Store && depth == 0 };
                self.levels[index].serve(access, &asked, &mut latencies, &mut next);
                std::mem::swap(&mut requests, &mut next);
            }
            for &Request { at, wanted } in &requests {
                wanted.into_iter().for_each(|index| latencies[index as usize] = self.memory_latency(access, at));
            }
            latencies[..lines].iter().for_each(|&latency| note(latency));
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
    use crate::walk::HostFrames;
    use proptest::prelude::*;
    use reach_core::PageShift;

    /// Returns three small caches of these widths, with lines of different lengths.
    fn caches(ways: [u32; 3], replacement: Replacement, writes: [Writes; 2], in_guest: bool) -> Caches {
        let mut machine = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/small_machine.rs"));
        let cache = |level: u8, sets: u64, line: u32, writes: Writes| {
            let ways = ways[usize::from(level) - 1];
            let bytes = sets * u64::from(ways * line);
            let name = format!("l{level}");
            let latency = u32::from(level) * 10;
            Cache { name, level, bytes, ways, line, latency, writes, replacement, ..machine.caches[0].clone() }
        };
        machine.caches = vec![cache(1, 4, 32, writes[0]), cache(2, 8, 64, writes[1]), cache(3, 24, 64, Writes::Back)];
        let mut caches = Caches::new(&machine, 3);
        caches.host = in_guest.then(|| HostFrames::new(PageShift(12)));
        caches
    }

    fn writes() -> impl Strategy<Value = Writes> {
        // Mostly what runs are for.
        prop_oneof![6 => Just(Writes::Back), 1 => Just(Writes::Around), 1 => Just(Writes::Through)]
    }

    proptest! {
        #[test]
        fn runs_of_lines_equal_single_accesses(
            ways in (1..5u32, 4..9u32, 8..13u32),
            replacement in prop::sample::select(vec![Replacement::Lru, Replacement::Random, Replacement::QuadAgeLru]),
            writes in [writes(), writes()],
            in_guest in any::<bool>(),
            steps in prop::collection::vec((0..5u8, 0..20_000u64, 1..9000u64), 1..40),
        ) {
            let mut together = caches(ways.into(), replacement, writes, in_guest);
            let mut single = together.clone();
            for (step, at, bytes) in steps {
                let first = PhysAddr(at);
                let access = match step {
                    0 | 1 => Access::Store,
                    2 => Access::Load,
                    3 => {
                        prop_assert_eq!(together.access(Access::Walk, first), single.access(Access::Walk, first));
                        continue;
                    }
                    _ => {
                        together.flush(first, bytes);
                        single.flush(first, bytes);
                        continue;
                    }
                };
                let mut latencies = Vec::new();
                together.access_lines(access, first, bytes, |latency| latencies.push(latency));
                let lines = at >> 5..=(at + bytes - 1) >> 5;
                let expected: Vec<u32> = lines.map(|line| single.access(access, PhysAddr(line << 5)).0).collect();
                prop_assert_eq!(latencies, expected);
                prop_assert!(together.counters().eq(single.counters()));
                prop_assert_eq!(together.memory_accesses, single.memory_accesses);
            }
        }
    }
}
