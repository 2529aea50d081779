//! A random order of the numbers below `n` without a table of them.

use reach_core::Random;

const ROUNDS: usize = 3;

/// Visits the numbers below `n` in a random order, each once, over and over: a single cycle through all of them. Costs
/// O(1) memory whatever `n` is.
///
/// A keyed bijection `f` of the k-bit numbers, 2^k the first power of two that holds `n`, is applied to 0, 1, 2, …, and
/// what is not below `n` is passed over. `f` is made of steps that each can be undone: multiplication by an odd number
/// (mod 2^k), and exclusive or with a shifted self.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    n: u64,
    mask: u64,
    shift: u32,
    odd: [u64; ROUNDS],
    add: [u64; ROUNDS],
    next: u64,
}

impl Cycle {
    /// The order that `seed` gives to the numbers below `n` (1 to 2^63).
    pub fn new(n: u64, seed: u64) -> Cycle {
        let mut random = Random::new(seed);
        let size = n.next_power_of_two();
        let odd = std::array::from_fn(|_| random.next_u64() | 1);
        let add = std::array::from_fn(|_| random.next_u64());
        Cycle { n, mask: size - 1, shift: size.trailing_zeros().div_ceil(2), odd, add, next: 0 }
    }

    /// The next number of the cycle.
    #[inline(always)]
    pub fn advance(&mut self) -> u64 {
        loop {
            let mut x = self.next;
            self.next = (self.next + 1) & self.mask;
            for round in 0..ROUNDS {
                x = x.wrapping_mul(self.odd[round]).wrapping_add(self.add[round]) & self.mask;
                // Half the width: high bits, which the product mixed well, reach the low half.
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_one_full_cycle(n in 1u64..5000, seed: u64) {
            let mut cycle = Cycle::new(n, seed);
            let first: Vec<u64> = (0..n).map(|_| cycle.advance()).collect();
            let second: Vec<u64> = (0..n).map(|_| cycle.advance()).collect();
            prop_assert_eq!(&first, &second);
            let mut sorted = first;
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..n));
        }
    }

    #[test]
    fn looks_random() {
        // Of a random order of n numbers, neighbours differ by about n/3 on average and by less than n/16 in one
        // case of eight.
        let n = 1 << 16;
        let mut cycle = Cycle::new(n, 7);
        let order: Vec<u64> = (0..n).map(|_| cycle.advance()).collect();
        let steps: Vec<u64> = order.windows(2).map(|w| w[0].abs_diff(w[1])).collect();
        let mean = steps.iter().sum::<u64>() as f64 / steps.len() as f64 / n as f64;
        let near = steps.iter().filter(|&&s| s < n / 16).count() as f64 / steps.len() as f64;
        assert!((mean - 1.0 / 3.0).abs() < 0.02, "mean step {mean}");
        assert!((near - 0.121).abs() < 0.02, "near steps {near}");
    }

    #[test]
    fn seeds_give_different_orders() {
        let order = |seed| {
            let mut cycle = Cycle::new(1000, seed);
            (0..1000).map(|_| cycle.advance()).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
