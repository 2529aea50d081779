//! Models of a learned index, and the arrays of lines that leaf models lead to.

use crate::organization::TableTraffic;
use crate::organization::memory::{LARGEST_CHUNK, TableMemory};
use crate::{FrameSource, PhysAddr};
use std::collections::BTreeSet;

/// Lines of the smallest array: 4 KB.
pub(super) const FEWEST: usize = 64;
/// The most models below one.
pub(super) const MOST_CHILDREN: usize = 128;
/// Bytes of a model: the line's first block and slope, and the address and size of what it leads to.
pub(super) const MODEL: u64 = 32;
/// The most lines of a leaf for each block, if it has more than [`FEWEST`]. A leaf node of a radix tree that is as sparse
/// takes as much memory.
pub(super) const SPARSEST: usize = 4;
/// Lines by which the place of a block may miss its model.
const MOST_ERROR: usize = 1;
/// Bits of a slope after the point: more than those of a block's number, so that no slope is 0.
const FRACTION: u32 = 44;

/// A block that is present, and the mask of its entries.
pub(super) type Block = (u64, u8);

/// A straight line in fixed-point arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Linear {
    /// The block for which the line gives 0.
    pub first: u64,
    pub slope: u64,
}

impl Linear {
    /// Returns the line through 0 at `first` that rises by `rise` in `run`, or a little more.
    pub fn new(first: u64, rise: u64, run: u64) -> Linear {
        Linear { first, slope: (u128::from(rise) << FRACTION).div_ceil(u128::from(run)) as u64 }
    }

    /// Returns the value for `block`, rounded down; `None` before the first.
    pub fn at(self, block: u64) -> Option<usize> {
        let from = u128::from(block.checked_sub(self.first)?);
        Some(((from * u128::from(self.slope)) >> FRACTION) as usize)
    }

    /// Returns how many lines before its first the line reaches `block`, which is before the first block.
    fn before(self, block: u64) -> Option<usize> {
        let distance = u128::from(self.first.checked_sub(block)?);
        Some((distance * u128::from(self.slope)).div_ceil(1 << FRACTION) as usize)
    }

    /// Returns the line that gives each block `lines` more; `None` if rounding would change where a block is, or the first
    /// block would be below 0.
    fn moved_down(self, lines: usize) -> Option<Linear> {
        let gap = (1_u64 << FRACTION).checked_div(self.slope).filter(|gap| gap * self.slope == 1 << FRACTION)?;
        Some(Linear { first: self.first.checked_sub(lines as u64 * gap)?, ..self })
    }
}

/// A line of an array: its block plus one, 0 if it is empty; and the mask of the entries present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    tag: u64,
    present: u8,
}

/// A model of blocks, with their entries.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub linear: Linear,
    /// The most lines by which a block missed its model since it was trained.
    pub error: usize,
    /// Blocks.
    pub used: usize,
    lines: Vec<Line>,
    memory: TableMemory,
}

