//! The decoded code of a program: the instructions of each block, their addresses and direct branch targets.

use super::decode::decode_block;
use super::instruction::{BranchKind, Inst, RegisterSet, register_set};
use reach_core::{Block, BlockId, BlockTable, prefetch};
use std::sync::Arc;

/// The virtual addresses of a block, and its direct branch target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSpan {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
    /// The target of the branch that ends the block. `None` without such a branch, and where its bytes name no target.
    pub target: Option<u64>,
}

/// The number of blocks in a group.
const GROUP: usize = 1 << 10;

/// The instructions of up to [`GROUP`] blocks, concatenated.
#[derive(Clone, Debug, Default)]
struct BlockGroup {
    /// For each block, the end of its instructions in `instructions`.
    ends: Vec<u32>,
    spans: Vec<BlockSpan>,
    /// For each block, the registers that it writes.
    written: Vec<RegisterSet>,
    instructions: Vec<Inst>,
}

/// The instructions of all blocks seen so far. A clone shares all groups of blocks that no longer grow.
///
/// ```
/// use reach_core::{Block, BlockTable, VirtAddr};
/// use reach_hardware::ooo::{Code, NO_SOURCE};
///
/// // mov rax, [rdi]; add rax, 1
/// let bytes: &[u8] = &[0x48, 0x8b, 0x07, 0x48, 0x83, 0xc0, 0x01];
/// let mut blocks = BlockTable::default();
/// let id = blocks.push(Block { pc: VirtAddr(0x1000), len: 7, instructions: 2, bytes: bytes.into() });
/// let mut code = Code::default();
/// code.learn(&blocks);
///
/// let [load, add] = code.of(id) else { unreachable!() };
/// assert_eq!((load.loads, load.address), (1, [7, NO_SOURCE])); // the address is in rdi
/// assert_eq!(add.sources[0], load.targets[0]); // the addition waits for the load
/// ```
#[derive(Clone, Debug, Default)]
pub struct Code {
    groups: Vec<Arc<BlockGroup>>,
    blocks: usize,
}

impl Code {
    /// Returns the number of decoded blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Decodes the blocks of `blocks` that are new.
    ///
    /// A block without bytes becomes [unknown](Inst::UNKNOWN) instructions. So does a block whose bytes decode to
    /// another number of instructions than it states.
    pub fn learn(&mut self, blocks: &BlockTable) {
        self.learn_behind(0, blocks);
    }

    /// Decodes the blocks of `blocks` that are new. They follow the first `others` blocks of this code, which are of another
    /// table.
    pub fn learn_behind(&mut self, others: usize, blocks: &BlockTable) {
        for block in blocks.iter().skip(self.blocks - others) {
            self.add(block);
        }
    }

    fn add(&mut self, block: &Block) {
        if self.blocks.is_multiple_of(GROUP) {
            self.groups.push(Arc::default());
        }
        let group = Arc::make_mut(self.groups.last_mut().expect("pushed above"));
        let start = group.instructions.len();
        let mut target = decode_block(block, &mut group.instructions);
        if group.instructions.len() - start != usize::from(block.instructions) {
            group.instructions.truncate(start);
            group.instructions.resize(start + usize::from(block.instructions), Inst::UNKNOWN);
            target = None;
        }
        number_references(&mut group.instructions[start..]);
        group.spans.push(BlockSpan { start: block.pc.0, end: block.pc.0 + u64::from(block.len), target });
        group.ends.push(group.instructions.len() as u32);
        group.written.push(written(&group.instructions[start..]));
        self.blocks += 1;
    }

    /// Builds code from instructions. Block number `n` of `blocks` gets the id `n << 10`.
    #[cfg(feature = "testing")]
    pub fn of_instructions(blocks: &[(BlockSpan, Vec<Inst>)]) -> Code {
        let mut code = Code::default();
        for (span, block) in blocks {
            let (spans, written) = (vec![*span], vec![written(block)]);
            let mut group = BlockGroup { ends: Vec::new(), spans, written, instructions: block.clone() };
            number_references(&mut group.instructions);
            group.ends.extend([block.len() as u32; GROUP]);
            // Each block has a group of its own, of which only the first id is used.
            code.groups.push(Arc::new(group));
        }
        code.blocks = blocks.len() * GROUP;
        code
    }

    /// Returns the instructions of a block. Panics if the block has not been decoded.
    #[inline(always)]
    pub fn of(&self, id: BlockId) -> &[Inst] {
        let group = &self.groups[id.0 as usize / GROUP];
        let index = id.0 as usize % GROUP;
        let start = if index == 0 { 0 } else { group.ends[index - 1] };
        &group.instructions[start as usize..group.ends[index] as usize]
    }

    /// Returns the branch that ends a block. Panics if the block has not been decoded.
    #[inline(always)]
    pub(super) fn last_branch(&self, id: BlockId) -> BranchKind {
        self.of(id).last().map_or(BranchKind::None, |last| last.branch)
    }

    /// Returns how control leaves a block; `None` if its last instruction is not known. Panics if the block has not been decoded.
    pub(crate) fn branch(&self, id: BlockId) -> Option<BranchKind> {
        self.of(id).last().filter(|&&last| last != Inst::UNKNOWN).map(|last| last.branch)
    }

    /// Returns the registers that a block writes. Panics if the block has not been decoded.
    #[inline]
    pub(super) fn written(&self, id: BlockId) -> RegisterSet {
        self.groups[id.0 as usize / GROUP].written[id.0 as usize % GROUP]
    }

    /// Prefetches the instructions of a decoded block into the caches of the host computer.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: BlockId) {
        let group = &self.groups[id.0 as usize / GROUP];
        let previous = (id.0 as usize % GROUP).checked_sub(1);
        prefetch(&group.instructions, previous.map_or(0, |previous| group.ends[previous]) as usize);
    }

    /// Returns the addresses of a block. Panics if the block has not been decoded.
    #[inline]
    pub fn span(&self, id: BlockId) -> &BlockSpan {
        &self.groups[id.0 as usize / GROUP].spans[id.0 as usize % GROUP]
    }
}

/// Returns the registers that any of these instructions writes.
fn written(instructions: &[Inst]) -> RegisterSet {
    instructions.iter().fold(0, |written, inst| written | register_set(&inst.targets))
}

/// Numbers the references of a block: sets [`Inst::first_reference`].
fn number_references(instructions: &mut [Inst]) {
    let mut next = 0;
    for inst in instructions {
        inst.first_reference = next;
        next = next.saturating_add(u16::from(inst.loads) + u16::from(inst.stores));
    }
}

/// Returns how many references the instructions of a block make, each instruction executed once.
pub(super) fn reference_count(block: &[Inst]) -> usize {
    block
        .last()
        .map_or(0, |last| usize::from(last.first_reference) + usize::from(last.loads) + usize::from(last.stores))
}
