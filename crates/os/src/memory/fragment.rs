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
    /// How free runs are given: the share of them, 0 to 1, that lie in the block of the run given before. The others follow at
    /// random. `None`: one block after the other.
    pub stay: Option<f64>,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Base pages whose frames were looked at together, when it was measured how scattered they are: 64 MB.
const MIXED: usize = 1 << 14;

/// How scattered the frames of new base pages are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    /// The aligned groups of eight frames that they lie in, for each page: 1/8 where frames are contiguous, 1 where each is alone
    /// in its group. The entries of a group share a line of a host's page table.
    pub groups: f64,
    /// The share of pages whose frame lies in another aligned 2 MB than that of the page before: 1/512 where frames are
    /// contiguous. The entries of 2 MB share one table of the host. `None`: not known.
    pub jumps: Option<f64>,
}

impl Scatter {
    /// Half of the least groups for each page that single frames can make, beyond the 1/8 of contiguous frames.
    const LEAST_OF_SINGLES: f64 = 0.3;

    /// Returns the binary logarithm of the frames in a run. `None` where frames are nearly contiguous: in runs of half of 2^`most`
    /// and more.
    fn run_order(self, most: u8) -> Option<u8> {
        if self.groups >= Self::LEAST_OF_SINGLES {
            return Some(0);
        }
        // Runs of eight and more fill their groups, so that groups do not tell their length.
        let runs = self.jumps?.max(1.0 / 512.0);
        let by_jumps = (1.0 / runs).log2().floor().max(0.0);
        let by_groups = (1.0 / self.groups).log2().round();
        let order = if by_groups < 3.0 { by_groups } else { by_jumps.max(3.0) };
        (order + 1.0 < f64::from(most)).then_some(order as u8)
    }

    /// Returns the share of pairs of which one frame is free, if frames are free at random.
    fn single_frames(self) -> f64 {
        // With fewer free frames, all memory would give little.
        let (mut low, mut high): (f64, f64) = (1.0 / 64.0, 0.5);
        for _ in 0..40 {
            let q = f64::midpoint(low, high);
            if (1.0 - (1.0 - q).powi(4)) / (4.0 * q) > self.groups { low = q } else { high = q }
        }
        low
    }
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
    /// Returns the recipe for `memory` bytes whose new base pages lie as `scatter` says, as long as they are fewer than 1 GB and
    /// 1/32 of memory. Later ones are contiguous. Only the beginning of memory is broken up, because the measurement says nothing
    /// of large blocks. `None` where frames are nearly contiguous, as in memory that nothing has used.
    ///
    /// Where groups ask for single frames, the allocator gives frames whose neighbour in a pair is taken first. If a share d of
    /// the frames is free, at random, a pair has such a frame with probability q = 2d(1 − d), and a group of four pairs has any
    /// with 1 − (1 − q)^4. So groups for each page are (1 − (1 − q)^4) / 4q, which is 0.47 or more. Where frames come in longer
    /// runs, few of them have a free neighbour.
    pub fn scattering(scatter: Scatter, memory: u64) -> Option<Fragmentation> {
        // Bytes of base pages that lie as measured.
        const MOST: u64 = 1 << 30;
        const ORDER: u8 = 9;
        // Of broken blocks, where frames come in runs.
        const SPARSE: f64 = 1.0 / 8.0;
        let wanted = MOST.min(memory / 32);
        let grain = scatter.run_order(ORDER)?;
        let pair = if grain == 0 { scatter.single_frames() } else { 2.0 * SPARSE * (1.0 - SPARSE) };
        let density = (1.0 - (1.0 - 2.0 * pair).sqrt()) / 2.0;
        // Each pair gives one run at most before neighbours are given, too.
        let broken = (wanted as f64 / (memory as f64 * pair / 2.0)).min(0.75);
        let scattered = broken * density / (broken * density + 1.0 - broken);
        let stay = scatter.jumps.map(|jumps| (1.0 - jumps * f64::from(1 << grain)).clamp(0.0, 1.0));
        Some(Fragmentation { order: ORDER, scattered, hold: 1.0 - density, grain, first: true, stay, seed: 1 })
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
        if let Some(stay) = self.stay {
            self.mix(frames, stay, &mut random);
        }
        Ok(())
    }

