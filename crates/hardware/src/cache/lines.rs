//! The lines of one cache. Cache simulation spends most of its time here.
//!
//! A line is one word: its number and a dirty bit. A simulated set therefore covers few lines of the host computer's
//! cache, and one vector compare finds the line. LRU sets of the usual widths are kept in order of recency; all others are
//! [`Array`]s.

use super::protecting::ProtectingLines;
use crate::array::{Array, Word, equal_mask};
use crate::config::Replacement;
use reach_core::{Zeroed, prefetch};

#[derive(Clone, Debug)]
pub(crate) enum Lines {
    Lru4(LruLines<1>),
    Lru8(LruLines<2>),
    Lru12(LruLines<3>),
    Lru16(LruLines<4>),
    Lru20(LruLines<5>),
    Protecting(ProtectingLines),
    Other(Array<bool>),
}

/// Calls a method of whichever kind of lines these are, or of the array.
macro_rules! each {
    ($lines:expr, $s:ident => $call:expr, $a:ident => $other:expr) => {
        match $lines {
            Lines::Lru4($s) => $call,
            Lines::Lru8($s) => $call,
            Lines::Lru12($s) => $call,
            Lines::Lru16($s) => $call,
            Lines::Lru20($s) => $call,
            Lines::Protecting($s) => $call,
            Lines::Other($a) => $other,
        }
    };
}

impl Lines {
    /// Creates an empty cache of `lines` lines. `ways` divides `lines`.
    pub fn new(lines: usize, ways: usize, replacement: Replacement, seed: u64) -> Lines {
        let sets = lines / ways;
        match (replacement, ways) {
            (Replacement::Lru, 4) => Lines::Lru4(LruLines::new(sets)),
            (Replacement::Lru, 8) => Lines::Lru8(LruLines::new(sets)),
            (Replacement::Lru, 12) => Lines::Lru12(LruLines::new(sets)),
            (Replacement::Lru, 16) => Lines::Lru16(LruLines::new(sets)),
            (Replacement::Lru, 20) => Lines::Lru20(LruLines::new(sets)),
            (Replacement::PageTableAware, _) => Lines::Protecting(ProtectingLines::new(sets, ways)),
            _ => Lines::Other(Array::new(lines, ways, replacement, seed)),
        }
    }

    /// Records a use of `line`, which `written` makes dirty. Returns whether it is present.
    #[inline(always)]
    pub fn touch(&mut self, set: usize, line: u64, written: bool) -> bool {
        each!(self, sets => sets.touch(set, line, written), array => match array.lookup(set, line + 1) {
            Some(dirty) => {
                *dirty |= written;
                true
            }
            None => false,
        })
    }

    /// Inserts `line`, which is absent; `entries`: a walk for data wants it. Returns the evicted line if it was dirty.
    #[inline(always)]
    pub fn insert(&mut self, set: usize, line: u64, dirty: bool, entries: bool) -> Option<u64> {
        each!(self, sets => sets.insert(set, line, dirty, entries), array => match array.insert(set, line + 1, dirty) {
            Some((old, true)) => Some(old - 1),
            _ => None,
        })
    }

    /// Returns whether `line` is present, without recording a use.
    pub fn contains(&self, set: usize, line: u64) -> bool {
        each!(self, sets => sets.find(set, line).is_some(), array => array.contains(set, line + 1))
    }

    /// Removes `line`. Returns whether it was present and dirty.
    pub fn remove(&mut self, set: usize, line: u64) -> bool {
        each!(self, sets => sets.remove(set, line), array => {
            let dirty = array.lookup(set, line + 1).is_some_and(|dirty| *dirty);
            array.remove(set, line + 1);
            dirty
        })
    }

    /// Prefetches the words of `set` into the caches of the host computer.
    #[inline(always)]
    pub fn prefetch(&self, set: usize) {
        each!(self, sets => sets.prefetch(set), _array => ());
    }
}

/// The word of a free way; new sets have no others.
const FREE: u64 = 0;

