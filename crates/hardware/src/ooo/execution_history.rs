//! The history of executed code: the blocks and their addresses, and the addresses of each reference.
//!
//! The wrong path follows these blocks and predicts these addresses. Memory disambiguation learns here which loads may
//! issue before older stores. It holds only what the core has executed itself.

use super::code::{Code, reference_count};
use reach_core::{BlockId, prefetch};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// How many times in a row a load must not have conflicted with an older store of unknown address. After that it issues
/// before such stores.
const TRUSTED: u8 = 15;
const UNNUMBERED: u32 = u32::MAX;

/// A block that was executed, or an unused place.
#[derive(Clone, Copy, Debug)]
struct ExecutedBlock {
    /// The number of its first reference among all references.
    first_reference: u32,
    /// The address space in which it was last executed, plus one; 0 for none.
    space: u32,
}

/// The addresses that one reference of an instruction has had.
#[derive(Clone, Copy, Debug, Default)]
struct ReferenceHistory {
    last: u64,
    /// The difference between the last two addresses.
    step: u64,
    /// The lowest and the highest unit ([`UNIT`]) that it has touched.
    low: u32,
    high: u32,
    /// How many addresses it has had, at most 2.
    times: u8,
    /// The last two steps were equal.
    is_run: bool,
    /// The first-level TLB lacked the page of the last address.
    missed_first_level: bool,
    /// How many times in a row the load did not conflict, at most [`TRUSTED`].
    trust: u8,
}

/// The last address that was predicted for a reference on the wrong path.
#[derive(Clone, Copy, Debug, Default)]
struct PredictedAddress {
    at: u64,
    /// The number of the wrong path on which it was predicted.
    wrong_path: u32,
}

/// Hashes block addresses. A fast hash does: no program chooses its addresses to attack the simulator.
#[derive(Clone, Copy, Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(24) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// The number of blocks whose places are kept in a table that stays in the host's nearest caches.
const RECENT: usize = 1 << 11;

/// Returns the place of a block's start in the table of recent ones.
fn recent_slot(start: u64) -> usize {
    (start ^ start >> 11) as usize % RECENT
}

/// The binary logarithm of the unit, in bytes, in which the bounds of a reference are kept.
const UNIT: u32 = 16;

impl ReferenceHistory {
    fn record(&mut self, at: u64, missed_first_level: bool) {
        self.missed_first_level = missed_first_level;
        let unit = (at >> UNIT) as u32;
        if self.times == 0 {
            (self.low, self.high) = (unit, unit);
        } else {
            let step = at.wrapping_sub(self.last);
            self.is_run = self.times > 1 && step == self.step;
            self.step = step;
            (self.low, self.high) = (self.low.min(unit), self.high.max(unit));
        }
        self.times = (self.times + 1).min(2);
        self.last = at;
    }

    /// Predicts the address after `at`.
    ///
    /// A run continues by its step. Otherwise, an instruction whose last reference hit the first-level TLB stays at its
    /// address. One that missed repeats its last step, wrapped into the span that it has touched. So predictions miss
    /// the first-level TLB about as often as the instruction itself.
    fn predict_after(&self, at: u64) -> u64 {
        let next = at.wrapping_add(self.step);
        if self.is_run || !self.missed_first_level {
            return if self.is_run { next } else { at };
        }
        let (low, span) = (u64::from(self.low) << UNIT, u64::from(self.high - self.low + 1) << UNIT);
        match next {
            next if next.wrapping_sub(low) < span => next,
            // A step is shorter than the span, so one wrap is enough.
            next if next.wrapping_add(span).wrapping_sub(low) < span => next.wrapping_add(span),
            next if next.wrapping_sub(span).wrapping_sub(low) < span => next.wrapping_sub(span),
            _ => at,
        }
    }
}

/// The blocks that a core has executed, and the addresses of their references.
#[derive(Clone, Debug, Default)]
pub(super) struct ExecutionHistory {
    space: u32,
    /// Blocks by address space and start.
    blocks: HashMap<(u32, u64), BlockId, BuildHasherDefault<AddressHasher>>,
    /// The last found of them in this address space, by a hash of the start.
    recent: Vec<(u64, BlockId)>,
    executed: Vec<ExecutedBlock>,
    /// By number of the reference.
    references: Vec<ReferenceHistory>,
    /// By number of the reference. Apart from `references`, since only wrong paths use it.
    predictions: Vec<PredictedAddress>,
    /// The number of the current or last wrong path.
    wrong_path: u32,
}

