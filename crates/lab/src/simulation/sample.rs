//! The measured intervals of a sampled program, and what they say about the whole program.
//!
//! Of the whole program, a sample knows the operating system's events exactly, however the references between them were
//! simulated, and its instructions and references if all were given. Code that runs for the first time was measured in full.
//! It estimates the rest by a ratio: what the intervals counted, times the instructions of the rest over those of the
//! intervals.

use super::hardware::MemoryCounts;
use super::tally::Tally;
use crate::findings::{Finding, FindingKind};
use reach_core::{Asid, Counts};
use reach_hardware::{Access, CacheCounters, MemoryAccesses};
use reach_trace::Sampling;
use std::collections::BTreeMap;

/// The fewest intervals that have error bars. Cochran (Sampling Techniques, 3rd edition 1977, §6.5) wants more than 30 for a
/// ratio's normal approximation.
pub const LEAST: usize = 30;

/// The counts of one measured interval.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// All processes together.
    pub tally: Tally,
    /// Each process that ran.
    pub processes: BTreeMap<Asid, Tally>,
    /// Each cache, in the order of [`super::Outcome::caches`].
    pub caches: Vec<CacheCounters>,
    /// Accesses of each core that no cache answered, by kind.
    pub memory_accesses: Vec<[MemoryAccesses; Access::KINDS]>,
}

impl Interval {
    /// Returns the counts of a process, or of all together; `None` if it did not run.
    pub(crate) fn of(&self, process: Option<Asid>) -> Option<&Tally> {
        process.map_or(Some(&self.tally), |process| self.processes.get(&process))
    }

    /// Returns an interval without counts, with the caches and cores of `memory`.
    pub(super) fn without_counts(memory: &MemoryCounts) -> Interval {
        Interval {
            caches: vec![CacheCounters::default(); memory.caches.len()],
            memory_accesses: vec![Default::default(); memory.accesses.len()],
            ..Interval::default()
        }
    }

    /// Adds the counts of `other`.
    pub(super) fn absorb(&mut self, other: &Interval) {
        self.tally.absorb(&other.tally);
        for (process, tally) in &other.processes {
            self.processes.entry(*process).or_default().absorb(tally);
        }
        self.caches.resize(self.caches.len().max(other.caches.len()), CacheCounters::default());
        self.caches.iter_mut().zip(&other.caches).for_each(|(all, part)| all.absorb(part));
        let cores = self.memory_accesses.len().max(other.memory_accesses.len());
        self.memory_accesses.resize(cores, Default::default());
        let accesses = self.memory_accesses.iter_mut().flatten().zip(other.memory_accesses.iter().flatten());
        accesses.for_each(|(all, part)| all.absorb(part));
    }
}

/// Why a sample is biased: something starts each interval without the contents that a run of the whole program would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cold {
    /// TLBs, and caches if there are any: between intervals, references are left out.
    Tlbs,
    /// Caches: between intervals, references do not reach them.
    Caches,
    /// The pipeline of an out-of-order core: no detailed warm-up precedes an interval.
    Core,
}

/// The measured intervals of a program.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The sampled intervals in the program's order.
    pub intervals: Vec<Interval>,
    /// All code that runs for the first time. It was measured in full and stands for itself.
    pub first_run: Interval,
    /// References from the start of one interval to the start of the next; 0 if the source does not say.
    pub every: u64,
    /// References of the whole program; 0 if the source gives only the sample.
    pub references: u64,
    /// Whether all references of the program were given, so that its instructions and references are known exactly.
    pub all_given: bool,
    /// What starts each interval cold. `None`: nothing does, so that rates are unbiased.
    pub cold: Option<Cold>,
}

impl Sample {
    /// Returns the references in sampled intervals.
    pub fn measured(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.tally.counts.references()).sum()
    }

    /// Returns the references of the whole program, estimated from the number of intervals if they were not counted.
    pub fn program(&self) -> u64 {
        match self.references {
            0 => self.every * self.intervals.len() as u64,
            counted => counted,
        }
    }

    /// Returns the share of the references from which intervals were sampled that these have, from 0 to 1.
    pub fn share(&self) -> f64 {
        match self.program().saturating_sub(self.first_run.tally.counts.references()) {
            0 => 1.0,
            sampled_from => self.measured() as f64 / sampled_from as f64,
        }
    }

    /// Returns why the sample allows no interval of confidence, if it does not.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let why = match (self.cold, self.intervals.len()) {
            (Some(Cold::Tlbs), _) => {
                "references between the sample's intervals were left out, so each interval starts with cold TLBs and \
                 caches; sample with between=caches"
                    .into()
            }
            (Some(Cold::Caches), _) => {
                "between the sample's intervals, caches see no references, so each interval starts with cold caches; \
                 sample with between=caches"
                    .into()
            }
            (Some(Cold::Core), _) => {
                let warm = Sampling::default().warm;
                format!(
                    "each interval of the sample starts with an empty pipeline; give a detailed warm-up, such as warm={warm}"
                )
            }
            (None, n) if n < LEAST => {
                format!("the sample has {n} intervals, expected at least {LEAST}; sample with a smaller every=")
            }
            (None, _) => return None,
        };
        Some(Finding::new(FindingKind::NoInterval, format!("no interval can be given: {why}")))
    }

    /// Returns the count that estimates scale with: instructions if the program's are known, otherwise references.
    pub(crate) fn scales_with(&self, counts: &Counts) -> u64 {
        if self.all_given { counts.instructions } else { counts.references() }
    }

    /// Returns the part of an interval's `tally` that stands for the rest of the program. The other part is known exactly.
    pub(crate) fn estimated_part(&self, tally: &Tally) -> Tally {
        Tally {
            counts: if self.all_given { Counts::default() } else { tally.counts },
            hardware: tally.hardware,
            ledger: tally.ledger.map(|label, cycles| if label.is_event() { 0 } else { cycles }),
        }
    }

    /// Returns the factor from counts in intervals to counts in what they stand for.
    pub(crate) fn scale(&self, of: &Measured, whole: &Tally) -> Scale {
        let instructions = whole.counts.instructions.saturating_sub(of.first_run.counts.instructions);
        let numerator = if self.all_given { instructions } else { self.share_of_program(&of.intervals.counts) };
        Scale { numerator, denominator: self.scales_with(&of.intervals.counts) }
    }

    /// Returns an estimate of the references in the whole program of what has `measured` in the intervals.
    fn share_of_program(&self, measured: &Counts) -> u64 {
        let (part, all) = (u128::from(measured.references()), u128::from(self.measured().max(1)));
        (u128::from(self.program()) * part / all) as u64
    }

    /// Estimates what the whole program has counted. `whole` has what was simulated of it in any detail: instructions,
    /// references and the operating system's events.
    pub fn estimate_all(&self, whole: &Tally) -> Tally {
        self.estimate(&Measured::new(self, None), whole)
    }

    /// Estimates what the whole program, or a process, has counted. `whole` has what was simulated in any detail.
    pub(crate) fn estimate(&self, of: &Measured, whole: &Tally) -> Tally {
        let scale = self.scale(of, whole);
        let mut estimate = of.intervals.map(|n| scale.of(n));
        estimate.absorb(&of.first_run);
        if self.all_given {
            estimate.counts = whole.counts;
        }
        let cycles = estimate.ledger;
        estimate.ledger =
            whole.ledger.map(|label, exact| if label.is_event() { exact } else { cycles.charged(label).0 });
        estimate
    }
}

