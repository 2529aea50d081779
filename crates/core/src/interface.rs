//! What the processor and the operating system say to each other besides the page table.

use crate::{Asid, Kind, Label, PageShift, Pfn, PhysAddr, Vpn};

/// Why a reference could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultCause {
    /// No translation.
    NotPresent,
    /// There is one, but it forbids this kind of reference.
    Protection,
}

/// A page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The base page referred to.
    pub vpn: Vpn,
    /// What was tried.
    pub kind: Kind,
    /// Why it failed.
    pub cause: FaultCause,
}

/// Why the processor stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The references are used up.
    End,
    /// A page fault; the reference is retried after it is handled.
    Fault(Fault),
    /// The first write to a clean page that the operating system watches ([`crate::Pte::watched`]); retried too.
    FirstWrite(Vpn),
    /// A miss has been handled where the operating system wants to see each ([`TlbEvent`]); the reference is retried, and
    /// finds the translation that was entered.
    PolicyCallback,
    /// An outline does not tell what comes next; with references it could be told. Nothing can be done but to begin
    /// again.
    NeedsReferences,
}

/// What becomes of the entries of a TLB that software fills, as its miss handler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlbEvent {
    /// A reference of `kind` to base page `vpn` missed, and the handler found a page of size `shift` for it, which it is
    /// about to enter.
    Miss {
        /// In which address space.
        asid: Asid,
        /// The base page referred to.
        vpn: Vpn,
        /// What was tried.
        kind: Kind,
        /// Size of the page that holds it.
        shift: PageShift,
    },
    /// The page of size `shift` at `vpn` has left.
    Removed {
        /// Of which address space.
        asid: Asid,
        /// Its first base page.
        vpn: Vpn,
        /// Its size.
        shift: PageShift,
        /// Another took its place; otherwise it was shot down.
        evicted: bool,
    },
    /// The page of size `shift` at `vpn` has been entered.
    Inserted {
        /// Of which address space.
        asid: Asid,
        /// Its first base page.
        vpn: Vpn,
        /// Its size.
        shift: PageShift,
    },
}

/// A translation that the operating system itself enters into the TLB of the running process, after all shootdowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlbPreload {
    /// A base page of it.
    pub vpn: Vpn,
    /// For references of this kind.
    pub kind: Kind,
}

/// What the operating system does to memory that is remapped behind the caches (Fang §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControllerCommand {
    /// Every line of these bytes leaves the caches: their bus address changes.
    Flush {
        /// First byte, in bus addresses.
        at: PhysAddr,
        /// How many.
        bytes: u64,
    },
    /// The memory controller takes this shadow frame for that real one from now on, or for none.
    MapShadow {
        /// The frame in shadow space.
        shadow: Pfn,
        /// The frame in memory.
        real: Option<Pfn>,
    },
}

/// A memory controller that retranslates shadow addresses, which no memory answers to (Impulse; Fang §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControllerOptions {
    /// The first address of shadow space, which has no end.
    pub base: PhysAddr,
    /// Entries of its translation cache (MTLB), a multiple of `ways`; the quotient is a power of two.
    pub entries: u32,
    /// Ways of the cache.
    pub ways: u32,
    /// Processor cycles that a shadow address takes more than a real one where the cache holds its page.
    pub hit: u32,
    /// Processor cycles that it takes besides where the cache does not: a read of the table in memory.
    pub miss: u32,
    /// How many entries, a power of two, such a read brings: those of an aligned group of shadow frames.
    pub group: u32,
}

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

/// What a processor's performance counters say, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerformanceCounters {
    /// All cycles.
    pub cycles: u64,
    /// Page walks.
    pub walks: u64,
    /// Their cycles.
    pub walk_cycles: u64,
    /// Walks that were avoided_walks by what stands beside the last level of TLB arrays.
    pub avoided_walks: u64,
}

impl PerformanceCounters {
    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &PerformanceCounters) -> PerformanceCounters {
        PerformanceCounters {
            cycles: self.cycles - earlier.cycles,
            walks: self.walks - earlier.walks,
            walk_cycles: self.walk_cycles - earlier.walk_cycles,
            avoided_walks: self.avoided_walks - earlier.avoided_walks,
        }
    }

    /// Adds what `other` counted.
    pub fn absorb(&mut self, other: &PerformanceCounters) {
        self.cycles += other.cycles;
        self.walks += other.walks;
        self.walk_cycles += other.walk_cycles;
        self.avoided_walks += other.avoided_walks;
    }
}

/// Translations that processors must forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shootdown {
    /// Of which address space.
    pub asid: Asid,
    /// First base page.
    pub vpn: Vpn,
    /// How many base pages; every entry that overlaps them goes. `u64::MAX`: the whole address space.
    pub pages: u64,
}

/// Memory that the operating system itself reads or writes, in physical addresses. The run loop sends it through the
/// same caches as the program's references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traffic {
    /// First byte.
    pub at: PhysAddr,
    /// How many bytes, one after the other.
    pub bytes: u64,
    /// Written rather than read.
    pub write: bool,
    /// What the cycles are charged to.
    pub label: Label,
}
