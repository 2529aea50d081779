//! Data and instruction caches over physical addresses, and the memory behind them.

use crate::config::{self, Writes};
use crate::walk::HostFrames;
use back_side::LastCache;
pub use back_side::{BackSide, BackSideCounters};
pub use controller::{Controller, ControllerCounters};
pub use counters::{CacheCounters, MemoryAccesses};
pub use level::Access;
use level::Level;
use lines::Sets;
use others::Others;
use reach_core::PhysAddr;
use reach_core::lines::{LINE_SHIFT, SETS};

mod back_side;
mod controller;
mod counters;
mod level;
mod lines;
mod others;
mod protecting;
mod stream;

/// The nearest cache on the path of fetches or of data.
#[derive(Clone, Copy, Debug)]
struct Nearest {
    /// Its index; `None` if no cache serves that path.
    level: Option<usize>,
    line_shift: u32,
    latency: u32,
}

/// Returns whether [`Caches::folds_lines`] holds.
fn folds_lines(machine: &config::Machine, nearest: [Nearest; 2]) -> bool {
    let suits = |level: usize| {
        let cache = &machine.caches[level];
        let sets = cache.bytes / u64::from(cache.ways) / u64::from(cache.line);
        let folds = cache.replacement.repeats_change_nothing();
        folds && cache.line == 1 << LINE_SHIFT && sets.is_multiple_of(SETS as u64) && cache.writes != Writes::Through
    };
    let [data, fetch] = nearest.map(|nearest| nearest.level);
    data.is_some_and(suits) && fetch != data && fetch.is_none_or(suits)
}

/// Returns whether a cache keeps written data, given whether it has the line, or passes the data to the next level.
fn keeps(writes: Writes, present: bool) -> bool {
    match writes {
        Writes::Back => true,
        Writes::Around => present,
        Writes::Through => false,
    }
}

/// A hierarchy of caches in front of memory.
///
/// A miss fills every level on its path. A store goes down to the first level that keeps its data, past levels that write
/// through or around. That level fetches the rest of the line as a load would. Dirty victims go down the same path, and
/// count as a use in each cache that they pass; write buffers hide their time. Caches are neither inclusive nor exclusive.
///
/// ```
/// # let machine = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/small_machine.rs"));
/// use reach_core::PhysAddr;
/// use reach_hardware::{Access, Caches};
///
/// let mut caches = Caches::new(&machine, 0);
/// let (miss, _) = caches.access(Access::Load, PhysAddr(0x1000));
/// let (hit, depth) = caches.access(Access::Load, PhysAddr(0x1008));
/// assert_eq!((miss, hit, depth), (200, 4, 0), "cycles to memory, then to the first-level cache");
/// assert_eq!(caches.memory_accesses[Access::Load as usize].accesses, 1);
/// ```
#[derive(Clone, Debug)]
pub struct Caches {
    names: Vec<String>,
    levels: Vec<Level>,
    fetch_path: Vec<usize>,
    data_path: Vec<usize>,
    /// For data, and for fetches.
    nearest: [Nearest; 2],
    /// Whether the same-line filter changes nothing.
    folds_lines: bool,
    /// Cycles to memory.
    memory: u32,
    /// Accesses that went to memory, by [`Access`].
    pub memory_accesses: [MemoryAccesses; Access::KINDS],
    /// The depth on the data path at which walks begin to look lines up.
    walk_depth: usize,
    /// In a guest: the map from guest-physical to host-physical addresses.
    host: Option<HostFrames>,
    /// A memory controller that translates shadow addresses; `None` for a plain one.
    pub controller: Option<Controller>,
    /// A translator of what misses in the last cache; `None` where caches hold addresses of memory.
    pub back_side: Option<Box<BackSide>>,
    /// What others bring into the last cache; `None` where nobody else uses it.
    others: Option<Others>,
    /// Whether the walks to come are for loads and stores rather than for fetches.
    pub(crate) walks_for_data: bool,
}

