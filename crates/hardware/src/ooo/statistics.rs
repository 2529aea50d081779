//! The core's counts.

/// How long fetching was stalled, in cycles by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchStalls {
    /// Mispredicted branches and machine clears.
    pub branch: u64,
    /// Later levels of TLBs.
    pub tlb: u64,
    /// Walks.
    pub walk: u64,
    /// Pipeline inclusion: the ITLB entry to be replaced was in use by instructions in flight.
    pub inclusion: u64,
    /// Look-ups that are repeated once the translation is there.
    pub replay: u64,
    /// Instruction caches.
    pub cache: u64,
}

/// Counts since [`OooCore::take_statistics`](super::OooCore::take_statistics) was last called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OooStatistics {
    /// Branches that retired.
    pub branches: u64,
    /// Branches that retired and had been mispredicted.
    pub mispredictions: u64,
    /// Stalls of fetching, whether or not the back end had work meanwhile.
    pub fetch_stalls: FetchStalls,
    /// Machine clears by memory-order violations: loads that read before an older store to the same bytes.
    pub memory_order_clears: u64,
    /// Instructions that were dispatched and squashed.
    pub squashed: u64,
    /// Loads of squashed instructions that looked up the TLB.
    pub squashed_loads: u64,
    /// Stores of squashed instructions that looked up the TLB.
    pub squashed_stores: u64,
}
