//! Errors of values that a sample estimates.
//!
//! A value is a product of totals of the program with powers p_j. A total T_j has a part that is known exactly and a part
//! that is estimated in two strata, code that was known and code that runs for the first time: the counts y_ij of a stratum's
//! intervals, times the ratio k of the instructions that they stand for to those that they have, x_i. So interval i changes
//! T_j by k (y_ij − x_i Σy_j / Σx), with sums over its stratum, and the value by the relative amount d_i = Σ_j p_j times that
//! over T_j. For a quotient without exact parts these are the deviations of a separate ratio estimator: Cochran, Sampling
//! Techniques, 3rd edition 1977, §6.10.
//!
//! Each interval is drawn from a period of its own, so that what differs between periods, as phases of a program do, adds
//! nothing to the error. Of one draw a period, the variance is estimated from neighbours (collapsed strata, Cochran §5A.12):
//! intervals that measure a part f of their stratum add v² (1 − f) Σ (d_i − d_i+1)² to the variance of the value v, with the
//! sum over pairs. That is too much by how far the means of neighbours differ, and never too little on average.
//!
//! The variance's root s, relative to the value, is that of the value's logarithm. Values are positive and those of rare events
//! skewed, and the logarithm of a rate is nearer to a normal distribution than the rate (Katz, Baptista, Azen and Pike,
//! Biometrics 34, 1978). So the interval reaches from v e^-ts to v e^ts with Student's t for 95 %, and the error bar is its
//! longer side, v (e^ts − 1): v t s for small errors.
//!
//! Two things widen it where few intervals dominate, as rare events do. The pair that differs most counts twice, for one
//! like it that the sample may have missed, as the largest weight does in the intervals of Fay and Feuer (Statistics in
//! Medicine 16, 1997). The degrees of freedom of t are those of Satterthwaite (Biometrics Bulletin 2, 1946): for a stratum of
//! m pairs with squares q_i, 2 (Σ q_i)² / (Σ q_i² − (Σ q_i)² / m), which is m for a normal distribution and about twice the
//! number of pairs that dominate; for strata with variances V_h, (Σ V_h)² / Σ (V_h² / m_h), where m_h are those of each
//! (Cochran, equation 5.16).

use crate::simulation::{Interval, LEAST, Measured, Sample, Tally};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The fewest intervals that must have counted something of a total. With fewer, a sample says little about how rare an event
/// is: the rule of thumb for the normal approximation of a binomial distribution.
const LEAST_COUNTED: usize = 10;

/// An interval whose longer side is more than so many times the value says nothing.
const WIDEST: f64 = 10.0;

/// A total of the program in a product.
pub(super) struct Factor {
    /// The total, with what is known exactly of it.
    pub total: f64,
    /// What each interval of each stratum adds to the estimated part, before it is scaled to the program.
    pub parts: [Vec<f64>; 2],
    /// The intervals of known code that counted something of the total, of either part.
    pub counted: usize,
    /// The power of the total.
    pub power: f64,
}

/// The weights of the intervals of a stratum.
struct Stratum {
    /// The instructions of each interval, or the references where the program's instructions are unknown.
    lengths: Vec<f64>,
    /// Those that the intervals stand for over those of all intervals.
    scale: f64,
    /// The share of the stratum that was measured, from 0 to 1.
    share: f64,
}

/// The weights of a sample's intervals in estimates for the whole program or one process.
pub(super) struct Weights([Stratum; 2]);

/// Returns the intervals of known code and those of code that runs for the first time.
pub(super) fn strata(sample: &Sample) -> [&[Interval]; 2] {
    [&sample.intervals, &sample.first_run]
}

impl Weights {
    /// Returns the weights of intervals that counted the `tallies` of each stratum, `measured` in all, where `total` is the
    /// estimate for the program. `None` if nothing was measured.
    pub fn new(sample: &Sample, tallies: [&[&Tally]; 2], measured: &Measured, total: &Tally) -> Option<Weights> {
        let [known, first_run] = sample.scales(measured, total);
        let [share, first_run_share] = sample.shares();
        let lengths =
            tallies.map(|tallies| tallies.iter().map(|tally| sample.scales_with(&tally.counts) as f64).collect());
        let [known_lengths, first_run_lengths] = lengths;
        Some(Weights([
            Stratum { lengths: known_lengths, scale: known.factor()?, share },
            Stratum { lengths: first_run_lengths, scale: first_run.factor().unwrap_or(0.0), share: first_run_share },
        ]))
    }
}

