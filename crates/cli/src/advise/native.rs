//! What the program takes on this computer, as it is.
//!
//! A simulation knows the program's own work and the kernel's memory management, but no system calls, and its times are less true
//! than their quotients. So a prediction takes from it by how much a remedy changes the time in user mode, and by how much that of
//! memory management. How much time there is of both, runs on this computer say.

use reach_lab::metrics::Estimate;
use reach_live::trial::{Trial, TrialError};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::time::Duration;

/// Runs go on until the program has taken so much processor time: the kernel may tell user mode and its own apart at ticks of 4 ms
/// only. They also end at so many runs, or after so long.
const ENOUGH: Duration = Duration::from_secs(3);
const MOST: usize = 25;
const LONGEST: Duration = Duration::from_secs(15);
/// The fewest runs, which give an error.
const FEWEST: usize = 3;
/// Runs whose page faults are timed, which makes them slower.
const WATCHED: usize = 2;

/// The processor time of the program on this computer.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    /// The number of runs.
    pub runs: usize,
    /// The mean of the processor time, in seconds.
    pub time: f64,
    /// The share of it that is spent in the kernel, with half the width of its 95 % confidence interval.
    pub kernel: Estimate,
    /// The time of its page faults, in seconds. `None` where the kernel does not tell.
    pub faults: Option<f64>,
}

/// The time of a simulated program, in seconds: in user mode, and of memory management in the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    pub user: f64,
    pub kernel: f64,
}

impl Native {
    /// Runs the program.
    ///
    /// # Errors
    /// When a run fails, or `stop` says that the user wants the end.
    pub fn measure(trial: &Trial, stop: &dyn Fn() -> bool) -> Result<Native, TrialError> {
        // The first run has files to read and memory to find.
        trial.run(None, false, None, stop)?;
        let mut faults: Option<f64> = None;
        for _ in 0..WATCHED {
            trial.backing.back();
            let (outcome, seen) = trial.run(None, true, None, stop)?;
            // The first faults come before they are timed.
            let mean = seen.stops.map(|stops| stops.total.as_secs_f64() / stops.faults as f64);
            let all = mean.map(|mean| mean * outcome.usage.faults as f64);
            // What comes between only adds.
            faults = faults.into_iter().chain(all).reduce(f64::min);
        }
        let (mut runs, mut wall) = (Vec::new(), Duration::ZERO);
        loop {
            trial.backing.back();
            let usage = trial.run(None, false, None, stop)?.0.usage;
            runs.push([usage.user, usage.system].map(|time| time.as_secs_f64()));
            wall += usage.wall;
            let time: f64 = runs.iter().flatten().sum();
            if runs.len() >= FEWEST && (time >= ENOUGH.as_secs_f64() || runs.len() >= MOST || wall >= LONGEST) {
                return Ok(Native::of(&runs, faults));
            }
        }
    }

    /// Returns what a program would take that takes what was simulated, and nothing else.
    pub fn simulated(plain: Simulated) -> Native {
        let time = plain.user + plain.kernel;
        let kernel = Estimate { value: plain.kernel / time.max(f64::MIN_POSITIVE), error: None };
        Native { runs: 0, time, kernel, faults: Some(plain.kernel) }
    }

    /// Sums up runs, each with its time in user mode and in the kernel. The share has the error of a ratio estimator (Cochran,
    /// Sampling Techniques, 3rd edition 1977, §6.4).
    fn of(runs: &[[f64; 2]], faults: Option<f64>) -> Native {
        let n = runs.len() as f64;
        let time: f64 = runs.iter().flatten().sum();
        let share = runs.iter().map(|[_, system]| system).sum::<f64>() / time.max(f64::MIN_POSITIVE);
        let squares: f64 = runs.iter().map(|[user, system]| (system - share * (user + system)).powi(2)).sum();
        let student = StudentsT::new(0.0, 1.0, n - 1.0).expect("at least two runs").inverse_cdf(0.975);
        let error = student * (squares * n / (n - 1.0)).sqrt() / time.max(f64::MIN_POSITIVE);
        Native { runs: runs.len(), time: time / n, kernel: Estimate { value: share, error: Some(error) }, faults }
    }

    /// Returns the time that memory management takes in the kernel, in seconds, if `share` of the time is spent there: that of
    /// page faults, or, where that is unknown, what was simulated.
    pub fn memory_management(&self, simulated: f64, share: f64) -> f64 {
        self.faults.unwrap_or(simulated).min(self.time * share)
    }

