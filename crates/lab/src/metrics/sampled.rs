//! The error bars of rates that a sample gives: each is half the width of the interval that holds the whole program's rate
//! with a probability of 95 %. `None` where the program was not sampled, where fewer than [`super::LEAST`] intervals were
//! measured, and where nothing was counted.

use super::error::{error, ratio_error};
use super::{Estimate, Rate};
use crate::simulation::{Interval, Outcome, Tally};
use reach_core::Asid;
use reach_hardware::CacheCounters;

/// A simulation, a count of its intervals, and the power of that count in a product.
pub(super) type Factor<'a> = (&'a Outcome, &'a dyn Fn(&Tally) -> u64, f64);

impl Outcome {
    /// Returns a rate of all processes together, with its error.
    pub fn rate(&self, rate: &Rate) -> Estimate {
        Estimate { value: rate.value(&self.total), error: self.error(&rate.of) }
    }

    /// Returns the error of a quotient of counts of all processes together.
    pub fn error(&self, of: &dyn Fn(&Tally) -> (u64, u64)) -> Option<f64> {
        ratio_error(self.sample.as_ref()?, &|interval| of(&interval.tally))
    }

    /// Returns the error of a quotient of counts of one process.
    pub fn process_error(&self, process: Asid, of: &dyn Fn(&Tally) -> (u64, u64)) -> Option<f64> {
        let tally = |interval: &Interval| interval.processes.get(&process).map_or((0, 0), of);
        ratio_error(self.sample.as_ref()?, &tally)
    }

    /// Returns the error of a quotient of counts of cache number `at` of [`Outcome::caches`].
    pub fn cache_error(&self, at: usize, of: &dyn Fn(&CacheCounters) -> (u64, u64)) -> Option<f64> {
        ratio_error(self.sample.as_ref()?, &|interval| of(&interval.caches[at]))
    }

    /// Returns the error of the speedup over `baseline`, a simulation of the same sample.
    pub fn speedup_error(&self, baseline: &Outcome) -> Option<f64> {
        self.joint_error(&[(baseline, &Tally::cycles, 1.0), (self, &Tally::cycles, -1.0)])
    }

    /// Returns the error of a product of counts of simulations of the same sample, each to a power.
    pub(super) fn joint_error(&self, factors: &[Factor]) -> Option<f64> {
        let sample = self.sample.as_ref()?;
        let intervals = factors.iter().map(|(outcome, of, power)| {
            let intervals = &outcome.sample.as_ref()?.intervals;
            (intervals.len() == sample.intervals.len()).then_some((intervals, of, *power))
        });
        let intervals: Vec<_> = intervals.collect::<Option<_>>()?;
        let parts: Vec<_> = intervals
            .iter()
            .map(|(intervals, of, power)| (|i: usize| of(&intervals[i].tally) as f64, *power))
            .collect();
        let factors: Vec<(&dyn Fn(usize) -> f64, f64)> = parts.iter().map(|(of, power)| (of as _, *power)).collect();
        error(sample, &factors)
    }
}
