//! The state of free memory at boot: broken up by a recipe, or as a Linux computer counted its own.

use super::{FragmentError, Fragmentation, FrameKind, Frames};
use crate::ObjectId;
use reach_core::{PageShift, Pfn, Random};
use std::str::FromStr;

/// The state of free memory at boot.
#[derive(Clone, Debug, PartialEq)]
pub enum FreeMemory {
    /// A share of its blocks is broken up, by a recipe.
    Broken(Fragmentation),
    /// It lies in blocks of the sizes that were counted on a computer.
    Counted(FreeBlocks),
}

/// An error of [`FreeMemory::apply`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FreeMemoryError {
    /// A parameter of the recipe is out of range.
    #[error(transparent)]
    Recipe(#[from] FragmentError),
    /// The machine's base pages are not those of the counts.
    #[error("free blocks are counted in pages of 4 KB, and this machine has base pages of {0}")]
    BasePage(PageShift),
}

impl FreeMemory {
    /// Returns the same state with `seed` for its random choices.
    pub fn with_seed(self, seed: u64) -> FreeMemory {
        match self {
            FreeMemory::Broken(recipe) => FreeMemory::Broken(Fragmentation { seed, ..recipe }),
            FreeMemory::Counted(blocks) => FreeMemory::Counted(FreeBlocks { seed, ..blocks }),
        }
    }

    /// Returns the same state of another memory, number `number`, from 1 on: its random choices differ.
    pub fn of_another(&self, number: u64) -> FreeMemory {
        let (FreeMemory::Broken(Fragmentation { seed, .. }) | FreeMemory::Counted(FreeBlocks { seed, .. })) = self;
        self.clone().with_seed(seed.wrapping_add(number))
    }

    /// Brings the free memory of `frames`, which are just booted, to this state.
    ///
    /// # Errors
    /// When a parameter is out of range, or base pages are not of 4 KB; then nothing has changed.
    pub fn apply(&self, frames: &mut Frames) -> Result<(), FreeMemoryError> {
        match self {
            FreeMemory::Broken(recipe) => Ok(recipe.apply(frames)?),
            FreeMemory::Counted(_) if frames.base() != FreeBlocks::PAGE => {
                Err(FreeMemoryError::BasePage(frames.base()))
            }
            FreeMemory::Counted(blocks) => {
                blocks.apply(frames);
                Ok(())
            }
        }
    }
}

/// How many free blocks of each size a computer has.
///
/// ```
/// use reach_os::FreeBlocks;
///
/// let blocks: FreeBlocks = "Node 0, zone DMA32 1 0 0 0\nNode 0, zone Normal 10 5 0 200".parse().unwrap();
/// assert_eq!(blocks.counts(), [11, 5, 0, 200]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeBlocks {
    /// By the binary logarithm of their pages.
    counts: Vec<u64>,
    /// Seed of their places and of the order in which they are given.
    pub seed: u64,
}

impl FromStr for FreeBlocks {
    type Err = String;

    /// Parses the format of Linux's `/proc/buddyinfo`: a line for each zone, with the number of free blocks of 1, 2, 4 … pages of
    /// 4 KB. Zones are added up.
    fn from_str(text: &str) -> Result<FreeBlocks, String> {
        let mut counts = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let wrong = || {
                format!(
                    "line {number}: expected `Node 0, zone NAME` and counts of free blocks, as /proc/buddyinfo has it"
                )
            };
            let mut words = line.split_whitespace();
            let head: Vec<&str> = words.by_ref().take(4).collect();
            if !matches!(head[..], ["Node", _, "zone", _]) {
                return Err(wrong());
            }
            let zone = words.map(str::parse).collect::<Result<Vec<u32>, _>>().map_err(|_| wrong())?;
            if zone.is_empty() || zone.len() > FreeBlocks::MOST_SIZES {
                return Err(wrong());
            }
            counts.resize(counts.len().max(zone.len()), 0);
            zone.iter().zip(&mut counts).for_each(|(&blocks, sum)| *sum += u64::from(blocks));
        }
        FreeBlocks::of(counts)
    }
}

impl FreeBlocks {
    /// The page that counts refer to.
    const PAGE: PageShift = PageShift(12);

    /// Sizes that are read: up to 2 GB.
    const MOST_SIZES: usize = 20;

    /// Returns `counts[k]` free blocks of 2^k pages each. The error says what is wrong with them.
    pub fn of(counts: Vec<u64>) -> Result<FreeBlocks, String> {
        let too_many = |&blocks: &u64| blocks > u64::from(u32::MAX);
        match counts.len() {
            _ if counts.iter().all(|&blocks| blocks == 0) => Err("no free block is counted".into()),
            sizes if sizes > FreeBlocks::MOST_SIZES || counts.iter().any(too_many) => {
                Err(format!("expected at most {} counts, each less than 2^32", FreeBlocks::MOST_SIZES))
            }
            _ => Ok(FreeBlocks { counts, seed: 1 }),
        }
    }

    /// Returns the number of blocks by the binary logarithm of their pages.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the blocks below the last size, for `memory` pages: as many as were counted, or fewer in proportion where memory cannot
    /// hold what was free on that computer, and the frames between.
    fn pieces(&self, memory: u64) -> Vec<u64> {
        let free: u64 = self.counts.iter().enumerate().map(|(order, blocks)| blocks << order).sum();
        let (_, pieces) = self.counts.split_last().expect("there is a count");
        // The kernel holds at most about as many frames as lie in the pieces.
        let held: u64 = pieces.iter().enumerate().map(|(order, blocks)| blocks << order).sum();
        let share = (memory as f64 / (free + held) as f64).min(1.0);
        pieces.iter().map(|&blocks| (blocks as f64 * share).round() as u64).collect()
    }

