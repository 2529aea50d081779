//! Joins a sequence of instructions into blocks.

use reach_core::{Asid, Block, BlockId, BlockTable, Chunk, Event, Kind, Ref, ThreadId, VirtAddr};
use std::collections::HashMap;

/// The most instructions in a block. Basic blocks of programs are shorter; the limit bounds the memory for pending accesses.
const MAX_INSTRUCTIONS: u16 = 64;

/// The binary logarithm of the most bytes of a reference.
const MAX_SIZE_LOG2: u8 = 7;

/// The bits of an address that a [`Ref`] holds.
pub(super) const ADDR_MASK: u64 = (1 << 48) - 1;

/// The most accesses that wait for the end of their block. More follow the block at once: repeated string instructions have
/// millions.
const MAX_PENDING: usize = 1 << 12;

/// Joins instructions into blocks. A block ends where the next instruction is not directly after it in memory, where
/// [`Assembler::end_block`] says so, and after [`MAX_INSTRUCTIONS`].
#[derive(Default)]
pub(super) struct Assembler {
    table: BlockTable,
    /// The blocks by address, length and number of instructions: the first of those that differ in their code only.
    known: HashMap<(u64, u16, u16), BlockId>,
    /// The others of those, by address and code.
    variants: HashMap<(u64, Box<[u8]>), BlockId>,
    pc: u64,
    len: u16,
    instructions: u16,
    /// The code of the present block. Shorter than the block where the code of an instruction is unknown.
    code: Vec<u8>,
    /// Whether the next instruction begins a block.
    closed: bool,
    /// The index of the last instruction of the last block, whose accesses may follow it.
    last_index: u16,
    /// The accesses of the present block.
    data: Vec<Ref>,
    /// The process and thread of the references; `None` before the first.
    current: Option<(Asid, ThreadId)>,
}

impl Assembler {
    /// Returns all blocks so far.
    pub fn table(&self) -> &BlockTable {
        &self.table
    }

    /// Appends the `Switch` that every program begins with, on the first call only.
    pub fn start(&mut self, chunk: &mut Chunk) {
        if self.current.is_none() {
            self.switch(Asid(0), ThreadId(0), chunk);
        }
    }

    /// Makes what follows that of a thread in an address space. Ends the present block where it is another one's.
    pub fn switch(&mut self, asid: Asid, thread: ThreadId, chunk: &mut Chunk) {
        if self.current != Some((asid, thread)) {
            self.flush(chunk);
            self.last_index = 0;
            self.current = Some((asid, thread));
            chunk.push_event(Event::Switch { asid, thread });
        }
    }

    /// Ends the present block and appends an event.
    pub fn event(&mut self, event: Event, chunk: &mut Chunk) {
        self.flush(chunk);
        chunk.push_event(event);
    }

    /// Ends the block with the last instruction, as branches do.
    pub fn end_block(&mut self) {
        self.closed = true;
    }

    /// Appends an instruction of `len` bytes (> 0), of which the code is unknown.
    pub fn instruction(&mut self, pc: u64, len: u8, chunk: &mut Chunk) {
        self.coded_instruction(pc, len, &[], chunk);
    }

    /// Appends an instruction of `len` bytes (> 0). `code` is its code, or empty where that is unknown.
    pub fn coded_instruction(&mut self, pc: u64, len: u8, code: &[u8], chunk: &mut Chunk) {
        let pc = pc & ADDR_MASK;
        let continues = !self.closed && pc == self.pc + self.len as u64 && self.instructions < MAX_INSTRUCTIONS;
        if self.instructions > 0 && !continues {
            self.flush(chunk);
        }
        if self.instructions == 0 {
            self.pc = pc;
        }
        if code.len() == len as usize && self.code.len() == self.len as usize {
            self.code.extend_from_slice(code);
        }
        self.len += len as u16;
        self.instructions += 1;
        self.closed = false;
    }

