//! Sampled experiments: as many passes over the program as the precision of speedups takes.
//!
//! All systems see the same intervals, so the error of a speedup is that of paired differences, in which what both systems
//! have in common cancels. The first pass tells the spread of the intervals, and with it how many it takes, since the error
//! falls with the root of their number (Wunderlich et al. 2003, SMARTS, §5: a second run with the tuned number of
//! intervals).

use super::{Experiment, ExperimentError, Report, Status, Watch};
use crate::findings::{Finding, FindingKind};
use crate::metrics;
use crate::simulation::{LEAST, Outcome};
use reach_core::Chunk;
use reach_trace::{Between, FastForward, FastForwarded, InMemory, Kept, KeptSize, Sampled, Sampling, Source};
use std::cell::Cell;
use std::time::Instant;

/// The longest program that is kept in memory where it cannot be read again: 256 MB of trace, which takes about half a byte for
/// a reference.
pub(super) const MOST_KEPT: KeptSize = KeptSize { references: 1 << 30, bytes: 256 << 20 };

/// The most passes over a program.
const PASSES: usize = 3;

/// The intervals that another pass measures beyond those that it seems to need: their spread is an estimate, too.
const RESERVE: f64 = 1.3;

/// Where detailed simulation would take a larger share of the program than one in this, all of it is simulated.
const SPARSEST: u64 = 3;

/// A program after the first pass over it.
enum Program<'a> {
    /// It is read again where it is: a trace, for example.
    Again(&'a mut dyn Source),
    /// It was kept in memory.
    Kept(InMemory),
    /// It was too long to be kept.
    Gone,
}

impl Program<'_> {
    /// Returns the program, at its start. `None` if it is gone.
    fn read(&mut self) -> Result<Option<Box<dyn Source + '_>>, ExperimentError> {
        Ok(match self {
            Program::Again(source) => source.outline(false)?.then(|| Box::new(&mut **source) as Box<dyn Source>),
            Program::Kept(program) => Some(Box::new(program.read()?)),
            Program::Gone => None,
        })
    }
}

/// What another pass over the program must simulate.
#[derive(Debug, PartialEq)]
enum Next {
    Sample(Sampling),
    Whole,
}

impl Experiment {
    /// Samples `source` until speedups are precise enough. Simulates all of it if it is too short: for error bars, or for any
    /// interval where the sample allows no error bars. With `keep`, returns also the program, if it was short enough to be kept.
    pub(super) fn run_sampled(
        &self,
        sampling: Sampling,
        source: &mut dyn Source,
        keep: bool,
        watch: &mut Watch<'_>,
        started: Instant,
    ) -> Result<(Report, Option<InMemory>), ExperimentError> {
        let least = if sampling.between == Between::FastForward { 1 } else { LEAST };
        let (Pass { report, was_sampled }, mut program) = if !keep && source.outline(false)? {
            (self.sampled_pass(sampling, source, watch, started)?, Program::Again(source))
        } else {
            let most = match self.precision {
                Some(_) => MOST_KEPT,
                None => self.longest_unsampled(sampling, least),
            };
            let mut kept = Kept::new(source, most)?;
            let pass = self.sampled_pass(sampling, &mut kept, watch, started)?;
            (pass, kept.into_program()?.map_or(Program::Gone, Program::Kept))
        };
        let report = match was_sampled {
            true => report,
            false => self.made_precise(report, sampling, least, &mut program, watch, started)?,
        };
        let kept = if let Program::Kept(program) = program { Some(program) } else { None };
        Ok((report, kept))
    }

