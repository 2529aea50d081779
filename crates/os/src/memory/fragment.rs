//! Pre-fragmentation: memory as on a machine that has been running for a while.

use crate::{FrameKind, Frames, ObjectId};
use reach_core::{Pfn, Random};

/// A recipe for breaking up free memory before the program starts.
///
/// Memory is cut into aligned blocks of `2^order` base pages. Some blocks are *broken*: the kernel takes a share
/// `hold` of their frames for good (unmovable, wired), in aligned runs of `2^grain` frames chosen at random, at least one run
/// per block. As many blocks are broken as it takes for the share `scattered` of the remaining free memory to lie in them, and
/// thus in free blocks smaller than `2^order`. The other blocks stay whole. Equal parameters give equal memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fragmentation {
    /// Binary logarithm of the base pages in a block; 1 to the allocator's largest order.
    pub order: u8,
    /// Share of the free memory that lies in broken blocks, 0 to 1.
    pub scattered: f64,
    /// Share of a broken block that the kernel takes, 0 to 1; at least one run is taken and one left.
    pub hold: f64,
    /// Binary logarithm of the frames in a run; less than `order`.
    pub grain: u8,
    /// Which blocks are broken: the first ones, or else some that are chosen at random.
    pub first: bool,
    /// Seed of the random choices.
    pub seed: u64,
}

/// A parameter of [`Fragmentation`] is out of range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FragmentError {
    /// The order.
    #[error("fragmentation order {order}: expected 1 to {most}")]
    Order {
        /// The value given.
        order: u8,
        /// The largest order of the allocator.
        most: u8,
    },
    /// The grain.
    #[error("fragmentation grain {grain}: expected less than the order, {order}")]
    Grain {
        /// The value given.
        grain: u8,
        /// The order.
        order: u8,
    },
    /// A share.
    #[error("fragmentation {name} {value}: expected a share from 0 to 1")]
    Share {
        /// The name of the parameter.
        name: &'static str,
        /// The value given.
        value: f64,
    },
}

impl Fragmentation {
    /// Returns the recipe for `memory` bytes whose base pages lie in `groups` aligned groups of eight frames for each page, as
    /// measured on a computer, as long as they are fewer than 1 GB and 1/32 of memory. Later ones are contiguous. Only the
    /// beginning of memory is broken up, because the measurement says nothing of large blocks. `None` where frames are nearly
    /// contiguous, as in memory that nothing has used.
    ///
    /// The allocator gives frames whose neighbour in a pair is taken first. If a share d of the frames is free, at random, a pair
    /// has such a frame with probability q = 2d(1 − d), and a group of four pairs has any with 1 − (1 − q)^4. So groups for
    /// each page are (1 − (1 − q)^4) / 4q, which is 0.47 or more.
    pub fn scattering(groups: f64, memory: u64) -> Option<Fragmentation> {
        // Half of the least that the recipe can make, beyond 1/8 of contiguous frames.
        const LEAST: f64 = 0.3;
        // Bytes of base pages that lie as measured.
        const MOST: u64 = 1 << 30;
        let wanted = MOST.min(memory / 32);
        if groups < LEAST {
            return None;
        }
        // With fewer free frames, all memory would give little.
        let (mut low, mut high): (f64, f64) = (1.0 / 64.0, 0.5);
        for _ in 0..40 {
            let q = (low + high) / 2.0;
            if (1.0 - (1.0 - q).powi(4)) / (4.0 * q) > groups { low = q } else { high = q }
        }
        let density = (1.0 - (1.0 - 2.0 * low).sqrt()) / 2.0;
        // Each pair gives one frame at most before neighbours are given, too.
        let broken = (wanted as f64 / (memory as f64 * low / 2.0)).min(0.75);
        let scattered = broken * density / (broken * density + 1.0 - broken);
        Some(Fragmentation { order: 9, scattered, hold: 1.0 - density, grain: 0, first: true, seed: 1 })
    }

