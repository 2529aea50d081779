//! The measured intervals of a sampled program, and what they say about the whole program.
//!
//! Of the whole program, a sample knows the operating system's events exactly, however the references between them were
//! simulated, and its instructions and references if all were given. It estimates the rest by a ratio in each of two strata,
//! code that runs for the first time and all other code: what the stratum's intervals counted, times the instructions of the
//! stratum over those of its intervals (the separate ratio estimate of Cochran, Sampling Techniques, 3rd edition 1977, §6.10).

use super::hardware::MemoryCounts;
use super::tally::{KernelWork, Tally};
use crate::findings::{Finding, FindingKind};
use reach_core::{Asid, Counts, Label};
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
    pub processes: BTreeMap<Asid, Box<Tally>>,
    /// Each cache, in the order of [`super::Outcome::caches`].
    pub caches: Vec<CacheCounters>,
    /// Accesses of each core that no cache answered, by kind.
    pub memory_accesses: Vec<[MemoryAccesses; Access::KINDS]>,
}

impl Interval {
    /// Returns the counts of a process, or of all together; `None` if it did not run.
    pub(crate) fn of(&self, process: Option<Asid>) -> Option<&Tally> {
        process.map_or(Some(&self.tally), |process| self.processes.get(&process).map(|tally| &**tally))
    }

    /// Returns an interval without counts, with the caches and cores of `memory`.
    pub(super) fn without_counts(memory: &MemoryCounts) -> Interval {
        Interval {
            caches: vec![CacheCounters::default(); memory.caches.len()],
            memory_accesses: vec![Default::default(); memory.accesses.len()],
            ..Interval::default()
        }
    }

    /// Returns this interval without what depends on the detail of its simulation.
    pub(super) fn counts_only(&self) -> Interval {
        let counts_only = |tally: &Tally| Tally { counts: tally.counts, ..Tally::default() };
        let processes = self.processes.iter().map(|(process, tally)| (*process, Box::new(counts_only(tally))));
        Interval { tally: counts_only(&self.tally), processes: processes.collect(), ..Interval::default() }
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
    /// The beginning of the code that runs for the first time, which stands for itself ([`Sampling::FIRST_RUN_IN_FULL`]).
    pub first_run_in_full: Interval,
    /// The measured segments of other code that runs for the first time, in the program's order. They stand for all of it.
    pub first_run: Vec<Interval>,
    /// The instructions and references of code that runs for the first time and was not measured; it has no other counts.
    pub first_run_unmeasured: Interval,
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

    /// Returns the references of code that runs for the first time, and how many of these were measured.
    pub fn first_run_references(&self) -> (u64, u64) {
        let in_full = self.first_run_in_full.tally.counts.references();
        let (all, measured) = self.sampled_first_run();
        (in_full + all, in_full + measured)
    }

    /// Returns the same without what was measured in full.
    fn sampled_first_run(&self) -> (u64, u64) {
        let measured = self.first_run.iter().map(|segment| segment.tally.counts.references()).sum();
        (measured + self.first_run_unmeasured.tally.counts.references(), measured)
    }

    /// Returns the share of the references from which intervals were sampled that these have, from 0 to 1: for code that was
    /// known, and for code that runs for the first time.
    pub fn shares(&self) -> [f64; 2] {
        let share = |part: u64, all: u64| if all == 0 { 1.0 } else { part as f64 / all as f64 };
        let first_run = match self.sampled_first_run() {
            // Without a segment that was measured, other code stands for it.
            (_, 0) => (0, 0),
            some => some,
        };
        let known = self.program().saturating_sub(self.first_run_in_full.tally.counts.references() + first_run.0);
        [share(self.measured(), known), share(first_run.1, first_run.0)]
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
            ledger: tally.ledger.map(|label, cycles| if self.is_exact(label) { 0 } else { cycles }),
            kernel: if self.all_given { KernelWork::default() } else { tally.kernel },
        }
    }

