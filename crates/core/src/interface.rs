//! What the processor and the operating system say to each other besides the page table.

mod aux_tlb;
mod controller;

pub use aux_tlb::{AuxLookup, AuxTlbOptions, ClusterTlbOptions, RangeTlbOptions};
pub use controller::{ControllerCommand, ControllerOptions};

use crate::{Asid, Kind, Label, PageShift, PhysAddr, Vpn};

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
