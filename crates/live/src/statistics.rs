//! Medians with their intervals: no assumption about how times are distributed, which have long tails.

use statrs::distribution::{Binomial, DiscreteCDF};

/// A median, and the interval in which the true one lies with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// The median of what was measured.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// Fewer values have no interval of 95 %.
pub const FEWEST: usize = 6;

impl Median {
    /// From at least [`FEWEST`] values, by the sign test: the interval ends at two of the values.
    pub fn of(values: &[f64]) -> Option<Median> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n < FEWEST {
            return None;
        }
        let heads = Binomial::new(0.5, n as u64).ok()?;
        // The true median lies below the k-th value only if k values or more fell on one side.
        let k = (0..n as u64 / 2).take_while(|&k| heads.cdf(k) <= 0.025).count();
        let value = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        Some(Median { value, low: sorted[k - 1], high: sorted[n - k] })
    }

    /// The largest distance of the interval from 1.
    pub fn noise(&self) -> f64 {
        (self.high - 1.0).abs().max((self.low - 1.0).abs())
    }

    /// Whether a ratio is other than 1 by more than `noise`: with 95 % confidence, and more than two equal things differ.
    pub fn differs(&self, noise: f64) -> bool {
        (self.low > 1.0 || self.high < 1.0) && (self.value - 1.0).abs() > noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Tables of the sign test give the 1st of 6 values, the 2nd of 10, the 4th of 15, the 6th of 20.
        for (n, k) in [(6, 1), (10, 2), (15, 4), (20, 6)] {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            let median = Median::of(&values).unwrap();
            assert_eq!((median.low, median.high), (f64::from(k), f64::from(n + 1 - k)), "{n}");
            assert_eq!(median.value, f64::from(n + 1) / 2.0);
        }
        assert_eq!(Median::of(&[1.0; 5]), None);
    }

    #[test]
    fn an_effect_exceeds_the_noise() {
        let of = |low, value, high| Median { value, low, high };
        assert!(of(1.08, 1.1, 1.2).differs(0.05) && of(0.7, 0.8, 0.9).differs(0.05));
        assert!(!of(0.99, 1.1, 1.2).differs(0.05));
        assert!(!of(1.01, 1.03, 1.2).differs(0.05));
        assert_eq!(of(0.9, 1.0, 1.05).noise(), 1.0 - 0.9);
    }
}
