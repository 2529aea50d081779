//! The ledger of cycles. Every cycle has exactly one label, so the labels sum to the total by construction.

use crate::Cycles;

/// The activity that a cycle is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Label {
    /// Executing instructions.
    Compute,
    /// Waiting for caches and memory on the program's own behalf.
    Cache,
    /// Looking up later TLB levels after first-level misses, whether one hits or a walk follows.
    L2TlbHit,
    /// Page walks by hardware.
    Walk,
    /// Miss handlers of software-filled TLBs, and what policies do in them.
    Handler,
    /// Copying pages into a superpage.
    Copy,
    /// Promotion without copying: page-table entries, controller tables, shootdowns.
    Remap,
    /// Page faults, including zeroing.
    Fault,
    /// The page daemon and khugepaged.
    Daemon,
    /// The front end waiting for an ITLB entry that instructions in flight still use (pipeline inclusion).
    ItlbStall,
    /// The front end waiting for walks of fetches. Only timing `ooo` separates them from `Walk`.
    ItlbWalk,
    /// The front end waiting for translations from a later TLB level. Only timing `ooo` separates them.
    ItlbL2TlbHit,
    /// Refilling the pipeline after a mispredicted branch (timing `ooo`).
    Branch,
    /// Executing the kernel's own code, where it is simulated.
    Kernel,
}

impl Label {
    /// All labels, in the order of the results.
    pub const ALL: [Label; 14] = [
        Label::Compute,
        Label::Cache,
        Label::L2TlbHit,
        Label::Walk,
        Label::Handler,
        Label::Copy,
        Label::Remap,
        Label::Fault,
        Label::Daemon,
        Label::ItlbStall,
        Label::ItlbWalk,
        Label::ItlbL2TlbHit,
        Label::Branch,
        Label::Kernel,
    ];

    /// Returns whether the operating system spends these cycles, in the miss handler or elsewhere.
    pub const fn is_system(self) -> bool {
        matches!(self, Label::Handler) || self.is_event()
    }

    /// Returns whether these cycles belong to events that the operating system handles one by one, however the references
    /// between them are simulated. Cycles of all other labels depend on how references are timed.
    pub const fn is_event(self) -> bool {
        matches!(self, Label::Copy | Label::Remap | Label::Fault | Label::Daemon | Label::Kernel)
    }

    /// Returns the name in results: `cycles.<name>`.
    pub const fn name(self) -> &'static str {
        match self {
            Label::Compute => "compute",
            Label::Cache => "cache",
            Label::L2TlbHit => "l2_tlb_hit",
            Label::Walk => "walk",
            Label::Handler => "handler",
            Label::Copy => "copy",
            Label::Remap => "remap",
            Label::Fault => "fault",
            Label::Daemon => "daemon",
            Label::ItlbStall => "itlb_stall",
            Label::ItlbWalk => "itlb_walk",
            Label::ItlbL2TlbHit => "itlb_l2_tlb_hit",
            Label::Branch => "branch",
            Label::Kernel => "kernel",
        }
    }
}

/// Cycles by label.
///
/// ```
/// use reach_core::{Cycles, Label, Ledger};
///
/// let mut ledger = Ledger::default();
/// ledger.charge(Label::Compute, 100);
/// ledger.charge(Label::Walk, 30);
/// let before = ledger.clone();
/// ledger.charge(Label::Walk, 20);
/// assert_eq!(ledger.charged(Label::Walk), Cycles(50));
/// assert_eq!(ledger.total(), Cycles(150));
/// assert_eq!(ledger.since(&before).total(), Cycles(20));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    cycles: [u64; Label::ALL.len()],
}

impl Ledger {
    /// Charges `cycles` to `label`.
    #[inline(always)]
    pub fn charge(&mut self, label: Label, cycles: u64) {
        self.cycles[label as usize] += cycles;
    }

    /// Returns the cycles charged to `label`.
    #[inline(always)]
    pub fn charged(&self, label: Label) -> Cycles {
        Cycles(self.cycles[label as usize])
    }

    /// Returns all cycles: the sum over the labels.
    #[inline]
    pub fn total(&self) -> Cycles {
        Cycles(self.cycles.iter().sum())
    }

    /// Resets `label` to `cycles`, an earlier result of [`Ledger::charged`], and so takes back later charges.
    pub fn restore(&mut self, label: Label, cycles: Cycles) {
        self.cycles[label as usize] = cycles.0;
    }

    /// Takes back all charges after `earlier`, an older copy of this ledger, except those of events ([`Label::is_event`]).
    pub fn restore_all_but_events(&mut self, earlier: &Ledger) {
        for label in Label::ALL.into_iter().filter(|label| !label.is_event()) {
            self.restore(label, earlier.charged(label));
        }
    }

    /// Adds all charges of `other`.
    pub fn absorb(&mut self, other: &Ledger) {
        for (mine, theirs) in self.cycles.iter_mut().zip(other.cycles) {
            *mine += theirs;
        }
    }

    /// Returns this ledger with `change` applied to the cycles of each label.
    pub fn map(&self, change: impl Fn(Label, u64) -> u64) -> Ledger {
        Ledger { cycles: std::array::from_fn(|at| change(Label::ALL[at], self.cycles[at])) }
    }

    /// Returns what was charged after `earlier`, an older copy of this ledger.
    pub fn since(&self, earlier: &Ledger) -> Ledger {
        let mut cycles = self.cycles;
        for (now, then) in cycles.iter_mut().zip(earlier.cycles) {
            *now -= then;
        }
        Ledger { cycles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_dense_and_sum_to_the_total() {
        let mut ledger = Ledger::default();
        for (i, label) in Label::ALL.into_iter().enumerate() {
            assert_eq!(label as usize, i);
            ledger.charge(label, 1 << i);
        }
        assert_eq!(ledger.total(), Cycles((1 << Label::ALL.len()) - 1));
        assert_eq!(ledger.charged(Label::Walk), Cycles(8));
    }
}
