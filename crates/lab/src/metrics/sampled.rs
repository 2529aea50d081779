//! The error bars of values that a sample gives: each is half the width of the interval that holds the whole program's value
//! with a probability of 95 %. `None` where the program was not sampled, and where the sample allows none ([`error`]).

use super::error::{Factor, Weights, error};
use super::{Estimate, Rate};
use crate::simulation::{Interval, Outcome, Sample, Tally};
use reach_core::Asid;
use reach_hardware::CacheCounters;

/// A simulation, a linear function of its counts, and the power of that function in a product.
pub(super) type Total<'a> = (&'a Outcome, &'a dyn Fn(&Tally) -> f64, f64);

impl Outcome {
    /// Returns a rate of all processes together, with its error.
    pub fn rate(&self, rate: &Rate) -> Estimate {
        Estimate { value: rate.value(&self.total), error: self.error(&rate.of) }
    }

    /// Returns the error of a quotient of counts of all processes together.
    pub fn error(&self, of: &dyn Fn(&Tally) -> (u64, u64)) -> Option<f64> {
        let tallies = self.tallies()?;
        ratio_error(self.sample.as_ref()?, &tallies, &self.total, of)
    }

    /// Returns the error of a quotient of counts of one process.
    pub fn process_error(&self, process: Asid, of: &dyn Fn(&Tally) -> (u64, u64)) -> Option<f64> {
        let (sample, nothing) = (self.sample.as_ref()?, Tally::default());
        let intervals: &[Interval] = &sample.intervals;
        let of_process = intervals.iter().map(|interval| interval.processes.get(&process).unwrap_or(&nothing));
        let tallies: Vec<_> = of_process.collect();
        ratio_error(sample, &tallies, self.processes.get(&process)?, of)
    }

    /// Returns the error of a quotient of counts of cache number `at` of [`Outcome::caches`].
    pub fn cache_error(&self, at: usize, of: &dyn Fn(&CacheCounters) -> (u64, u64)) -> Option<f64> {
        let sample = self.sample.as_ref()?;
        let (numerator, denominator) = of(&self.caches.get(at)?.1);
        let parts: Vec<_> = sample.intervals.iter().map(|interval| of(&interval.caches[at])).collect();
        let factors = [
            Factor { total: numerator as f64, parts: parts.iter().map(|part| part.0 as f64).collect(), power: 1.0 },
            Factor { total: denominator as f64, parts: parts.iter().map(|part| part.1 as f64).collect(), power: -1.0 },
        ];
        error(sample, &Weights::new(sample, &self.tallies()?, &self.total)?, &factors)
    }

    /// Returns the error of the speedup over `baseline`, a simulation of the same sample.
    pub fn speedup_error(&self, baseline: &Outcome) -> Option<f64> {
        let cycles = |tally: &Tally| tally.cycles() as f64;
        self.joint_error(&[(baseline, &cycles, 1.0), (self, &cycles, -1.0)])
    }

    /// Returns the error of a product of totals of simulations of the same sample.
    pub(super) fn joint_error(&self, totals: &[Total]) -> Option<f64> {
        let (sample, tallies) = (self.sample.as_ref()?, self.tallies()?);
        let factor = |(outcome, of, power): &Total| {
            let theirs = outcome.sample.as_ref()?;
            let parts = theirs.intervals.iter().map(|interval| of(&theirs.estimated_part(&interval.tally)));
            let factor = Factor { total: of(&outcome.total), parts: parts.collect(), power: *power };
            (factor.parts.len() == sample.intervals.len()).then_some(factor)
        };
        let factors: Vec<_> = totals.iter().map(factor).collect::<Option<_>>()?;
        error(sample, &Weights::new(sample, &tallies, &self.total)?, &factors)
    }

    /// Returns what each interval has counted, all processes together.
    fn tallies(&self) -> Option<Vec<&Tally>> {
        Some(self.sample.as_ref()?.intervals.iter().map(|interval| &interval.tally).collect())
    }
}

/// Returns the error of the quotient of the two counts that `of` takes from `total`, estimated from intervals that counted
/// `tallies`.
fn ratio_error(sample: &Sample, tallies: &[&Tally], total: &Tally, of: &dyn Fn(&Tally) -> (u64, u64)) -> Option<f64> {
    let (numerator, denominator) = of(total);
    let parts: Vec<_> = tallies.iter().map(|tally| of(&sample.estimated_part(tally))).collect();
    let factors = [
        Factor { total: numerator as f64, parts: parts.iter().map(|part| part.0 as f64).collect(), power: 1.0 },
        Factor { total: denominator as f64, parts: parts.iter().map(|part| part.1 as f64).collect(), power: -1.0 },
    ];
    error(sample, &Weights::new(sample, tallies, total)?, &factors)
}