impl Caches {
    /// Creates the caches of `machine`, empty. `seed` is for random replacement.
    pub fn new(machine: &config::Machine, seed: u64) -> Caches {
        let levels = machine.caches.iter().enumerate();
        let path = |serves: fn(&config::Cache) -> bool| {
            let mut path: Vec<usize> = (0..machine.caches.len()).filter(|&i| serves(&machine.caches[i])).collect();
            path.sort_by_key(|&i| machine.caches[i].level);
            path
        };
        let (fetch_path, data_path) = (path(|c| c.instructions), path(|c| c.data));
        let nearest = [&data_path, &fetch_path].map(|path| {
            let level = path.first().copied();
            let cache = level.map(|i| &machine.caches[i]);
            Nearest {
                level,
                line_shift: cache.map_or(6, |cache| cache.line.trailing_zeros()),
                latency: cache.map_or(0, |cache| cache.latency),
            }
        });
        let walk_depth = match machine.walker {
            config::Walker::Hardware { cache_level, .. } => {
                data_path.iter().take_while(|&&i| machine.caches[i].level < cache_level).count()
            }
            config::Walker::Software { .. } => 0,
        };
        let others = data_path.last().map(|&last| machine.caches[last].others).filter(|&rate| rate > 0);
        Caches {
            names: machine.caches.iter().map(|c| c.name.clone()).collect(),
            levels: levels.map(|(i, cache)| Level::new(cache, seed ^ (i as u64 + 77) << 20)).collect(),
            folds_lines: folds_lines(machine, nearest),
            fetch_path,
            data_path,
            nearest,
            memory: machine.memory,
            walk_depth,
            memory_accesses: [MemoryAccesses::default(); Access::KINDS],
            host: machine.nested.as_ref().map(|nested| HostFrames::new(nested.host_page)),
            controller: None,
            back_side: None,
            others: others.map(|rate| Others::new(rate, seed)),
            walks_for_data: false,
        }
    }

    /// Enters guest number `guest`, whose addresses lead to other lines than those of the others.
    pub(crate) fn enter_guest(&mut self, guest: u32) {
        self.host.iter_mut().for_each(|frames| frames.enter_guest(guest));
    }

    /// Takes the caches that all cores share, and the memory controller, from the core that ran last. That core gets this
    /// core's unused ones.
    pub(crate) fn take_shared(&mut self, last: &mut Caches) {
        for (mine, theirs) in self.levels.iter_mut().zip(&mut last.levels).filter(|(mine, _)| mine.shared) {
            std::mem::swap(mine, theirs);
        }
        std::mem::swap(&mut self.controller, &mut last.controller);
        std::mem::swap(&mut self.back_side, &mut last.back_side);
        std::mem::swap(&mut self.others, &mut last.others);
    }

    /// Returns whether references that [`reach_core::lines`] drops hit the line that their set used last, and change nothing.
    /// It takes first-level caches apart for fetches and data, and their lines and sets to be as the filter's.
    pub(crate) fn folds_lines(&self) -> bool {
        self.folds_lines
    }

    /// Returns whether fetches are modelled; otherwise the instruction cache is perfect (Fang §3).
    pub fn models_fetches(&self) -> bool {
        self.nearest[1].level.is_some()
    }

    /// Returns the cycles of a hit in the nearest cache, which a pipeline hides; 0 without a cache.
    pub fn near_latency(&self, access: Access) -> u32 {
        self.nearest[usize::from(access == Access::Fetch)].latency
    }

    /// Returns the binary logarithm of the bytes in a line of the nearest cache; 6 without a cache.
    pub fn line_shift(&self, access: Access) -> u32 {
        self.nearest[usize::from(access == Access::Fetch)].line_shift
    }

    /// Accesses the line that holds `at`. Returns the cycles from the start of the access to the use of its value, and the
    /// depth at which it hit: 0 for the nearest cache, the number of caches on the path for memory.
    #[inline(always)]
    pub fn access(&mut self, access: Access, at: PhysAddr) -> (u32, usize) {
        let at = self.host.map_or(at, |frames| frames.of(at));
        let fetch = access == Access::Fetch;
        let Some(first) = self.nearest[usize::from(fetch)].level else {
            return (if fetch { 0 } else { self.memory }, 0);
        };
        if access == Access::Walk && self.walk_depth > 0 {
            return self.access_from(self.walk_depth, access, at, None);
        }
        let store = access == Access::Store;
        let level = &mut self.levels[first];
        let (set, line) = level.place(at);
        // A store that is written through goes on to the next level whether or not it hits.
        let written = store && level.writes != Writes::Through;
        let present = level.lines.touch(set, line, written);
        level.count(access, !present);
        if present && written == store {
            return (level.latency, 0);
        }
        let owner = (store && keeps(level.writes, present)).then_some(0);
        self.access_from(1, access, at, owner)
    }

    /// Looks up a line that hardware keeps in the second data level, or in the only one. Returns the cycles of a hit.
    pub(crate) fn find_in_second_level(&mut self, line: PhysAddr) -> Option<u32> {
        let level = self.second_level()?;
        let (set, line) = level.place(line);
        let present = level.lines.touch(set, line, false);
        level.count(Access::Walk, !present);
        present.then_some(level.latency)
    }