    /// Makes free blocks as counted, in random regions of memory, and puts them in random order on their lists, as use leaves them. Blocks of
    /// the last size stand for memory that is free and contiguous, because nobody counted what they are a part of.
    ///
    /// Between two free blocks of a size the kernel holds frames, so that they do not join.
    fn apply(&self, frames: &mut Frames) {
        let mut pieces = self.pieces(frames.buddy().frames());
        let greatest = pieces.iter().rposition(|&blocks| blocks > 0);
        let (Some(greatest), Some(largest)) = (greatest, frames.buddy().largest_free()) else { return };
        let region = (greatest as u8 + 1).min(largest);
        pieces.truncate(region as usize);
        let mut random = Random::new(self.seed);
        let mut regions: Vec<u64> = (0..frames.buddy().frames() >> region)
            .map(|at| at << region)
            .filter(|&at| frames.buddy().free_block(Pfn(at)).is_some_and(|(_, order)| order >= region))
            .collect();
        let mut given = vec![Vec::new(); region as usize];
        while pieces.iter().any(|&blocks| blocks > 0) && !regions.is_empty() {
            let at = regions.swap_remove(random.below(regions.len() as u64) as usize);
            fill(at, region, &mut pieces, &mut given, frames, &mut random);
        }
        for (order, blocks) in given.iter_mut().enumerate() {
            for i in (1..blocks.len()).rev() {
                blocks.swap(i, random.below(i as u64 + 1) as usize);
            }
            frames.buddy.give_in_order(std::mem::take(blocks), order as u8);
        }
    }
}

/// Divides the free block of 2^`order` frames at `at` into `pieces` that are still wanted, largest first. The kernel holds the rest.
/// Appends the first frame of each piece to those `given` of its size.
fn fill(at: u64, order: u8, pieces: &mut [u64], given: &mut [Vec<u64>], frames: &mut Frames, random: &mut Random) {
    let Some(half) =
        order.checked_sub(1).filter(|&half| pieces.iter().take(half as usize + 1).any(|&blocks| blocks > 0))
    else {
        frames.allocate_at(Pfn(at), order, FrameKind::Wired, ObjectId::NONE, 0).expect("the block is free");
        return;
    };
    let mut halves = [at, at + (1 << half)];
    if let Some(wanted) = pieces.get_mut(half as usize).filter(|wanted| **wanted > 0) {
        *wanted -= 1;
        if random.below(2) == 1 {
            halves.swap(0, 1);
        }
        given[half as usize].push(halves[0]);
        fill(halves[1], half, pieces, given, frames, random);
    } else {
        halves.into_iter().for_each(|at| fill(at, half, pieces, given, frames, random));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListOrder;

    fn memory(bytes: u64) -> Frames {
        Frames::new(bytes, FreeBlocks::PAGE, ListOrder::Lifo)
    }

    #[test]
    fn free_blocks_are_as_many_as_were_counted() {
        let counts = vec![70, 900, 310, 44, 0, 13, 2, 1, 0, 5, 3, 90];
        let mut frames = memory(1 << 30);
        FreeMemory::Counted(FreeBlocks::of(counts.clone()).unwrap()).apply(&mut frames).unwrap();
        frames.check();
        assert_eq!(frames.buddy().free_by_order()[..11], counts[..11]);
        let pieces: u64 = counts[..11].iter().enumerate().map(|(order, blocks)| blocks << order).sum();
        let held = frames.buddy().frames() - frames.buddy().free_frames();
        assert!(held < 2 * pieces, "{held} held for {pieces}");
        let first = frames.buddy.allocate(9).unwrap().0;
        let next = frames.buddy.allocate(9).unwrap().0;
        assert_ne!(first.abs_diff(next), 512, "neighbours are not given one after the other");
    }

    #[test]
    fn smaller_memory_has_fewer_blocks_in_proportion() {
        // 8 MB in pieces of 8 MB + 24 MB.
        let blocks = FreeBlocks::of(vec![0, 1024, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]).unwrap();
        assert_eq!(blocks.pieces(10 << 8)[1], 256);
        assert_eq!(blocks.pieces(64 << 8)[1], 1024);
        // No block of the last size: half of memory is pieces, and the kernel holds the other half.
        let mut frames = memory(4 << 20);
        FreeMemory::Counted(FreeBlocks::of(vec![0, 4096, 0]).unwrap()).apply(&mut frames).unwrap();
        frames.check();
        assert_eq!((frames.buddy().free_by_order()[1], frames.buddy().largest_free()), (256, Some(1)));
    }

    #[test]
    fn counts_are_read_as_linux_prints_them() {
        let text = "Node 0, zone      DMA      0      0      3 \nNode 0, zone   Normal   3714  79232\n";
        assert_eq!(text.parse::<FreeBlocks>().unwrap().counts(), [3714, 79232, 3]);
        for (text, part) in [
            ("", "no free block"),
            ("Node 0, zone DMA 0 0 0", "no free block"),
            ("Node 0, zone DMA 1\nMemFree: 3 kB", "line 2: expected `Node 0, zone NAME`"),
            ("Node 0, zone DMA", "line 1"),
            ("Node 0, zone DMA 1 -1", "line 1"),
            (&format!("Node 0, zone DMA{}", " 1".repeat(21)), "line 1"),
        ] {
            assert!(text.parse::<FreeBlocks>().unwrap_err().contains(part), "{text}");
        }
        let alpha = &mut Frames::new(1 << 30, PageShift(13), ListOrder::Lifo);
        let error = FreeMemory::Counted(FreeBlocks::of(vec![1, 0]).unwrap()).apply(alpha).unwrap_err().to_string();
        assert!(error.ends_with("this machine has base pages of 8K"), "{error}");
    }
}
