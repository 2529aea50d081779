//! Data and instruction caches over physical addresses, and the memory behind them.

use crate::config::{self, Writes};
use crate::walk::Frames;
pub use controller::{Controller, ControllerCounters};
use lines::Lines;
use reach_core::PhysAddr;

mod controller;
mod lines;

/// What a cache is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Instruction bytes.
    Fetch,
    /// A load of the program, or of a miss handler in software.
    Load,
    /// A store.
    Store,
    /// A read by a walk of a page table, or of a range table.
    Walk,
}

impl Access {
    /// How many kinds there are.
    pub const KINDS: usize = 4;
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Hits and misses of one cache, by whether the access came down the instruction or the data side.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CacheCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl CacheCounters {
            /// What was counted since `earlier`.
            pub fn since(&self, earlier: &CacheCounters) -> CacheCounters {
                CacheCounters { $($name: self.$name - earlier.$name,)* }
            }

            /// Adds what `other` counted.
            pub fn absorb(&mut self, other: &CacheCounters) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Accesses by fetches.
    fetches,
    /// Those that missed.
    fetch_misses,
    /// Accesses by loads.
    loads,
    /// Those that missed.
    load_misses,
    /// Accesses by stores.
    stores,
    /// Those that missed.
    store_misses,
    /// Accesses by walks.
    walks,
    /// Those that missed.
    walk_misses,
    /// Dirty lines sent to the next level.
    write_backs,
}

/// Accesses that no cache answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryAccesses {
    /// How many.
    pub accesses: u64,
    /// What they took, each for itself.
    pub cycles: u64,
}

impl MemoryAccesses {
    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &MemoryAccesses) -> MemoryAccesses {
        MemoryAccesses { accesses: self.accesses - earlier.accesses, cycles: self.cycles - earlier.cycles }
    }

    /// Adds what `other` counted.
    pub fn absorb(&mut self, other: &MemoryAccesses) {
        (self.accesses, self.cycles) = (self.accesses + other.accesses, self.cycles + other.cycles);
    }
}

#[derive(Clone, Debug)]
struct Level {
    lines: Lines,
    line_shift: u32,
    sets: u64,
    /// 2^64 by the number of sets, for its remainders.
    inverse: u64,
    latency: u32,
    writes: Writes,
    /// One for all cores.
    shared: bool,
    counters: CacheCounters,
}

impl Level {
    fn new(cache: &config::Cache, seed: u64) -> Level {
        let entries = (cache.bytes / u64::from(cache.line)) as usize;
        let sets = (entries / cache.ways as usize) as u64;
        Level {
            lines: Lines::new(entries, cache.ways as usize, cache.replacement, seed),
            line_shift: cache.line.trailing_zeros(),
            sets,
            inverse: u64::MAX / sets,
            latency: cache.latency,
            writes: cache.writes,
            shared: cache.shared,
            counters: CacheCounters::default(),
        }
    }

    /// The set of the line that holds `at`, and the line.
    #[inline(always)]
    fn place(&self, at: PhysAddr) -> (usize, u64) {
        let line = at.0 >> self.line_shift;
        let set = if self.sets.is_power_of_two() { line & (self.sets - 1) } else { self.remainder(line) };
        (set as usize, line)
    }

    /// `line` by the number of sets. The quotient comes out right or, for some, one too small (Granlund and Montgomery,
    /// PLDI 1994).
    #[inline(always)]
    fn remainder(&self, line: u64) -> u64 {
        let quotient = ((u128::from(line) * u128::from(self.inverse)) >> 64) as u64;
        let rest = line - quotient * self.sets;
        if rest < self.sets { rest } else { rest - self.sets }
    }

    #[inline(always)]
    fn count(&mut self, access: Access, miss: bool) {
        let c = &mut self.counters;
        let (all, misses) = match access {
            Access::Fetch => (&mut c.fetches, &mut c.fetch_misses),
            Access::Load => (&mut c.loads, &mut c.load_misses),
            Access::Store => (&mut c.stores, &mut c.store_misses),
            Access::Walk => (&mut c.walks, &mut c.walk_misses),
        };
        *all += 1;
        *misses += u64::from(miss);
    }
}

