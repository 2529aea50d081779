//! Counts of the translation hardware.

use reach_core::Kind;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of one hardware thread. A reference that is retried after a stop is looked up, and counted, again.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Returns the counts since `earlier`.
            pub fn since(&self, earlier: &Counters) -> Counters {
                Counters { $($name: self.$name - earlier.$name,)* }
            }

            /// Adds the counts of `other`.
            pub fn absorb(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
            }

            /// Returns these counts with `change` applied to each.
            pub fn map(&self, change: impl Fn(u64) -> u64) -> Counters {
                Counters { $($name: change(self.$name),)* }
            }
        }
    };
}

counters! {
    /// Fetches that missed every first-level array.
    l1i_tlb_misses,
    /// Loads and stores that missed every first-level array.
    l1d_tlb_misses,
    /// First-level misses of fetches that hit in a later level.
    l2_tlb_hits_fetch,
    /// First-level misses of loads and stores that hit in a later level.
    l2_tlb_hits_data,
    /// Walks (or handler runs) for fetches.
    walks_fetch,
    /// Walks (or handler runs) for loads and stores.
    walks_data,
    /// Page-table entries that walks read, including those of the host.
    walk_accesses,
    /// Page-table entries that walks for fetches read, including those of the host.
    walk_accesses_fetch,
    /// Entries of the host's page table that walks of a guest read.
    host_accesses,
    /// Cycles of walks and handler runs, including those that end in a fault.
    walk_cycles,
    /// Cycles of walks and handler runs for fetches.
    walk_cycles_fetch,
    /// Walks that found no usable translation.
    walks_faulting,
    /// Walks that entered one translation of several base pages.
    walks_coalesced,
    /// Stores through a clean entry, which set the dirty bit in the page table.
    dirty_updates,
    /// Shootdowns received.
    shootdowns,
    /// Look-ups of the auxiliary TLB.
    aux_tlb_lookups,
    /// Look-ups of the auxiliary TLB that were skipped because it was disabled.
    aux_tlb_disabled_lookups,
    /// Hits in the auxiliary TLB.
    aux_tlb_hits,
    /// Walks avoided: hits in the auxiliary TLB for pages that the last level did not hold.
    aux_tlb_walks_avoided,
    /// Hits in the auxiliary TLB's most recently used entry.
    aux_tlb_mru_hits,
    /// Entries made in the auxiliary TLB.
    aux_tlb_fills,
    /// Entries of several pages made in a clustered or coalesced auxiliary TLB.
    aux_tlb_coalesced,
    /// Walks of range tables, in the background.
    range_walks,
    /// Lines of 64 bytes that walks of range tables read, two for each node.
    range_walk_accesses,
    /// Cycles of walks of range tables; nothing waits for them.
    range_walk_cycles,
    /// Searches of the walk assist.
    assist_searches,
    /// Walks that the walk assist made needless.
    assist_hits,
    /// Lines that the walk assist read, of its own or of page tables ahead of a walk.
    assist_reads,
    /// Cycles that references waited for the walk assist, wrong predictions included. `walk_cycles` has them too.
    assist_cycles,
    /// Walks in the background, for the walk assist.
    assist_walks,
    /// Page-table entries that walks in the background read.
    assist_walk_accesses,
    /// Cycles of walks in the background; nothing waits for them.
    assist_walk_cycles,
    /// Entries that the walk assist began to read ahead of a walk.
    assist_hastened,
    /// Frames that the walk assist predicted.
    assist_predictions,
    /// Predictions that were wrong.
    assist_mispredictions,
    /// Cycles of walks that a right prediction hid.
    assist_hidden_cycles,
    /// Branches. This and all counts below are of out-of-order timing only.
    branches,
    /// Branch mispredictions.
    mispredictions,
    /// Walks for loads and stores that ran to their end, including those that ended in a fault.
    walks_completed,
    /// Walks for loads and stores that were aborted because their instruction was squashed.
    walks_aborted,
    /// Completed walks for loads and stores that retired. A retry after a fault counts again.
    walks_retired,
    /// Completed walks for loads and stores that did not retire, and for prefetches.
    walks_wrong_path,
    /// Walks for fetches that were aborted.
    walks_fetch_aborted,
    /// Completed walks for fetches of instructions that did not retire.
    walks_fetch_wrong_path,
    /// Loads and stores that retired and had missed in every TLB: they had a walk, or waited for one under way.
    stlb_miss_retired,
    /// Pipeline clears because a load had executed before an older store that it depended on.
    memory_ordering_clears,
    /// Instructions that entered the reorder buffer and did not retire.
    squashed,
    /// Loads of squashed instructions that looked up the TLB.
    squashed_loads,
    /// Stores of squashed instructions that looked up the TLB.
    squashed_stores,
    /// TLB look-ups for fetches of squashed instructions, one for each page.
    squashed_fetches,
    /// Cycles that the front end waited for later TLB levels, whether or not the back end had work meanwhile.
    itlb_stall_l2_tlb_hit,
    /// Cycles that the front end waited for walks.
    itlb_stall_walk,
    /// Cycles that the front end waited to evict ITLB entries in use by instructions in flight.
    itlb_stall_inclusion,
    /// Cycles that the front end repeated look-ups in, once the translation was there.
    itlb_stall_replay,
    /// Cycles that the front end waited for instruction caches.
    fetch_stall_cache,
}

impl Counters {
    /// Counts a look-up for `kind` that missed in the first level and hit in a later one.
    #[inline(always)]
    pub(crate) fn count_later_hit(&mut self, kind: Kind) {
        let (misses, hits) = match kind {
            Kind::Fetch => (&mut self.l1i_tlb_misses, &mut self.l2_tlb_hits_fetch),
            Kind::Load | Kind::Store => (&mut self.l1d_tlb_misses, &mut self.l2_tlb_hits_data),
        };
        (*misses, *hits) = (*misses + 1, *hits + 1);
    }

    /// Counts a look-up for `kind` that missed in the first level.
    #[inline(always)]
    pub(crate) fn count_first_level_miss(&mut self, kind: Kind) {
        match kind {
            Kind::Fetch => self.l1i_tlb_misses += 1,
            Kind::Load | Kind::Store => self.l1d_tlb_misses += 1,
        }
    }

    /// Counts a walk or handler run for `kind`, and the first-level miss that caused it.
    #[inline(always)]
    pub(crate) fn count_walk(&mut self, kind: Kind) {
        self.count_first_level_miss(kind);
        match kind {
            Kind::Fetch => self.walks_fetch += 1,
            Kind::Load | Kind::Store => self.walks_data += 1,
        }
    }

    /// Returns the cycles that the front end waited for translations.
    pub fn itlb_stall(&self) -> u64 {
        self.itlb_stall_l2_tlb_hit + self.itlb_stall_walk + self.itlb_stall_inclusion + self.itlb_stall_replay
    }

    /// Returns the number of walks and handler runs.
    pub fn walks(&self) -> u64 {
        self.walks_fetch + self.walks_data
    }

    /// Returns the number of first-level misses that hit in a later level.
    pub fn l2_tlb_hits(&self) -> u64 {
        self.l2_tlb_hits_fetch + self.l2_tlb_hits_data
    }
}