impl ExecutionHistory {
    /// Switches to address space number `space`.
    pub fn enter_space(&mut self, space: u32) {
        if space != self.space {
            self.space = space;
            self.recent.clear();
        }
    }

    /// Records that `block` is executed. Returns the number of its first reference.
    #[inline]
    pub fn execute(&mut self, code: &Code, block: BlockId) -> u32 {
        match self.executed.get(block.0 as usize) {
            Some(executed) if executed.space == self.space + 1 => executed.first_reference,
            _ => self.execute_first(code, block),
        }
    }

    /// Records a block that is new, or was last executed in another address space.
    #[cold]
    fn execute_first(&mut self, code: &Code, block: BlockId) -> u32 {
        let at = block.0 as usize;
        if self.executed.len() <= at {
            self.executed.resize(at + 1, ExecutedBlock { first_reference: UNNUMBERED, space: 0 });
        }
        if self.executed[at].first_reference == UNNUMBERED {
            self.executed[at].first_reference = self.references.len() as u32;
            let references = self.references.len() + reference_count(code.of(block));
            self.references.resize(references, ReferenceHistory::default());
            self.predictions.resize(references, PredictedAddress::default());
        }
        self.forget_addresses(at, code);
        self.executed[at].space = self.space + 1;
        let start = code.span(block).start;
        self.blocks.insert((self.space, start), block);
        if let Some(recent) = self.recent.get_mut(recent_slot(start)).filter(|recent| recent.0 == start) {
            recent.1 = block;
        }
        self.executed[at].first_reference
    }

    /// Forgets the addresses that the references of block number `block` had in another address space, where they mean
    /// nothing. What loads have learned of conflicts stays, as in a core's tables.
    fn forget_addresses(&mut self, block: usize, code: &Code) {
        let first = self.executed[block].first_reference as usize;
        let count = reference_count(code.of(BlockId(block as u32)));
        for reference in &mut self.references[first..first + count] {
            *reference = ReferenceHistory { trust: reference.trust, ..ReferenceHistory::default() };
        }
    }

    /// Prefetches the history of `block` into the caches of the host computer.
    #[inline(always)]
    pub fn prefetch(&self, block: BlockId) {
        if let Some(executed) = self.executed.get(block.0 as usize) {
            prefetch(&self.references, executed.first_reference as usize);
        }
    }

    /// Returns the block that starts at `start`, and the number of its first reference. `None` if it was not executed
    /// in this address space.
    pub fn block_at(&mut self, start: u64) -> Option<(BlockId, u32)> {
        let slot = recent_slot(start);
        let block = match self.recent.get(slot) {
            Some(&(at, block)) if at == start => block,
            _ => {
                let block = *self.blocks.get(&(self.space, start))?;
                self.recent.resize(RECENT, (u64::MAX, BlockId(0)));
                self.recent[slot] = (start, block);
                block
            }
        };
        Some((block, self.executed[block.0 as usize].first_reference))
    }

    /// Records address `at` of reference number `number`, and whether the first-level TLB lacked its page.
    #[inline(always)]
    pub fn record(&mut self, number: u32, at: u64, missed_first_level: bool) {
        self.references[number as usize].record(at, missed_first_level);
    }

    /// Returns whether load number `number` may issue before older stores whose addresses are unknown.
    #[inline(always)]
    pub fn is_trusted(&self, number: u32) -> bool {
        self.references[number as usize].trust == TRUSTED
    }

    /// Trains memory disambiguation: whether load number `number` needed the data of an older store whose address was
    /// unknown when the load was translated.
    #[inline(always)]
    pub fn learn_conflict(&mut self, number: u32, conflict: bool) {
        let trust = &mut self.references[number as usize].trust;
        *trust = if conflict { 0 } else { (*trust + 1).min(TRUSTED) };
    }

    /// Begins a wrong path: the addresses predicted on earlier ones count no longer.
    pub fn begin_wrong_path(&mut self) {
        self.wrong_path = self.wrong_path.wrapping_add(1);
    }

