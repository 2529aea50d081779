//! 95 % confidence intervals of numbers over rows and points, which are taken as samples of what could have been run.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics;

/// The lower and the upper end of an interval.
pub type Interval = [f64; 2];

/// The 97.5th percentile of the standard normal distribution.
const Z: f64 = 1.959_964;

/// Returns the interval of a count of `n` rows, `k` of which were counted (Wilson, Journal of the American Statistical
/// Association, 1927). `None` without rows.
pub(super) fn of_count(k: usize, n: usize) -> Option<Interval> {
    let (k, n) = (k as f64, n as f64);
    let share = k / n;
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let end = |sum: f64| n * sum / (1.0 + Z * Z / n);
    (n > 0.0).then(|| [end(middle - half), end(middle + half)])
}

/// Returns the interval of the mean of `values` (Student). `None` for fewer than two.
pub(super) fn of_mean(values: &[f64]) -> Option<Interval> {
    let n = values.len() as f64;
    let t = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(0.975);
    let (mean, half) = (values.mean(), t * values.std_dev() / n.sqrt());
    Some([mean - half, mean + half])
}

/// Returns the interval of the correlation `r` of `n` points, by Fisher's transform. The variance of ranks' correlation is
/// greater by 6 % (Fieller, Hartley and Pearson, Biometrika, 1957). `None` for fewer than four points.
pub(super) fn of_correlation(r: f64, n: usize, of_ranks: bool) -> Option<Interval> {
    let variance = if of_ranks { 1.06 } else { 1.0 } / (n as f64 - 3.0);
    let half = Z * variance.sqrt();
    (n > 3).then(|| [(r.atanh() - half).tanh(), (r.atanh() + half).tanh()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(ours: Option<Interval>, expected: Interval) {
        let ours = ours.unwrap();
        assert!((ours[0] - expected[0]).abs() < 0.01 && (ours[1] - expected[1]).abs() < 0.01, "{ours:?}");
    }

    #[test]
    fn intervals_match_the_textbook() {
        // 13 of 18: 0.4913 to 0.8750 by the formula.
        near(of_count(13, 18), [8.84, 15.75]);
        near(of_count(18, 18), [14.83, 18.0]);
        // t = 4.303 with two degrees of freedom; the standard deviation is 1.
        near(of_mean(&[1.0, 2.0, 3.0]), [2.0 - 4.303 / 3.0_f64.sqrt(), 2.0 + 4.303 / 3.0_f64.sqrt()]);
        // atanh 0.5 = 0.5493; 1.96 / 5 = 0.392.
        near(of_correlation(0.5, 28, false), [0.1562, 0.7354]);
        assert!(of_count(0, 0).is_none() && of_mean(&[1.0]).is_none() && of_correlation(0.5, 3, true).is_none());
    }

    #[test]
    fn perfect_correlation_has_no_width() {
        assert_eq!(of_correlation(1.0, 10, true), Some([1.0, 1.0]));
    }
}
