//! CHiRP: sets that replace first what the control flow predicts dead (Mirbagher-Ajorpaz et al., MICRO 2020).
//!
//! The ways of a set are in order of recency. An access is a hit, or an insertion after a miss; a look-up that misses changes nothing.
//! 1. An access has a signature: the instruction, the path, and the two histories of branches, xored and folded to 16 bits
//!    ([`ReusePredictedSets::signature`]). The path is the lowest two bits of the instructions of the last sixteen accesses to the
//!    array, each followed by two zeros; the present one enters it afterwards. [`ReuseSignature::Instruction`] leaves out all but the
//!    instruction.
//! 2. A table has counters from 0 to 3, all 0 at first. A signature whose counter is at least [`DEAD`] is predicted dead.
//! 3. An insertion gives its entry the signature and what is predicted of it.
//! 4. The first hit of an entry lowers the counter of its signature, and gives it the signature of the hit with what is predicted of
//!    that. Later hits do not, nor does a hit in the set that was accessed last: it does not count as the first either.
//! 5. The victim is the least recently used entry that is predicted dead, or the least recently used. If no hit of it counted, its
//!    counter rises. A free way is filled first. An invalidation changes no counter.

use super::words::{EMPTY, Word, find_in_slice};
use reach_core::ReuseSignature;

/// The number of counters, and the bits of their index.
const COUNTERS: usize = 1 << COUNTER_BITS;
const COUNTER_BITS: u32 = 12;
/// The greatest value of a counter, which has two bits.
const GREATEST: u8 = 3;
/// The least value that predicts an entry dead.
const DEAD: u8 = 2;

/// The control flow before an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControlFlow {
    /// The number of the instruction.
    pub instruction: u64,
    /// Eight bits of each of the last eight conditional branches, the latest in the lowest bits.
    pub conditional: u64,
    /// The same of unconditional branches whose target is in a register or in memory.
    pub indirect: u64,
}

/// The signature of an entry, and what it predicts.
#[derive(Clone, Copy, Debug, Default)]
struct Prediction {
    signature: u16,
    dead: bool,
    /// A hit has counted.
    reused: bool,
}

/// Sets of any width, with one table of counters.
#[derive(Clone, Debug)]
pub(crate) struct ReusePredictedSets<T> {
    ways: usize,
    tags: Vec<u64>,
    words: Vec<T>,
    predictions: Vec<Prediction>,
    kind: ReuseSignature,
    counters: Vec<u8>,
    path: u64,
    /// The set that was accessed last; `None` before the first access.
    last_set: Option<usize>,
    /// The control flow before the next access.
    pub control_flow: ControlFlow,
}

impl<T: Word> ReusePredictedSets<T> {
    pub fn new(sets: usize, ways: usize, kind: ReuseSignature) -> Self {
        let entries = sets * ways;
        ReusePredictedSets {
            ways,
            tags: vec![EMPTY; entries],
            words: vec![T::default(); entries],
            predictions: vec![Prediction::default(); entries],
            kind,
            counters: vec![0; COUNTERS],
            path: 0,
            last_set: None,
            control_flow: ControlFlow::default(),
        }
    }

    pub fn sets(&self) -> usize {
        self.tags.len() / self.ways
    }

    pub fn set(&self, set: usize) -> (&[u64], &[T]) {
        let at = set * self.ways;
        (&self.tags[at..at + self.ways], &self.words[at..at + self.ways])
    }

    /// Returns the signature of an access that comes now.
    fn signature(&self) -> u16 {
        let ControlFlow { instruction, conditional, indirect } = self.control_flow;
        let all = match self.kind {
            ReuseSignature::ControlFlow => instruction ^ self.path ^ conditional ^ indirect,
            ReuseSignature::Instruction => instruction,
        };
        let half = all ^ all >> 32;
        (half ^ half >> 16) as u16
    }

    fn counter(&mut self, signature: u16) -> &mut u8 {
        &mut self.counters[usize::from(signature ^ signature >> COUNTER_BITS) % COUNTERS]
    }

    /// Returns what is predicted of an entry that is accessed now.
    fn predict(&mut self, reused: bool) -> Prediction {
        let signature = self.signature();
        Prediction { signature, dead: *self.counter(signature) >= DEAD, reused }
    }

    /// Ends an access to `set`.
    fn end_access(&mut self, set: usize) {
        self.path = self.path << 4 | self.control_flow.instruction & 3;
        self.last_set = Some(set);
    }

    /// Makes the entry at `from` the most recently used of its set, which begins at `to`.
    fn raise(&mut self, from: usize, to: usize) {
        self.tags[to..=from].rotate_right(1);
        self.words[to..=from].rotate_right(1);
        self.predictions[to..=from].rotate_right(1);
    }

    pub fn lookup(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        let way = find_in_slice(self.set(set).0, tag)?;
        let at = set * self.ways;
        let held = self.predictions[at + way];
        if !held.reused && self.last_set != Some(set) {
            let counter = self.counter(held.signature);
            *counter = counter.saturating_sub(1);
            self.predictions[at + way] = self.predict(true);
        }
        self.end_access(set);
        self.raise(at + way, at);
        Some(&mut self.words[at])
    }

    /// Returns the word of `tag`, without recording a use.
    pub fn word_mut(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        let way = find_in_slice(self.set(set).0, tag)?;
        Some(&mut self.words[set * self.ways + way])
    }