/// LRU sets of 4 × `FOURS` lines, in order of recency.
#[derive(Clone, Debug)]
pub(crate) struct LruLines<const FOURS: usize> {
    words: Zeroed<[[u64; 4]; FOURS]>,
}

/// Returns the word of a clean line; bit 0 is the dirty bit.
#[inline(always)]
fn clean_word(line: u64) -> u64 {
    (line + 1) << 1
}

impl<const FOURS: usize> LruLines<FOURS> {
    fn new(sets: usize) -> Self {
        LruLines { words: Zeroed::new(sets) }
    }

    #[inline(always)]
    fn find(&self, set: usize, line: u64) -> Option<usize> {
        let mut hits = 0u32;
        for (i, four) in self.words[set].iter().enumerate() {
            let clean = &four.map(|word| word & !1);
            hits |= equal_mask(clean, clean_word(line)) << (4 * i);
        }
        if hits == 0 { None } else { Some(hits.trailing_zeros() as usize) }
    }

    #[inline(always)]
    fn touch(&mut self, set: usize, line: u64, written: bool) -> bool {
        let first = &mut self.words[set][0][0];
        if *first & !1 == clean_word(line) {
            *first |= u64::from(written);
            return true;
        }
        let Some(way) = self.find(set, line) else { return false };
        let words = self.words[set].as_flattened_mut();
        let word = words[way % (4 * FOURS)] | u64::from(written);
        u64::push_front(words, way, word);
        true
    }

    #[inline(always)]
    fn insert(&mut self, set: usize, line: u64, dirty: bool, _entries: bool) -> Option<u64> {
        debug_assert!(self.find(set, line).is_none(), "line {line:#x} is already in set {set}");
        let words = self.words[set].as_flattened_mut();
        // The last way is the oldest, or free.
        let last = 4 * FOURS - 1;
        let old = words[last];
        u64::push_front(words, last, clean_word(line) | u64::from(dirty));
        (old & 1 == 1).then_some((old >> 1).wrapping_sub(1))
    }

    fn remove(&mut self, set: usize, line: u64) -> bool {
        let Some(way) = self.find(set, line) else { return false };
        let words = self.words[set].as_flattened_mut();
        let word = words[way];
        words[way..].rotate_left(1);
        words[4 * FOURS - 1] = FREE;
        word & 1 == 1
    }

    #[inline(always)]
    fn prefetch(&self, set: usize) {
        let words = self.words.as_flattened();
        // Eight words fill a line of the host's cache; a set begins at one or in the middle of one.
        (0..FOURS).step_by(2).for_each(|four| prefetch(words, set * FOURS + four));
        if FOURS % 2 == 1 {
            prefetch(words, set * FOURS + FOURS - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_of_every_width_equal_an_array(
            width in 0..6usize,
            operations in prop::collection::vec((0..4u8, 0..3usize, 0..60u64, any::<bool>()), 1..300),
        ) {
            let ways = [4, 8, 12, 16, 20, 5][width];
            let mut lines = Lines::new(3 * ways, ways, Replacement::Lru, 0);
            let mut array = Array::new(3 * ways, ways, Replacement::Lru, 0);
            for (operation, set, line, flag) in operations {
                let tag = line + 1;
                match operation {
                    0 | 1 => {
                        let found = array.lookup(set, tag).map(|dirty| *dirty |= flag).is_some();
                        prop_assert_eq!(lines.touch(set, line, flag), found);
                        if !found {
                            let evicted = array.insert(set, tag, flag).filter(|old| old.1).map(|old| old.0 - 1);
                            prop_assert_eq!(lines.insert(set, line, flag, flag), evicted);
                        }
                    }
                    2 => prop_assert_eq!(lines.contains(set, line), array.contains(set, tag)),
                    _ => {
                        let dirty = array.lookup(set, tag).is_some_and(|dirty| *dirty);
                        array.remove(set, tag);
                        prop_assert_eq!(lines.remove(set, line), dirty);
                    }
                }
            }
        }
    }
}
