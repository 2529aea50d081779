//! What the translation hardware counts.

use reach_core::Kind;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of one processor. Every reference that is retried after a stop is looked up, and counted, again.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// What was counted since `earlier`.
            pub fn since(&self, earlier: &Counters) -> Counters {
                Counters { $($name: self.$name - earlier.$name,)* }
            }

            /// Adds what `other` counted.
            pub fn absorb(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Fetches that missed every first-level array.
    l1i_tlb_misses,
    /// Loads and stores that missed every first-level array.
    l1d_tlb_misses,
    /// First-level misses of fetches that a later level held.
    l2_tlb_hits_fetch,
    /// First-level misses of loads and stores that a later level held.
    l2_tlb_hits_data,
    /// Walks (or handler runs) for fetches.
    walks_fetch,
    /// Walks (or handler runs) for loads and stores.
    walks_data,
    /// Page-table entries that walks read, those of the host included.
    walk_accesses,
    /// Entries of the host's page table that walks of a guest read.
    host_accesses,
    /// Cycles of walks and handler runs, those that end in a fault included.
    walk_cycles,
    /// Those of them that were for fetches.
    walk_cycles_fetch,
    /// Walks that found no usable translation.
    walks_faulting,
    /// First stores to a page through a clean entry: the dirty bit is set in the page table.
    dirty_updates,
    /// Translations invalidated on request, counted in shootdowns received.
    shootdowns,
    /// How often what stands beside the last level was asked.
    aux_tlb_searches,
    /// How often it would have been asked, and was turned off.
    aux_tlb_unasked,
    /// How often it knew the page.
    aux_tlb_hits,
    /// Those for which the last level did not: walks that were spared.
    aux_tlb_spared,
    /// Hits in the entry that had been used last.
    aux_tlb_mru_hits,
    /// Entries made in it.
    aux_tlb_fills,
    /// Walks of range tables, in the background.
    range_walks,
    /// Lines of 64 bytes that they read, two for each node.
    range_walk_accesses,
    /// Cycles that they took; nothing waits for them.
    range_walk_cycles,
    /// Branches (timing `window`, as all that follows).
    branches,
    /// Branches that were guessed wrong.
    mispredictions,
    /// Walks for loads and stores that ended with what they were to find, a fault included.
    walks_completed,
    /// Those that were given up: what they were for was squashed before.
    walks_aborted,
    /// Completed walks for loads and stores of the program: those that it repeats after a fault are others.
    walks_retired,
    /// Completed walks for loads and stores that did not retire, or that nothing had asked for yet.
    walks_wrong_path,
    /// Walks for fetches that were given up.
    walks_fetch_aborted,
    /// Completed walks for fetches of what did not retire.
    walks_fetch_wrong_path,
    /// Loads and stores that retired, and had found the page in no TLB: they had a walk, or waited for one that was under way.
    stlb_miss_retired,
    /// Times that all behind a load was squashed, because it had gone ahead of a store that it depended on.
    memory_ordering_clears,
    /// Instructions that entered the window and did not retire.
    squashed,
    /// Their loads, as far as these came to ask the TLB.
    squashed_loads,
    /// Their stores, the same.
    squashed_stores,
    /// Pages from which such instructions were fetched, as far as the TLB was asked.
    squashed_fetches,
    /// Cycles that the front end waited for later levels of TLBs, whether or not the window had work meanwhile.
    itlb_stall_l2_tlb_hit,
    /// The same for walks.
    itlb_stall_walk,
    /// The same for entries of the first-level ITLB in use by instructions in flight.
    itlb_stall_inclusion,
    /// The same for instruction caches.
    fetch_stall_cache,
}

impl Counters {
    /// A look-up for `kind` that the first level could not answer and a later level could.
    #[inline(always)]
    pub(crate) fn count_later_hit(&mut self, kind: Kind) {
        let (misses, hits) = match kind {
            Kind::Fetch => (&mut self.l1i_tlb_misses, &mut self.l2_tlb_hits_fetch),
            Kind::Load | Kind::Store => (&mut self.l1d_tlb_misses, &mut self.l2_tlb_hits_data),
        };
        (*misses, *hits) = (*misses + 1, *hits + 1);
    }

    /// Cycles that the front end waited for translations, whether or not the window had work meanwhile.
    pub fn itlb_stall(&self) -> u64 {
        self.itlb_stall_l2_tlb_hit + self.itlb_stall_walk + self.itlb_stall_inclusion
    }

    /// All walks.
    pub fn walks(&self) -> u64 {
        self.walks_fetch + self.walks_data
    }

    /// All first-level misses that a later level held.
    pub fn l2_tlb_hits(&self) -> u64 {
        self.l2_tlb_hits_fetch + self.l2_tlb_hits_data
    }
}