    /// Returns `report`, of a first pass, or that of another pass over `program` if the first measured fewer than `least`
    /// intervals or speedups are not precise enough.
    fn made_precise(
        &self,
        mut report: Report,
        mut sampling: Sampling,
        least: usize,
        program: &mut Program<'_>,
        watch: &mut Watch<'_>,
        started: Instant,
    ) -> Result<Report, ExperimentError> {
        let is_short = report.intervals() < least;
        if !is_short && self.next_pass(sampling, &report).is_none() {
            return Ok(report);
        }
        let Some(mut again) = program.read()? else {
            report.findings.extend(self.imprecise(&report, "the program is too long to be sampled again"));
            return Ok(report);
        };
        if is_short {
            let mut whole = self.pass(self.boot(false)?, &mut again, &mut |_, _| Ok(()), watch, started)?;
            // By default, all of a program or a sample are equally welcome.
            if self.precision.is_none() {
                let found = report.intervals();
                let text = format!(
                    "the program is too short for a sample ({found} intervals, expected at least {least}), so all of it was \
                     simulated"
                );
                whole.findings.push(Finding::new(FindingKind::NotSampled, text));
            }
            return Ok(whole);
        }
        drop(again);
        let stopped = Cell::new(false);
        let mut watch = |status: Status| {
            stopped.set(!watch(status) || stopped.get());
            !stopped.get()
        };
        for _ in 1..PASSES {
            let Some(next) = self.next_pass(sampling, &report) else { return Ok(report) };
            let Some(mut program) = program.read()? else { break };
            let again = match next {
                Next::Whole => self.pass(self.boot(false)?, &mut program, &mut |_, _| Ok(()), &mut watch, started)?,
                Next::Sample(denser) => {
                    sampling = denser;
                    self.sampled_pass(sampling, &mut program, &mut watch, started)?.report
                }
            };
            // What was stopped covers a part of the program; the pass before covers all.
            if stopped.get() {
                break;
            }
            report = again.after(&report);
        }
        report.findings.extend(self.imprecise(&report, "more intervals would have taken another pass"));
        Ok(report)
    }

    /// Returns the size of the longest program that has fewer than `least` intervals.
    fn longest_unsampled(&self, sampling: Sampling, least: usize) -> KeptSize {
        let beginning = match self.fast_forward {
            FastForward::References(references) => references,
            FastForward::Phase(_) => MOST_KEPT.references,
        };
        let references = beginning.saturating_add(sampling.every.saturating_mul(least as u64 + 1));
        KeptSize { references: references.min(MOST_KEPT.references), ..MOST_KEPT }
    }

    /// Returns what another pass must simulate for the precision that was asked for. `None` if `report` has it.
    fn next_pass(&self, sampling: Sampling, report: &Report) -> Option<Next> {
        let precision = self.precision?;
        let (error, _) = report.least_precise()?;
        (error > precision).then(|| {
            let fewer = (precision / error).powi(2) / RESERVE;
            let every = (sampling.every as f64 * fewer) as u64;
            if every < SPARSEST * (sampling.warm + sampling.measure) {
                Next::Whole
            } else {
                Next::Sample(Sampling { every, ..sampling })
            }
        })
    }

    /// Returns the finding that speedups are less precise than was asked for, if they are.
    fn imprecise(&self, report: &Report, why: &str) -> Option<Finding> {
        let precision = self.precision?;
        let (error, what) = report.least_precise().filter(|(error, _)| *error > precision)?;
        let text = format!(
            "{what} is known to ±{:.2} %, not to ±{:.2} %: {why}; give --sample with a smaller every=, or \
             --whole",
            100.0 * error,
            100.0 * precision
        );
        Some(Finding::new(FindingKind::Imprecise, text))
    }

    /// Samples `source` once.
    fn sampled_pass(
        &self,
        sampling: Sampling,
        source: &mut dyn Source,
        watch: &mut Watch<'_>,
        started: Instant,
    ) -> Result<Pass, ExperimentError> {
        let simulations = self.boot(true)?;
        let tee = &mut |_: &Chunk, _: &dyn Source| Ok(());
        let mut sampled = Sampled::new(source, sampling, self.fast_forward.clone(), self.conditions.seed);
        if self.precision.is_some() {
            sampled = sampled.accepting_samples();
        }
        if sampling.between == Between::FastForward {
            let report =
                self.run_all(simulations, &mut FastForwarded::between_intervals(sampled), tee, watch, started)?;
            return Ok(Pass { report, was_sampled: false });
        }
        let mut report = self.run_all(simulations, &mut sampled, tee, watch, started)?;
        let was_sampled = sampled.was_sampled();
        if !was_sampled {
            report.set_program_references(report.counts.references().saturating_sub(sampled.fast_forwarded()?));
        }
        Ok(Pass { report, was_sampled })
    }
}

/// The result of a pass over the program.
struct Pass {
    report: Report,
    /// Whether the program was a sample already.
    was_sampled: bool,
}

impl Report {
    /// Returns the number of measured intervals; 0 if the program was not sampled.
    fn intervals(&self) -> usize {
        self.outcomes.first().and_then(|outcome| outcome.sample.as_ref()).map_or(0, |sample| sample.intervals.len())
    }

