//! Options of auxiliary TLBs.

/// What a system needs beside the last level of TLB arrays: asked where the levels before that have missed, it answers
/// for single base pages, which are entered in those levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuxTlbOptions {
    /// A range TLB, and a walker that fills it from the range table (Karakostas §4).
    Ranges(RangeTlbOptions),
    /// A TLB whose entries stand for several neighbouring pages (Pham et al. 2012 and 2014).
    Clusters(ClusterTlbOptions),
    /// Segments of the address space (`PageTable::segments`), which are looked at before any array and never miss (Basu
    /// et al. 2013).
    Segments,
}

/// A clustered or coalesced TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterTlbOptions {
    /// How many entries, a multiple of `ways`; the quotient is a power of two. 0: as many, and as many ways, as the last
    /// level has for base pages.
    pub entries: u32,
    /// Ways of a set; the least recently used goes.
    pub ways: u32,
    /// Pages of the aligned group that an entry may stand for: 2, 4 or 8.
    pub pages: u32,
    /// Their frames follow one another as the pages do (CoLT); otherwise they lie in one aligned group, in any order.
    pub contiguous: bool,
    /// The fewest pages of an entry. Asked in parallel, pages that get one are not entered in the last level as well.
    pub min_pages: u32,
    /// When it is asked.
    pub lookup: AuxLookup,
    /// Cycles of a hit on machines whose TLB has one level only.
    pub latency: u32,
}

/// A range TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeTlbOptions {
    /// How many ranges it holds, at least 1; fully associative, the least recently used goes.
    pub entries: u32,
    /// Count in the same pass what ranges TLBs of up to so many entries would have hit; 0: only this one. Exact for
    /// [`AuxLookup::AfterMiss`], where walk caches have arrays of their own.
    pub sweep_entries: u32,
    /// The entry used last is looked at before the others, which then need not be searched (the MRU pointer). It changes
    /// no hit; what it spares is counted.
    pub mru: bool,
    /// When it is asked.
    pub lookup: AuxLookup,
    /// Cycles of a hit on machines whose TLB has one level only; elsewhere a hit takes those of the last level.
    pub latency: u32,
}

/// When what stands beside the last level is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuxLookup {
    /// At the same time as the last level. A hit spares that an entry.
    InParallel,
    /// After a miss there, as BadgerTrap emulates it (Karakostas §7): the last level is filled as if there were nothing
    /// beside it.
    AfterMiss,
}
