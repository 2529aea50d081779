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

/// All blocks that the ring defines.
pub(super) struct RingBlocks {
    /// The definitions, by the ring's number.
    definitions: Vec<Definition>,
    /// The table's numbers, by address and hash. Processes that run the same code share blocks.
    by_hash: HashMap<(VirtAddr, u64), BlockId>,
    table: BlockTable,
}

impl Default for RingBlocks {
    fn default() -> RingBlocks {
        RingBlocks { definitions: vec![UNDEFINED], by_hash: HashMap::new(), table: BlockTable::default() }
    }
}

impl RingBlocks {
    /// Returns the distinct blocks.
    pub(super) fn table(&self) -> &BlockTable {
        &self.table
    }

    /// Defines the ring's number `number` as `block`.
    pub(super) fn define(&mut self, number: u32, block: Block) {
        let at = number as usize;
        if self.definitions.len() <= at {
            self.definitions.resize(at + 1, UNDEFINED);
        }
        self.definitions[at] = (block.fetch(), self.number(block));
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
        blocks.define(3, block(0x1000));
        blocks.define(1, block(0x2000));
        blocks.define(2, block(0x1000));
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