    /// Returns the relative error of the speedup that is known least precisely, and what it is the error of. `None` where
    /// nothing has an error.
    fn least_precise(&self) -> Option<(f64, String)> {
        let of_machine = |outcomes| {
            let (first, others): (&Outcome, _) = <[_]>::split_first(outcomes)?;
            let error = |outcome: &Outcome| {
                let speedup = metrics::speedup(outcome, first);
                Some((speedup.error? / speedup.value, format!("the speedup of {}", outcome.system)))
            };
            others.iter().filter_map(error).max_by(|a, b| a.0.total_cmp(&b.0))
        };
        self.machines().filter_map(of_machine).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Sets the number of references of the program that was sampled.
    fn set_program_references(&mut self, references: u64) {
        self.outcomes.iter_mut().filter_map(|outcome| outcome.sample.as_mut()).for_each(|s| s.references = references);
    }

    /// Adds the time that an earlier pass took.
    fn after(self, earlier: &Report) -> Report {
        Report { occupancy: self.occupancy + earlier.occupancy, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Conditions, Timing, machine};
    use reach_trace::synthetic;

    fn experiment(precision: Option<f64>, sampling: &str) -> Experiment {
        let systems = ["base", "hugetlb-2m"].map(|name| reach_systems::resolve(name).unwrap());
        let conditions = Conditions { timing: Timing::Ooo, ..Conditions::new(1 << 30) };
        Experiment {
            sample: Some(sampling.parse().unwrap()),
            precision,
            ..Experiment::new(vec![machine::resolve("zen4").unwrap()], systems.into(), conditions)
        }
    }

    fn report(experiment: &Experiment) -> Report {
        let mut program = synthetic::parse("tree:nodes=20000,operations=2500").unwrap();
        experiment.run(&mut *program, |_| true).unwrap()
    }

    #[test]
    fn intervals_are_added_until_speedups_are_precise() {
        let sparse = "every=40k,measure=200,warm=200";
        let once = report(&experiment(None, sparse));
        let (error, what) = once.least_precise().expect("an error");
        assert_eq!(what, "the speedup of hugetlb-2m");
        let precise = report(&experiment(Some(error / 3.0), sparse));
        assert!(precise.intervals() > 6 * once.intervals(), "{} for {}", precise.intervals(), once.intervals());
        assert!(precise.least_precise().unwrap().0 <= error / 3.0 || !precise.findings.is_empty());
        let relaxed = report(&experiment(Some(2.0 * error), sparse));
        assert_eq!(relaxed.intervals(), once.intervals());
    }

    #[test]
    fn a_precision_that_only_the_whole_program_has_gets_the_whole_program() {
        let whole = report(&experiment(Some(1e-9), "every=40k,measure=200,warm=200"));
        assert_eq!((whole.intervals(), whole.findings.len()), (0, 0));
        assert_eq!(whole.least_precise(), None);
    }

    #[test]
    fn a_kept_program_gives_the_same_intervals_again_and_a_long_one_is_not_kept() {
        let of = |precision| {
            let mut program = synthetic::parse("tree:nodes=20000,operations=2500").unwrap();
            let experiment = experiment(precision, "every=10k,measure=200,warm=200");
            let (first, kept) = experiment.run_and_keep(&mut *program, |_| true).unwrap();
            (experiment, first, kept)
        };
        let (experiment, first, kept) = of(Some(0.5));
        let again = experiment.run(&mut kept.expect("a short program").read().unwrap(), |_| true).unwrap();
        assert!(first.intervals() > 0 && (again.intervals(), again.counts) == (first.intervals(), first.counts));
        for (again, first) in again.outcomes.iter().zip(&first.outcomes) {
            assert_eq!(again.system, first.system);
            // Functional warming depends a little on where chunks are cut, and a trace's are not the program's.
            let ratio = again.total.cycles() as f64 / first.total.cycles() as f64;
            assert!((ratio - 1.0).abs() < 1e-3, "{}: {ratio}", first.system);
        }
        assert!(of(None).2.is_none(), "without a precision, more than the shortest sample is kept");
    }

    #[test]
    fn a_program_that_cannot_be_kept_says_how_precise_it_is() {
        let experiment = experiment(Some(1e-9), "every=40k,measure=200,warm=200");
        let found =
            experiment.imprecise(&report(&self::experiment(None, "every=40k,measure=200,warm=200")), "too long");
        assert!(found.unwrap().text.starts_with("the speedup of hugetlb-2m is known to ±"));
    }
}
