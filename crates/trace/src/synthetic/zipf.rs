//! Zipf's law of popularity.

use reach_core::Random;

/// Draws ranks, from 0 on, by Zipf's law.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    /// Cumulative popularity up to and including each rank.
    sums: Vec<f64>,
}

impl Zipf {
    /// Makes the law for `n` (> 0) ranks. Rank r is drawn in proportion to (r + 1)^-`exponent`.
    pub fn new(n: u64, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=n).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Zipf { sums: sums.collect() }
    }

    /// Returns the number of ranks.
    pub fn len(&self) -> u64 {
        self.sums.len() as u64
    }

    /// Draws a rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let all = self.sums.last().copied().unwrap_or(0.0);
        let point = random.unit() * all;
        self.sums.partition_point(|&sum| sum <= point).min(self.sums.len() - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_drawn_in_proportion_to_their_popularity() {
        let (zipf, mut random) = (Zipf::new(2, 1.0), Random::new(1));
        let first = (0..30_000).filter(|_| zipf.draw(&mut random) == 0).count();
        assert!((19_500..20_500).contains(&first), "{first}");
        let even = Zipf::new(4, 0.0);
        let last = (0..40_000).filter(|_| even.draw(&mut random) == 3).count();
        assert!((9_500..10_500).contains(&last), "{last}");
    }
}
