//! iTP: sets that keep translations of instructions longer than those of data (Chasapis et al., ASPLOS 2025).
//!
//! A set is a stack, the most protected way first. What fetches insert comes in below the top, and rises to the top once it has
//! been used often; what loads and stores insert comes in at the bottom, and rises by a few ways at a use. The last way is the victim.

use super::words::{EMPTY, Word, find_in_slice};

/// How far below the top the entries of instructions begin, and stay until they have been used often (the paper's N).
const BELOW_TOP: usize = 4;
/// How far above the bottom entries of data rise at a use (the paper's M).
const ABOVE_BOTTOM: usize = 8;
/// Uses after which an entry of instructions rises to the top: a counter of three bits is full.
const OFTEN: u8 = 7;

/// The kind of an entry: of data.
const DATA: u8 = u8::MAX;

/// Sets of any width.
#[derive(Clone, Debug)]
pub(crate) struct InstructionAwareSets<T> {
    ways: usize,
    tags: Vec<u64>,
    words: Vec<T>,
    /// By way: the uses of an entry of instructions, at most [`OFTEN`]; or [`DATA`].
    uses: Vec<u8>,
}

impl<T: Word> InstructionAwareSets<T> {
    pub fn new(sets: usize, ways: usize) -> Self {
        let entries = sets * ways;
        InstructionAwareSets {
            ways,
            tags: vec![EMPTY; entries],
            words: vec![T::default(); entries],
            uses: vec![DATA; entries],
        }
    }

    pub fn sets(&self) -> usize {
        self.tags.len() / self.ways
    }

    pub fn set(&self, set: usize) -> (&[u64], &[T]) {
        let at = set * self.ways;
        (&self.tags[at..at + self.ways], &self.words[at..at + self.ways])
    }

    /// Moves the entry at `from` up to `to`, and those between one way down.
    fn raise(&mut self, from: usize, to: usize) {
        self.tags[to..=from].rotate_right(1);
        self.words[to..=from].rotate_right(1);
        self.uses[to..=from].rotate_right(1);
    }

    pub fn lookup(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        let way = find_in_slice(self.set(set).0, tag)?;
        let at = set * self.ways;
        let uses = &mut self.uses[at + way];
        let to = match *uses {
            DATA => self.ways.saturating_sub(1 + ABOVE_BOTTOM),
            OFTEN => 0,
            _ => {
                *uses += 1;
                BELOW_TOP
            }
        };
        let to = to.min(way);
        self.raise(at + way, at + to);
        Some(&mut self.words[at + to])
    }

    /// Returns the word of `tag`, without recording a use.
    pub fn word_mut(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        let way = find_in_slice(self.set(set).0, tag)?;
        Some(&mut self.words[set * self.ways + way])
    }

    pub fn insert(&mut self, set: usize, tag: u64, word: T) -> (u64, T) {
        self.insert_for(set, tag, word, false)
    }

    /// Inserts an entry that a fetch or another reference wants.
    pub fn insert_for(&mut self, set: usize, tag: u64, word: T, fetch: bool) -> (u64, T) {
        let (at, last) = (set * self.ways, self.ways - 1);
        let old = (self.tags[at + last], self.words[at + last]);
        // Free ways are at the end.
        let held = self.tags[at..at + last].iter().take_while(|&&tag| tag != EMPTY).count();
        let to = if fetch { held.min(BELOW_TOP) } else { held };
        self.raise(at + last, at + to);
        (self.tags[at + to], self.words[at + to]) = (tag, word);
        self.uses[at + to] = if fetch { 0 } else { DATA };
        old
    }

    pub fn free_way(&mut self, set: usize, way: usize) {
        let (at, end) = (set * self.ways, (set + 1) * self.ways);
        self.tags[at + way..end].rotate_left(1);
        self.words[at + way..end].rotate_left(1);
        self.uses[at + way..end].rotate_left(1);
        self.tags[end - 1] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_is_not_used_again_replaces_only_its_like() {
        let mut sets = InstructionAwareSets::new(1, 12);
        sets.insert_for(0, 1, 1u64, true);
        (2..=12).for_each(|tag| _ = sets.insert(0, tag, tag));
        assert_eq!(sets.set(0).0[0], 1, "nothing is above the first");
        (100..150).for_each(|tag| _ = sets.insert(0, tag, tag));
        let left = sets.set(0).0;
        assert!(left.contains(&1) && left.contains(&149) && !left.contains(&148));
    }

    #[test]
    fn instructions_rise_to_the_top_once_they_are_used_often() {
        let mut sets = InstructionAwareSets::new(1, 12);
        (1..=12).for_each(|tag| _ = sets.insert_for(0, tag, tag, true));
        // Each came in at the fifth way, and pushed the others down; the first four are as they came.
        assert_eq!(sets.set(0).0[..5], [1, 2, 3, 4, 12]);
        for uses in 1..=8 {
            sets.lookup(0, 5);
            let place = sets.set(0).0.iter().position(|&tag| tag == 5).unwrap();
            assert_eq!(place, if uses == 8 { 0 } else { 4 }, "after {uses} uses");
        }
    }

    #[test]
    fn used_data_rises_above_data_that_is_not() {
        let mut sets = InstructionAwareSets::new(1, 12);
        (1..=12).for_each(|tag| _ = sets.insert(0, tag, tag));
        sets.lookup(0, 12);
        assert_eq!(sets.set(0).0[..5], [1, 2, 3, 12, 4]);
        *sets.word_mut(0, 12).unwrap() = 120;
        sets.insert(0, 13, 13);
        assert!(!sets.set(0).0.contains(&11) && sets.set(0).1.contains(&120));
    }
}