/// What was measured of a program or a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// The sum of the sampled intervals.
    pub intervals: Tally,
    /// All code that runs for the first time.
    pub first_run: Tally,
}

impl Measured {
    /// Sums up the counts of all processes, or of one, in a sample.
    pub fn new(sample: &Sample, process: Option<Asid>) -> Measured {
        let mut intervals = Tally::default();
        sample.intervals.iter().filter_map(|interval| interval.of(process)).for_each(|tally| intervals.absorb(tally));
        Measured { intervals, first_run: sample.first_run.of(process).cloned().unwrap_or_default() }
    }
}

/// The factor from counts in intervals to counts in the whole program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    numerator: u64,
    denominator: u64,
}

impl Scale {
    /// Returns the factor; `None` if nothing was measured.
    pub fn factor(self) -> Option<f64> {
        (self.denominator > 0).then(|| self.numerator as f64 / self.denominator as f64)
    }

    /// Returns `count` times the factor, rounded; 0 if nothing was measured.
    pub fn of(self, count: u64) -> u64 {
        let denominator = u128::from(self.denominator);
        let product = u128::from(count) * u128::from(self.numerator) + denominator / 2;
        product.checked_div(denominator).map_or(0, |scaled| scaled as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::Label;

    fn tally(instructions: u64, cache: u64, faults: u64) -> Tally {
        let mut tally = Tally::default();
        (tally.counts.instructions, tally.counts.loads) = (instructions, instructions / 2);
        tally.hardware.walks_data = instructions / 10;
        tally.ledger.charge(Label::Cache, cache);
        tally.ledger.charge(Label::Fault, faults);
        tally
    }

    fn measured(intervals: Tally) -> Measured {
        Measured { intervals, ..Measured::default() }
    }

    #[test]
    fn events_are_exact_and_the_rest_grows_with_the_instructions() {
        let sample = Sample { all_given: true, ..Sample::default() };
        let estimate = sample.estimate(&measured(tally(100, 30, 7)), &tally(1000, 0, 9000));
        assert_eq!((estimate.counts.instructions, estimate.counts.loads), (1000, 500));
        assert_eq!((estimate.hardware.walks_data, estimate.cycles()), (100, 300 + 9000));
    }

    #[test]
    fn code_that_runs_for_the_first_time_stands_for_itself() {
        let sample = Sample { all_given: true, ..Sample::default() };
        let measured = Measured { intervals: tally(100, 30, 7), first_run: tally(200, 500, 90) };
        let estimate = sample.estimate(&measured, &tally(1200, 0, 9000));
        assert_eq!(estimate.counts.instructions, 1200);
        assert_eq!((estimate.hardware.walks_data, estimate.cycles()), (100 + 20, 300 + 500 + 9000));
    }

    #[test]
    fn without_the_programs_instructions_references_are_scaled_by_the_distance_of_intervals() {
        let interval = Interval { tally: tally(100, 30, 7), ..Interval::default() };
        let sample = Sample { intervals: vec![interval; 3], every: 500, ..Sample::default() };
        let estimate = sample.estimate(&measured(tally(300, 90, 21)), &tally(400, 0, 9000));
        assert_eq!((estimate.counts.instructions, estimate.counts.loads), (3000, 1500));
        assert_eq!((estimate.hardware.walks_data, estimate.cycles()), (300, 900 + 9000));
    }

    #[test]
    fn nothing_measured_gives_nothing_but_what_is_exact() {
        let sample = Sample { all_given: true, ..Sample::default() };
        let estimate = sample.estimate(&Measured::default(), &tally(1000, 50, 9000));
        assert_eq!((estimate.counts.instructions, estimate.hardware.walks_data, estimate.cycles()), (1000, 0, 9000));
    }
}