impl Leaf {
    /// Makes an array of `lines`, a power of two and at least [`FEWEST`]. Returns `None` when memory is exhausted.
    pub fn new(linear: Linear, lines: usize, memory: &mut dyn FrameSource) -> Option<Leaf> {
        let memory = TableMemory::allocate(lines as u64 * 64, memory)?;
        Some(Leaf { linear, error: 0, used: 0, lines: vec![Line::default(); lines], memory })
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the address of the array, which no other has.
    pub fn start(&self) -> PhysAddr {
        self.memory.line(0)
    }

    /// Returns the lines from that of the model for `block` up to `error` further.
    fn near(&self, block: u64, error: usize) -> std::ops::Range<usize> {
        let first = self.linear.at(block).unwrap_or(self.lines.len());
        first..first.saturating_add(error + 1).min(self.lines.len())
    }

    fn position(&self, block: u64) -> Option<usize> {
        self.near(block, self.error).find(|&at| self.lines[at].tag == block + 1)
    }

    /// Returns the address of the line of `block`, and the mask of the entries present there.
    pub fn find(&self, block: u64) -> Option<(PhysAddr, u8)> {
        let at = self.position(block)?;
        Some((self.memory.line(at), self.lines[at].present))
    }

    /// Returns the lines that hardware reads to find `block`, each with the mask of the entries of `block` there.
    pub fn search(&self, block: u64) -> impl Iterator<Item = (PhysAddr, u8)> {
        let position = self.position(block);
        let lines = self.near(block, self.error).take_while(move |&at| position.is_none_or(|last| at <= last));
        lines.map(move |at| (self.memory.line(at), if position == Some(at) { self.lines[at].present } else { 0 }))
    }

    /// Adds `mask` to the entries of `block`. Returns `false`, and then nothing has changed, if it has no place.
    pub fn place(&mut self, block: u64, mask: u8) -> bool {
        let gap = || self.near(block, MOST_ERROR).find(|&at| self.lines[at].tag == 0);
        let Some(at) = self.position(block).or_else(gap) else { return false };
        let line = &mut self.lines[at];
        debug_assert_eq!(line.present & mask, 0, "entries of block {block} are present");
        self.used += usize::from(line.tag == 0);
        *line = Line { tag: block + 1, present: line.present | mask };
        self.error = self.error.max(at - self.near(block, 0).start);
        true
    }

    /// Extends the array by chunks, without moving a line, so that `block` has a place before or behind it. Returns `false`,
    /// and then nothing has changed, if the array is shorter than the largest chunk, reaches `block` already, would become
    /// too sparse, cannot grow downward exactly, or memory is exhausted.
    pub fn extend(&mut self, block: u64, memory: &mut dyn FrameSource) -> bool {
        let chunk = self.memory.chunk_lines();
        let at = self.linear.at(block);
        let missing = match at {
            Some(at) => (at + 1).saturating_sub(self.len()),
            None => self.linear.before(block).unwrap_or(0),
        };
        let is_sparse = (self.len() + missing) / SPARSEST > self.used;
        if self.memory.bytes() < LARGEST_CHUNK || missing == 0 || is_sparse {
            return false;
        }
        let more = missing.div_ceil(chunk) * chunk;
        let (linear, start) = match at {
            Some(_) => (self.linear, self.len()),
            None => match self.linear.moved_down(more) {
                Some(linear) => (linear, 0),
                None => return false,
            },
        };
        if !self.memory.extend(start / chunk, more / chunk, memory) {
            return false;
        }
        self.lines.splice(start..start, std::iter::repeat_n(Line::default(), more));
        self.linear = linear;
        true
    }

    /// Removes `mask` from the entries of `block`, which has them, and the block with the last.
    pub fn subtract(&mut self, block: u64, mask: u8) {
        let at = self.position(block).expect("the block is present");
        let line = &mut self.lines[at];
        line.present &= !mask;
        if line.present == 0 {
            *line = Line::default();
            self.used -= 1;
        }
    }

    /// Returns the blocks in the order of their lines. Without error, that is the order of the blocks.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.lines.iter().filter(|line| line.tag != 0).map(|line| (line.tag - 1, line.present))
    }
}

/// A model of the models below it.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    /// A number that no other inner model of the address space had.
    pub id: u64,
    pub linear: Linear,
    pub frame: PhysAddr,
    /// `None` for a range without blocks.
    pub children: Vec<Option<Model>>,
}

impl Inner {
    /// Returns the index of the model for `block`.
    pub fn child(&self, block: u64) -> usize {
        child(self.linear, self.children.len(), block)
    }

    /// Returns the address of a model below.
    pub fn place(&self, child: usize) -> PhysAddr {
        self.frame + child as u64 * MODEL
    }
}

/// Returns which of `children` models below `linear` is for `block`.
pub(super) fn child(linear: Linear, children: usize, block: u64) -> usize {
    linear.at(block).unwrap_or(0).min(children - 1)
}