    /// Inserts such a line, which the second data level has missed. It is never written back.
    pub(crate) fn hold_in_second_level(&mut self, line: PhysAddr) {
        let at = 1.min(self.data_path.len().wrapping_sub(1));
        let Some(level) = self.second_level() else { return };
        let (set, line) = level.place(line);
        if !level.lines.touch(set, line, false)
            && let Some(victim) = level.lines.insert(set, line, false, false)
        {
            level.counters.write_backs += 1;
            let victim = level.placement.at(victim);
            self.write_back(Access::Store, at + 1, victim);
        }
    }

    fn second_level(&mut self) -> Option<&mut Level> {
        let &index = self.data_path.get(1).or(self.data_path.first())?;
        Some(&mut self.levels[index])
    }

    /// Lets `cycles` cycles pass, in which others bring lines into the last cache. A dirty line that leaves it is written to
    /// memory.
    pub fn pass(&mut self, cycles: u64) {
        let (Some(others), Some(&last)) = (&mut self.others, self.data_path.last()) else { return };
        let level = &mut self.levels[last];
        // Ten times its lines leave nothing of ours in any set.
        let mut left = others.lines_in(cycles, 1 << level.placement.line_shift, 10 * level.size());
        let mut places = [(0, 0); 8];
        while left > 0 {
            // The host computer misses on the tags of most, so several are asked for together.
            let some = &mut places[..left.min(8) as usize];
            for place in &mut *some {
                *place = level.place(others.next_line());
                level.lines.prefetch(place.0);
            }
            for &mut (set, line) in &mut *some {
                if !level.lines.touch(set, line, false) && level.lines.insert(set, line, false, false).is_some() {
                    level.counters.write_backs += 1;
                }
            }
            left -= some.len() as u64;
        }
    }

    /// Returns whether walks look for entries in the first-level data cache.
    pub(crate) fn walks_enter_l1(&self) -> bool {
        self.walk_depth == 0
    }

    /// Returns whether the nearest data cache has the line that holds `at`, without recording a use.
    pub(crate) fn is_near(&self, at: PhysAddr) -> bool {
        let at = self.host.map_or(at, |frames| frames.of(at));
        self.data_path.first().is_none_or(|&first| {
            let (set, line) = self.levels[first].place(at);
            self.levels[first].lines.contains(set, line)
        })
    }

    /// Says that the last cache is about to be asked for `at`. It is the largest: the host computer would miss on its tags.
    #[inline(always)]
    fn expect_in_last(&self, at: PhysAddr, last: usize) {
        let last = &self.levels[last];
        last.lines.prefetch(last.place(at).0);
    }

    /// Continues, at depth `from`, an access that did not end before. `owner` is the depth of the nearest level that keeps a
    /// store's data, if known; from there on the access is the fetch of its line. A walk that begins at `from` fills no
    /// nearer level.
    #[inline(never)]
    fn access_from(&mut self, from: usize, access: Access, at: PhysAddr, mut owner: Option<usize>) -> (u32, usize) {
        let store = access == Access::Store;
        let deepest = if access == Access::Fetch { self.fetch_path.len() } else { self.data_path.len() };
        if deepest > 2 {
            self.expect_in_last(at, self.index(access, deepest - 1));
        }
        let mut hit = deepest;
        for depth in from..deepest {
            let index = self.index(access, depth);
            let level = &mut self.levels[index];
            let (set, line) = level.place(at);
            let seeks = store && owner.is_none();
            let present = level.lines.touch(set, line, seeks && level.writes != Writes::Through);
            if seeks && keeps(level.writes, present) {
                owner = Some(depth);
            }
            level.count(access, !present);
            if present && (!store || owner.is_some()) {
                hit = depth;
                break;
            }
        }
        let nearest = match access {
            Access::Store => owner.unwrap_or(hit),
            Access::Walk => self.walk_depth,
            Access::Load | Access::Fetch => 0,
        };
        self.fill(access, at, nearest..hit, owner);
        let latency =
            if hit < deepest { self.levels[self.index(access, hit)].latency } else { self.memory_latency(access, at) };
        (latency, hit)
    }

    /// Fills the line that holds `at` at these depths, none of which has it. It is dirty at depth `owner`.
    fn fill(&mut self, access: Access, at: PhysAddr, depths: std::ops::Range<usize>, owner: Option<usize>) {
        let entries = access == Access::Walk && self.walks_for_data;
        // From memory towards the core, as lines travel.
        for depth in depths.rev() {
            let index = self.index(access, depth);
            let level = &mut self.levels[index];
            let (set, line) = level.place(at);
            if let Some(victim) = level.lines.insert(set, line, owner == Some(depth), entries) {
                level.counters.write_backs += 1;
                let victim = level.placement.at(victim);
                self.write_back(access, depth + 1, victim);
            }
        }
    }

