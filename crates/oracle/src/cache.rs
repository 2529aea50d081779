//! The twin of the caches: each access recurses down the levels.

use crate::array::Array;
use crate::nested;
use reach_core::{PageShift, PhysAddr};
use reach_hardware::config::{self, Writes};
use reach_hardware::{Access, CacheCounters};

#[derive(Clone, Debug)]
struct Cache {
    config: config::Cache,
    /// By line number, whether the line is dirty.
    lines: Array<u64, bool>,
    counters: CacheCounters,
}

/// All caches of a machine.
#[derive(Clone, Debug)]
pub struct Caches {
    caches: Vec<Cache>,
    memory: u32,
    /// The nearest level that walks read.
    walk_level: u8,
    /// The size of the host's pages. `None` outside a guest.
    host: Option<PageShift>,
    /// Whether walks are for loads and stores.
    pub walks_for_data: bool,
}

impl Caches {
    /// Creates the empty caches of `machine`.
    pub fn new(machine: &config::Machine, seed: u64) -> Caches {
        let cache = |(i, config): (usize, &config::Cache)| {
            let entries = (config.bytes / u64::from(config.line)) as u32;
            let seed = seed ^ ((i as u64 + 77) << 20);
            let lines = Array::new(entries, config.ways, config.replacement, seed);
            Cache { config: config.clone(), lines, counters: CacheCounters::default() }
        };
        Caches {
            caches: machine.caches.iter().enumerate().map(cache).collect(),
            memory: machine.memory,
            walk_level: match machine.walker {
                config::Walker::Hardware { cache_level, .. } => cache_level,
                config::Walker::Software { .. } => 1,
            },
            host: machine.nested.as_ref().map(|n| n.host_page),
            walks_for_data: false,
        }
    }

    /// Returns the indices of the caches on the way of an access, nearest first.
    fn path(&self, access: Access) -> Vec<usize> {
        let serves = |c: &config::Cache| if access == Access::Fetch { c.instructions } else { c.data };
        let mut path: Vec<usize> = (0..self.caches.len()).filter(|&i| serves(&self.caches[i].config)).collect();
        if access == Access::Walk {
            path.retain(|&i| self.caches[i].config.level >= self.walk_level);
        }
        path.sort_by_key(|&i| self.caches[i].config.level);
        path
    }

    /// Returns the latency of the nearest cache, 0 without one.
    pub fn near_latency(&self, access: Access) -> u32 {
        self.path(access).first().map_or(0, |&i| self.caches[i].config.latency)
    }

    /// Returns the line size of the nearest cache in bytes, 64 without one.
    pub fn line(&self, access: Access) -> u64 {
        self.path(access).first().map_or(64, |&i| u64::from(self.caches[i].config.line))
    }

    /// Returns whether there is a cache for fetches.
    pub fn models_fetches(&self) -> bool {
        !self.path(Access::Fetch).is_empty()
    }

    /// Accesses the line of `at`. Returns the cycles that takes.
    pub fn access(&mut self, access: Access, at: PhysAddr) -> u32 {
        let path = self.path(access);
        let at = self.host.map_or(at, |host| nested::host_address(host, at));
        match access {
            Access::Fetch if path.is_empty() => 0,
            Access::Store => self.store(&path, at),
            _ => self.load(&path, access, at),
        }
    }

    /// Copies the caches that all cores share from the core that ran last.
    pub fn copy_shared(&mut self, last: &Caches) {
        for (mine, theirs) in self.caches.iter_mut().zip(&last.caches) {
            if mine.config.shared {
                *mine = theirs.clone();
            }
        }
    }

    /// Returns the counters of all caches, in the machine's order.
    pub fn counters(&self) -> Vec<CacheCounters> {
        self.caches.iter().map(|c| c.counters).collect()
    }

    /// Looks up a line that hardware keeps in the second cache for data, or in the only one. Returns the cycles of a hit.
    pub fn find_in_second_level(&mut self, at: PhysAddr) -> Option<u32> {
        let second = self.second_level()?;
        self.caches[second].touch(Access::Walk, at).then_some(self.caches[second].config.latency)
    }

    /// Inserts such a line.
    pub fn hold_in_second_level(&mut self, at: PhysAddr) {
        let Some(second) = self.second_level() else { return };
        let (set, line) = self.caches[second].place(at);
        if self.caches[second].lines.lookup(set, line).is_none() {
            let path = self.path(Access::Load);
            let from = path.iter().position(|&i| i == second).expect("it is a cache for data");
            self.fill(&path[from..], at, false);
        }
    }

