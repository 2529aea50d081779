//! How ranges are made: settings.

use reach_core::Permille;

/// What translates memory that was paged eagerly, besides the page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translated {
    /// Ranges in a range table (Karakostas et al. 2015).
    ByRanges,
    /// One segment per address space: the first mapping that is long enough, in one block (Basu et al. 2013).
    BySegment,
    /// Any number of segments: the ideal, in which every eager mapping is one (Karakostas §8).
    BySegments,
    /// Nothing: the memory is only contiguous.
    ByPages,
}

/// How ranges are made, and what is paged eagerly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranging {
    /// Fewest base pages of a range, at least 1 (§5.1: the contiguity threshold).
    pub least: u64,
    /// Eager paging stops when more than this share of free memory lies in blocks smaller than [`Ranging::BLOCK`] (§5.2,
    /// Figure 5).
    pub fragmented: Permille,
    /// An allocation smaller than a block takes a larger block and gives the rest back, rather than several blocks that
    /// add up (§5.2, the second improvement).
    pub larger: bool,
    /// The buddy allocator's largest block in bytes, at most 2 GB (§7).
    pub block: u64,
    /// The buddy allocator hands out blocks by address, so that blocks of the largest size continue one another (§5.2, the
    /// first improvement).
    pub sorted: bool,
    /// What translates the memory.
    pub translated: Translated,
    /// The heap is paged eagerly where it grows by at least this many bytes at once.
    pub heap: u64,
}

impl Ranging {
    /// Blocks smaller than this many bytes count as fragments.
    pub const BLOCK: u64 = 2 << 20;
}