    pub fn insert(&mut self, set: usize, tag: u64, word: T) -> (u64, T) {
        let (at, last) = (set * self.ways, set * self.ways + self.ways - 1);
        // Free ways are at the end.
        let is_free = self.tags[last] == EMPTY;
        let dead = self.predictions[at..=last].iter().rposition(|prediction| prediction.dead);
        let way = if is_free { last } else { dead.map_or(last, |way| at + way) };
        let evicted = self.predictions[way];
        if !is_free && !evicted.reused {
            let counter = self.counter(evicted.signature);
            *counter = (*counter + 1).min(GREATEST);
        }
        let old = (self.tags[way], self.words[way]);
        (self.tags[way], self.words[way]) = (tag, word);
        self.predictions[way] = self.predict(false);
        self.end_access(set);
        self.raise(way, at);
        old
    }

    pub fn free_way(&mut self, set: usize, way: usize) {
        let (at, end) = (set * self.ways, (set + 1) * self.ways);
        self.tags[at + way..end].rotate_left(1);
        self.words[at + way..end].rotate_left(1);
        self.predictions[at + way..end].rotate_left(1);
        self.tags[end - 1] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns two sets of `ways` ways.
    fn sets(ways: usize) -> ReusePredictedSets<u64> {
        ReusePredictedSets::new(2, ways, ReuseSignature::ControlFlow)
    }

    /// Uses `tag` by an instruction: looks it up, and inserts it if it is missing. Returns the tag that it replaces.
    fn access(sets: &mut ReusePredictedSets<u64>, set: usize, tag: u64, instruction: u64) -> Option<u64> {
        sets.control_flow.instruction = instruction;
        // A path of zeros, so that signatures tell instructions apart and nothing else.
        sets.path = 0;
        if sets.lookup(set, tag).is_some() {
            return None;
        }
        Some(sets.insert(set, tag, tag).0).filter(|&old| old != EMPTY)
    }

    /// An instruction whose pages are used once, and one whose pages are used again.
    const ONCE: u64 = 0x100;
    const AGAIN: u64 = 0x200;

    #[test]
    fn entries_of_instructions_that_never_reuse_are_replaced_first() {
        let mut sets = sets(4);
        // Two that are evicted unused are enough.
        (1..=6).for_each(|tag| _ = access(&mut sets, 0, tag, ONCE));
        (11..=14).for_each(|tag| _ = access(&mut sets, 0, tag, AGAIN));
        assert_eq!(access(&mut sets, 0, 7, ONCE), Some(11), "none of 11 to 14 is predicted dead");
        assert_eq!(access(&mut sets, 0, 15, AGAIN), Some(7), "though 12, 13 and 14 are used less recently");
        assert_eq!(access(&mut sets, 0, 16, AGAIN), Some(12));
    }

    #[test]
    fn the_first_reuse_from_another_set_teaches_that_an_entry_lives() {
        let mut sets = sets(2);
        let value = |sets: &mut ReusePredictedSets<u64>| *sets.counter(ONCE as u16);
        (1..=5).for_each(|tag| _ = access(&mut sets, 0, tag, ONCE));
        assert_eq!(value(&mut sets), 3, "three were evicted unused");
        access(&mut sets, 0, 5, AGAIN);
        assert_eq!(value(&mut sets), 3, "a burst in one set is no reuse");
        access(&mut sets, 1, 9, AGAIN);
        access(&mut sets, 0, 5, AGAIN);
        assert_eq!(value(&mut sets), 2);
        access(&mut sets, 1, 9, AGAIN);
        access(&mut sets, 0, 5, AGAIN);
        assert_eq!(value(&mut sets), 2, "only the first counts");
        access(&mut sets, 0, 6, AGAIN);
        assert_eq!(value(&mut sets), 3, "3 was evicted unused");
        access(&mut sets, 0, 7, AGAIN);
        assert_eq!((value(&mut sets), sets.set(0).0), (3, &[7, 6][..]), "5 was not");
    }

    #[test]
    fn the_signature_has_the_path_and_both_histories() {
        let mut sets = sets(4);
        for instruction in [1u64, 2, 7] {
            sets.control_flow.instruction = instruction;
            sets.insert(0, instruction, 0);
        }
        assert_eq!(sets.path, 0x123);
        sets.control_flow = ControlFlow { instruction: 0x1_0000, conditional: 0x2_0000_0000, indirect: 0x4000 };
        assert_eq!(sets.signature(), 0x123 ^ 1 ^ 2 ^ 0x4000);
        sets.kind = ReuseSignature::Instruction;
        assert_eq!(sets.signature(), 1);
        sets.control_flow.instruction = 0x1_0000_0003;
        (0..16).for_each(|_| _ = sets.lookup(0, 1));
        assert_eq!(sets.path, 0x3333_3333_3333_3333, "sixteen accesses");
    }

    #[test]
    fn what_is_invalidated_teaches_nothing_and_its_way_is_filled_first() {
        let mut sets = sets(3);
        (1..=3).for_each(|tag| _ = access(&mut sets, 0, tag, ONCE));
        let way = sets.set(0).0.iter().position(|&tag| tag == 2).unwrap();
        sets.free_way(0, way);
        assert_eq!(*sets.counter(ONCE as u16), 0);
        assert_eq!(access(&mut sets, 0, 4, ONCE), None);
        *sets.word_mut(0, 1).unwrap() = 10;
        assert_eq!((sets.set(0).0, sets.set(0).1), (&[4, 3, 1][..], &[4, 3, 10][..]));
    }
}
