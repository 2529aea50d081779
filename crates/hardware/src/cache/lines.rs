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
    Lru4(LruLines<4, 1>),
    Lru8(LruLines<8, 2>),
    Lru10(LruLines<10, 3>),
    Lru11(LruLines<11, 3>),
    Lru12(LruLines<12, 3>),
    Lru15(LruLines<15, 4>),
    Lru16(LruLines<16, 4>),
    Lru20(LruLines<20, 5>),
    Protecting(ProtectingLines),
    Other(Array<bool>),
}

/// Sets of lines of one width under one policy.
pub(super) trait Sets {
    /// Records a use of `line`, which `written` makes dirty. Returns whether it is present.
    fn touch(&mut self, set: usize, line: u64, written: bool) -> bool;

    /// Inserts `line`, which is absent; `entries`: a walk for data wants it. Returns the evicted line if it was dirty.
    fn insert(&mut self, set: usize, line: u64, dirty: bool, entries: bool) -> Option<u64>;

    /// Returns whether `line` is present, without recording a use.
    fn contains(&self, set: usize, line: u64) -> bool;

    /// Removes `line`. Returns whether it was present and dirty.
    fn remove(&mut self, set: usize, line: u64) -> bool;

    /// Prefetches the words of `set` into the caches of the host computer. Only [`LruLines`] do so.
    fn prefetch(&self, set: usize);
}

/// Evaluates an expression with whichever kind of sets these are.
macro_rules! each {
    ($lines:expr, $s:ident => $call:expr) => {
        match $lines {
            $crate::cache::lines::Lines::Lru4($s) => $call,
            $crate::cache::lines::Lines::Lru8($s) => $call,
            $crate::cache::lines::Lines::Lru10($s) => $call,
            $crate::cache::lines::Lines::Lru11($s) => $call,
            $crate::cache::lines::Lines::Lru12($s) => $call,
            $crate::cache::lines::Lines::Lru15($s) => $call,
            $crate::cache::lines::Lines::Lru16($s) => $call,
            $crate::cache::lines::Lines::Lru20($s) => $call,
            $crate::cache::lines::Lines::Protecting($s) => $call,
            $crate::cache::lines::Lines::Other($s) => $call,
        }
    };
}
pub(super) use each;

impl Lines {
    /// Creates an empty cache of `lines` lines. `ways` divides `lines`.
    pub fn new(lines: usize, ways: usize, replacement: Replacement, seed: u64) -> Lines {
        let sets = lines / ways;
        match (replacement, ways) {
            (Replacement::Lru, 4) => Lines::Lru4(LruLines::new(sets)),
            (Replacement::Lru, 8) => Lines::Lru8(LruLines::new(sets)),
            (Replacement::Lru, 10) => Lines::Lru10(LruLines::new(sets)),
            (Replacement::Lru, 11) => Lines::Lru11(LruLines::new(sets)),
            (Replacement::Lru, 12) => Lines::Lru12(LruLines::new(sets)),
            (Replacement::Lru, 15) => Lines::Lru15(LruLines::new(sets)),
            (Replacement::Lru, 16) => Lines::Lru16(LruLines::new(sets)),
            (Replacement::Lru, 20) => Lines::Lru20(LruLines::new(sets)),
            (Replacement::PageTableAware, _) => Lines::Protecting(ProtectingLines::new(sets, ways)),
            _ => Lines::Other(Array::new(lines, ways, replacement, seed)),
        }
    }
}

// Arrays have methods of these names that take tags, so the trait is named.
impl Sets for Lines {
    #[inline(always)]
    fn touch(&mut self, set: usize, line: u64, written: bool) -> bool {
        each!(self, sets => Sets::touch(sets, set, line, written))
    }

    #[inline(always)]
    fn insert(&mut self, set: usize, line: u64, dirty: bool, entries: bool) -> Option<u64> {
        each!(self, sets => Sets::insert(sets, set, line, dirty, entries))
    }

    fn contains(&self, set: usize, line: u64) -> bool {
        each!(self, sets => Sets::contains(sets, set, line))
    }

    fn remove(&mut self, set: usize, line: u64) -> bool {
        each!(self, sets => Sets::remove(sets, set, line))
    }

    #[inline(always)]
    fn prefetch(&self, set: usize) {
        each!(self, sets => Sets::prefetch(sets, set));
    }
}

impl Sets for Array<bool> {
    #[inline(always)]
    fn touch(&mut self, set: usize, line: u64, written: bool) -> bool {
        self.lookup(set, line + 1).map(|dirty| *dirty |= written).is_some()
    }

    #[inline(always)]
    fn insert(&mut self, set: usize, line: u64, dirty: bool, _entries: bool) -> Option<u64> {
        let evicted = Array::insert(self, set, line + 1, dirty);
        evicted.filter(|&(_, dirty)| dirty).map(|(tag, _)| tag - 1)
    }

    fn contains(&self, set: usize, line: u64) -> bool {
        Array::contains(self, set, line + 1)
    }

    fn remove(&mut self, set: usize, line: u64) -> bool {
        let dirty = self.lookup(set, line + 1).is_some_and(|dirty| *dirty);
        Array::remove(self, set, line + 1);
        dirty
    }

    #[inline(always)]
    fn prefetch(&self, _set: usize) {}
}

/// The word of a free way; new sets have no others.
const FREE: u64 = 0;

/// LRU sets of `WAYS` lines, in order of recency. They fill `FOURS` vectors of four words; words beyond them stay free.
#[derive(Clone, Debug)]
pub(crate) struct LruLines<const WAYS: usize, const FOURS: usize> {
    words: Zeroed<[[u64; 4]; FOURS]>,
}

/// Returns the word of a clean line; bit 0 is the dirty bit.
#[inline(always)]
fn clean_word(line: u64) -> u64 {
    (line + 1) << 1
}

impl<const WAYS: usize, const FOURS: usize> LruLines<WAYS, FOURS> {
    fn new(sets: usize) -> Self {
        const { assert!(WAYS.div_ceil(4) == FOURS) };
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
}

impl<const WAYS: usize, const FOURS: usize> Sets for LruLines<WAYS, FOURS> {
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
        let old = words[WAYS - 1];
        u64::push_front(words, WAYS - 1, clean_word(line) | u64::from(dirty));
        (old & 1 == 1).then_some((old >> 1).wrapping_sub(1))
    }

    fn contains(&self, set: usize, line: u64) -> bool {
        self.find(set, line).is_some()
    }

    fn remove(&mut self, set: usize, line: u64) -> bool {
        let Some(way) = self.find(set, line) else { return false };
        let words = self.words[set].as_flattened_mut();
        let word = words[way];
        words[way..WAYS].rotate_left(1);
        words[WAYS - 1] = FREE;
        word & 1 == 1
    }

    #[inline(always)]
    fn prefetch(&self, set: usize) {
        let words = self.words.as_flattened();
        // Eight words fill a line of the host's cache; a set begins at one or in the middle of one.
        (0..FOURS).step_by(2).for_each(|four| prefetch(words, set * FOURS + four));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_of_every_width_equal_an_array(
            width in 0..9usize,
            operations in prop::collection::vec((0..4u8, 0..3usize, 0..60u64, any::<bool>()), 1..300),
        ) {
            let ways = [4, 8, 10, 11, 12, 15, 16, 20, 5][width];
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
