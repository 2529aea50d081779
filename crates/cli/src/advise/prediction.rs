//! Predictions of `reach advise`, and what they are made from.

use super::LEAST;
use reach_core::Label;
use reach_lab::Outcome;
use reach_lab::metrics::{self, Estimate};

/// What a simulation says of a program under one remedy, or under none.
#[derive(Clone, Copy)]
pub struct Figures {
    /// Time, in cycles.
    pub cycles: Estimate,
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
    /// Nothing can be gained: both shares together are too small.
    pub hopeless: bool,
}

impl Plain {
    pub fn of(outcome: &Outcome) -> Plain {
        let figures = Figures::of(outcome);
        let total = &outcome.total;
        let cycles = total.cycles().max(1) as f64;
        let translation = outcome.rate(&metrics::SAMPLED[2]);
        let kernel = [Label::Fault, Label::Copy, Label::Remap, Label::Daemon];
        let kernel = kernel.into_iter().map(|label| total.ledger.charged(label).0).sum::<u64>() as f64 / cycles;
        let most = translation.value + translation.error.unwrap_or(0.0) + kernel;
        Plain { figures, translation, kernel, hopeless: most < LEAST }
    }
}

/// Returns the prediction from two simulations of the same run.
pub fn paired(name: String, todo: String, with: &Outcome, plain: &Outcome) -> Prediction {
    let speedup = metrics::speedup(with, plain);
    Prediction { name, todo, speedup, figures: Figures::of(with), plain: Figures::of(plain) }
}

/// Returns the speedup between two runs, whose errors are independent.
pub fn independent(with: &Figures, plain: &Figures) -> Estimate {
    let value = plain.cycles.value / with.cycles.value.max(1.0);
    let is_known = with.cycles.error.is_some() || plain.cycles.error.is_some();
    let error = with.cycles.relative_error().hypot(plain.cycles.relative_error());
    Estimate { value, error: is_known.then_some(value * error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_two_runs_add_in_quadrature() {
        let figures = |value: f64, error: Option<f64>| Figures {
            cycles: Estimate { value, error },
            resident: 0,
            huge: 0,
            faults: 0,
            p99: 0,
            longest: 0,
        };
        let both = independent(&figures(100.0, Some(3.0)), &figures(200.0, Some(8.0)));
        assert_eq!(both.value, 2.0);
        assert!((both.error.unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(independent(&figures(100.0, None), &figures(150.0, None)), Estimate { value: 1.5, error: None });
    }
}