    /// Appends an access of `size` bytes (0 counts as 1) by the last instruction. The size is rounded up to a power of two; an
    /// access of more than 128 bytes becomes several references.
    pub fn data(&mut self, kind: Kind, addr: u64, size: u32, chunk: &mut Chunk) {
        let max = 1u32 << MAX_SIZE_LOG2;
        let index = if self.instructions > 0 { self.instructions - 1 } else { self.last_index };
        let (mut at, mut left) = (addr, size);
        while left > max {
            self.data.push(Ref::data(kind, VirtAddr(at), MAX_SIZE_LOG2, index));
            at = at.wrapping_add(max as u64);
            left -= max;
        }
        let size_log2 = left.max(1).next_power_of_two().trailing_zeros() as u8;
        self.data.push(Ref::data(kind, VirtAddr(at), size_log2, index));
        if self.data.len() > MAX_PENDING {
            self.flush(chunk);
        }
    }

    /// Returns the number of accesses of the present block.
    pub fn pending(&self) -> usize {
        self.data.len()
    }

    /// Ends the present block and moves it into `chunk`.
    pub fn flush(&mut self, chunk: &mut Chunk) {
        if self.instructions > 0 {
            let id = self.identify();
            chunk.push_fetch(id, self.table.get(id));
            self.last_index = self.instructions - 1;
            (self.len, self.instructions) = (0, 0);
            self.code.clear();
        }
        chunk.refs.append(&mut self.data);
    }

    /// Returns the number of the present block, a new one if no block of the same address, length and code has one.
    fn identify(&mut self) -> BlockId {
        let Assembler { table, known, variants, pc, len, instructions, code, .. } = self;
        let (pc, len, instructions) = (*pc, *len, *instructions);
        if code.len() != len as usize {
            code.clear();
        }
        let block = || Block { pc: VirtAddr(pc), len, instructions, bytes: code.as_slice().into() };
        let first = *known.entry((pc, len, instructions)).or_insert_with(|| table.push(block()));
        if *table.get(first).bytes == code[..] {
            return first;
        }
        // Code that is compiled at run time replaces other code, and processes have different code at one address.
        *variants.entry((pc, code.as_slice().into())).or_insert_with(|| table.push(block()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_changes_makes_another_block_and_old_code_the_old_one() {
        let (mut assembler, mut chunk) = (Assembler::default(), Chunk::default());
        for code in [&[0x90][..], &[0xc3], &[0x90], &[], &[0xc3]] {
            assembler.coded_instruction(0x1000, 1, code, &mut chunk);
            assembler.flush(&mut chunk);
        }
        let ids: Vec<_> = chunk.fetched.iter().map(|id| id.0).collect();
        assert_eq!(ids, [0, 1, 0, 2, 1]);
        let codes: Vec<_> = assembler.table().iter().map(|block| block.bytes.to_vec()).collect();
        assert_eq!(codes, [vec![0x90], vec![0xc3], vec![]]);
    }

    #[test]
    fn a_block_has_code_only_if_all_of_its_instructions_have() {
        let (mut assembler, mut chunk) = (Assembler::default(), Chunk::default());
        for (pc, code) in
            [(0x1000, &[0x90][..]), (0x1001, &[]), (0x1002, &[0x90]), (0x2000, &[0x90]), (0x2001, &[0xc3])]
        {
            assembler.coded_instruction(pc, 1, code, &mut chunk);
        }
        assembler.flush(&mut chunk);
        let blocks: Vec<_> = assembler.table().iter().map(|b| (b.instructions, b.bytes.to_vec())).collect();
        assert_eq!(blocks, [(3, vec![]), (2, vec![0x90, 0xc3])]);
    }

    #[test]
    fn accesses_beyond_the_pending_ones_follow_their_block_and_keep_their_instruction() {
        let (mut assembler, mut chunk) = (Assembler::default(), Chunk::default());
        assembler.instruction(0x1000, 1, &mut chunk);
        assembler.instruction(0x1001, 2, &mut chunk);
        for i in 0..10_000 {
            assembler.data(Kind::Store, i * 8, 8, &mut chunk);
        }
        assembler.flush(&mut chunk);
        assert_eq!((chunk.refs.len(), chunk.fetched.len()), (10_001, 1));
        assert!(chunk.refs[1..].iter().all(|r| r.index() == 1));
    }
}
