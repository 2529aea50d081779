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
    /// The kernel's code, where it is simulated. The other counts are of the program alone, except for the ledger.
    pub kernel: KernelWork,
}

/// What the kernel's own code has done. Samples know it exactly, unless references were left out between their intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelWork {
    /// System calls.
    pub system_calls: u64,
    /// Of these, calls for which a plain call stands, because they were not recorded.
    pub unrecorded: u64,
    /// Page faults.
    pub faults: u64,
    /// Forks, execs and ends of processes.
    pub processes: u64,
    /// Switches of threads.
    pub switches: u64,
    /// Interrupts by the timer.
    pub interrupts: u64,
    /// Instructions.
    pub instructions: u64,
    /// Counts of the translation hardware.
    pub hardware: Counters,
}

impl KernelWork {
    /// Returns this work with `change` applied to each count.
    fn map(&self, change: impl Fn(u64) -> u64) -> KernelWork {
        self.combined(self, |count, _| change(count), self.hardware.map(&change))
    }

    /// Combines each count with that of `other`, except for those of the `hardware`.
    fn combined(&self, other: &KernelWork, combine: impl Fn(u64, u64) -> u64, hardware: Counters) -> KernelWork {
        KernelWork {
            system_calls: combine(self.system_calls, other.system_calls),
            unrecorded: combine(self.unrecorded, other.unrecorded),
            faults: combine(self.faults, other.faults),
            processes: combine(self.processes, other.processes),
            switches: combine(self.switches, other.switches),
            interrupts: combine(self.interrupts, other.interrupts),
            instructions: combine(self.instructions, other.instructions),
            hardware,
        }
    }

    /// Returns what was done since `earlier`.
    pub(crate) fn since(&self, earlier: &KernelWork) -> KernelWork {
        self.combined(earlier, |now, before| now - before, self.hardware.since(&earlier.hardware))
    }

    /// Adds the work of `other`.
    pub(crate) fn absorb(&mut self, other: &KernelWork) {
        let mut hardware = self.hardware;
        hardware.absorb(&other.hardware);
        *self = self.combined(other, |a, b| a + b, hardware);
    }
}

impl Tally {
    /// Returns what was counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Tally) -> Tally {
        Tally {
            counts: self.counts.since(&earlier.counts),
            hardware: self.hardware.since(&earlier.hardware),
            ledger: self.ledger.since(&earlier.ledger),
            kernel: self.kernel.since(&earlier.kernel),
        }
    }

    /// Returns this tally with `change` applied to each count.
    pub(crate) fn map(&self, change: impl Fn(u64) -> u64) -> Tally {
        Tally {
            counts: self.counts.map(&change),
            hardware: self.hardware.map(&change),
            ledger: self.ledger.map(|_, cycles| change(cycles)),
            kernel: self.kernel.map(&change),
        }
    }

    /// Adds the counts of `other`.
    pub(crate) fn absorb(&mut self, other: &Tally) {
        self.counts.absorb(&other.counts);
        self.hardware.absorb(&other.hardware);
        self.ledger.absorb(&other.ledger);
        self.kernel.absorb(&other.kernel);
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
