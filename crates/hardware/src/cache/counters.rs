//! Counts of caches and of memory.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Hits and misses of one cache, by the kind of access that came down.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CacheCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl CacheCounters {
            /// Returns the counts since `earlier`.
            pub fn since(&self, earlier: &CacheCounters) -> CacheCounters {
                CacheCounters { $($name: self.$name - earlier.$name,)* }
            }

            /// Adds the counts of `other`.
            pub fn absorb(&mut self, other: &CacheCounters) {
                $(self.$name += other.$name;)*
            }

            /// Returns these counts with `change` applied to each.
            pub fn map(&self, change: impl Fn(u64) -> u64) -> CacheCounters {
                CacheCounters { $($name: change(self.$name),)* }
            }
        }
    };
}

counters! {
    /// Accesses by fetches.
    fetches,
    /// Misses of fetches.
    fetch_misses,
    /// Accesses by loads.
    loads,
    /// Misses of loads.
    load_misses,
    /// Accesses by stores.
    stores,
    /// Misses of stores.
    store_misses,
    /// Accesses by walks.
    walks,
    /// Misses of walks.
    walk_misses,
    /// Dirty lines sent to the next level.
    write_backs,
}

/// Accesses that missed in every cache on their path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryAccesses {
    /// Number of accesses.
    pub accesses: u64,
    /// Sum of their latencies in cycles; overlapping accesses count in full.
    pub cycles: u64,
}

impl MemoryAccesses {
    /// Returns the counts since `earlier`.
    pub fn since(&self, earlier: &MemoryAccesses) -> MemoryAccesses {
        MemoryAccesses { accesses: self.accesses - earlier.accesses, cycles: self.cycles - earlier.cycles }
    }

    /// Adds the counts of `other`.
    pub fn absorb(&mut self, other: &MemoryAccesses) {
        (self.accesses, self.cycles) = (self.accesses + other.accesses, self.cycles + other.cycles);
    }

    /// Returns these counts with `change` applied to each.
    pub fn map(&self, change: impl Fn(u64) -> u64) -> MemoryAccesses {
        MemoryAccesses { accesses: change(self.accesses), cycles: change(self.cycles) }
    }
}
