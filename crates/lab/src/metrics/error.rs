//! How well a sample knows what it is a sample of.
//!
//! A rate is a quotient of sums over all measured intervals (or a product of such sums, each to some power). Its error is
//! that of a ratio estimator: with n intervals of a part f of the program, and for each the part of the rate's relative
//! change that it brings about, d_i = sum of p_j t_ij / T_j over the sums T_j with powers p_j, the variance is
//! r^2 (1 - f) n / (n - 1) sum of d_i^2. For y / x that is (1 - f) / n * sum of (y_i - r x_i)^2 / (n - 1) / mean(x)^2:
//! Cochran, Sampling Techniques, 3rd edition 1977, equation 6.13. The bar is that times Student's t for 95 %.

use crate::simulation::{Interval, Sample};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Fewer intervals have no error bars: Cochran (section 6.5) wants more than 30 for a ratio's normal approximation.
pub const LEAST: usize = 30;

/// Half the width of the interval that holds the product of `factors` with a probability of 95 %: each is what an
/// interval adds to a sum, and the power of that sum. The intervals of several samples of one program may be combined:
/// they stand for the same references. `None` where that is not known: there are too few, or nothing was counted.
pub(crate) fn error(sample: &Sample, factors: &[(&dyn Fn(usize) -> f64, f64)]) -> Option<f64> {
    let n = sample.intervals.len();
    if n < LEAST {
        return None;
    }
    let mut parts = vec![0.0; n];
    let mut value = 1.0;
    for (of, power) in factors {
        let sum: f64 = (0..n).map(of).sum();
        if sum <= 0.0 {
            return None;
        }
        value *= sum.powf(*power);
        parts.iter_mut().enumerate().for_each(|(i, part)| *part += power * of(i) / sum);
    }
    let squares: f64 = parts.iter().map(|part| part * part).sum();
    let freedom = (n - 1) as f64;
    let variance = (1.0 - sample.share()).max(0.0) * n as f64 / freedom * squares;
    let student = StudentsT::new(0.0, 1.0, freedom).expect("there are degrees of freedom");
    Some(value * variance.sqrt() * student.inverse_cdf(0.975))
}

/// The same of a quotient of what `of` counts of an interval.
pub(crate) fn ratio_error(sample: &Sample, of: &dyn Fn(&Interval) -> (u64, u64)) -> Option<f64> {
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

    /// Cochran 6.13 as it is printed.
    #[test]
    fn a_quotient_has_the_error_of_the_textbook() {
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
    fn all_of_a_program_has_no_error_and_too_few_intervals_have_none_to_tell() {
        let whole = sample(50, (0..50).map(|i| 100 + i % 7).sum(), |i| i);
        assert_eq!(ratio_error(&whole, &rate), Some(0.0));
        assert_eq!(ratio_error(&sample(29, 1_000_000, |i| i), &rate), None);
        assert_eq!(ratio_error(&sample(50, 1_000_000, |_| 0), &rate), None, "nothing was seen, which says little");
    }

    /// 95 of 100 bars of independent intervals hold the true rate.
    #[test]
    fn bars_hold_the_truth_as_often_as_they_say() {
        let mut random = Random::new(7);
        let trials = 2000;
        let mut held = 0;
        for _ in 0..trials {
            let draws: Vec<u64> = (0..40).map(|_| random.below(20) + random.below(20)).collect();
            let sample = sample(40, u64::MAX / 4, |i| draws[i as usize]);
            let (y, x) = sample.intervals.iter().map(rate).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            // The mean of both draws, and of all lengths.
            let lengths: u64 = (0..40).map(|i| 100 + i % 7).sum();
            let truth = 19.0 * 40.0 / lengths as f64;
            held += u64::from((y as f64 / x as f64 - truth).abs() <= ratio_error(&sample, &rate).unwrap());
        }
        assert!((1860..=1940).contains(&held), "{held} of {trials}");
    }
}
