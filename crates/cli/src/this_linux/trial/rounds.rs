//! The rounds in which `reach try` runs all sides.

use super::Left;
use super::measurement::{self, Measurement, Score, SideResult};
use super::plan::{Plan, Runner};
use crate::args::trial::TryArgs;
use crate::failure::remark;
use crate::units;
use reach_core::Random;
use reach_live::statistics::MIN_VALUES;
use reach_live::trial::{Outcome, TrialError};
use std::cmp::Reverse;
use std::time::Instant;

/// Rounds between two looks at the intervals.
const ROUNDS: usize = 9;

/// How rounds are run, and when they are enough.
pub struct Rounds<'a> {
    pub score: &'a Score,
    pub args: &'a TryArgs,
    pub quiet: bool,
}

impl Rounds<'_> {
    /// Runs rounds until every remedy is decided and every interval is narrow enough, or rounds or time are used up. Returns what
    /// they say. After an interrupt, that of the rounds so far, if they are enough for an interval. A remedy with which the program
    /// fails in some round is left out from then on; the program as it is must not fail.
    pub fn run(&self, plan: &mut Plan, runner: &mut Runner) -> Result<Vec<SideResult>, TrialError> {
        let mut runs: Vec<Vec<Outcome>> = vec![Vec::new(); plan.sides.len()];
        let begun = Instant::now();
        // The order of the runs must not depend on anything that they could depend on, too.
        let mut random = Random::new(u64::from(std::process::id()));
        for round in 1..=self.args.rounds as usize {
            if plan.sides.iter().all(|(side, _)| side.is_none()) {
                break;
            }
            let mut order: Vec<usize> = (0..plan.sides.len()).collect();
            for at in (1..order.len()).rev() {
                order.swap(at, random.below(at as u64 + 1) as usize);
            }
            let mut failed = Vec::new();
            for side in order {
                let remedy = plan.sides[side].0;
                match (runner.measure(remedy), remedy) {
                    (Ok(outcome), _) => runs[side].push(outcome),
                    (Err(TrialError::Interrupted), _) if round > MIN_VALUES => return Ok(self.results(plan, &runs)),
                    (Err(error @ TrialError::Failed(..)), Some(remedy)) => {
                        failed.push((side, Left { remedy, why: format!("in round {round}, {error}") }));
                    }
                    (Err(error), _) => return Err(error),
                }
            }
            // From the last, so that the numbers of the others stay.
            failed.sort_by_key(|(side, _)| Reverse(*side));
            for (side, left) in failed {
                plan.sides.remove(side);
                runs.remove(side);
                plan.left.push(left);
            }
            let late = round >= MIN_VALUES && begun.elapsed().as_secs() >= self.args.seconds;
            if !late && !round.is_multiple_of(ROUNDS) {
                continue;
            }
            let results = self.results(plan, &runs);
            let width = results.iter().filter_map(|result| result.half_width()).fold(0.0, f64::max);
            let width_shown = units::percent(width);
            remark(
                self.quiet,
                format!("round {round} of at most {}; intervals within ±{width_shown}", self.args.rounds),
            );
            // More rounds do not help where runs cannot be compared.
            let decided = results.iter().all(|result| !result.is_open() || result.speedup.is_none());
            if late || decided && width <= self.args.precision {
                break;
            }
        }
        Ok(self.results(plan, &runs))
    }

    /// Returns what the runs say.
    fn results(&self, plan: &Plan, runs: &[Vec<Outcome>]) -> Vec<SideResult> {
        let sides = plan.sides.iter().zip(runs);
        let sides: Vec<_> = sides.map(|((side, seen), runs)| Measurement::new(*side, seen, runs)).collect();
        measurement::results(&sides, self.score, self.args.precision)
    }
}
