//! Blocks: straight runs of instructions, each fetched as one.

use crate::{Ref, VirtAddr};

/// The number of a block within its program: dense from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// A straight run of instructions that is fetched as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Address of the first instruction.
    pub pc: VirtAddr,
    /// Length in bytes, at least 1.
    pub len: u16,
    /// Number of instructions, at least 1.
    pub instructions: u16,
    /// The machine code: `len` bytes, or empty when the source does not know it.
    pub bytes: Box<[u8]>,
}

impl Block {
    /// Returns the reference that fetches this block.
    #[inline(always)]
    pub const fn fetch(&self) -> Ref {
        Ref::fetch(self.pc, self.len)
    }
}

/// All blocks of a program that its source has named so far. Blocks are never removed.
#[derive(Clone, Debug, Default)]
pub struct BlockTable {
    blocks: Vec<Block>,
}

impl BlockTable {
    /// Adds a block and returns its number.
    pub fn push(&mut self, block: Block) -> BlockId {
        debug_assert!(block.len > 0 && block.instructions > 0);
        self.blocks.push(block);
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// Returns the block with this number.
    ///
    /// # Panics
    /// When [`BlockTable::push`] has not returned the number.
    #[inline(always)]
    pub fn get(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Iterates over all blocks in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }
}