    /// Prefetches the line that holds `at` into the second data level and those behind it. Returns the cycles that this
    /// takes; `None` if the second level has the line or does not exist. Accesses of the program are counted apart.
    pub fn fetch_ahead(&mut self, at: PhysAddr) -> Option<u32> {
        let at = self.host.map_or(at, |frames| frames.of(at));
        let deepest = self.data_path.len();
        if deepest > 2 {
            self.expect_in_last(at, self.data_path[deepest - 1]);
        }
        let mut holds = (1..deepest).filter(|&depth| {
            let level = &mut self.levels[self.data_path[depth]];
            let (set, line) = level.place(at);
            level.lines.touch(set, line, false)
        });
        let hit = holds.next().unwrap_or(deepest);
        drop(holds);
        if deepest < 2 || hit == 1 {
            return None;
        }
        self.fill(Access::Load, at, 1..hit, None);
        Some(if hit < deepest {
            self.levels[self.data_path[hit]].latency
        } else {
            self.memory_and_controller(at) + self.translate_behind(at)
        })
    }

    /// Returns the cycles to memory. An access of at least that latency came from memory.
    pub(crate) fn memory(&self) -> u32 {
        self.memory
    }

    fn memory_and_controller(&mut self, at: PhysAddr) -> u32 {
        self.memory + self.controller.as_mut().map_or(0, |controller| controller.retranslate(at).1)
    }

    /// Translates an address of the program that missed in the last cache. Returns the cycles that this takes.
    fn translate_behind(&mut self, at: PhysAddr) -> u32 {
        let Some(mut back_side) = self.back_side.take() else { return 0 };
        let cycles = back_side.translate(at, self);
        self.back_side = Some(back_side);
        cycles
    }

    fn memory_latency(&mut self, access: Access, at: PhysAddr) -> u32 {
        let mut latency = self.memory_and_controller(at);
        if access != Access::Walk {
            latency += self.translate_behind(at);
        }
        let counts = &mut self.memory_accesses[access as usize];
        (counts.accesses, counts.cycles) = (counts.accesses + 1, counts.cycles + u64::from(latency));
        latency
    }

    /// Drops every line of the `bytes` bytes (at least 1) at `at` from the data caches, and sends dirty lines to memory.
    pub fn flush(&mut self, at: PhysAddr, bytes: u64) {
        for depth in 0..self.data_path.len() {
            let index = self.data_path[depth];
            let shift = self.levels[index].placement.line_shift;
            for line in at.0 >> shift..=(at.0 + bytes - 1) >> shift {
                let level = &mut self.levels[index];
                let at = self.host.map_or(PhysAddr(line << shift), |frames| frames.of(PhysAddr(line << shift)));
                let (set, line) = level.place(at);
                if level.lines.remove(set, line) {
                    level.counters.write_backs += 1;
                    self.write_back(Access::Store, depth + 1, at);
                }
            }
        }
    }

    /// Receives a dirty line at `depth`.
    fn write_back(&mut self, access: Access, depth: usize, at: PhysAddr) {
        let path = if access == Access::Fetch { &self.fetch_path } else { &self.data_path };
        let Some(&index) = path.get(depth) else {
            if let Some(controller) = &mut self.controller {
                controller.write_back(at);
            }
            return;
        };
        let level = &mut self.levels[index];
        let (set, line) = level.place(at);
        let present = level.lines.touch(set, line, level.writes != Writes::Through);
        if !keeps(level.writes, present) {
            return self.write_back(access, depth + 1, at);
        }
        if !present && let Some(victim) = level.lines.insert(set, line, true, false) {
            level.counters.write_backs += 1;
            let victim = level.placement.at(victim);
            self.write_back(access, depth + 1, victim);
        }
    }

    #[inline(always)]
    fn index(&self, access: Access, depth: usize) -> usize {
        if access == Access::Fetch { self.fetch_path[depth] } else { self.data_path[depth] }
    }

    /// Returns names and counters of all caches, in the machine's order.
    pub fn counters(&self) -> impl Iterator<Item = (&str, CacheCounters)> {
        self.names.iter().map(String::as_str).zip(self.levels.iter().map(|l| l.counters))
    }
}

impl LastCache for Caches {
    fn read(&mut self, entry: PhysAddr) -> (bool, u32) {
        let Some(&last) = self.data_path.last() else { return (false, self.memory) };
        let level = &mut self.levels[last];
        let (set, line) = level.place(entry);
        let found = level.lines.touch(set, line, false);
        level.count(Access::Walk, !found);
        if found {
            return (true, level.latency);
        }
        // Dirty lines that leave the last cache go to memory.
        if level.lines.insert(set, line, false, false).is_some() {
            level.counters.write_backs += 1;
        }
        (false, self.memory)
    }
}
