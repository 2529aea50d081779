//! Sampling: what is counted of a program whose intervals are measured.
//!
//! Between intervals, functional warming keeps TLBs, and caches where the sample says so, as the program would leave them.

use super::hardware::{Detail, MemoryCounts};
use super::sample::{Cold, Interval, Sample};
use super::tally::Tally;
use reach_core::Asid;
use reach_trace::Sampling as Options;
use std::collections::BTreeMap;

/// What an interval stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stratum {
    /// For its period.
    Sampled,
    /// For code that runs for the first time, or for itself if it is of the first segments.
    FirstRun,
    /// For nothing: it is code that runs for the first time, and segments of [`Stratum::FirstRun`] stand for it.
    Unmeasured,
}

/// Where an interval began.
#[derive(Clone, Debug)]
struct Begin {
    stratum: Stratum,
    /// Totals there.
    total: Tally,
    memory: MemoryCounts,
}

/// The state of sampling.
#[derive(Clone, Debug)]
pub(super) struct Sampling {
    sample: Sample,
    /// Cycles of the last sampled intervals, without the operating system's events, and instructions ([`faded`]).
    cycles: u64,
    instructions: u64,
    /// How references are simulated now.
    detail: Detail,
    /// Instructions executed before this detail.
    detail_since: u64,
    /// `None` between intervals.
    current: Option<Begin>,
    /// The work of each process in the current interval.
    processes: BTreeMap<Asid, Box<Tally>>,
    /// References of code that runs for the first time so far, measured or not.
    first_run_references: u64,
    /// The number of the last measured segment of such code.
    segment: Option<u64>,
}

impl Default for Sampling {
    /// Samples a program of which all references are given.
    fn default() -> Sampling {
        Sampling {
            sample: Sample { all_given: true, ..Sample::default() },
            cycles: 0,
            instructions: 0,
            detail: Detail::default(),
            detail_since: 0,
            current: None,
            processes: BTreeMap::new(),
            first_run_references: 0,
            segment: None,
        }
    }
}

impl Sampling {
    /// Sets the distance of intervals, in references.
    pub fn set_distance(&mut self, every: u64) {
        self.sample.every = every;
    }

    /// Notes that from here on the source leaves out references.
    pub fn leave_out(&mut self) {
        self.sample.all_given = false;
    }

    /// Notes that measuring begins.
    pub fn start(&mut self) {
        self.sample.all_given = true;
    }

    /// Notes that caches, if there are any, do not see the references that follow.
    pub fn bypass_caches(&mut self, has_caches: bool) {
        if has_caches {
            self.sample.cold = self.sample.cold.or(Some(Cold::Caches));
        }
    }

    /// Selects the detail of the references that follow. `instructions` were executed so far.
    pub fn change_detail(&mut self, detail: Detail, instructions: u64) {
        self.detail = detail;
        self.detail_since = instructions;
    }

    /// Returns how references are simulated now.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// Begins an interval at these totals. `out_of_order`: the core is.
    pub fn begin(&mut self, stratum: Stratum, total: Tally, memory: MemoryCounts, out_of_order: bool) {
        // The first interval may begin where measuring does, which leaves no room for a warm-up.
        let is_first = self.sample.intervals.is_empty();
        let is_measured = stratum != Stratum::Unmeasured;
        if out_of_order && is_measured && !is_first && self.detail_since == total.counts.instructions {
            self.sample.cold = self.sample.cold.or(Some(Cold::Core));
        }
        self.processes.clear();
        self.current = Some(Begin { stratum, total, memory });
    }

    /// Ends the current interval at these totals. Does nothing between intervals; an interval without references is
    /// dropped.
    pub fn end(&mut self, total: &Tally, memory: MemoryCounts) {
        let Some(begin) = self.current.take() else { return };
        let tally = total.since(&begin.total);
        if tally.counts.references() == 0 {
            return;
        }
        let MemoryCounts { caches, accesses } = memory.since(&begin.memory);
        let processes = std::mem::take(&mut self.processes);
        let interval = Interval { tally, processes, caches, memory_accesses: accesses };
        match begin.stratum {
            Stratum::FirstRun => self.end_segment(interval),
            Stratum::Unmeasured => {
                self.first_run_references += interval.tally.counts.references();
                self.sample.first_run_unmeasured.absorb(&interval.counts_only());
            }
            Stratum::Sampled => {
                let ledger = &interval.tally.ledger;
                let cycles = ledger.map(|label, cycles| if label.is_event() { 0 } else { cycles }).total().0;
                self.cycles = faded(self.cycles) + cycles;
                self.instructions = faded(self.instructions) + interval.tally.counts.instructions;
                self.sample.intervals.push(interval);
            }
        }
    }

    /// Ends a piece of a measured segment of code that runs for the first time: known code can lie between the pieces.
    fn end_segment(&mut self, piece: Interval) {
        let segment = self.first_run_references / Options::FIRST_RUN_SEGMENT;
        self.first_run_references += piece.tally.counts.references();
        let continues = self.segment.replace(segment) == Some(segment);
        match self.sample.first_run.last_mut() {
            _ if segment < Options::FIRST_RUN_IN_FULL => self.sample.first_run_in_full.absorb(&piece),
            Some(last) if continues => last.absorb(&piece),
            _ => self.sample.first_run.push(piece),
        }
    }

    /// Adds what `process` has done, if it did so in an interval.
    pub fn absorb(&mut self, process: Asid, spent: &Tally) {
        if self.current.is_some() {
            self.processes.entry(process).or_default().absorb(spent);
        }
    }

    /// Returns the thousandths of a cycle that an instruction took in the last sampled intervals, without the operating
    /// system's events; `otherwise` before the first.
    pub fn millicycles_per_instruction(&self, otherwise: u64) -> u64 {
        match self.instructions {
            0 => otherwise,
            instructions => (u128::from(self.cycles) * 1000 / u128::from(instructions)) as u64,
        }
    }

    /// Returns the sample. Call [`Sampling::end`] before.
    pub fn into_sample(mut self) -> Sample {
        if !self.sample.all_given {
            self.sample.cold = Some(Cold::Tlbs);
        }
        self.sample
    }
}

/// Returns what a count of earlier intervals weighs beside the next one. The last four or so count, so that the speed of one phase
/// is not taken for that of another: what others bring into the last cache depends on it.
fn faded(count: u64) -> u64 {
    count / 4 * 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::Label;

    /// A program that slows down from 1 to 4 cycles an instruction.
    #[test]
    fn time_passes_as_in_the_last_intervals() {
        let (mut sampling, mut total) = (Sampling::default(), Tally::default());
        assert_eq!(sampling.millicycles_per_instruction(300), 300);
        let mut measure = |cycles: u64, times: u64| {
            for _ in 0..times {
                sampling.begin(Stratum::Sampled, total.clone(), MemoryCounts::default(), false);
                (total.counts.instructions, total.counts.loads) =
                    (total.counts.instructions + 1000, total.counts.loads + 1);
                total.ledger.charge(Label::Compute, cycles);
                // Known exactly, and not part of the program's speed.
                total.ledger.charge(Label::Fault, 9999);
                sampling.end(&total, MemoryCounts::default());
            }
            sampling.millicycles_per_instruction(300)
        };
        assert_eq!(measure(1000, 100), 1000);
        assert!((2500..3500).contains(&measure(4000, 4)));
        assert!((3900..=4000).contains(&measure(4000, 10)));
    }
}
