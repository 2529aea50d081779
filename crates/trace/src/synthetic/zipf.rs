//! Zipf's law: what is popular.

use reach_core::Random;

/// Ranks from 0 on, drawn by Zipf's law.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    /// Sums of popularity up to each rank.
    sums: Vec<f64>,
}

impl Zipf {
    /// Of `n` ranks, at least one; rank r is drawn as often as (r + 1) to the power of -`exponent`.
    pub fn new(n: u64, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=n).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Zipf { sums: sums.collect() }
    }

    /// How many ranks there are.
    pub fn len(&self) -> u64 {
        self.sums.len() as u64
    }

    /// A rank.
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
    fn the_first_of_two_is_drawn_as_often_as_the_law_says() {
        let (zipf, mut random) = (Zipf::new(2, 1.0), Random::new(1));
        let first = (0..30_000).filter(|_| zipf.draw(&mut random) == 0).count();
        assert!((19_500..20_500).contains(&first), "{first}");
        let even = Zipf::new(4, 0.0);
        let last = (0..40_000).filter(|_| even.draw(&mut random) == 3).count();
        assert!((9_500..10_500).contains(&last), "{last}");
    }
}
