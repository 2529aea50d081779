//! Options of the auxiliary TLB: a structure beside the last level of TLB arrays.

/// The auxiliary TLB that a system needs. The processor looks it up when the levels before the last have missed. It
/// supplies single base pages, which are then inserted into those levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuxTlbOptions {
    /// A range TLB, and a walker that fills it from the range table (Karakostas §4).
    Ranges(RangeTlbOptions),
    /// A TLB whose entries each translate several neighbouring pages (Pham et al. 2012 and 2014).
    Clusters(ClusterTlbOptions),
    /// Segment registers, which translate `PageTable::segments`. They are compared before any array is looked up, and
    /// never miss (Basu et al. 2013).
    Segments,
}

/// Options of a clustered or coalesced TLB. It replaces the least recently used way of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterTlbOptions {
    /// Number of entries: a multiple of `ways`, with a power of two as quotient. 0 takes entries and ways of the last
    /// level's array for base pages.
    pub entries: u32,
    /// Ways of a set.
    pub ways: u32,
    /// Pages of the aligned group that an entry covers: 2, 4 or 8.
    pub pages: u32,
    /// Where the frames of an entry lie.
    pub frames: ClusterFrames,
    /// The fewest pages of an entry. With [`AuxLookup::InParallel`], pages that get an entry here get none in the last
    /// level.
    pub min_pages: u32,
    /// When the processor looks it up.
    pub lookup: AuxLookup,
    /// Cycles of a hit on machines with a single level of TLBs; elsewhere a hit takes those of the last level.
    pub latency: u32,
}

/// Where the frames of the pages of one entry lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterFrames {
    /// Consecutive, in the order of the pages (CoLT).
    Consecutive,
    /// In one aligned group, in any order (clustered TLB).
    SameGroup,
    /// Anywhere (Mosaic).
    Anywhere,
}

/// Options of a range TLB. It is fully associative and replaces the least recently used range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeTlbOptions {
    /// Number of ranges, at least 1.
    pub entries: u32,
    /// Counts in the same pass what range TLBs of 1 to this many entries would have hit; 0 counts this one only. Exact
    /// for [`AuxLookup::AfterMiss`] on machines whose walks change the TLB only by the translation that they find.
    pub sweep_entries: u32,
    /// Compares the most recently used entry first (the MRU pointer), and counts the searches that this avoids. It
    /// changes no hit.
    pub mru: bool,
    /// When the processor looks it up.
    pub lookup: AuxLookup,
    /// Cycles of a hit on machines with a single level of TLBs; elsewhere a hit takes those of the last level.
    pub latency: u32,
}

/// When the processor looks up the auxiliary TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuxLookup {
    /// Together with the last level. After a hit the last level gets no entry.
    InParallel,
    /// After a miss in the last level, as BadgerTrap emulates it (Karakostas §7). The last level is filled as if there
    /// were no auxiliary TLB.
    AfterMiss,
}
