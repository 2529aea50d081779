//! The lines of one cache: what the simulation of caches spends most of its time in.
//!
//! A line is one word, its number and whether it is dirty, so that a set of this computer's memory is as few lines as can
//! be, and one compare of vectors finds the line. Sets of the usual widths are kept under LRU in order of recency; all
//! others are [`Array`]s.

use crate::array::{Array, Word, equal};
use crate::config::Replacement;
use reach_core::prefetch;

#[derive(Clone, Debug)]
pub(crate) enum Lines {
    Four(Sets<1>),
    Eight(Sets<2>),
    Twelve(Sets<3>),
    Sixteen(Sets<4>),
    Twenty(Sets<5>),
    Other(Array<bool>),
}

/// Calls a method of whichever kind of sets these are, or of the array.
macro_rules! each {
    ($lines:expr, $s:ident => $call:expr, $a:ident => $other:expr) => {
        match $lines {
            Lines::Four($s) => $call,
            Lines::Eight($s) => $call,
            Lines::Twelve($s) => $call,
            Lines::Sixteen($s) => $call,
            Lines::Twenty($s) => $call,
            Lines::Other($a) => $other,
        }
    };
}

impl Lines {
    /// Room for `lines` of them, none of them there. `ways` divides it.
    pub fn new(lines: usize, ways: usize, replacement: Replacement, seed: u64) -> Lines {
        let sets = lines / ways;
        match (replacement, ways) {
            (Replacement::Lru, 4) => Lines::Four(Sets::new(sets)),
            (Replacement::Lru, 8) => Lines::Eight(Sets::new(sets)),
            (Replacement::Lru, 12) => Lines::Twelve(Sets::new(sets)),
            (Replacement::Lru, 16) => Lines::Sixteen(Sets::new(sets)),
            (Replacement::Lru, 20) => Lines::Twenty(Sets::new(sets)),
            _ => Lines::Other(Array::new(lines, ways, replacement, seed)),
        }
    }

    /// Uses `line`, which `written` makes dirty. Returns whether it is there.
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

    /// Enters `line`, which is not there. Returns the dirty line that had to go.
    #[inline(always)]
    pub fn enter(&mut self, set: usize, line: u64, dirty: bool) -> Option<u64> {
        each!(self, sets => sets.enter(set, line, dirty), array => match array.insert(set, line + 1, dirty) {
            Some((old, true)) => Some(old - 1),
            _ => None,
        })
    }

    /// Whether `line` is there, which is no use of it.
    pub fn holds(&self, set: usize, line: u64) -> bool {
        each!(self, sets => sets.find(set, line).is_some(), array => array.holds(set, line + 1))
    }

    /// Drops `line`. Returns whether it was there and dirty.
    pub fn drop(&mut self, set: usize, line: u64) -> bool {
        each!(self, sets => sets.drop(set, line), array => {
            let dirty = array.lookup(set, line + 1).is_some_and(|dirty| *dirty);
            array.remove(set, line + 1);
            dirty
        })
    }

    /// Tells this computer's own caches that `set` is about to be looked at.
    #[inline(always)]
    pub fn prefetch(&self, set: usize) {
        each!(self, sets => sets.prefetch(set), _array => ());
    }
}

/// A word that no line has.
const NONE: u64 = 0;

/// Sets of four lines for each of `FOURS`.
#[derive(Clone, Debug)]
pub(crate) struct Sets<const FOURS: usize> {
    words: Vec<[[u64; 4]; FOURS]>,
}

/// How a clean line is written.
#[inline(always)]
fn clean(line: u64) -> u64 {
    (line + 1) << 1
}

impl<const FOURS: usize> Sets<FOURS> {
    fn new(sets: usize) -> Self {
        Sets { words: vec![[[NONE; 4]; FOURS]; sets] }
    }

    #[inline(always)]
    fn find(&self, set: usize, line: u64) -> Option<usize> {
        let mut hits = 0u32;
        for (i, four) in self.words[set].iter().enumerate() {
            // Neither is the other's number with another state.
            let four = &four.map(|word| word & !1);
            hits |= equal(four, clean(line)) << (4 * i);
        }
        if hits == 0 { None } else { Some(hits.trailing_zeros() as usize) }
    }

    #[inline(always)]
    fn touch(&mut self, set: usize, line: u64, written: bool) -> bool {
        let first = &mut self.words[set][0][0];
        if *first & !1 == clean(line) {
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
    fn enter(&mut self, set: usize, line: u64, dirty: bool) -> Option<u64> {
        debug_assert!(self.find(set, line).is_none(), "insertion of what is there");
        let words = self.words[set].as_flattened_mut();
        // The last way is the oldest, or free.
        let last = 4 * FOURS - 1;
        let old = words[last];
        u64::push_front(words, last, clean(line) | u64::from(dirty));
        (old & 1 == 1).then_some((old >> 1).wrapping_sub(1))
    }

    fn drop(&mut self, set: usize, line: u64) -> bool {
        let Some(way) = self.find(set, line) else { return false };
        let words = self.words[set].as_flattened_mut();
        let word = words[way];
        words[way..].rotate_left(1);
        words[4 * FOURS - 1] = NONE;
        word & 1 == 1
    }

    #[inline(always)]
    fn prefetch(&self, set: usize) {
        let words = self.words.as_flattened();
        // Eight words are a line of this computer's, wherever a set begins.
        (0..FOURS).step_by(2).for_each(|four| prefetch(words, set * FOURS + four));
        prefetch(words, set * FOURS + FOURS - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against arrays, which know nothing of lines.
        #[test]
        fn every_width_does_as_an_array(
            width in 0..6usize,
            acts in prop::collection::vec((0..4u8, 0..3usize, 0..60u64, any::<bool>()), 1..300),
        ) {
            let ways = [4, 8, 12, 16, 20, 5][width];
            let mut lines = Lines::new(3 * ways, ways, Replacement::Lru, 0);
            let mut array = Array::new(3 * ways, ways, Replacement::Lru, 0);
            for (act, set, line, flag) in acts {
                let tag = line + 1;
                match act {
                    0 | 1 => {
                        let found = array.lookup(set, tag).map(|dirty| *dirty |= flag).is_some();
                        prop_assert_eq!(lines.touch(set, line, flag), found);
                        if !found {
                            let gone = array.insert(set, tag, flag).filter(|gone| gone.1).map(|gone| gone.0 - 1);
                            prop_assert_eq!(lines.enter(set, line, flag), gone);
                        }
                    }
                    2 => prop_assert_eq!(lines.holds(set, line), array.holds(set, tag)),
                    _ => {
                        let dirty = array.lookup(set, tag).is_some_and(|dirty| *dirty);
                        array.remove(set, tag);
                        prop_assert_eq!(lines.drop(set, line), dirty);
                    }
                }
            }
        }
    }
}
