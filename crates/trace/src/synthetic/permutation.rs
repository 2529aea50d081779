//! Random permutations of the numbers below `n`, without a table.

use reach_core::Random;

const ROUNDS: usize = 3;

/// A keyed permutation of the numbers below `n`.
///
/// It restricts a permutation of the k-bit numbers, where 2^k is the smallest power of two not below `n`. Each round
/// consists of invertible steps: multiplication by an odd number and addition (mod 2^k), and exclusive or with the
/// value shifted right.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    odd: [u64; ROUNDS],
    /// The inverses of `odd` (mod 2^64).
    inverse: [u64; ROUNDS],
    add: [u64; ROUNDS],
}

impl Permutation {
    /// Makes the permutation of the numbers below `n` (1 to 2^63) that belongs to `seed`.
    pub fn new(n: u64, seed: u64) -> Permutation {
        let mut random = Random::new(seed);
        let size = n.next_power_of_two();
        let odd = std::array::from_fn(|_| random.next_u64() | 1);
        let add = std::array::from_fn(|_| random.next_u64());
        Permutation { n, mask: size - 1, shift: size.trailing_zeros().div_ceil(2), odd, inverse: odd.map(inverse), add }
    }

    /// Applies the permutation of the k-bit numbers.
    #[inline(always)]
    fn forward(&self, mut x: u64) -> u64 {
        for round in 0..ROUNDS {
            x = x.wrapping_mul(self.odd[round]).wrapping_add(self.add[round]) & self.mask;
            // Shifting by half the width moves the high bits, which the product mixes well, to the low half.
            x ^= x >> self.shift;
        }
        x
    }

    /// Applies the inverse permutation of the k-bit numbers.
    #[inline(always)]
    fn backward(&self, mut x: u64) -> u64 {
        for round in (0..ROUNDS).rev() {
            // The upper half was unchanged, so the same step restores the lower half.
            x ^= x >> self.shift;
            x = x.wrapping_sub(self.add[round]).wrapping_mul(self.inverse[round]) & self.mask;
        }
        x
    }

    /// Returns the image of `x` (< `n`). Images outside the range are mapped again until one is below `n` (cycle
    /// walking).
    #[inline(always)]
    pub fn apply(&self, x: u64) -> u64 {
        let mut x = self.forward(x);
        while x >= self.n {
            x = self.forward(x);
        }
        x
    }

    /// Returns the number whose image is `x` (< `n`).
    #[inline(always)]
    pub fn invert(&self, x: u64) -> u64 {
        let mut x = self.backward(x);
        while x >= self.n {
            x = self.backward(x);
        }
        x
    }
}

/// Returns the inverse of an odd number (mod 2^64) by Newton's iteration. An odd number is its own inverse in 3 bits,
/// and each step doubles the correct bits.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
}

/// Visits the numbers below `n` in a random order, each once per cycle, again and again. It needs constant memory.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    order: Permutation,
    next: u64,
}

impl Cycle {
    /// Makes the cycle through the numbers below `n` (1 to 2^63) that belongs to `seed`.
    pub fn new(n: u64, seed: u64) -> Cycle {
        Cycle { order: Permutation::new(n, seed), next: 0 }
    }

    /// Returns the next number of the cycle.
    #[inline(always)]
    pub fn advance(&mut self) -> u64 {
        loop {
            let x = self.order.forward(self.next);
            self.next = (self.next + 1) & self.order.mask;
            if x < self.order.n {
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
        fn invert_undoes_apply_which_is_a_bijection(n in 1u64..5000, seed: u64) {
            let permutation = Permutation::new(n, seed);
            let mut seen = vec![false; n as usize];
            for x in 0..n {
                let y = permutation.apply(x);
                prop_assert!(!std::mem::replace(&mut seen[y as usize], true));
                prop_assert_eq!(permutation.invert(y), x);
            }
        }

        #[test]
        fn a_cycle_visits_every_number_once_and_repeats(n in 1u64..5000, seed: u64) {
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
    fn neighbours_in_a_cycle_differ_as_in_a_random_order() {
        // In a random order of n numbers, neighbours differ by n/3 on average, and by less than n/16 in one case of
        // eight.
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
