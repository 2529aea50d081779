//! Instructions as the window needs them: what they wait for, what waits for them, and how long they take.

use super::decode;
use reach_core::{Block, BlockId, BlockTable, prefetch};
use std::sync::Arc;

/// A register's number: 0–15 general purpose, 16–47 vectors, 48–55 masks, 56 flags, 57 the x87 stack.
pub type Register = u8;
/// The register that nothing is written to and that is always ready.
pub const NO_SOURCE: Register = 63;
/// The register that nothing reads.
pub const NO_TARGET: Register = 62;
/// How many register numbers there are.
pub const REGISTERS: usize = 64;

/// What an instruction does beside its loads and stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Nothing: it only moves between memory and registers.
    Move,
    /// Whatever takes one cycle.
    Simple,
    /// Integer multiplication.
    Multiply,
    /// Integer division.
    Divide,
    /// Floating-point arithmetic.
    Float,
    /// Floating-point division and square roots.
    FloatDivide,
}

impl Class {
    /// How many there are.
    pub const ALL: usize = 6;
}

/// How an instruction goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Branch {
    /// At the next one.
    None,
    /// At one that it names.
    Jump,
    /// The same, and remembers where to return to.
    Call,
    /// At one that it names, or at the next.
    Conditional,
    /// At one that a register or memory names.
    Indirect,
    /// The same, and remembers where to return to.
    IndirectCall,
    /// Where a call was.
    Return,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inst {
    /// What its addresses are made from.
    pub address: [Register; 2],
    /// What else it reads; of more than four registers the first four.
    pub sources: [Register; 4],
    /// What it writes; of more than three registers the first three.
    pub targets: [Register; 3],
    /// What it does.
    pub class: Class,
    /// How it goes on.
    pub branch: Branch,
    /// How many places of memory it loads from, and stores to; string instructions count once.
    pub loads: u8,
    /// See `loads`.
    pub stores: u8,
    /// The number of its first reference among those of its block's instructions: loads, then stores. Given by [`Code`].
    pub slot: u16,
}

impl Inst {
    /// An instruction of which nothing is known: it waits for nothing, and nothing waits for it.
    pub const UNKNOWN: Inst = Inst {
        address: [NO_SOURCE; 2],
        sources: [NO_SOURCE; 4],
        targets: [NO_TARGET; 3],
        class: Class::Move,
        branch: Branch::None,
        loads: 0,
        stores: 0,
        slot: 0,
    };
}

/// Where a block stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its first byte.
    pub start: u64,
    /// Behind its last.
    pub end: u64,
    /// Where the branch that ends it leads, where its bytes say so.
    pub target: Option<u64>,
}

/// Blocks of this many make a piece of the table.
const PIECE: usize = 1 << 10;

/// Some blocks' instructions, one block behind the other.
#[derive(Clone, Debug, Default)]
struct Piece {
    /// Where each block ends.
    ends: Vec<u32>,
    places: Vec<Place>,
    instructions: Vec<Inst>,
}

/// The instructions of all blocks of a program that have been seen so far. Copies share what does not change any more.
#[derive(Clone, Debug, Default)]
pub struct Code {
    pieces: Vec<Arc<Piece>>,
    blocks: usize,
}

impl Code {
    /// How many blocks it has.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Decodes the blocks of `blocks` that it did not have before. Blocks without bytes, and bytes that are not as many
    /// instructions as the block says, become [unknown](Inst::UNKNOWN) ones.
    pub fn learn(&mut self, blocks: &BlockTable) {
        for block in blocks.iter().skip(self.blocks) {
            self.add(block);
        }
    }

    fn add(&mut self, block: &Block) {
        if self.blocks.is_multiple_of(PIECE) {
            self.pieces.push(Arc::default());
        }
        let piece = Arc::make_mut(self.pieces.last_mut().expect("pushed above"));
        let start = piece.instructions.len();
        let mut target = decode::block(block, &mut piece.instructions);
        if piece.instructions.len() - start != usize::from(block.instructions) {
            piece.instructions.truncate(start);
            piece.instructions.resize(start + usize::from(block.instructions), Inst::UNKNOWN);
            target = None;
        }
        number(&mut piece.instructions[start..]);
        piece.places.push(Place { start: block.pc.0, end: block.pc.0 + u64::from(block.len), target });
        piece.ends.push(piece.instructions.len() as u32);
        self.blocks += 1;
    }

    /// Blocks of these instructions, at these places.
    #[cfg(feature = "testing")]
    pub fn of_instructions(blocks: &[(Place, Vec<Inst>)]) -> Code {
        let mut code = Code::default();
        for (place, block) in blocks {
            let mut piece = Piece { ends: Vec::new(), places: vec![*place], instructions: block.clone() };
            number(&mut piece.instructions);
            piece.ends.extend([block.len() as u32; PIECE]);
            // A piece for each: only its first place is used.
            code.pieces.push(Arc::new(piece));
        }
        code.blocks = blocks.len() * PIECE;
        code
    }

    /// The instructions of a block that has been learned.
    #[inline(always)]
    pub fn of(&self, id: BlockId) -> &[Inst] {
        let piece = &self.pieces[id.0 as usize / PIECE];
        let at = id.0 as usize % PIECE;
        let start = if at == 0 { 0 } else { piece.ends[at - 1] };
        &piece.instructions[start as usize..piece.ends[at] as usize]
    }

    /// Tells this computer's caches that the instructions of a block that has been learned will be needed soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: BlockId) {
        let piece = &self.pieces[id.0 as usize / PIECE];
        let before = (id.0 as usize % PIECE).checked_sub(1);
        prefetch(&piece.instructions, before.map_or(0, |before| piece.ends[before]) as usize);
    }

    /// Where a block that has been learned stands.
    #[inline]
    pub fn place(&self, id: BlockId) -> &Place {
        &self.pieces[id.0 as usize / PIECE].places[id.0 as usize % PIECE]
    }
}

/// Numbers the references of a block.
fn number(instructions: &mut [Inst]) {
    let mut next = 0;
    for inst in instructions {
        inst.slot = next;
        next = next.saturating_add(u16::from(inst.loads) + u16::from(inst.stores));
    }
}

/// How many references a block has, each counted once.
pub(super) fn references(block: &[Inst]) -> usize {
    block.last().map_or(0, |last| usize::from(last.slot) + usize::from(last.loads) + usize::from(last.stores))
}
