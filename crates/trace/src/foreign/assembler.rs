//! Joins a sequence of instructions into blocks.

use reach_core::{Asid, Block, BlockId, BlockTable, Chunk, Event, Kind, Ref, ThreadId, VirtAddr};
use std::collections::HashMap;

/// The most instructions in a block. Basic blocks of programs are shorter; the limit bounds the memory for pending accesses.
const MAX_INSTRUCTIONS: u16 = 64;

/// The binary logarithm of the most bytes of a reference.
const MAX_SIZE_LOG2: u8 = 7;

/// The bits of an address that a [`Ref`] holds.
pub(super) const ADDR_MASK: u64 = (1 << 48) - 1;

/// Joins instructions into blocks. A block ends where the next instruction is not directly after it in memory, and after [`MAX_INSTRUCTIONS`].
#[derive(Default)]
pub(super) struct Assembler {
    table: BlockTable,
    /// The blocks by address, length and number of instructions.
    known: HashMap<(u64, u16, u16), BlockId>,
    pc: u64,
    len: u16,
    instructions: u16,
    /// The accesses of the present block.
    data: Vec<Ref>,
    started: bool,
}

impl Assembler {
    /// Returns all blocks so far.
    pub fn table(&self) -> &BlockTable {
        &self.table
    }

    /// Appends the `Switch` that every program begins with, on the first call only.
    pub fn start(&mut self, chunk: &mut Chunk) {
        if !self.started {
            self.started = true;
            chunk.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
        }
    }

    /// Appends an instruction of `len` bytes (> 0).
    pub fn instruction(&mut self, pc: u64, len: u8, chunk: &mut Chunk) {
        let pc = pc & ADDR_MASK;
        if self.instructions > 0 && (pc != self.pc + self.len as u64 || self.instructions == MAX_INSTRUCTIONS) {
            self.flush(chunk);
        }
        if self.instructions == 0 {
            self.pc = pc;
        }
        self.len += len as u16;
        self.instructions += 1;
    }

    /// Appends an access of `size` bytes (> 0) by the last instruction. The size is rounded up to a power of two; an access of
    /// more than 128 bytes becomes several references.
    pub fn data(&mut self, kind: Kind, addr: u64, size: u32) {
        let max = 1u32 << MAX_SIZE_LOG2;
        let index = self.instructions.saturating_sub(1);
        let (mut at, mut left) = (addr, size);
        while left > max {
            self.data.push(Ref::data(kind, VirtAddr(at), MAX_SIZE_LOG2, index));
            at = at.wrapping_add(max as u64);
            left -= max;
        }
        let size_log2 = left.max(1).next_power_of_two().trailing_zeros() as u8;
        self.data.push(Ref::data(kind, VirtAddr(at), size_log2, index));
    }

    /// Returns the number of accesses of the present block.
    pub fn pending(&self) -> usize {
        self.data.len()
    }

    /// Ends the present block and moves it into `chunk`.
    pub fn flush(&mut self, chunk: &mut Chunk) {
        if self.instructions > 0 {
            let (pc, len, instructions) = (VirtAddr(self.pc), self.len, self.instructions);
            let table = &mut self.table;
            let id = *self
                .known
                .entry((self.pc, len, instructions))
                .or_insert_with(|| table.push(Block { pc, len, instructions, bytes: Box::default() }));
            chunk.push_fetch(id, self.table.get(id));
            (self.len, self.instructions) = (0, 0);
        }
        chunk.refs.append(&mut self.data);
    }
}
