//! Blocks: the straight runs of instructions that fetches fetch.

use crate::{Ref, VirtAddr};

/// A block's number within one program: dense from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// A straight run of instructions that is fetched as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Address of the first instruction.
    pub pc: VirtAddr,
    /// Length in bytes, > 0.
    pub len: u16,
    /// How many instructions, > 0.
    pub instructions: u16,
    /// The instructions themselves: `len` bytes, or none where the source does not know them.
    pub bytes: Box<[u8]>,
}

impl Block {
    /// The fetch of this block.
    #[inline(always)]
    pub const fn fetch(&self) -> Ref {
        Ref::fetch(self.pc, self.len)
    }
}

/// All blocks of a program that have been seen so far; it only grows.
#[derive(Clone, Debug, Default)]
pub struct BlockTable {
    blocks: Vec<Block>,
}

impl BlockTable {
    /// Adds a block and gives it its number.
    pub fn push(&mut self, block: Block) -> BlockId {
        debug_assert!(block.len > 0 && block.instructions > 0);
        self.blocks.push(block);
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// The block with this number, which this table gave out.
    #[inline(always)]
    pub fn get(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// All blocks, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }
}
