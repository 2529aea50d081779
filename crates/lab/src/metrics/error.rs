//! Errors of rates that a sample gives.
//!
//! A rate is a quotient of sums over all measured intervals, or a product of such sums with powers p_j. Its error is that
//! of a ratio estimator. With n intervals that measure a part f of the program, interval i changes the rate by the relative
//! amount d_i = Σ_j p_j t_ij / T_j, where t_ij is its count and T_j the sum. The variance is r² (1 − f) n / (n − 1) Σ d_i².
//! For y / x that is (1 − f) / n · Σ (y_i − r x_i)² / (n − 1) / mean(x)²: Cochran, Sampling Techniques, 3rd edition 1977,
//! equation 6.13. The error bar is the variance's root times Student's t for 95 %.

use crate::simulation::{Interval, Sample};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The fewest intervals that have error bars. Cochran (§6.5) wants more than 30 for a ratio's normal approximation.
pub const LEAST: usize = 30;

/// Returns half the width of the 95 % confidence interval of the product of `factors`: each gives an interval's addend to
/// a sum, and the power of that sum. Intervals of several samples may be combined if they cover the same references.
/// `None` if fewer than [`LEAST`] intervals were measured or a sum is not positive.
pub(super) fn error(sample: &Sample, factors: &[(&dyn Fn(usize) -> f64, f64)]) -> Option<f64> {
    let n = sample.intervals.len();
    if n < LEAST {
        return None;
    }
    let mut changes = vec![0.0; n];
    let mut value = 1.0;
    for (of, power) in factors {
        let sum: f64 = (0..n).map(of).sum();
        if sum <= 0.0 {
            return None;
        }
        value *= sum.powf(*power);
        changes.iter_mut().enumerate().for_each(|(i, change)| *change += power * of(i) / sum);
    }
    let squares: f64 = changes.iter().map(|change| change * change).sum();
    let freedom = (n - 1) as f64;
    let variance = (1.0 - sample.share()).max(0.0) * n as f64 / freedom * squares;
    let student = StudentsT::new(0.0, 1.0, freedom).expect("at least 29 degrees of freedom");
    Some(value * variance.sqrt() * student.inverse_cdf(0.975))
}

/// Returns the [`error`] of the quotient of the two counts that `of` takes from an interval.
pub(super) fn ratio_error(sample: &Sample, of: &dyn Fn(&Interval) -> (u64, u64)) -> Option<f64> {
    let part = |i: usize| of(&sample.intervals[i]);
    error(sample, &[(&|i| part(i).0 as f64, 1.0), (&|i| part(i).1 as f64, -1.0)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::Random;

    fn sample(n: u64, program: u64, walks: impl Fn(u64) -> u64) -> Sample {
        let interval = |i: u64| {
            let mut interval = Interval::default();
            interval.tally.counts.loads = 100 + i % 7;
            interval.tally.hardware.walks_data = walks(i);
            interval
        };
        Sample { intervals: (0..n).map(interval).collect(), every: 0, references: program }
    }

    fn rate(interval: &Interval) -> (u64, u64) {
        (interval.tally.hardware.walks(), interval.tally.counts.references())
    }

    /// Cochran's equation 6.13 as printed.
    #[test]
    fn the_error_of_a_quotient_is_that_of_the_textbook() {
        let sample = sample(50, 1_000_000, |i| 3 + i * i % 11);
        let all: Vec<(f64, f64)> = sample.intervals.iter().map(rate).map(|(y, x)| (y as f64, x as f64)).collect();
        let (y, x): (f64, f64) = all.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (r, n) = (y / x, 50.0);
        let f = x / 1_000_000.0;
        let s2: f64 = all.iter().map(|(y, x)| (y - r * x).powi(2)).sum::<f64>() / (n - 1.0);
        // Student's t for 49 degrees of freedom, from a table.
        let expected = 2.00958 * ((1.0 - f) / n * s2).sqrt() / (x / n);
        let error = ratio_error(&sample, &rate).unwrap();
        assert!((error / expected - 1.0).abs() < 1e-4, "{error} {expected}");
    }

    #[test]
    fn a_fully_measured_program_has_error_0_and_too_few_intervals_have_none() {
        let whole = sample(50, (0..50).map(|i| 100 + i % 7).sum(), |i| i);
        assert_eq!(ratio_error(&whole, &rate), Some(0.0));
        assert_eq!(ratio_error(&sample(29, 1_000_000, |i| i), &rate), None);
        assert_eq!(ratio_error(&sample(50, 1_000_000, |_| 0), &rate), None, "no walk was seen");
    }

    /// 95 of 100 error bars of independent intervals contain the true rate.
    #[test]
    fn error_bars_contain_the_true_rate_in_95_of_100_trials() {
        let mut random = Random::new(7);
        let trials = 2000;
        let mut held = 0;
        for _ in 0..trials {
            let draws: Vec<u64> = (0..40).map(|_| random.below(20) + random.below(20)).collect();
            let sample = sample(40, u64::MAX / 4, |i| draws[i as usize]);
            let (y, x) = sample.intervals.iter().map(rate).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            // 19 is the expected sum of both draws.
            let lengths: u64 = (0..40).map(|i| 100 + i % 7).sum();
            let truth = 19.0 * 40.0 / lengths as f64;
            held += u64::from((y as f64 / x as f64 - truth).abs() <= ratio_error(&sample, &rate).unwrap());
        }
        assert!((1860..=1940).contains(&held), "{held} of {trials}");
    }
}
