//! Counts and cycles.

use reach_core::{Counts, Ledger};
use reach_hardware::Counters;

/// The counts and cycles of a process, of a hardware thread, or of all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Instructions and references.
    pub counts: Counts,
    /// Counts of the translation hardware.
    pub hardware: Counters,
    /// Cycles by label.
    pub ledger: Ledger,
}

impl Tally {
    /// Returns what was counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Tally) -> Tally {
        Tally {
            counts: self.counts.since(&earlier.counts),
            hardware: self.hardware.since(&earlier.hardware),
            ledger: self.ledger.since(&earlier.ledger),
        }
    }

    /// Returns this tally with `change` applied to each count.
    pub(crate) fn map(&self, change: impl Fn(u64) -> u64) -> Tally {
        Tally {
            counts: self.counts.map(&change),
            hardware: self.hardware.map(&change),
            ledger: self.ledger.map(|_, cycles| change(cycles)),
        }
    }

    /// Adds the counts of `other`.
    pub(crate) fn absorb(&mut self, other: &Tally) {
        self.counts.absorb(&other.counts);
        self.hardware.absorb(&other.hardware);
        self.ledger.absorb(&other.ledger);
    }
}

/// The work of one hardware thread.
#[derive(Clone, Debug)]
pub struct HardwareThread {
    /// Its counts and cycles.
    pub tally: Tally,
    /// Its clock at the end: busy and idle cycles.
    pub clock: u64,
}