/// What is nearest on the way of fetches or of data.
#[derive(Clone, Copy, Debug)]
struct Nearest {
    level: Option<usize>,
    line_shift: u32,
    latency: u32,
}

/// Whether written data stays in a cache, given whether its line is `present`, rather than going on to the next level.
fn keeps(writes: Writes, present: bool) -> bool {
    match writes {
        Writes::Back => true,
        Writes::Around => present,
        Writes::Through => false,
    }
}

/// A hierarchy of caches in front of memory.
///
/// A miss fills every level on the way. A store goes down to the first level that keeps it, past those that write
/// through or around; that level gets the rest of the line as a load would. Dirty victims go down the same way, without
/// delay to the program (write buffers), and count as a use where they pass. Caches are neither inclusive nor exclusive.
#[derive(Clone, Debug)]
pub struct Caches {
    names: Vec<String>,
    levels: Vec<Level>,
    fetch_path: Vec<usize>,
    data_path: Vec<usize>,
    /// Of data, of fetches.
    nearest: [Nearest; 2],
    memory: u32,
    /// Accesses that went to memory, by kind, and the cycles until each had its value, overlapping ones counted twice.
    pub beyond: [MemoryAccesses; Access::KINDS],
    /// In a guest: where the host has its memory.
    host: Option<Frames>,
    /// What stands between the caches and memory, where that is more than a wire.
    pub controller: Option<Controller>,
}

