//! Medians with confidence intervals from the sign test, which assumes nothing about the distribution. Times have long tails.

use statrs::distribution::{Binomial, DiscreteCDF};

/// A median with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// The median of the values.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// What a ratio of times says about an effect. Shares are of the time: 0.05 is 5 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effect {
    /// The ratio differs from 1, with 95 % confidence and by more than the noise.
    Present,
    /// An effect of more than this share is excluded, and the share is at most the least that matters.
    Absent {
        /// Greatest effect that is not excluded.
        within: f64,
    },
    /// An effect that matters is neither shown nor excluded.
    Unknown {
        /// Greatest effect that is not excluded.
        within: f64,
    },
}

/// Least number of values for a 95 % confidence interval.
pub const MIN_VALUES: usize = 6;

impl Median {
    /// Computes the median and its interval, whose ends are two of the values. `None` for fewer than [`MIN_VALUES`].
    pub fn of(values: &[f64]) -> Option<Median> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n < MIN_VALUES {
            return None;
        }
        let heads = Binomial::new(0.5, n as u64).ok()?;
        // The true median is below the k-th smallest value only if at most k - 1 values are below it.
        let k = (0..n as u64 / 2).take_while(|&k| heads.cdf(k) <= 0.025).count();
        let value = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        Some(Median { value, low: sorted[k - 1], high: sorted[n - k] })
    }

    /// Returns the greatest distance of the interval from 1.
    pub fn noise(&self) -> f64 {
        (self.high - 1.0).abs().max((self.low - 1.0).abs())
    }

    /// Returns whether a ratio differs from 1, with 95 % confidence and by more than `noise`, the difference of equal runs.
    pub fn differs(&self, noise: f64) -> bool {
        (self.low > 1.0 || self.high < 1.0) && (self.value - 1.0).abs() > noise
    }

    /// Judges a ratio, given the `noise` of equal runs and the least effect that matters, `least`, both as shares.
    ///
    /// An effect is absent only if neither the interval nor the noise leaves room for one that matters. Otherwise nothing is
    /// known: a wide interval around 1 is no evidence of equality.
    pub fn effect(&self, noise: f64, least: f64) -> Effect {
        let within = self.noise().max(noise);
        match self.differs(noise) {
            true => Effect::Present,
            false if within <= least => Effect::Absent { within },
            false => Effect::Unknown { within },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_equal_the_tables_of_the_sign_test() {
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
    fn a_ratio_differs_only_if_its_interval_excludes_1_and_it_exceeds_the_noise() {
        let of = |low, value, high| Median { value, low, high };
        assert!(of(1.08, 1.1, 1.2).differs(0.05) && of(0.7, 0.8, 0.9).differs(0.05));
        assert!(!of(0.99, 1.1, 1.2).differs(0.05));
        assert!(!of(1.01, 1.03, 1.2).differs(0.05));
        assert_eq!(of(0.9, 1.0, 1.05).noise(), 1.0 - 0.9);
    }

    #[test]
    fn an_effect_is_absent_only_if_interval_and_noise_exclude_one_that_matters() {
        let of = |low, value, high| Median { value, low, high };
        let (narrow, wide) = (of(0.99, 1.0, 1.01), of(0.5, 1.0, 1.92));
        assert!(matches!(narrow.effect(0.02, 0.05), Effect::Absent { within } if within == 0.02));
        assert!(matches!(narrow.effect(0.27, 0.05), Effect::Unknown { within } if within == 0.27));
        assert!(matches!(wide.effect(0.0, 0.05), Effect::Unknown { within } if (within - 0.92).abs() < 1e-9));
        // A difference within the noise of equal runs is no effect, and no evidence against one.
        assert!(matches!(of(1.1, 1.2, 1.3).effect(0.25, 0.05), Effect::Unknown { .. }));
        assert_eq!(of(1.1, 1.2, 1.3).effect(0.05, 0.5), Effect::Present);
    }
}
