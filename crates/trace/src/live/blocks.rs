//! Translates the ring's block numbers to those of the block table.

use reach_core::ring::record;
use reach_core::{Block, BlockId, BlockTable, Chunk, Ref, VirtAddr};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// A block of the ring: its fetch and its number in the table.
type Definition = (Ref, BlockId);

/// The definition of numbers that were not defined, and of 0.
const UNDEFINED: Definition = (Ref(0), BlockId(u32::MAX));

/// The most distinct blocks of a program: some gigabytes with their code.
const MAX_BLOCKS: usize = 1 << 24;
/// The most definitions (1 GB). Each translation of a block is one.
const MAX_DEFINITIONS: usize = 1 << 26;
/// The most that a number may be ahead of the definitions that have come. Numbers are dense, but processes send theirs late.
const MAX_AHEAD: usize = 1 << 22;

/// All blocks that the ring defines.
pub(super) struct RingBlocks {
    /// The definitions, by the ring's number.
    definitions: Vec<Definition>,
    /// The number of definitions that have come.
    defined: usize,
    /// The table's numbers, by address and hash. Processes that run the same code share blocks.
    by_hash: HashMap<(VirtAddr, u64), BlockId>,
    table: BlockTable,
}

impl Default for RingBlocks {
    fn default() -> RingBlocks {
        RingBlocks { definitions: vec![UNDEFINED], defined: 0, by_hash: HashMap::new(), table: BlockTable::default() }
    }
}

impl RingBlocks {
    /// Returns the distinct blocks.
    pub(super) fn table(&self) -> &BlockTable {
        &self.table
    }

    /// Defines the ring's number `number` as `block`. Returns `false` where there are too many, or the number is beyond those
    /// that can come now.
    pub(super) fn define(&mut self, number: u32, block: Block) -> bool {
        let at = number as usize;
        if at >= MAX_DEFINITIONS.min(self.defined + MAX_AHEAD) || self.table.len() >= MAX_BLOCKS {
            return false;
        }
        self.defined += 1;
        if self.definitions.len() <= at {
            self.definitions.resize(at + 1, UNDEFINED);
        }
        self.definitions[at] = (block.fetch(), self.number(block));
        true
    }

    /// Returns the table's number of a block. Adds the block if it is new.
    fn number(&mut self, block: Block) -> BlockId {
        let mut hasher = DefaultHasher::new();
        block.hash(&mut hasher);
        let key = (block.pc, hasher.finish());
        match self.by_hash.get(&key) {
            Some(&id) if *self.table.get(id) == block => id,
            _ => {
                let id = self.table.push(block);
                self.by_hash.insert(key, id);
                id
            }
        }
    }

    /// Appends the references of `words` to `chunk`, up to the first word that is neither an access nor the execution of a
    /// defined block. Returns the number of words before that one. No branch depends on whether a word is an access or an
    /// execution, because the processor could not predict it.
    pub(super) fn run(&self, words: &[AtomicU64], chunk: &mut Chunk) -> usize {
        let (refs_before, fetched_before) = (chunk.refs.len(), chunk.fetched.len());
        chunk.refs.resize(refs_before + words.len(), Ref(0));
        chunk.fetched.resize(fetched_before + words.len(), UNDEFINED.1);
        let (refs, fetched) = (&mut chunk.refs[refs_before..], &mut chunk.fetched[fetched_before..]);
        let mut fetches = 0;
        let mut done = words.len();
        for (i, (word, to)) in words.iter().zip(refs).enumerate() {
            let word = word.load(Ordering::Relaxed);
            let Some(number) = record::block_or_data(word) else {
                done = i;
                break;
            };
            let is_block = number != 0;
            let &(fetch, id) = self.definitions.get(number as usize).unwrap_or(&UNDEFINED);
            if is_block & (id == UNDEFINED.1) {
                done = i;
                break;
            }
            *to = if is_block { fetch } else { Ref(word) };
            // Writes every time and advances for blocks only. There are no more fetches than words, so the place exists.
            fetched[fetches] = id;
            fetches += usize::from(is_block);
        }
        chunk.refs.truncate(refs_before + done);
        chunk.fetched.truncate(fetched_before + fetches);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::Kind;

    fn block(pc: u64) -> Block {
        Block { pc: VirtAddr(pc), len: 4, instructions: 2, bytes: [0x90; 4].into() }
    }

    #[test]
    fn equal_blocks_share_a_number_and_runs_end_at_undefined_blocks() {
        let mut blocks = RingBlocks::default();
        assert!(
            [(3, 0x1000), (1, 0x2000), (2, 0x1000)].into_iter().all(|(number, pc)| blocks.define(number, block(pc)))
        );
        // A number that would take 64 GB.
        assert!(!blocks.define(u32::MAX, block(0x3000)) && blocks.definitions.len() == 4);
        assert_eq!(blocks.table().len(), 2);

        let load = Ref::data(Kind::Load, VirtAddr(0x7000), 3, 1);
        let words = [record::block(3), load.0, record::block(1), record::block(2), 0, load.0].map(AtomicU64::new);
        let mut chunk = Chunk::default();
        chunk.push_fetch(BlockId(7), &block(7));
        assert_eq!(blocks.run(&words, &mut chunk), 4);
        let fetch = |pc| block(pc).fetch();
        assert_eq!(chunk.refs, [fetch(7), fetch(0x1000), load, fetch(0x2000), fetch(0x1000)]);
        assert_eq!(chunk.fetched, [7, 0, 1, 0].map(BlockId));

        let unknown = [load.0, record::block(4)].map(AtomicU64::new);
        assert_eq!(blocks.run(&unknown, &mut Chunk::default()), 1);
    }
}
