//! Where the wrong path joins the right path: from there on, it refers to the addresses that the right path will.
//!
//! Both paths often come to the same code: behind a branch that skips a few instructions, or at the next iteration of
//! a loop. Instructions there whose registers are the same on both paths compute the same addresses (Eyerman, Van den
//! Steen, Heirman and Hur, "Simulating Wrong-Path Instructions in Decoupled Functional-First Simulation", ISPASS 2023,
//! call it convergence). The program's next references tell these addresses.
//!
//! A wrong-path block is on the right path if it is one of the next blocks there, as many as the reorder buffer holds
//! instructions. Registers that either path wrote on its own differ from then on, and so does what is computed from
//! them. Memory is taken to be the same on both paths.

use super::super::code::Code;
use super::super::instruction::{Inst, RegisterSet, register_set};
use super::super::right_path::{RightFetch, RightFetches, RightPath};
use reach_core::{BlockId, Kind};

/// A fetch of the right path that has been found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    fetch: RightFetch,
    /// The registers that its block writes.
    written: RegisterSet,
}

/// A block of the right path, and what differs where the wrong path continues there.
#[derive(Clone, Copy, Debug, Default)]
struct Alignment {
    /// The number of the block's fetch on the right path.
    fetch: usize,
    /// The registers whose values differ.
    differing: RegisterSet,
}

/// Words of the filter of blocks.
const FILTER: usize = 4;

/// Returns the word of the filter that has the bit of `block`, and that bit.
fn filter_place(block: BlockId) -> (usize, u64) {
    ((block.0 >> 6) as usize % FILTER, 1 << (block.0 % u64::BITS))
}

/// How the wrong path lies beside the right path.
pub(super) struct Convergence<'a> {
    right: RightPath<'a>,
    unread: RightFetches<'a>,
    /// The first fetches of the right path.
    found: Vec<Found>,
    /// A bit for each hash of their blocks. Most wrong paths come to few blocks of the right path.
    blocks: [u64; FILTER],
    /// How many more instructions of the right path are searched.
    budget: usize,
    /// Whether no more fetches are to be found.
    is_read: bool,
    /// The block of the right path that comes next.
    next: Alignment,
    /// Where the wrong path went ahead, in case it only made a detour. Of several places, the one with the fewest
    /// registers that differ.
    left_at: Option<Alignment>,
    /// The number of the next reference of the block that both paths execute. `None` apart from the right path.
    reference: Option<usize>,
}

