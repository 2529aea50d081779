//! The interface between the simulated processor and operating system, apart from the page table.
//!
//! The processor returns a [`StopReason`] when it needs the operating system, and offers [`PerformanceCounters`] and
//! [`TlbEvent`]s. The operating system queues [`Shootdown`]s, [`Traffic`], [`TlbPreload`]s and [`ControllerCommand`]s.
//! A system asks for extra hardware with [`AuxTlbOptions`], [`ControllerOptions`] and [`BackSideOptions`], and adds its own
//! with a [`WalkAssist`].

mod aux_tlb;
mod back_side;
mod controller;
mod replacement;
mod walk_assist;

pub use aux_tlb::{AuxLookup, AuxTlbOptions, ClusterFrames, ClusterTlbOptions, RangeTlbOptions};
pub use back_side::BackSideOptions;
pub use controller::{ControllerCommand, ControllerOptions};
pub use replacement::{ReplacementOptions, ReuseSignature};
pub use walk_assist::{AssistAnswer, AssistPort, FinishedWalk, TlbMiss, WalkAssist};

use crate::{Asid, Kind, Label, PageShift, PhysAddr, Vpn};

/// Why a reference faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultCause {
    /// The page has no translation.
    NotPresent,
    /// The page has a translation that forbids this kind of reference.
    Protection,
}

/// A page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The base page referred to.
    pub vpn: Vpn,
    /// Fetch, load or store.
    pub kind: Kind,
    /// Why the reference faulted.
    pub cause: FaultCause,
}

/// Why the processor stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// All references have been run.
    End,
    /// A page fault. The processor retries the reference after the operating system has handled it.
    Fault(Fault),
    /// A store to a clean page that the operating system watches ([`crate::Pte::watched`]). The store is retried too.
    FirstWrite(Vpn),
    /// In a guest, the host has no page for this guest-physical address. The host's operating system gives it one, and the
    /// reference is retried.
    HostFault(PhysAddr),
    /// A software-filled TLB missed, and a policy asked to see each miss ([`TlbEvent`]). The reference is retried, and
    /// hits the translation that the handler inserted.
    PolicyCallback,
    /// The chunk is an outline ([`crate::Chunk`]), which does not contain the references needed to go on. The run must
    /// start again with references.
    NeedsReferences,
}

/// A miss, insertion or removal in a software-filled TLB, as its miss handler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlbEvent {
    /// A reference missed. The handler found its page and is about to insert it.
    Miss {
        /// Address space of the reference.
        asid: Asid,
        /// The base page referred to.
        vpn: Vpn,
        /// Fetch, load or store.
        kind: Kind,
        /// Size of the page that holds it.
        shift: PageShift,
    },
    /// An entry left the TLB.
    Removed {
        /// Address space of the entry.
        asid: Asid,
        /// First base page of the entry.
        vpn: Vpn,
        /// Page size of the entry.
        shift: PageShift,
        /// `true`: another entry replaced it. `false`: a shootdown invalidated it.
        evicted: bool,
    },
    /// An entry was inserted.
    Inserted {
        /// Address space of the entry.
        asid: Asid,
        /// First base page of the entry.
        vpn: Vpn,
        /// Page size of the entry.
        shift: PageShift,
    },
}

/// A translation that the operating system inserts into the TLB of the running process, after all shootdowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlbPreload {
    /// Any base page of the page to insert.
    pub vpn: Vpn,
    /// The kind of reference, which selects the instruction or the data TLB.
    pub kind: Kind,
}

/// What the processor's performance counters have counted since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerformanceCounters {
    /// All cycles.
    pub cycles: u64,
    /// Page walks.
    pub walks: u64,
    /// Cycles of page walks.
    pub walk_cycles: u64,
    /// Walks that the auxiliary TLB avoided.
    pub avoided_walks: u64,
}

impl PerformanceCounters {
    /// Returns what was counted after `earlier`, an older copy of these counters.
    pub fn since(&self, earlier: &PerformanceCounters) -> PerformanceCounters {
        PerformanceCounters {
            cycles: self.cycles - earlier.cycles,
            walks: self.walks - earlier.walks,
            walk_cycles: self.walk_cycles - earlier.walk_cycles,
            avoided_walks: self.avoided_walks - earlier.avoided_walks,
        }
    }

    /// Adds the counts of `other`.
    pub fn absorb(&mut self, other: &PerformanceCounters) {
        self.cycles += other.cycles;
        self.walks += other.walks;
        self.walk_cycles += other.walk_cycles;
        self.avoided_walks += other.avoided_walks;
    }
}

/// A request to all processors to invalidate translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shootdown {
    /// The address space.
    pub asid: Asid,
    /// First base page.
    pub vpn: Vpn,
    /// Number of base pages; `u64::MAX` means the whole address space. Every entry that overlaps them is removed.
    pub pages: u64,
}

/// Memory that the operating system itself reads or writes. The run loop sends it through the same caches as the
/// program's references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traffic {
    /// First byte.
    pub at: PhysAddr,
    /// Number of consecutive bytes.
    pub bytes: u64,
    /// `true` for a write, `false` for a read.
    pub write: bool,
    /// The label that is charged with the cycles.
    pub label: Label,
}