    /// Breaks up the free memory of `frames`. Blocks that are not wholly free stay as they are.
    ///
    /// # Errors
    /// When a parameter is out of range; then nothing has changed.
    pub fn apply(&self, frames: &mut Frames) -> Result<(), FragmentError> {
        let most = frames.buddy().max_order();
        if self.order == 0 || self.order > most {
            return Err(FragmentError::Order { order: self.order, most });
        }
        for (name, value) in [("scattered", self.scattered), ("hold", self.hold)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(FragmentError::Share { name, value });
            }
        }
        if self.grain >= self.order {
            return Err(FragmentError::Grain { grain: self.grain, order: self.order });
        }
        let (runs, run) = (1u64 << (self.order - self.grain), 1u64 << self.grain);
        let taken_runs = ((runs as f64 * self.hold).round() as u64).clamp(1, runs - 1);
        let (size, held) = (1u64 << self.order, taken_runs * run);
        let mut blocks: Vec<u64> = (0..frames.buddy().frames() >> self.order)
            .map(|block| block << self.order)
            .filter(|&at| frames.buddy().free_block(Pfn(at)).is_some_and(|(_, order)| order >= self.order))
            .collect();
        // b broken of n blocks: b·(size − held) = scattered · (b·(size − held) + (n − b)·size).
        let (left, n) = ((size - held) as f64, blocks.len() as f64);
        let scattered = self.scattered;
        let broken = scattered * n * size as f64 / (left * (1.0 - scattered) + scattered * size as f64);
        let broken = (broken.round() as usize).min(blocks.len());
        let mut random = Random::new(self.seed);
        let mut taken = vec![false; runs as usize];
        for i in 0..broken {
            if !self.first {
                let other = i + random.below((blocks.len() - i) as u64) as usize;
                blocks.swap(i, other);
            }
            // Floyd's sampling: `taken_runs` different ones of `runs`.
            taken.fill(false);
            for top in runs - taken_runs..runs {
                let pick = random.below(top + 1);
                let new = if taken[pick as usize] { top } else { pick };
                taken[new as usize] = true;
            }
            for first in (0..runs).filter(|&at| taken[at as usize]) {
                for offset in first * run..(first + 1) * run {
                    frames.allocate_at(Pfn(blocks[i] + offset), 0, FrameKind::Wired, ObjectId::NONE, 0);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListOrder;
    use reach_core::PageShift;

    #[test]
    fn scattered_frames_lie_in_as_many_groups_as_were_measured() {
        const MEMORY: u64 = 4 << 30;
        assert_eq!(Fragmentation::scattering(0.125, MEMORY), None);
        for groups in [0.5, 0.7, 0.84, 0.95] {
            let mut frames = Frames::new(MEMORY, PageShift(12), ListOrder::Lifo);
            let recipe = Fragmentation::scattering(groups, MEMORY).unwrap();
            recipe.apply(&mut frames).unwrap();
            let given: std::collections::BTreeSet<u64> = (0..8192)
                .map(|at| frames.allocate(0, FrameKind::Anonymous, ObjectId::NONE, at).unwrap().0 / 8)
                .collect();
            let found = given.len() as f64 / 8192.0;
            assert!((found / groups - 1.0).abs() < 0.05, "{found} for {groups}");
            assert!(frames.buddy().largest_free() >= Some(9), "no huge page is left for {groups}");
        }
    }

    #[test]
    fn the_given_share_of_free_memory_is_scattered() {
        for (scattered, hold) in [(0.0, 0.5), (0.4, 0.25), (0.9, 0.01), (1.0, 0.5)] {
            for first in [false, true] {
                let mut frames = Frames::new(1 << 30, PageShift(12), ListOrder::Lifo);
                let recipe = Fragmentation { order: 9, scattered, hold, grain: 0, first, seed: 7 };
                recipe.apply(&mut frames).unwrap();
                frames.check();
                let by_order = frames.buddy().free_by_order();
                let small: u64 = by_order[..9].iter().enumerate().map(|(order, blocks)| blocks << order).sum();
                let share = small as f64 / frames.buddy().free_frames() as f64;
                assert!((share - scattered).abs() < 0.002, "{share} for {scattered}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_memory() {
        let blocks = |seed| {
            let mut frames = Frames::new(64 << 20, PageShift(12), ListOrder::Lifo);
            Fragmentation { order: 9, scattered: 0.7, hold: 0.3, grain: 0, first: false, seed }
                .apply(&mut frames)
                .unwrap();
            frames.buddy().free_blocks()
        };
        assert_eq!(blocks(1), blocks(1));
        assert_ne!(blocks(1), blocks(2));
    }

    #[test]
    fn free_frames_come_in_runs_of_the_grain() {
        let mut frames = Frames::new(64 << 20, PageShift(12), ListOrder::Lifo);
        Fragmentation { order: 9, scattered: 1.0, hold: 0.9, grain: 2, first: false, seed: 3 }
            .apply(&mut frames)
            .unwrap();
        let blocks = frames.buddy().free_blocks();
        assert!(!blocks.is_empty() && blocks.iter().all(|&(_, order)| order >= 2));
    }

    #[test]
    fn parameters_out_of_range_are_errors() {
        let mut frames = Frames::new(64 << 20, PageShift(12), ListOrder::Lifo);
        let recipe = Fragmentation { order: 0, scattered: 0.5, hold: 0.5, grain: 0, first: false, seed: 1 };
        assert!(recipe.apply(&mut frames).is_err());
        assert!(Fragmentation { order: 3, grain: 3, ..recipe }.apply(&mut frames).is_err());
        assert!(Fragmentation { order: 9, scattered: f64::NAN, ..recipe }.apply(&mut frames).is_err());
    }
}