    /// Returns the speedup of `with` over `plain`. `error` is the relative error of their quotient in user mode.
    ///
    /// Memory management takes as many times longer or shorter than it does here as in the simulation. What else the program
    /// does in the kernel stays.
    pub fn speedup(&self, with: Simulated, plain: Simulated, error: f64) -> Estimate {
        let change = |share: f64| match plain.kernel > 0.0 {
            true => self.memory_management(plain.kernel, share) * (with.kernel / plain.kernel - 1.0),
            false => with.kernel,
        };
        let user = |share: f64| self.time * (1.0 - share) * with.user / plain.user.max(f64::MIN_POSITIVE);
        let speedup = |share: f64| {
            let time = user(share) + (self.time * share + change(share)).max(0.0);
            self.time / time.max(f64::MIN_POSITIVE)
        };
        let (share, uncertainty) = (self.kernel.value, self.kernel.error.unwrap_or(0.0));
        let value = speedup(share);
        let [low, high] = [-uncertainty, uncertainty].map(|change| speedup((share + change).clamp(0.0, 1.0)));
        let by_sample = user(share) / self.time * value * error;
        Estimate { value, error: Some((by_sample * value).hypot((high - low) / 2.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of a second, of which the kernel takes this share.
    fn native(share: f64) -> Native {
        Native { runs: 9, time: 1.0, kernel: Estimate { value: share, error: Some(0.0) }, faults: None }
    }

    #[test]
    fn the_share_of_the_kernel_is_that_of_all_runs_and_its_error_their_spread() {
        let native = Native::of(&[[0.9, 0.1], [0.8, 0.2], [1.6, 0.4]], None);
        assert!((native.kernel.value - 0.175).abs() < 1e-12 && (native.time - 4.0 / 3.0).abs() < 1e-12, "{native:?}");
        // Deviations 0.1 - 0.175, 0.2 - 0.175, 0.4 - 0.35; Student's t for two degrees of freedom, from a table.
        let squares: f64 = [0.075f64, 0.025, 0.05].iter().map(|d| d * d).sum();
        let expected = 4.3027 * (squares * 1.5).sqrt() / 4.0;
        assert!((native.kernel.error.unwrap() - expected).abs() < 1e-4, "{native:?}");
        let steady = Native::of(&[[0.75, 0.25], [1.5, 0.5]], None);
        assert_eq!(steady.kernel, Estimate { value: 0.25, error: Some(0.0) });
    }

    #[test]
    fn system_calls_stay_and_memory_management_shrinks() {
        // Of 0.4 seconds in the kernel, 0.3 are memory management, of which 0.1 are left.
        let plain = Simulated { user: 100.0, kernel: 0.3 };
        let with = Simulated { user: 50.0, kernel: 0.1 };
        let speedup = native(0.4).speedup(with, plain, 0.0);
        assert!((speedup.value - 1.0 / (0.3 + 0.2)).abs() < 1e-12 && speedup.error == Some(0.0), "{speedup:?}");
        // Only 0.15 seconds are spent in the kernel, so memory management costs half of what was simulated.
        let speedup = native(0.15).speedup(with, plain, 0.0);
        assert!((speedup.value - 1.0 / (0.425 + 0.05)).abs() < 1e-12, "{speedup:?}");
        assert_eq!(native(0.4).speedup(plain, plain, 0.0).value, 1.0);
        // All of 0.4 seconds are page faults, as the kernel tells, and a third of them is left.
        let timed = Native { faults: Some(0.45), ..native(0.4) };
        let speedup = timed.speedup(with, plain, 0.0);
        assert!((speedup.value - 1.0 / (0.3 + 0.4 / 3.0)).abs() < 1e-12, "{speedup:?}");
    }

    #[test]
    fn both_errors_widen_the_interval() {
        let (plain, with) = (Simulated { user: 1.0, kernel: 0.5 }, Simulated { user: 1.0, kernel: 0.0 });
        let kernel = Estimate { value: 0.5, error: Some(0.1) };
        let unsure = Native { kernel, faults: Some(1.0), ..native(0.5) };
        let by_share = unsure.speedup(with, plain, 0.0);
        // 1 / 0.6 and 1 / 0.4.
        assert!((by_share.value - 2.0).abs() < 1e-12 && (by_share.error.unwrap() - 5.0 / 12.0).abs() < 1e-12);
        // All of the time that is left is in user mode.
        let by_sample = native(0.5).speedup(with, plain, 0.01);
        assert!((by_sample.error.unwrap() - 0.02).abs() < 1e-12, "{by_sample:?}");
        let both = unsure.speedup(with, plain, 0.01);
        assert!((both.error.unwrap() - (5.0f64 / 12.0).hypot(0.02)).abs() < 1e-12, "{both:?}");
    }
}
