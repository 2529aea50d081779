//! Walks, walkers and walk caches of a pass.

use super::{Curve, Pass};
use crate::bench::Bench;
use crate::infer::{self, Caches, Known, Level, Walkers};
use crate::pattern::Page;

/// The names of what is measured of walks.
const ALL: [&str; 3] = ["walk", "walk.parallel", "walk.pde.entries"];
/// The name of the cycles of a walk besides its reads.
pub(crate) const LOOKUP: &str = "walk.lookup";
/// The name of the nearest cache that walks read.
const CACHE_LEVEL: &str = "walk.cache_level";
/// The name of the lower bound of walkers.
pub(crate) const LEAST_PARALLEL: &str = "walk.parallel.least";
/// Why nothing can be said of a walk's parts in a guest.
const NESTED: &str = "walks read entries of the host's page table, too, so that their parts cannot be told apart";

impl Pass {
    /// Measures walks over small pages. `caches` and `second`, the second level of TLBs, are those that were found.
    pub(super) fn measure_walks(&mut self, bench: &mut dyn Bench, caches: Option<&Caches>, second: Option<Level>) {
        let caches = caches.filter(|caches| caches.levels.len() >= 2 && caches.memory.is_some());
        let (Some(caches), Some(second)) = (caches, second) else {
            for name in ALL {
                let why = "caches and the second level of TLBs, with which walks are compared, were not found";
                self.missing.insert(name.into(), why.into());
            }
            return;
        };
        let known = Known { caches, second };
        match infer::walks(bench, known) {
            Ok(walks) => self.take_walks(&walks),
            Err(error) => self.lack("walk", &error),
        }
        match infer::walkers(bench, known) {
            Ok(walkers) => self.take_walkers(walkers),
            Err(error) => self.lack("walk.parallel", &error),
        }
        match infer::walk_cache(bench, known) {
            Ok(found) => {
                self.curves.insert("walk.pde".into(), Curve::new("parts of 2 MB", &found.curve));
                let why =
                    "walks do not get longer with the number of page tables: their entries lie in the TLB, or nowhere";
                self.enter_or("walk.pde.entries".into(), found.entries.map(|entries| entries as f64), why);
            }
            Err(error) => self.lack("walk.pde.entries", &error),
        }
    }

    fn take_walkers(&mut self, walkers: Option<Walkers>) {
        let (busy, least) = match walkers {
            Some(Walkers::Busy(count)) => (Some(count), None),
            Some(Walkers::AtLeast(count)) => (None, Some(count)),
            None => (None, None),
        };
        self.enter_or("walk.parallel".into(), busy, "sixteen chains do not occupy all walkers");
        if let Some(count) = least {
            self.numbers.insert(LEAST_PARALLEL.into(), count);
        }
    }

    fn take_walks(&mut self, walks: &infer::Walks) {
        for (depth, &cycles) in walks.levels.iter().enumerate() {
            let memory = depth + 1 == walks.levels.len();
            let name = if memory { "walk.memory".into() } else { format!("walk.l{}", depth + 1) };
            self.enter_or(name, cycles, "it takes more pages than memory holds, or than can be visited in the time");
        }
        let part = self.numbers.get(super::PART).copied().unwrap_or(f64::INFINITY);
        if part < Page::Huge.bytes() as f64 {
            return self.lack_parts();
        }
        let why = "walks that read the second cache do not take longer by its latency";
        self.enter_or(CACHE_LEVEL.into(), walks.cache_level.map(f64::from), why);
        self.enter_or(LOOKUP.into(), walks.lookup, "what walks take besides their reads differs from cache to cache");
    }

    /// Removes what only walks of a single page table show.
    pub(super) fn lack_parts(&mut self) {
        for name in [CACHE_LEVEL, LOOKUP] {
            self.numbers.remove(name);
            self.missing.insert(name.into(), NESTED.into());
        }
    }
}