impl Caches {
    /// The caches of `machine`, empty.
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
        Caches {
            names: machine.caches.iter().map(|c| c.name.clone()).collect(),
            levels: levels.map(|(i, cache)| Level::new(cache, seed ^ (i as u64 + 77) << 20)).collect(),
            fetch_path,
            data_path,
            nearest,
            memory: machine.memory,
            beyond: [MemoryAccesses::default(); Access::KINDS],
            host: machine.nested.as_ref().map(|nested| Frames::new(nested.host_page)),
            controller: None,
        }
    }

    /// Takes what all cores share from the caches of the core that ran last, which gets empty ones for them.
    pub(crate) fn take_shared(&mut self, last: &mut Caches) {
        for (mine, theirs) in self.levels.iter_mut().zip(&mut last.levels).filter(|(mine, _)| mine.shared) {
            std::mem::swap(mine, theirs);
        }
        std::mem::swap(&mut self.controller, &mut last.controller);
    }

    /// Whether fetches are modelled; otherwise the instruction cache is perfect (Fang §3).
    pub fn models_fetches(&self) -> bool {
        self.nearest[1].level.is_some()
    }

    /// Cycles of a hit in the nearest cache, which a pipeline hides; 0 where there is none.
    pub fn near_latency(&self, access: Access) -> u32 {
        self.nearest[usize::from(access == Access::Fetch)].latency
    }

    /// The smallest line on the way of fetches or data, as a shift.
    pub fn line_shift(&self, access: Access) -> u32 {
        self.nearest[usize::from(access == Access::Fetch)].line_shift
    }

    /// One access to the line that holds `at`. Returns the cycles from its start to its value's use and the depth at
    /// which it hit (the number of caches on the way for memory).
    #[inline(always)]
    pub fn access(&mut self, access: Access, at: PhysAddr) -> (u32, usize) {
        let at = self.host.map_or(at, |frames| frames.of(at));
        let fetch = access == Access::Fetch;
        let Some(first) = self.nearest[usize::from(fetch)].level else {
            return (if fetch { 0 } else { self.memory }, 0);
        };
        let store = access == Access::Store;
        let level = &mut self.levels[first];
        let (set, line) = level.place(at);
        // What is written through goes on from where it is present, as from where it is not.
        let written = store && level.writes != Writes::Through;
        let present = level.lines.touch(set, line, written);
        level.count(access, !present);
        if present && written == store {
            return (level.latency, 0);
        }
        let owner = (store && keeps(level.writes, present)).then_some(0);
        self.beyond(access, at, owner)
    }

    /// Whether the nearest data cache has the line that holds `at`. Changes nothing.
    pub(crate) fn is_near(&self, at: PhysAddr) -> bool {
        let at = self.host.map_or(at, |frames| frames.of(at));
        self.data_path.first().is_none_or(|&first| {
            let (set, line) = self.levels[first].place(at);
            self.levels[first].lines.holds(set, line)
        })
    }

    /// An access that did not end at the first level, from there on. `owner` is the nearest level that keeps a store's data,
    /// if that is known; what goes on from there is the fetch of its line.
    #[inline(never)]
    fn beyond(&mut self, access: Access, at: PhysAddr, mut owner: Option<usize>) -> (u32, usize) {
        let store = access == Access::Store;
        let deepest = if access == Access::Fetch { self.fetch_path.len() } else { self.data_path.len() };
        // The last cache is the largest, and this computer waits for what it knows of that.
        if deepest > 2 {
            let last = &self.levels[self.index(access, deepest - 1)];
            last.lines.prefetch(last.place(at).0);
        }
        let mut hit = deepest;
        for depth in 1..deepest {
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
        let nearest = if store { owner.unwrap_or(hit) } else { 0 };
        self.fill(access, at, nearest..hit, owner);
        let latency =
            if hit < deepest { self.levels[self.index(access, hit)].latency } else { self.memory_latency(access, at) };
        (latency, hit)
    }

    /// Enters the line that holds `at` at these depths, none of which has it; it is dirty at depth `owner`.
    fn fill(&mut self, access: Access, at: PhysAddr, depths: std::ops::Range<usize>, owner: Option<usize>) {
        // From the far end, as lines travel.
        for depth in depths.rev() {
            let index = self.index(access, depth);
            let level = &mut self.levels[index];
            let (set, line) = level.place(at);
            if let Some(victim) = level.lines.enter(set, line, owner == Some(depth)) {
                level.counters.write_backs += 1;
                let victim = PhysAddr(victim << level.line_shift);
                self.write_back(access, depth + 1, victim);
            }
        }
    }

    /// Fetches the line that holds `at` into the second level of the data side and those behind it. Returns the cycles that
    /// takes, or none where the second level has it or there is none. Not counted among what the program asks for.
    pub fn fetch_ahead(&mut self, at: PhysAddr) -> Option<u32> {
        let at = self.host.map_or(at, |frames| frames.of(at));
        let deepest = self.data_path.len();
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
        Some(if hit < deepest { self.levels[self.data_path[hit]].latency } else { self.latency_beyond(at) })
    }

    /// What takes so many cycles comes from memory.
    pub(crate) fn memory(&self) -> u32 {
        self.memory
    }

    fn latency_beyond(&mut self, at: PhysAddr) -> u32 {
        self.memory + self.controller.as_mut().map_or(0, |controller| controller.retranslate(at).1)
    }

    fn memory_latency(&mut self, access: Access, at: PhysAddr) -> u32 {
        let latency = self.latency_beyond(at);
        let beyond = &mut self.beyond[access as usize];
        (beyond.accesses, beyond.cycles) = (beyond.accesses + 1, beyond.cycles + u64::from(latency));
        latency
    }

    /// Drops every line of these bytes from the data side, and sends what is dirty to memory.
    pub fn flush(&mut self, at: PhysAddr, bytes: u64) {
        for depth in 0..self.data_path.len() {
            let index = self.data_path[depth];
            let shift = self.levels[index].line_shift;
            for line in at.0 >> shift..=(at.0 + bytes - 1) >> shift {
                let level = &mut self.levels[index];
                let at = self.host.map_or(PhysAddr(line << shift), |frames| frames.of(PhysAddr(line << shift)));
                let (set, line) = level.place(at);
                if level.lines.drop(set, line) {
                    level.counters.write_backs += 1;
                    self.write_back(Access::Store, depth + 1, at);
                }
            }
        }
    }

    /// A dirty line arrives at `depth`.
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
        if !present && let Some(victim) = level.lines.enter(set, line, true) {
            level.counters.write_backs += 1;
            let victim = PhysAddr(victim << level.line_shift);
            self.write_back(access, depth + 1, victim);
        }
    }

    #[inline(always)]
    fn index(&self, access: Access, depth: usize) -> usize {
        if access == Access::Fetch { self.fetch_path[depth] } else { self.data_path[depth] }
    }

    /// Names and counters of all caches, in the machine's order.
    pub fn counters(&self) -> impl Iterator<Item = (&str, CacheCounters)> {
        self.names.iter().map(String::as_str).zip(self.levels.iter().map(|l| l.counters))
    }
}