/// A part of a variance, and its degrees of freedom.
struct Variance {
    value: f64,
    freedom: f64,
}

impl Stratum {
    /// Returns the variance that this stratum adds to the product of `factors`, relative to the product's square. `parts`
    /// takes this stratum's parts of a factor. `None` if it adds nothing.
    fn variance(&self, factors: &[Factor], parts: impl Fn(&Factor) -> &[f64]) -> Option<Variance> {
        let n = self.lengths.len() as f64;
        let length: f64 = self.lengths.iter().sum();
        let mut changes = vec![0.0; self.lengths.len()];
        for factor in factors {
            // One interval alone tells no spread, which is then taken to be as large as itself.
            let mean = if n > 1.0 && length > 0.0 { parts(factor).iter().sum::<f64>() / length } else { 0.0 };
            for ((change, part), own) in changes.iter_mut().zip(parts(factor)).zip(&self.lengths) {
                *change += factor.power * self.scale * (part - mean * own) / factor.total;
            }
        }
        let squares = squares_of_pairs(&changes);
        let sum: f64 = squares.iter().sum();
        let unmeasured = (1.0 - self.share).max(0.0);
        if sum == 0.0 || unmeasured == 0.0 {
            return None;
        }
        let largest = squares.iter().copied().fold(0.0, f64::max);
        let pairs = squares.len() as f64;
        let fourth: f64 = squares.iter().map(|square| square * square).sum();
        // Equal squares would make the divisor zero.
        let freedom = 2.0 * sum * sum / (fourth - sum * sum / pairs).max(f64::MIN_POSITIVE);
        Some(Variance { value: unmeasured * (sum + largest), freedom: freedom.min(pairs).max(1.0) })
    }
}

/// Returns for each pair of neighbours the square of their difference, which estimates the variance of their sum. The last
/// three of an odd number estimate it together; one alone tells no spread, which is then taken to be as large as itself.
fn squares_of_pairs(changes: &[f64]) -> Vec<f64> {
    let together = |group: &[f64]| {
        let n = group.len() as f64;
        let mean = group.iter().sum::<f64>() / n;
        n / (n - 1.0) * group.iter().map(|change| (change - mean).powi(2)).sum::<f64>()
    };
    match changes {
        [one] => vec![one * one],
        _ if changes.len().is_multiple_of(2) => changes.chunks(2).map(together).collect(),
        _ => {
            let (pairs, last) = changes.split_at(changes.len() - 3);
            pairs.chunks(2).chain([last]).map(together).collect()
        }
    }
}