/// A model.
#[derive(Clone, Debug)]
pub(super) enum Model {
    Leaf(Leaf),
    Inner(Inner),
}

/// The way from the root to the lowest model for a block.
pub(super) struct Path<'a> {
    /// Addresses of the models below the root.
    pub models: Vec<PhysAddr>,
    /// What the cache knows the lowest of them by; `None` if the root is the lowest.
    pub number: Option<u64>,
    /// `None` if nothing is in the lowest range.
    pub leaf: Option<&'a Leaf>,
}

impl Model {
    /// Returns the way to the lowest model for `block`.
    pub fn path(&self, block: u64) -> Path<'_> {
        let mut path = Path { models: Vec::new(), number: None, leaf: None };
        let mut model = Some(self);
        while let Some(Model::Inner(inner)) = model {
            let child = inner.child(block);
            path.models.push(inner.place(child));
            path.number = Some(inner.id * MOST_CHILDREN as u64 + child as u64);
            model = inner.children[child].as_ref();
        }
        if let Some(Model::Leaf(leaf)) = model {
            path.leaf = Some(leaf);
        }
        path
    }

    /// Returns the leaf for `block`; `None` if nothing is in its range.
    pub fn leaf(&self, block: u64) -> Option<&Leaf> {
        match self {
            Model::Leaf(leaf) => Some(leaf),
            Model::Inner(inner) => inner.children[inner.child(block)].as_ref()?.leaf(block),
        }
    }

    /// Returns the address of the line of `block`, and the mask of the entries present there.
    pub fn find(&self, block: u64) -> Option<(PhysAddr, u8)> {
        self.leaf(block)?.find(block)
    }

    /// Adds the blocks to `all`, in their order.
    pub fn collect(&self, all: &mut Vec<Block>) {
        match self {
            Model::Leaf(leaf) => {
                let first = all.len();
                all.extend(leaf.blocks());
                if leaf.error > 0 {
                    all[first..].sort_unstable();
                }
            }
            Model::Inner(inner) => inner.children.iter().flatten().for_each(|below| below.collect(all)),
        }
    }

    /// Returns the physical memory in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Model::Leaf(leaf) => leaf.memory.bytes(),
            Model::Inner(inner) => frame_bytes() + inner.children.iter().flatten().map(Model::bytes).sum::<u64>(),
        }
    }

    /// Frees all memory, but the arrays that begin at one of `kept`.
    pub fn free(self, memory: &mut dyn FrameSource, kept: &BTreeSet<PhysAddr>) {
        match self {
            Model::Leaf(leaf) if kept.contains(&leaf.start()) => {}
            Model::Leaf(leaf) => leaf.memory.free(memory),
            Model::Inner(inner) => {
                memory.free_table(inner.frame, frame_bytes());
                inner.children.into_iter().flatten().for_each(|below| below.free(memory, kept));
            }
        }
    }

    /// Checks the invariants that do not need the other models.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check(&self) {
        match self {
            Model::Leaf(leaf) => {
                assert_eq!(leaf.blocks().count(), leaf.used, "blocks were lost");
                assert!(leaf.error <= MOST_ERROR && leaf.len() >= FEWEST);
                assert_eq!(leaf.len() as u64 * 64, leaf.memory.bytes(), "lines and their memory differ");
            }
            Model::Inner(inner) => {
                assert!((2..=MOST_CHILDREN).contains(&inner.children.len()), "{} models", inner.children.len());
                inner.children.iter().flatten().for_each(Model::check);
            }
        }
    }
}

/// Returns the bytes of the memory of the models below one.
pub(super) const fn frame_bytes() -> u64 {
    MODEL * MOST_CHILDREN as u64
}

/// Returns the write of `bytes` of the model at `at`.
pub(super) fn written(at: PhysAddr, bytes: u64) -> TableTraffic {
    TableTraffic { at, bytes, write: true }
}
