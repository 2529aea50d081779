//! References as the core sees them: their bytes, the latencies of translation and caches, and their times.

/// The bits of a virtual address that a [`reach_core::Ref`] can hold.
pub(super) const ADDRESS_MASK: u64 = (1 << 48) - 1;

/// The virtual addresses from `start` to before `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl ByteRange {
    /// Returns whether both ranges have a byte in common.
    #[inline(always)]
    pub fn overlaps(self, other: ByteRange) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// The cost of translating one reference, in cycles. All zero for a hit in the first-level TLB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranslationCost {
    /// Look-ups in later levels of TLBs.
    pub tlb: u32,
    /// The walk, if there is one.
    pub walk: u32,
    /// How many page-table entries the walk reads from memory rather than from a cache.
    pub memory_reads: u32,
    /// Cycles of the walk in which it reads entries that miss the first-level data cache.
    pub l1_miss_cycles: u32,
    /// A miss handler in software, for which the pipeline empties.
    pub handler: u32,
    /// A walk that verifies a translation with which the reference goes on. Only its retirement waits.
    pub hidden_walk: u32,
    /// Whether the line of data was requested when the walk began, because an assist knew where it would be.
    pub data_ahead: bool,
}

/// A load or store of bytes within one cache line.
#[derive(Clone, Copy, Debug)]
pub struct MemoryReference {
    /// Its virtual addresses.
    pub bytes: ByteRange,
    /// The number of its line in physical memory.
    pub line: u64,
    /// The number of its base page.
    pub page: u64,
    /// The cost of its translation.
    pub translation: TranslationCost,
    /// Cycles of a hit in the first-level cache.
    pub l1_latency: u32,
    /// Cycles of this access.
    pub latency: u32,
}

impl MemoryReference {
    /// Returns the cycles that a miss of the first-level cache takes; 0 for a hit.
    #[inline(always)]
    pub(super) fn miss_latency(&self) -> u32 {
        if self.latency > self.l1_latency { self.latency } else { 0 }
    }
}

/// When a load or store is translated, and whether it has to be repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceTimes {
    /// The cycle in which its address is translated.
    pub translated: u64,
    /// No TLB held the page: it took a walk, or waited for one in progress.
    pub missed_tlbs: bool,
    /// The cycle of the machine clear if the load violated memory order: the core refetches it then, and must call
    /// [`OooCore::repeat_load`](super::OooCore::repeat_load). `None` if it read the right data.
    pub clear: Option<u64>,
}