    /// Brings a line into the second cache for data and those behind it. No cache counts it.
    pub fn fetch_ahead(&mut self, at: PhysAddr) {
        let at = self.host.map_or(at, |host| nested::host_address(host, at));
        let path = self.path(Access::Load);
        let beyond = path.get(1..).unwrap_or(&[]);
        // Looking a line up is a use of it.
        let has = |cache: &mut Cache| {
            let (set, line) = cache.place(at);
            cache.lines.lookup(set, line).is_some()
        };
        let hit = beyond.iter().position(|&i| has(&mut self.caches[i]));
        self.fill_all(beyond, hit.unwrap_or(beyond.len()), at);
    }

    /// Fills a line into the first `count` caches of `path`, the farthest first.
    fn fill_all(&mut self, path: &[usize], count: usize, at: PhysAddr) {
        (0..count).rev().for_each(|i| self.fill(&path[i..], at, false));
    }

    fn second_level(&self) -> Option<usize> {
        let path = self.path(Access::Load);
        path.get(1).or(path.first()).copied()
    }

    /// Loads a line: the nearest cache that has it answers, and all before that one are filled. Returns the cycles.
    fn load(&mut self, path: &[usize], access: Access, at: PhysAddr) -> u32 {
        let Some((&near, beyond)) = path.split_first() else { return self.memory };
        if self.caches[near].touch(access, at) {
            return self.caches[near].config.latency;
        }
        let cycles = self.load(beyond, access, at);
        self.fill_kept(path, at, false, access == Access::Walk && self.walks_for_data);
        cycles
    }

    /// Stores to a line: goes down to the first cache that allocates for stores or has the line. A cache that allocates
    /// gets the rest of the line as a load would. Returns the cycles.
    fn store(&mut self, path: &[usize], at: PhysAddr) -> u32 {
        let Some((&near, beyond)) = path.split_first() else { return self.memory };
        let hit = self.caches[near].touch(Access::Store, at);
        match (self.caches[near].config.writes, hit) {
            (Writes::Back | Writes::Around, true) => {
                self.caches[near].set_dirty(at);
                self.caches[near].config.latency
            }
            (Writes::Back, false) => {
                let cycles = self.load(beyond, Access::Store, at);
                self.fill(path, at, true);
                cycles
            }
            (Writes::Around, false) | (Writes::Through, _) => self.store(beyond, at),
        }
    }

    /// Fills a line into the nearest cache of `path`, and writes back a dirty victim.
    fn fill(&mut self, path: &[usize], at: PhysAddr, dirty: bool) {
        self.fill_kept(path, at, dirty, false);
    }

    /// Does the same for a line that a walk for data wants if it is `kept`.
    fn fill_kept(&mut self, path: &[usize], at: PhysAddr, dirty: bool, kept: bool) {
        let Some((&near, beyond)) = path.split_first() else { return };
        let cache = &mut self.caches[near];
        let (set, line) = cache.place(at);
        if let Some((victim, true)) = cache.lines.insert_kept(set, line, dirty, kept) {
            cache.counters.write_backs += 1;
            let victim = PhysAddr(victim * u64::from(cache.config.line));
            self.write_back(beyond, victim);
        }
    }

    /// Writes a dirty line back to the first cache of `path` that takes it.
    fn write_back(&mut self, path: &[usize], at: PhysAddr) {
        let Some((&near, beyond)) = path.split_first() else { return };
        let cache = &mut self.caches[near];
        let (set, line) = cache.place(at);
        let hit = cache.lines.lookup(set, line).is_some();
        match (cache.config.writes, hit) {
            (Writes::Back | Writes::Around, true) => cache.set_dirty(at),
            (Writes::Back, false) => self.fill(path, at, true),
            (Writes::Around, false) | (Writes::Through, _) => self.write_back(beyond, at),
        }
    }
}

impl Cache {
    fn place(&self, at: PhysAddr) -> (u64, u64) {
        let line = at.0 / u64::from(self.config.line);
        (line % self.lines.sets(), line)
    }

    /// Looks the line up, which counts as a use. Returns whether it hit.
    fn touch(&mut self, access: Access, at: PhysAddr) -> bool {
        let (set, line) = self.place(at);
        let hit = self.lines.lookup(set, line).is_some();
        let c = &mut self.counters;
        let (all, misses) = match access {
            Access::Fetch => (&mut c.fetches, &mut c.fetch_misses),
            Access::Load => (&mut c.loads, &mut c.load_misses),
            Access::Store => (&mut c.stores, &mut c.store_misses),
            Access::Walk => (&mut c.walks, &mut c.walk_misses),
        };
        *all += 1;
        *misses += u64::from(!hit);
        hit
    }

    fn set_dirty(&mut self, at: PhysAddr) {
        let (set, line) = self.place(at);
        *self.lines.lookup(set, line).expect("it was hit") = true;
    }
}
