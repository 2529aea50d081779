//! Predictions of `reach advise`, and what they are made from.

use super::LEAST;
use super::native::{Native, Simulated};
use reach_lab::Outcome;
use reach_lab::metrics::{self, Estimate};

/// What a simulation says of a program under one remedy, or under none.
#[derive(Clone, Copy)]
pub struct Figures {
    /// Time, in cycles.
    pub cycles: Estimate,
    /// What of it is spent in user mode. The rest is the kernel's memory management.
    pub user: Estimate,
    /// Peak of resident memory, in bytes.
    pub resident: u64,
    /// Memory in superpages when resident memory was at its peak, in bytes.
    pub huge: u64,
    /// Page faults.
    pub faults: u64,
    /// The length of a stop at a page fault that 99 % of them do not exceed, in cycles.
    pub p99: u64,
    /// The longest stop, in cycles.
    pub longest: u64,
}

impl Figures {
    pub fn of(outcome: &Outcome) -> Figures {
        let superpages = outcome.sizes.iter().skip(1).zip(&outcome.os.superpages_at_peak);
        Figures {
            cycles: outcome.cycles(),
            user: outcome.user_cycles(),
            resident: outcome.os.resident_bytes.peak,
            huge: superpages.map(|(size, count)| size.bytes() * count).sum(),
            faults: outcome.os.page_faults,
            p99: outcome.stops.quantile(0.99),
            longest: outcome.stops.longest(),
        }
    }
}

/// What a remedy is predicted to do.
pub struct Prediction {
    /// The remedy, or `madvise` and a mapping.
    pub name: String,
    /// The exact thing to do.
    pub todo: String,
    pub speedup: Estimate,
    pub figures: Figures,
    /// The same program without the remedy, in the same terms.
    pub plain: Figures,
}

impl Prediction {
    /// Returns the ends of the 95 % confidence interval of the speedup.
    pub fn interval(&self) -> (f64, f64) {
        let error = self.speedup.error.unwrap_or(0.0);
        (self.speedup.value - error, self.speedup.value + error)
    }
}

/// A remedy without a prediction, and why.
pub struct Left {
    pub name: String,
    pub why: String,
}

/// The answer, before it is formatted.
#[derive(Default)]
pub struct Advice {
    pub predictions: Vec<Prediction>,
    pub left: Vec<Left>,
}

impl Advice {
    pub fn leave(&mut self, name: impl Into<String>, why: impl Into<String>) {
        self.left.push(Left { name: name.into(), why: why.into() });
    }
}

/// The program without any remedy.
pub struct Plain {
    pub figures: Figures,
    /// The share of the time that address translation takes.
    pub translation: Estimate,
    /// The share that the kernel's memory management takes: page faults, copies, daemons.
    pub kernel: f64,
    /// What the program takes on this computer, if that was measured.
    pub native: Option<Native>,
    /// Nothing can be gained: both shares together are too small.
    pub hopeless: bool,
}

/// What predictions are relative to: what the program takes on this computer, or, without that, in the simulation.
#[derive(Clone, Copy)]
pub struct Scale {
    pub native: Option<Native>,
    /// Cycles a second of the simulated machine.
    pub hertz: f64,
}

impl Plain {
    pub fn of(outcome: &Outcome, scale: &Scale) -> Plain {
        let figures = Figures::of(outcome);
        let mut translation = outcome.rate(&metrics::SAMPLED[2]);
        let mut kernel = (metrics::SYSTEM_CYCLES.of)(&outcome.total) as f64 / figures.cycles.value.max(1.0);
        if let Some(native) = &scale.native {
            // Translation keeps its share of the time in user mode.
            let user = (1.0 - native.kernel.value) / (1.0 - kernel).max(f64::MIN_POSITIVE);
            translation.value *= user;
            translation.error = translation.error.map(|error| error * user);
            kernel = native.kernel.value.min(scale.simulated(&figures).kernel / native.time.max(f64::MIN_POSITIVE));
        }
        let most = translation.value + translation.error.unwrap_or(0.0) + kernel;
        Plain { figures, translation, kernel, native: scale.native, hopeless: most < LEAST }
    }
}

impl Scale {
    /// Returns the prediction from two simulations of the same run.
    pub fn paired(&self, name: String, todo: String, with: &Outcome, plain: &Outcome) -> Prediction {
        let user = metrics::user_speedup(with, plain).relative_error();
        let all = metrics::speedup(with, plain);
        let (with, plain) = (Figures::of(with), Figures::of(plain));
        Prediction { name, todo, speedup: self.speedup(&with, &plain, user).unwrap_or(all), figures: with, plain }
    }

    /// Returns the speedup between two runs, whose errors are independent.
    pub fn independent(&self, with: &Figures, plain: &Figures) -> Estimate {
        let error = |with: Estimate, plain: Estimate| with.relative_error().hypot(plain.relative_error());
        self.speedup(with, plain, error(with.user, plain.user)).unwrap_or_else(|| {
            let value = plain.cycles.value / with.cycles.value.max(1.0);
            let is_known = with.cycles.error.is_some() || plain.cycles.error.is_some();
            Estimate { value, error: is_known.then_some(value * error(with.cycles, plain.cycles)) }
        })
    }

    /// Returns the speedup of this computer's program; `None` if that was not measured. `error` is the relative one of times in
    /// user mode.
    fn speedup(&self, with: &Figures, plain: &Figures, error: f64) -> Option<Estimate> {
        Some(self.native?.speedup(self.simulated(with), self.simulated(plain), error))
    }

    fn simulated(&self, figures: &Figures) -> Simulated {
        let kernel = (figures.cycles.value - figures.user.value) / self.hertz;
        Simulated { user: figures.user.value, kernel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_two_runs_add_in_quadrature() {
        let figures = |value: f64, error: Option<f64>| Figures {
            cycles: Estimate { value, error },
            user: Estimate { value, error },
            resident: 0,
            huge: 0,
            faults: 0,
            p99: 0,
            longest: 0,
        };
        let simulated = Scale { native: None, hertz: 1e9 };
        let both = simulated.independent(&figures(100.0, Some(3.0)), &figures(200.0, Some(8.0)));
        assert_eq!(both.value, 2.0);
        assert!((both.error.unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(
            simulated.independent(&figures(100.0, None), &figures(150.0, None)),
            Estimate { value: 1.5, error: None }
        );
    }
}
