//! Where the cycles went. Every cycle has exactly one label, so the labels sum to the total by construction.

use crate::Cycles;

/// What a cycle was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Label {
    /// Executing instructions.
    Compute,
    /// Waiting for caches and memory on the program's own behalf.
    Cache,
    /// First-level TLB miss that hit a later level.
    L2TlbHit,
    /// Page walks by hardware.
    Walk,
    /// Miss handlers of software-filled TLBs, and what policies do in them.
    Handler,
    /// Copying pages to promote them.
    Copy,
    /// Remapping pages to promote them: page-table entries, controller tables, shootdowns.
    Remap,
    /// Page faults, zeroing included.
    Fault,
    /// Daemons: page daemon, khugepaged.
    Daemon,
    /// Front end waiting for the ITLB beyond walk and L2-TLB hit (pipeline inclusion).
    ItlbStall,
    /// Front end waiting for walks, where those of fetches are told apart (timing `window`).
    ItlbWalk,
    /// Front end waiting for translations that a later level of TLBs holds (timing `window`).
    ItlbL2TlbHit,
    /// Refilling the pipeline after a branch that was guessed wrong (timing `window`).
    Branch,
}

impl Label {
    /// All labels, in the order in which results list them.
    pub const ALL: [Label; 13] = [
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
    ];

    /// Whether the operating system spends it, in the miss handler or elsewhere.
    pub const fn is_system(self) -> bool {
        matches!(self, Label::Handler | Label::Copy | Label::Remap | Label::Fault | Label::Daemon)
    }

    /// The name in results: `cycles.<name>`.
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
        }
    }
}

/// Cycles by label.
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

    /// What `label` has been charged.
    #[inline(always)]
    pub fn charged(&self, label: Label) -> Cycles {
        Cycles(self.cycles[label as usize])
    }

    /// All cycles: the sum over the labels.
    #[inline]
    pub fn total(&self) -> Cycles {
        Cycles(self.cycles.iter().sum())
    }

    /// Takes back what `label` has been charged since it had been charged `cycles`.
    pub fn restore(&mut self, label: Label, cycles: Cycles) {
        self.cycles[label as usize] = cycles.0;
    }

    /// Adds everything that `other` was charged.
    pub fn absorb(&mut self, other: &Ledger) {
        for (mine, theirs) in self.cycles.iter_mut().zip(other.cycles) {
            *mine += theirs;
        }
    }

    /// What was charged since `earlier`, an older copy of this ledger.
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
