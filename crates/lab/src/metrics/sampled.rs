//! The error bars of values that a sample gives: each is half the width of the interval that holds the whole program's value
//! with a probability of 95 %. `None` where the program was not sampled, and where the sample allows none ([`error`]).

use super::error::{Factor, Weights, error, strata};
use super::{Estimate, Rate, USER_CYCLES};
use crate::simulation::{Interval, Measured, Outcome, Sample, Tally};
use reach_core::Asid;
use reach_hardware::CacheCounters;
use std::sync::LazyLock;

/// A simulation, a linear function of its counts, and the power of that function in a product.
pub(super) type Total<'a> = (&'a Outcome, &'a dyn Fn(&Tally) -> f64, f64);

impl Outcome {
    /// Returns a rate of all processes together, with its error.
    pub fn rate(&self, rate: &Rate) -> Estimate {
        Estimate { value: rate.value(&self.total), error: self.error(&rate.of) }
    }

    /// Returns the error of a quotient of counts of all processes together.
    pub fn error(&self, of: &dyn Fn(&Tally) -> (u64, u64)) -> Option<f64> {
        ratio_error(self.sample.as_ref()?, None, &self.total, of)
    }

    /// Returns the error of a quotient of counts of one process.
    pub fn process_error(&self, process: Asid, of: &dyn Fn(&Tally) -> (u64, u64)) -> Option<f64> {
        ratio_error(self.sample.as_ref()?, Some(process), self.processes.get(&process)?, of)
    }

    /// Returns the error of a quotient of counts of cache number `at` of [`Outcome::caches`].
    pub fn cache_error(&self, at: usize, of: &dyn Fn(&CacheCounters) -> (u64, u64)) -> Option<f64> {
        let sample = self.sample.as_ref()?;
        let parts = strata(sample).map(|stratum| stratum.iter().map(|interval| of(&interval.caches[at])).collect());
        let [known, _] = &parts;
        error(sample, &weights(sample, None, &self.total)?, &quotient(of(&self.caches.get(at)?.1), &parts, known))
    }

    /// Returns the cycles of all processes together in user mode, with their error.
    pub fn user_cycles(&self) -> Estimate {
        Estimate { value: user_cycles(&self.total), error: self.joint_error(&[(self, &user_cycles, 1.0)]) }
    }

    /// Returns the error of the speedup over `baseline`, a simulation of the same sample.
    pub fn speedup_error(&self, baseline: &Outcome) -> Option<f64> {
        let cycles = |tally: &Tally| tally.cycles() as f64;
        self.joint_error(&[(baseline, &cycles, 1.0), (self, &cycles, -1.0)])
    }

    /// Returns the error of the speedup in user mode over `baseline`, a simulation of the same sample.
    pub(super) fn user_speedup_error(&self, baseline: &Outcome) -> Option<f64> {
        self.joint_error(&[(baseline, &user_cycles, 1.0), (self, &user_cycles, -1.0)])
    }

    /// Returns the error of a product of totals of simulations of the same sample.
    pub(super) fn joint_error(&self, totals: &[Total]) -> Option<f64> {
        let sample = self.sample.as_ref()?;
        let factor = |(outcome, of, power): &Total| {
            let theirs = outcome.sample.as_ref()?;
            let part = |interval: &Interval| of(&theirs.estimated_part(&interval.tally));
            let parts = strata(theirs).map(|stratum| stratum.iter().map(part).collect::<Vec<_>>());
            let counted = theirs.intervals.iter().filter(|interval| of(&interval.tally) > 0.0).count();
            let is_paired = strata(sample).iter().zip(&parts).all(|(own, parts)| own.len() == parts.len());
            is_paired.then(|| Factor { total: of(&outcome.total), parts, counted, power: *power })
        };
        let factors: Vec<_> = totals.iter().map(factor).collect::<Option<_>>()?;
        error(sample, &weights(sample, None, &self.total)?, &factors)
    }
}

fn user_cycles(tally: &Tally) -> f64 {
    (USER_CYCLES.of)(tally) as f64
}

/// Returns the error of the quotient of the two counts that `of` takes from `total`, the estimate for a process or for all
/// together.
fn ratio_error(
    sample: &Sample,
    process: Option<Asid>,
    total: &Tally,
    of: &dyn Fn(&Tally) -> (u64, u64),
) -> Option<f64> {
    let tallies = tallies(sample, process);
    let parts = tallies.each_ref().map(|stratum| stratum.iter().map(|t| of(&sample.estimated_part(t))).collect());
    let all: Vec<_> = tallies[0].iter().map(|tally| of(tally)).collect();
    error(sample, &weights(sample, process, total)?, &quotient(of(total), &parts, &all))
}

/// Returns the factors of a quotient: `total` is its estimate for the program, `parts` is what each interval of each stratum
/// adds to the estimated part, and `all` has the exactly known part of known code, too.
fn quotient(total: (u64, u64), parts: &[Vec<(u64, u64)>; 2], all: &[(u64, u64)]) -> [Factor; 2] {
    let factor = |of: fn(&(u64, u64)) -> u64, power| Factor {
        total: of(&total) as f64,
        parts: parts.each_ref().map(|stratum| stratum.iter().map(|part| of(part) as f64).collect()),
        counted: all.iter().filter(|part| of(part) > 0).count(),
        power,
    };
    [factor(|part| part.0, 1.0), factor(|part| part.1, -1.0)]
}

fn weights(sample: &Sample, process: Option<Asid>, total: &Tally) -> Option<Weights> {
    let tallies = tallies(sample, process);
    Weights::new(sample, tallies.each_ref().map(Vec::as_slice), &Measured::new(sample, process), total)
}

/// Returns what each interval of each stratum has counted of a process, or of all together.
fn tallies(sample: &Sample, process: Option<Asid>) -> [Vec<&Tally>; 2] {
    static NOTHING: LazyLock<Tally> = LazyLock::new(Tally::default);
    strata(sample).map(|stratum| stratum.iter().map(|interval| interval.of(process).unwrap_or(&NOTHING)).collect())
}
