//! Pre-fragmentation: memory as a machine has it that was not booted a moment ago.

use crate::{FrameKind, Frames, ObjectId};
use reach_core::{Pfn, Random};

/// How free memory is to be broken up before the program starts.
///
/// The recipe: memory is cut into aligned blocks of `2^order` base pages. Blocks chosen at random are *broken*: a share
/// `hold` of their frames, in aligned runs of `2^grain`, at least one each, chosen at random, is taken for good by the
/// kernel (unmovable, wired). So
/// many blocks are broken that the share `scattered` of the memory that is still free lies in them, and thus in free
/// blocks smaller than `2^order`. The other blocks stay whole. Equal parameters give equal memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fragmentation {
    /// Blocks of `2^order` base pages are what cannot be had any more; 1 to the allocator's greatest order.
    pub order: u8,
    /// Share of the free memory that lies in broken blocks, 0 to 1.
    pub scattered: f64,
    /// Share of a broken block that is taken, 0 to 1; at least one run is taken and one left.
    pub hold: f64,
    /// What is taken, and what is left, comes in aligned runs of `2^grain` frames; less than `order`.
    pub grain: u8,
    /// Seed of all choices.
    pub seed: u64,
}

/// Parameters out of range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FragmentError {
    /// The order.
    #[error("fragmentation order {order} is out of range; give one from 1 to {most}")]
    Order {
        /// As given.
        order: u8,
        /// The greatest.
        most: u8,
    },
    /// The grain.
    #[error("fragmentation grain {grain} is out of range; it must be less than the order, {order}")]
    Grain {
        /// As given.
        grain: u8,
        /// The order.
        order: u8,
    },
    /// A share.
    #[error("fragmentation {name} of {value} is no share; give one from 0 to 1")]
    Share {
        /// Which.
        name: &'static str,
        /// As given.
        value: f64,
    },
}

impl Fragmentation {
    /// Breaks up the free memory of `frames`. Blocks that are not wholly free are left as they are.
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
        for i in 0..broken {
            let other = i + random.below((blocks.len() - i) as u64) as usize;
            blocks.swap(i, other);
            // Floyd's sampling: so many different ones of `runs`.
            let mut taken = std::collections::BTreeSet::new();
            for top in runs - taken_runs..runs {
                let pick = random.below(top + 1);
                if !taken.insert(pick) {
                    taken.insert(top);
                }
            }
            for offset in taken.into_iter().flat_map(|first| first * run..(first + 1) * run) {
                frames.allocate_at(Pfn(blocks[i] + offset), 0, FrameKind::Wired, ObjectId::NONE, 0);
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
    fn the_asked_share_of_free_memory_is_scattered() {
        for (scattered, hold) in [(0.0, 0.5), (0.4, 0.25), (0.9, 0.01), (1.0, 0.5)] {
            let mut frames = Frames::new(1 << 30, PageShift(12), ListOrder::Lifo);
            let recipe = Fragmentation { order: 9, scattered, hold, grain: 0, seed: 7 };
            recipe.apply(&mut frames).unwrap();
            frames.check();
            let by_order = frames.buddy().free_by_order();
            let small: u64 = by_order[..9].iter().enumerate().map(|(order, blocks)| blocks << order).sum();
            let share = small as f64 / frames.buddy().free_frames() as f64;
            assert!((share - scattered).abs() < 0.002, "{share} for {scattered}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_memory() {
        let blocks = |seed| {
            let mut frames = Frames::new(64 << 20, PageShift(12), ListOrder::Lifo);
            Fragmentation { order: 9, scattered: 0.7, hold: 0.3, grain: 0, seed }.apply(&mut frames).unwrap();
            frames.buddy().free_blocks()
        };
        assert_eq!(blocks(1), blocks(1));
        assert_ne!(blocks(1), blocks(2));
    }

    #[test]
    fn what_is_left_comes_in_runs() {
        let mut frames = Frames::new(64 << 20, PageShift(12), ListOrder::Lifo);
        Fragmentation { order: 9, scattered: 1.0, hold: 0.9, grain: 2, seed: 3 }.apply(&mut frames).unwrap();
        let blocks = frames.buddy().free_blocks();
        assert!(!blocks.is_empty() && blocks.iter().all(|&(_, order)| order >= 2));
    }

    #[test]
    fn nonsense_is_refused() {
        let mut frames = Frames::new(64 << 20, PageShift(12), ListOrder::Lifo);
        let recipe = Fragmentation { order: 0, scattered: 0.5, hold: 0.5, grain: 0, seed: 1 };
        assert!(recipe.apply(&mut frames).is_err());
        assert!(Fragmentation { order: 3, grain: 3, ..recipe }.apply(&mut frames).is_err());
        assert!(Fragmentation { order: 9, scattered: f64::NAN, ..recipe }.apply(&mut frames).is_err());
    }
}
