//! Blocks: from their numbers in the ring to those of the block table.

use reach_core::ring::record;
use reach_core::{Block, BlockId, BlockTable, Chunk, Ref, VirtAddr};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a number in the ring stands for: the fetch of the block and its number in the table.
type Meaning = (Ref, BlockId);

/// For numbers that were not defined, and for 0.
const NOTHING: Meaning = (Ref(0), BlockId(u32::MAX));

/// All blocks that were defined.
pub(super) struct Known {
    meanings: Vec<Meaning>,
    /// Blocks by what they are: processes that run the same code share them.
    same: HashMap<(VirtAddr, u64), BlockId>,
    blocks: BlockTable,
}

impl Default for Known {
    fn default() -> Known {
        Known { meanings: vec![NOTHING], same: HashMap::new(), blocks: BlockTable::default() }
    }
}

impl Known {
    pub(super) fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    /// Number `number` in the ring means `block`.
    pub(super) fn define(&mut self, number: u32, block: Block) {
        let at = number as usize;
        if self.meanings.len() <= at {
            self.meanings.resize(at + 1, NOTHING);
        }
        self.meanings[at] = (block.fetch(), self.number(block));
    }

    /// The table's number of a block, a new one if it is new.
    fn number(&mut self, block: Block) -> BlockId {
        let mut hasher = DefaultHasher::new();
        block.hash(&mut hasher);
        let key = (block.pc, hasher.finish());
        match self.same.get(&key) {
            Some(&id) if *self.blocks.get(id) == block => id,
            _ => {
                let id = self.blocks.push(block);
                self.same.insert(key, id);
                id
            }
        }
    }

    /// Appends what `words` say to `chunk`, up to the first that is neither an access nor the execution of a defined
    /// block. Returns how many that were. No branch depends on which of the two a word is.
    pub(super) fn run(&self, words: &[AtomicU64], chunk: &mut Chunk) -> usize {
        let (refs_before, fetched_before) = (chunk.refs.len(), chunk.fetched.len());
        chunk.refs.resize(refs_before + words.len(), Ref(0));
        chunk.fetched.resize(fetched_before + words.len(), NOTHING.1);
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
            let &(fetch, id) = self.meanings.get(number as usize).unwrap_or(&NOTHING);
            if is_block & (id == NOTHING.1) {
                done = i;
                break;
            }
            *to = if is_block { fetch } else { Ref(word) };
            // The last place is not written before it is needed: there are no more fetches than words.
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
    fn equal_blocks_share_a_number_and_runs_end_where_they_must() {
        let mut known = Known::default();
        known.define(3, block(0x1000));
        known.define(1, block(0x2000));
        known.define(2, block(0x1000));
        assert_eq!(known.blocks().len(), 2);

        let load = Ref::data(Kind::Load, VirtAddr(0x7000), 3, 1);
        let words = [record::block(3), load.0, record::block(1), record::block(2), 0, load.0].map(AtomicU64::new);
        let mut chunk = Chunk::default();
        chunk.push_fetch(BlockId(7), &block(7));
        assert_eq!(known.run(&words, &mut chunk), 4);
        let fetch = |pc| block(pc).fetch();
        assert_eq!(chunk.refs, [fetch(7), fetch(0x1000), load, fetch(0x2000), fetch(0x1000)]);
        assert_eq!(chunk.fetched, [7, 0, 1, 0].map(BlockId));

        let unknown = [load.0, record::block(4)].map(AtomicU64::new);
        assert_eq!(known.run(&unknown, &mut Chunk::default()), 1);
    }
}