    /// Takes `at` for the next address of reference number `number` on this wrong path.
    pub fn expect_address(&mut self, number: u32, at: u64) {
        self.predictions[number as usize] = PredictedAddress { at, wrong_path: self.wrong_path };
    }

    /// Predicts the next address of reference number `number` on this wrong path. `None` if it was never executed.
    ///
    /// Outside a run, the prediction is an address that `is_mapped`, or else the last address.
    pub fn predict_address(&mut self, number: u32, is_mapped: impl Fn(u64) -> bool) -> Option<u64> {
        let history = &self.references[number as usize];
        let predicted = &mut self.predictions[number as usize];
        if history.times == 0 {
            return None;
        }
        let from = if predicted.wrong_path == self.wrong_path { predicted.at } else { history.last };
        let next = history.predict_after(from);
        let next = if history.is_run || next == history.last || is_mapped(next) { next } else { history.last };
        *predicted = PredictedAddress { at: next, wrong_path: self.wrong_path };
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::{Block, BlockTable, VirtAddr};

    /// The first three predictions after these addresses.
    fn predictions(addresses: &[u64], missed: bool, is_mapped: impl Fn(u64) -> bool) -> [Option<u64>; 3] {
        let mut history = ExecutionHistory {
            references: vec![ReferenceHistory::default()],
            predictions: vec![PredictedAddress::default()],
            wrong_path: 1,
            ..ExecutionHistory::default()
        };
        addresses.iter().for_each(|&at| history.record(0, at, missed));
        [(); 3].map(|()| history.predict_address(0, &is_mapped))
    }

    #[test]
    fn runs_continue_and_other_references_stay_within_their_span() {
        for missed in [false, true] {
            assert_eq!(predictions(&[], missed, |_| true), [None; 3]);
            assert_eq!(predictions(&[5000], missed, |_| true), [Some(5000); 3]);
            assert_eq!(predictions(&[0, 64, 128], missed, |_| false), [Some(192), Some(256), Some(320)], "a run");
        }
        let within = |at: &Option<u64>| at.is_some_and(|at| (0x10000..0x90000).contains(&at));
        let random = [0x10000, 0x84000, 0x32100, 0x5aaa0];
        let missed = predictions(&random, true, |_| true);
        assert!(missed.iter().all(within), "{missed:x?}");
        assert_eq!(missed[0], Some(0x5aaa0 + 0x5aaa0 - 0x32100));
        assert_eq!(predictions(&random, true, |_| false), [Some(0x5aaa0); 3], "nothing is mapped there");
        assert_eq!(predictions(&random, false, |_| true), [Some(0x5aaa0); 3], "the first-level TLB had the page");
        let down = predictions(&[0x10000, 0x8ffff, 0x10000], true, |_| true);
        assert_eq!(down[0], Some(0x10001), "wrapped up by one span");
    }

    #[test]
    fn addresses_of_another_address_space_predict_nothing() {
        let mut blocks = BlockTable::default();
        // mov rax, [rdi]
        let bytes = [0x48, 0x8b, 0x07].as_slice().into();
        let block = blocks.push(Block { pc: VirtAddr(0x1000), len: 3, instructions: 1, bytes });
        let mut code = Code::default();
        code.learn(&blocks);
        let mut history = ExecutionHistory { wrong_path: 1, ..ExecutionHistory::default() };
        let load = history.execute(&code, block);
        (0..15).for_each(|_| history.learn_conflict(load, false));
        history.record(load, 0x5000, true);
        assert_eq!(history.execute(&code, block), load);
        assert_eq!(history.predict_address(load, |_| true), Some(0x5000));
        history.enter_space(1);
        assert_eq!(history.execute(&code, block), load, "the same block");
        history.wrong_path = 2;
        assert_eq!(history.predict_address(load, |_| true), None);
        assert!(history.is_trusted(load), "conflicts are learned by instruction");
    }

    #[test]
    fn fifteen_loads_without_conflict_give_trust_and_one_conflict_takes_it() {
        let mut history =
            ExecutionHistory { references: vec![ReferenceHistory::default()], ..ExecutionHistory::default() };
        for _ in 0..15 {
            assert!(!history.is_trusted(0));
            history.learn_conflict(0, false);
        }
        assert!(history.is_trusted(0));
        history.learn_conflict(0, true);
        assert!(!history.is_trusted(0));
    }
}
