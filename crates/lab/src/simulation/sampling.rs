//! Sampling: what is counted of a program whose intervals are measured.
//!
//! Between intervals, functional warming keeps TLBs, and caches where the sample says so, as the program would leave them.

use super::hardware::{Detail, MemoryCounts};
use super::sample::{Interval, Sample};
use super::tally::Tally;
use reach_core::Asid;
use std::collections::BTreeMap;

/// The state of sampling.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampling {
    sample: Sample,
    /// Cycles and instructions of all measured intervals.
    cycles: u64,
    instructions: u64,
    /// How references are simulated now.
    pub detail: Detail,
    /// Totals where the current interval began; `None` between intervals.
    from: Option<(Tally, MemoryCounts)>,
    /// The work of each process in the current interval.
    processes: BTreeMap<Asid, Tally>,
}

impl Sampling {
    /// Sets the distance of intervals, in references.
    pub fn set_distance(&mut self, every: u64) {
        self.sample.every = every;
    }

    /// Begins an interval at these totals.
    pub fn begin(&mut self, total: Tally, memory: MemoryCounts) {
        self.processes.clear();
        self.from = Some((total, memory));
    }

    /// Ends the current interval at these totals. Does nothing between intervals; an interval without references is
    /// dropped.
    pub fn end(&mut self, total: &Tally, memory: MemoryCounts) {
        let Some((total_before, memory_before)) = self.from.take() else { return };
        let tally = total.since(&total_before);
        if tally.counts.references() == 0 {
            return;
        }
        self.cycles += tally.cycles();
        self.instructions += tally.counts.instructions;
        let MemoryCounts { caches, accesses } = memory.since(&memory_before);
        let processes = std::mem::take(&mut self.processes);
        self.sample.intervals.push(Interval { tally, processes, caches, memory_accesses: accesses });
    }

    /// Adds what `process` has done, if it did so in an interval.
    pub fn absorb(&mut self, process: Asid, spent: &Tally) {
        if self.from.is_some() {
            self.processes.entry(process).or_default().absorb(spent);
        }
    }

    /// Returns the thousandths of a cycle that an instruction took in measured intervals; `otherwise` before the first.
    pub fn millicycles_per_instruction(&self, otherwise: u64) -> u64 {
        match self.instructions {
            0 => otherwise,
            instructions => (u128::from(self.cycles) * 1000 / u128::from(instructions)) as u64,
        }
    }

    /// Returns the sample. Call [`Sampling::end`] before.
    pub fn into_sample(self) -> Sample {
        self.sample
    }
}