impl<'a> Convergence<'a> {
    /// Places a wrong path at the begin of `right`, apart from it. Joins blocks within `instructions`. `found` is a
    /// buffer to use.
    pub fn apart(right: RightPath<'a>, instructions: usize, mut found: Vec<Found>) -> Convergence<'a> {
        found.clear();
        Convergence {
            right,
            unread: RightFetches::of(right),
            found,
            blocks: [0; FILTER],
            budget: instructions,
            is_read: false,
            next: Alignment::default(),
            left_at: None,
            reference: None,
        }
    }

    /// Stays on the right path, behind an instruction with a wrong result, in the block of the path's first reference.
    pub fn stay_behind(&mut self, inst: &Inst) {
        self.next.differing = register_set(&inst.targets);
        self.reference = Some(0);
    }

    /// Returns the buffer.
    pub fn into_buffer(self) -> Vec<Found> {
        self.found
    }

    /// Enters the next block of the wrong path: joins the right path, if it has that block.
    ///
    /// Of the next such block, and the first since the wrong path went ahead, it joins the one at which fewer registers
    /// differ.
    pub fn enter(&mut self, block: BlockId, code: &Code) {
        let ahead = self.find(block, self.next, usize::MAX, code);
        let back = self.left_at.and_then(|left| self.find(block, left, self.next.fetch, code));
        let differing = |place: &Alignment| place.differing.count_ones();
        // The first of two equals.
        let Some(joined) = ahead.into_iter().chain(back).min_by_key(differing) else {
            self.reference = None;
            return;
        };
        if joined.fetch < self.next.fetch {
            self.left_at = None;
        } else if joined.fetch > self.next.fetch {
            self.left_at = self.left_at.into_iter().chain([self.next]).min_by_key(differing);
        }
        self.reference = Some(self.found[joined.fetch].fetch.next);
        self.next = Alignment { fetch: joined.fetch + 1, ..joined };
    }

    /// Finds the first fetch of `block` from alignment `from` on, before fetch number `end`.
    fn find(&mut self, block: BlockId, from: Alignment, end: usize, code: &Code) -> Option<Alignment> {
        let (word, bit) = filter_place(block);
        if self.is_read && self.blocks[word] & bit == 0 {
            return None;
        }
        let Alignment { mut fetch, mut differing } = from;
        while fetch < end && (fetch < self.found.len() || self.read(code)) {
            let Found { fetch: RightFetch { block: right, .. }, written } = self.found[fetch];
            if right == block {
                return Some(Alignment { fetch, differing });
            }
            differing |= written;
            fetch += 1;
        }
        None
    }

    /// Finds one more fetch of the right path. Returns whether there is one.
    fn read(&mut self, code: &Code) -> bool {
        let Some(fetch) = self.unread.next().filter(|_| self.budget > 0) else {
            self.is_read = true;
            return false;
        };
        let (word, bit) = filter_place(fetch.block);
        self.blocks[word] |= bit;
        self.budget = self.budget.saturating_sub(code.of(fetch.block).len());
        self.found.push(Found { fetch, written: code.written(fetch.block) });
        true
    }

    /// Returns the address of the next reference of instruction number `index` of the block, if it is known: a load
    /// or a store.
    pub fn address(&mut self, inst: &Inst, index: usize, kind: Kind) -> Option<u64> {
        let mut at = self.reference?;
        if register_set(&inst.address) & self.next.differing != 0 {
            return None;
        }
        // Instructions before this one may have made other numbers of references than their operands say.
        let skips = |kind_there: Kind, index_there: usize| {
            index_there < index || index_there == index && kind == Kind::Store && kind_there == Kind::Load
        };
        loop {
            let there = self.right.get(at).filter(|there| there.kind() != Kind::Fetch)?;
            let index_there = usize::from(there.index());
            if !skips(there.kind(), index_there) {
                let found = index_there == index && there.kind() == kind;
                self.reference = Some(at + usize::from(found));
                return found.then_some(there.addr().0);
            }
            at += 1;
        }
    }

    /// Executes `inst`: what it writes differs if it is not on the right path, or anything that it reads differs.
    pub fn execute(&mut self, inst: &Inst) {
        let written = register_set(&inst.targets);
        let read = register_set(&inst.address) | register_set(&inst.sources);
        if self.reference.is_some() && read & self.next.differing == 0 {
            self.next.differing &= !written;
        } else {
            self.next.differing |= written;
        }
        if let Some(left) = &mut self.left_at {
            left.differing |= written;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ooo::right_path::Following;
    use reach_core::{Block, BlockTable, Ref, VirtAddr};

    /// The blocks of a hash join with open addressing: the next key, the test of a slot, the next slot, the sum, and a
    /// jump to it.
    const KEY: (u64, u16, &[u8]) = (
        0x1000,
        6,
        // mov rdx, r8; shl rdx, 13; xor r8, rdx; mov rdx, r8; mov rcx, [rdx]; jne
        &[0x4c, 0x89, 0xc2, 0x48, 0xc1, 0xe2, 13, 0x49, 0x31, 0xd0, 0x4c, 0x89, 0xc2, 0x48, 0x8b, 0x0a, 0x75, 0x10],
    );
    const TEST: (u64, u16, &[u8]) = (0x1100, 2, &[0x48, 0x85, 0xc9, 0x75, 0x10]); // test rcx, rcx; jne
    const SLOT: (u64, u16, &[u8]) = (
        0x1200,
        4,
        // add rdx, 16; mov rcx, [rdx]; cmp rcx, rdi; je
        &[0x48, 0x83, 0xc2, 0x10, 0x48, 0x8b, 0x0a, 0x48, 0x39, 0xf9, 0x74, 0x10],
    );
    const SUM: (u64, u16, &[u8]) = (
        0x1300,
        3,
        // add r10, [rdx+8]; sub r9d, 1; jne
        &[0x4c, 0x03, 0x52, 0x08, 0x41, 0x83, 0xe9, 0x01, 0x75, 0x10],
    );

    const JUMP: (u64, u16, &[u8]) = (0x1400, 1, &[0xeb, 0x10]); // jmp

    /// Executes this wrong path beside this right path, each block of which loads from the address given with it, and
    /// the first `here` references of which are of the same piece. Returns the addresses that the wrong path finds.
    fn addresses(right: &[(u32, u64)], here: usize, wrong: &[u32]) -> Vec<Option<u64>> {
        let mut blocks = BlockTable::default();
        for (pc, instructions, bytes) in [KEY, TEST, SLOT, SUM, JUMP] {
            blocks.push(Block { pc: VirtAddr(pc), len: bytes.len() as u16, instructions, bytes: bytes.into() });
        }
        let mut code = Code::default();
        code.learn(&blocks);
        let (mut refs, mut fetched) = (Vec::new(), Vec::new());
        for &(block, at) in right {
            refs.push(Ref::fetch(VirtAddr(0x1000), 8));
            fetched.push(BlockId(block));
            if let Some(index) = code.of(BlockId(block)).iter().position(|inst| inst.loads > 0) {
                refs.push(Ref::data(Kind::Load, VirtAddr(at), 3, index as u16));
            }
        }
        let behind = refs.split_off(here.min(refs.len()));
        let fetches_here = refs.iter().filter(|r| r.kind() == Kind::Fetch).count();
        let following = Following { refs: behind, fetched: fetched.split_off(fetches_here) };
        let right = RightPath::new(&refs, &fetched, Some(&following));
        let mut convergence = Convergence::apart(right, 512, Vec::new());
        let mut found = Vec::new();
        for &block in wrong {
            convergence.enter(BlockId(block), &code);
            for (index, inst) in code.of(BlockId(block)).iter().enumerate() {
                if inst.loads > 0 {
                    found.push(convergence.address(inst, index, Kind::Load));
                }
                convergence.execute(inst);
            }
        }
        found
    }

    #[test]
    fn a_path_that_leaves_a_loop_early_finds_the_next_keys() {
        let right = [(2, 16), (1, 0), (2, 32), (1, 0), (3, 40), (0, 1000), (1, 0), (3, 1008), (0, 2000), (3, 2008)];
        for here in 0..=right.len() * 2 {
            let found = addresses(&right, here, &[3, 0, 1, 3, 0, 3]);
            assert_eq!(found, [None, Some(1000), Some(1008), Some(2000), Some(2008)], "{here}");
        }
    }

    #[test]
    fn a_path_that_stays_in_a_loop_for_too_long_finds_the_next_keys() {
        let right = [(3, 40), (0, 1000), (1, 0), (2, 1016), (1, 0), (3, 1024), (0, 2000), (3, 2008)];
        for here in 0..=right.len() * 2 {
            let found = addresses(&right, here, &[2, 1, 3, 0, 1, 3, 0, 3]);
            assert_eq!(found, [None, None, Some(1000), None, Some(2000), Some(2008)], "{here}");
        }
    }

    #[test]
    fn a_path_that_goes_too_far_ahead_comes_back() {
        // The next test of a slot is of the next key. The sum before it is where both paths meet.
        let right = [(4, 0), (3, 40), (0, 1000), (1, 0), (3, 1008), (0, 2000), (1, 0), (3, 2008)];
        for here in 0..=right.len() * 2 {
            let found = addresses(&right, here, &[1, 3, 0, 1, 3, 0, 3]);
            assert_eq!(found, [Some(40), Some(1000), Some(1008), Some(2000), Some(2008)], "{here}");
        }
    }
}