    /// Puts the free runs of broken blocks in the order in which they are given: the next lies in the same block with probability
    /// `stay`. Those of [`MIXED`] frames are given before those of the next, so that these lie in as few groups as without.
    fn mix(&self, frames: &mut Frames, stay: f64, random: &mut Random) {
        let mut by_order = vec![Vec::new(); self.order as usize];
        for (at, order) in frames.buddy().free_blocks() {
            if let Some(blocks) = by_order.get_mut(order as usize) {
                blocks.push(at);
            }
        }
        for (order, blocks) in by_order.iter().enumerate() {
            let mut given = Vec::with_capacity(blocks.len());
            for window in blocks.chunks(MIXED >> order) {
                // Neighbours by address, cut where the next lies elsewhere.
                let mut chains: Vec<&[u64]> = Vec::new();
                for block in window.chunk_by(|a, b| a >> self.order == b >> self.order) {
                    chains.extend(block.chunk_by(|_, _| random.unit() < stay));
                }
                for i in (1..chains.len()).rev() {
                    chains.swap(i, random.below(i as u64 + 1) as usize);
                }
                given.extend(chains.concat());
            }
            frames.buddy.give_in_order(given, order as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListOrder;
    use reach_core::PageShift;

    /// Returns groups and jumps for each page of 64 MB.
    fn given(scatter: Scatter) -> (f64, f64) {
        const MEMORY: u64 = 8 << 30;
        let mut frames = Frames::new(MEMORY, PageShift(12), ListOrder::Lifo);
        if let Some(recipe) = Fragmentation::scattering(scatter, MEMORY) {
            recipe.apply(&mut frames).unwrap();
        }
        frames.check();
        let pages = 0..16384u64;
        let given: Vec<u64> =
            pages.map(|at| frames.allocate(0, FrameKind::Anonymous, ObjectId::NONE, at).unwrap().0).collect();
        assert!(frames.buddy().largest_free() >= Some(9), "no huge page is left for {scatter:?}");
        let groups: std::collections::BTreeSet<u64> = given.iter().map(|frame| frame / 8).collect();
        let jumps = given.windows(2).filter(|pair| pair[0] >> 9 != pair[1] >> 9).count();
        (groups.len() as f64 / 16384.0, jumps as f64 / 16384.0)
    }

    #[test]
    fn scattered_frames_lie_in_as_many_groups_as_were_measured() {
        assert_eq!(Fragmentation::scattering(Scatter { groups: 0.125, jumps: None }, 4 << 30), None);
        for groups in [0.5, 0.7, 0.84, 0.95] {
            let (found, jumps) = given(Scatter { groups, jumps: None });
            assert!((found / groups - 1.0).abs() < 0.05, "{found} for {groups}");
            assert!(jumps < 0.3, "one block after the other: {jumps}");
        }
    }

    #[test]
    fn scattered_frames_jump_as_often_as_was_measured() {
        for (groups, jumps) in [(0.84, 0.99), (0.66, 0.67), (0.25, 0.2), (0.125, 0.1), (0.125, 0.03)] {
            let found = given(Scatter { groups, jumps: Some(jumps) });
            assert!((found.1 / jumps - 1.0).abs() < 0.1, "{found:?} for {jumps}");
            assert!((found.0 / groups - 1.0).abs() < 0.1, "{found:?} for {groups}");
        }
        let (groups, jumps) = given(Scatter { groups: 0.125, jumps: Some(0.002) });
        assert!(groups == 0.125 && jumps < 0.0025, "contiguous: {groups} {jumps}");
    }

    #[test]
    fn the_given_share_of_free_memory_is_scattered() {
        for (scattered, hold) in [(0.0, 0.5), (0.4, 0.25), (0.9, 0.01), (1.0, 0.5)] {
            for first in [false, true] {
                let mut frames = Frames::new(1 << 30, PageShift(12), ListOrder::Lifo);
                let recipe = Fragmentation { order: 9, scattered, hold, grain: 0, first, stay: None, seed: 7 };
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
            Fragmentation { order: 9, scattered: 0.7, hold: 0.3, grain: 0, first: false, stay: None, seed }
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
        Fragmentation { order: 9, scattered: 1.0, hold: 0.9, grain: 2, first: false, stay: None, seed: 3 }
            .apply(&mut frames)
            .unwrap();
        let blocks = frames.buddy().free_blocks();
        assert!(!blocks.is_empty() && blocks.iter().all(|&(_, order)| order >= 2));
    }

    #[test]
    fn parameters_out_of_range_are_errors() {
        let mut frames = Frames::new(64 << 20, PageShift(12), ListOrder::Lifo);
        let recipe = Fragmentation { order: 0, scattered: 0.5, hold: 0.5, grain: 0, first: false, stay: None, seed: 1 };
        assert!(recipe.apply(&mut frames).is_err());
        assert!(Fragmentation { order: 3, grain: 3, ..recipe }.apply(&mut frames).is_err());
        assert!(Fragmentation { order: 9, scattered: f64::NAN, ..recipe }.apply(&mut frames).is_err());
    }
}
