//! Predictions of `reach advise`, and what they are made from.

use super::LEAST;
use super::native::{Native, Simulated};
use reach_lab::Outcome;
use reach_lab::metrics::{self, Estimate};

/// What a simulation says of a program under one remedy, or under none.
#[derive(Clone, Copy)]
pub struct Figures {
    /// Instructions in user mode.
    pub instructions: u64,
    /// Time in user mode, in cycles.
    pub user: Estimate,
    /// Time of memory management in the kernel, in cycles.
    pub kernel: u64,
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
            instructions: outcome.total.counts.instructions,
            user: outcome.user_cycles(),
            kernel: (metrics::SYSTEM_CYCLES.of)(&outcome.total),
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

/// Two simulations of a run: with base pages only, and with what it gets.
pub struct OnBasePages<'a> {
    pub base: &'a Outcome,
    pub with: &'a Outcome,
}

impl OnBasePages<'_> {
    /// Returns the time in user mode on base pages, over that with what the run gets.
    fn gain(&self) -> Estimate {
        metrics::user_speedup(self.with, self.base)
    }
}

impl Plain {
    pub fn of(outcome: &Outcome, scale: &Scale) -> Plain {
        let figures = Figures::of(outcome);
        let mut translation = outcome.rate(&metrics::SAMPLED[2]);
        let mut kernel = figures.kernel as f64 / (figures.kernel as f64 + figures.user.value).max(1.0);
        if let Some(native) = &scale.native {
            // Translation keeps its share of the time in user mode.
            let user = (1.0 - native.kernel.value) / (1.0 - kernel).max(f64::MIN_POSITIVE);
            translation.value *= user;
            translation.error = translation.error.map(|error| error * user);
            let simulated = scale.simulated(&figures).kernel;
            kernel = native.memory_management(simulated, native.kernel.value) / native.time.max(f64::MIN_POSITIVE);
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
        let here = self.native.map(|native| native.speedup(self.simulated(&with), self.simulated(&plain), user));
        Prediction { name, todo, speedup: here.unwrap_or(all), figures: with, plain }
    }

    /// Returns the speedup of another run, in which the program itself does something else.
    ///
    /// What huge pages gain in user mode is known from the same sample of a run, with and without them. What the program does
    /// otherwise is known from the instructions of both runs if their numbers are much alike, and else from the times of both on
    /// base pages, whose errors are independent.
    pub fn other_run(&self, other: &OnBasePages, plain: &OnBasePages) -> Estimate {
        let [[other_base, with], [plain_base, without]] =
            [other, plain].map(|run| [run.base, run.with].map(Figures::of));
        let work = with.instructions as f64 / without.instructions.max(1) as f64;
        let work = if (work - 1.0).abs() <= ALIKE { exact(work) } else { quotient(other_base.user, plain_base.user) };
        let user = quotient(product(work, plain.gain()), other.gain());
        let plain = self.simulated(&without);
        let with = Simulated { user: plain.user * user.value, kernel: self.simulated(&with).kernel };
        let scale = self.native.unwrap_or_else(|| Native::simulated(plain));
        let speedup = scale.speedup(with, plain, user.relative_error());
        let is_known = self.native.is_some() || user.error.is_some();
        Estimate { error: speedup.error.filter(|_| is_known), ..speedup }
    }

    fn simulated(&self, figures: &Figures) -> Simulated {
        Simulated { user: figures.user.value / self.hertz, kernel: figures.kernel as f64 / self.hertz }
    }
}

/// The difference of the numbers of instructions up to which two runs are taken to do the same work.
const ALIKE: f64 = 0.01;

fn exact(value: f64) -> Estimate {
    Estimate { value, error: None }
}

/// Returns a product of independent estimates, whose relative errors add in quadrature.
fn product(a: Estimate, b: Estimate) -> Estimate {
    let value = a.value * b.value;
    let error = value * a.relative_error().hypot(b.relative_error());
    Estimate { value, error: (a.error.is_some() || b.error.is_some()).then_some(error) }
}

fn quotient(a: Estimate, b: Estimate) -> Estimate {
    let value = 1.0 / b.value.max(f64::MIN_POSITIVE);
    product(a, Estimate { value, error: b.error.map(|_| value * b.relative_error()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_two_runs_add_in_quadrature() {
        let (a, b) = (Estimate { value: 100.0, error: Some(3.0) }, Estimate { value: 200.0, error: Some(8.0) });
        let [product, quotient] = [product(a, b), quotient(b, a)];
        assert!(product.value == 20_000.0 && (product.relative_error() - 0.05).abs() < 1e-12, "{product:?}");
        assert!((quotient.value - 2.0).abs() < 1e-12 && (quotient.error.unwrap() - 0.1).abs() < 1e-12, "{quotient:?}");
        assert_eq!(super::quotient(exact(3.0), exact(2.0)), exact(1.5));
        assert_eq!(super::product(exact(2.0), a).error, Some(6.0));
    }
}