    /// Returns whether the cycles of `label` are known, however the references between events were simulated. System calls that
    /// are left out with the references around them are not.
    fn is_exact(&self, label: Label) -> bool {
        label.is_event() && (self.all_given || label != Label::Kernel)
    }

    /// Returns the factors from counts in intervals to counts in what they stand for: of code that was known, and of code that
    /// runs for the first time. Without a measured segment of the latter, intervals of the former stand for all.
    pub(crate) fn scales(&self, of: &Measured, whole: &Tally) -> [Scale; 2] {
        let measured = self.scales_with(&of.first_run.counts);
        let first_run = if measured == 0 { 0 } else { measured + self.scales_with(&of.first_run_unmeasured) };
        let known = match self.all_given {
            true => whole.counts.instructions.saturating_sub(of.first_run_in_full.counts.instructions + first_run),
            false => self.share_of_program(&of.intervals.counts),
        };
        [
            Scale { numerator: known, denominator: self.scales_with(&of.intervals.counts) },
            Scale { numerator: first_run, denominator: measured },
        ]
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
        let [known, first_run] = self.scales(of, whole);
        let mut estimate = of.intervals.map(|n| known.of(n));
        estimate.absorb(&of.first_run.map(|n| first_run.of(n)));
        estimate.absorb(&of.first_run_in_full);
        if self.all_given {
            (estimate.counts, estimate.kernel) = (whole.counts, whole.kernel);
        }
        let cycles = estimate.ledger;
        estimate.ledger =
            whole.ledger.map(|label, exact| if self.is_exact(label) { exact } else { cycles.charged(label).0 });
        estimate
    }
}

/// What was measured of a program or a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// The sum of the sampled intervals.
    pub intervals: Tally,
    /// The code that runs for the first time and stands for itself.
    pub first_run_in_full: Tally,
    /// The sum of the segments of other code that runs for the first time.
    pub first_run: Tally,
    /// The length of such code that was not measured.
    pub first_run_unmeasured: Counts,
}

impl Measured {
    /// Sums up the counts of all processes, or of one, in a sample.
    pub fn new(sample: &Sample, process: Option<Asid>) -> Measured {
        let sum = |intervals: &[Interval]| {
            let mut sum = Tally::default();
            intervals.iter().filter_map(|interval| interval.of(process)).for_each(|tally| sum.absorb(tally));
            sum
        };
        let first_run_unmeasured =
            sample.first_run_unmeasured.of(process).map(|tally| tally.counts).unwrap_or_default();
        Measured {
            intervals: sum(&sample.intervals),
            first_run_in_full: sample.first_run_in_full.of(process).cloned().unwrap_or_default(),
            first_run: sum(&sample.first_run),
            first_run_unmeasured,
        }
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
        let first_run = tally(200, 500, 90);
        let measured = Measured { intervals: tally(100, 30, 7), first_run, ..Measured::default() };
        let estimate = sample.estimate(&measured, &tally(1200, 0, 9000));
        assert_eq!(estimate.counts.instructions, 1200);
        assert_eq!((estimate.hardware.walks_data, estimate.cycles()), (100 + 20, 300 + 500 + 9000));
        // Segments stand for as much again, and the intervals for the rest.
        let measured = Measured { first_run_unmeasured: tally(200, 0, 0).counts, ..measured };
        let estimate = sample.estimate(&measured, &tally(1400, 0, 9000));
        assert_eq!((estimate.hardware.walks_data, estimate.cycles()), (100 + 40, 300 + 1000 + 9000));
        // Without a segment, the intervals stand for all.
        let measured = Measured { first_run: Tally::default(), ..measured };
        let estimate = sample.estimate(&measured, &tally(1400, 0, 9000));
        assert_eq!((estimate.hardware.walks_data, estimate.cycles()), (140, 420 + 9000));
        // The beginning stands for itself.
        let measured = Measured { first_run_in_full: tally(200, 500, 90), ..measured };
        let estimate = sample.estimate(&measured, &tally(1400, 0, 9000));
        assert_eq!((estimate.hardware.walks_data, estimate.cycles()), (120 + 20, 360 + 500 + 9000));
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