/// Returns half the width of the 95 % confidence interval of the product of `factors`. Factors of several samples may be
/// combined if these cover the same references.
///
/// `None` where the sample allows none: if it is biased ([`Sample::cold`]), if it has fewer than [`LEAST`] intervals, if
/// fewer than [`LEAST_COUNTED`] of them counted something of a total, if a total is not positive, and if the interval would be
/// too wide ([`WIDEST`]).
pub(super) fn error(sample: &Sample, weights: &Weights, factors: &[Factor]) -> Option<f64> {
    if sample.intervals.len() < LEAST || sample.cold.is_some() {
        return None;
    }
    if factors.iter().any(|factor| factor.total <= 0.0 || factor.counted < LEAST_COUNTED) {
        return None;
    }
    let value: f64 = factors.iter().map(|factor| factor.total.powf(factor.power)).product();
    let [known, first_run] = &weights.0;
    let variances =
        [known.variance(factors, |factor| &factor.parts[0]), first_run.variance(factors, |factor| &factor.parts[1])];
    let variances: Vec<Variance> = variances.into_iter().flatten().collect();
    let variance: f64 = variances.iter().map(|part| part.value).sum();
    if variance == 0.0 {
        return Some(0.0);
    }
    let freedom =
        variance * variance / variances.iter().map(|part| part.value * part.value / part.freedom).sum::<f64>();
    let student = StudentsT::new(0.0, 1.0, freedom).expect("at least one degree of freedom");
    let relative = (variance.sqrt() * student.inverse_cdf(0.975)).exp_m1();
    (relative <= WIDEST).then_some(value * relative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::{Label, Random};

    /// A program of `n` intervals, of which `program` references are known; interval i has `walks(i)` walks.
    fn sample(n: u64, program: u64, walks: impl Fn(u64) -> u64) -> Sample {
        let interval = |i: u64| {
            let mut interval = Interval::default();
            interval.tally.counts.loads = 100 + i % 7;
            interval.tally.hardware.walks_data = walks(i);
            interval
        };
        Sample { intervals: (0..n).map(interval).collect(), references: program, ..Sample::default() }
    }

    /// The error of walks per reference.
    fn ratio_error(sample: &Sample) -> Option<f64> {
        let tallies: Vec<_> = sample.intervals.iter().map(|interval| &interval.tally).collect();
        let measured = Measured::new(sample, None);
        let first_run: Vec<_> = sample.first_run.iter().map(|segment| &segment.tally).collect();
        let total = sample.estimate(&measured, &measured.intervals);
        let factor = |of: fn(&Tally) -> u64, power| Factor {
            total: of(&total) as f64,
            parts: [&tallies, &first_run].map(|stratum| stratum.iter().map(|tally| of(tally) as f64).collect()),
            counted: tallies.iter().filter(|tally| of(tally) > 0).count(),
            power,
        };
        let factors = [factor(|t| t.hardware.walks(), 1.0), factor(|t| t.counts.references(), -1.0)];
        error(sample, &Weights::new(sample, [&tallies, &first_run], &measured, &total)?, &factors)
    }

    fn rate(interval: &Interval) -> (u64, u64) {
        (interval.tally.hardware.walks(), interval.tally.counts.references())
    }

    /// The variance of one draw from each stratum, strata collapsed in pairs, with the largest difference once more, for the
    /// logarithm.
    #[test]
    fn the_error_of_a_quotient_is_that_of_the_textbook() {
        let sample = sample(50, 1_000_000, |i| 3 + i * i % 11);
        let all: Vec<(f64, f64)> = sample.intervals.iter().map(rate).map(|(y, x)| (y as f64, x as f64)).collect();
        let (y, x): (f64, f64) = all.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (r, f) = (y / x, x / 1_000_000.0);
        let deviations: Vec<f64> = all.iter().map(|(y, x)| y - r * x).collect();
        let squares: Vec<f64> = deviations.chunks(2).map(|pair| (pair[0] - pair[1]).powi(2)).collect();
        let (sum, once_more) = (squares.iter().sum::<f64>(), squares.iter().copied().fold(0.0, f64::max));
        // The squares are so even that nothing but the number of pairs limits the degrees of freedom.
        // Student's t for 25 of them, from a table.
        let printed = 2.05954 * ((1.0 - f) * (sum + once_more)).sqrt() / y;
        let expected = r * printed.exp_m1();
        let error = ratio_error(&sample).unwrap();
        assert!((error / expected - 1.0).abs() < 1e-4, "{error} {expected}");
    }

    /// A program whose rate rises from period to period is known as well as one whose rate is the same everywhere.
    #[test]
    fn what_differs_between_periods_adds_no_error() {
        let error = |phases: &dyn Fn(u64) -> u64| ratio_error(&sample(200, 1 << 40, |i| phases(i) + i % 3)).unwrap();
        let (flat, stepped) = (error(&|_| 50), error(&|i| if i < 100 { 10 } else { 90 }));
        assert!(stepped < 1.2 * flat, "{stepped} {flat}");
        assert!(error(&|i| 10 + i % 2 * 80) > 5.0 * flat, "neighbours that differ are a spread");
    }

    #[test]
    fn an_odd_number_of_intervals_has_three_at_its_end() {
        assert_eq!(squares_of_pairs(&[1.0, 3.0, 5.0, 2.0]), [4.0, 9.0]);
        let squares = squares_of_pairs(&[1.0, 3.0, 1.0, 2.0, 3.0]);
        assert_eq!(squares, [4.0, 3.0]);
        assert_eq!(squares_of_pairs(&[3.0]), [9.0]);
    }

    #[test]
    fn a_fully_measured_program_has_error_0_and_too_few_or_biased_intervals_have_none() {
        let whole = sample(50, (0..50).map(|i| 100 + i % 7).sum(), |i| i);
        assert_eq!(ratio_error(&whole), Some(0.0));
        assert_eq!(ratio_error(&sample(29, 1_000_000, |i| i)), None);
        assert_eq!(ratio_error(&sample(50, 1_000_000, |_| 0)), None, "no walk was seen");
        let cold = Some(crate::Cold::Caches);
        assert_eq!(ratio_error(&Sample { cold, ..sample(50, 1_000_000, |i| i) }), None);
    }

    /// What is known exactly adds to a total and nothing to its error.
    #[test]
    fn exact_parts_dilute_errors() {
        let sample = sample(50, 1_000_000, |i| 3 + i % 11);
        let tallies: Vec<_> = sample.intervals.iter().map(|interval| &interval.tally).collect();
        let relative_error = |exact: u64| {
            let measured = Measured::new(&sample, None);
            let mut whole = measured.intervals.clone();
            whole.ledger.charge(Label::Fault, exact);
            let estimate = sample.estimate(&measured, &whole);
            let total = (estimate.hardware.walks() + estimate.cycles()) as f64;
            let parts = tallies.iter().map(|tally| tally.hardware.walks() as f64).collect();
            let weights = Weights::new(&sample, [&tallies, &[]], &measured, &estimate).unwrap();
            let factor = Factor { total, parts: [parts, Vec::new()], counted: tallies.len(), power: 1.0 };
            (total, total * (error(&sample, &weights, &[factor]).unwrap() / total).ln_1p())
        };
        let ((walks, error), (total, diluted)) = (relative_error(0), relative_error(1_000_000));
        assert_eq!(total, walks + 1_000_000.0);
        assert!((diluted / error - 1.0).abs() < 1e-9, "{diluted} {error}");
    }

    #[test]
    fn rare_events_have_wide_errors_and_very_rare_ones_none() {
        // As many walks, in a tenth of the intervals.
        let (often, seldom) =
            (sample(200, 1 << 40, |i| 3 + i % 2), sample(200, 1 << 40, |i| (30 + i % 20) * u64::from(i % 10 == 0)));
        assert!(ratio_error(&seldom).unwrap() > 10.0 * ratio_error(&often).unwrap());
        assert!(ratio_error(&sample(200, 1 << 40, |i| u64::from(i < 10))).is_some());
        assert_eq!(ratio_error(&sample(200, 1 << 40, |i| u64::from(i < 9))), None);
    }

    /// Segments of new code widen an error bar unless all of it was measured.
    #[test]
    fn new_code_adds_to_the_error_what_was_not_measured_of_it() {
        let error = |unmeasured: u64, spread: u64| {
            let mut program = sample(50, 100_000, |i| 3 + i % 11);
            program.first_run = sample(40, 0, |i| 50 + i % 2 * spread).intervals;
            program.first_run_unmeasured.tally.counts.loads = unmeasured;
            ratio_error(&program).unwrap()
        };
        let in_full = error(0, 40);
        assert!((error(0, 0) / in_full - 1.0).abs() < 0.1, "only the total differs");
        assert!(error(12_000, 40) > 1.1 * in_full, "{} {in_full}", error(12_000, 40));
        assert!(error(12_000, 40) > 1.1 * error(12_000, 10));
        assert!(error(12_000, 0) < 1.1 * in_full, "all segments are equal, except for their lengths");
    }

    /// One segment alone tells no spread, so it may be off by all that it stands for.
    #[test]
    fn a_single_segment_of_new_code_widens_the_error() {
        let mut program = sample(50, 100_000, |i| 3 + i % 11);
        program.first_run = sample(1, 0, |_| 50).intervals;
        let in_full = ratio_error(&program).unwrap();
        program.first_run_unmeasured.tally.counts.loads = 500;
        assert!(ratio_error(&program).unwrap() > 1.2 * in_full, "{:?} {in_full}", ratio_error(&program));
    }

    /// 95 of 100 error bars of independent intervals contain the true rate.
    #[test]
    fn error_bars_contain_the_true_rate_in_95_of_100_trials() {
        let mut random = Random::new(7);
        let trials = 2000;
        let mut held = 0;
        for _ in 0..trials {
            let draws: Vec<u64> = (0..40).map(|_| random.below(20) + random.below(20)).collect();
            let sample = sample(40, 1 << 40, |i| draws[i as usize]);
            let (y, x) = sample.intervals.iter().map(rate).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            // 19 is the expected sum of both draws.
            let lengths: u64 = (0..40).map(|i| 100 + i % 7).sum();
            let truth = 19.0 * 40.0 / lengths as f64;
            held += u64::from((y as f64 / x as f64 - truth).abs() <= ratio_error(&sample).unwrap());
        }
        assert!((1860..=1940).contains(&held), "{held} of {trials}");
    }
}
