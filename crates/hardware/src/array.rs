//! The set-associative array that TLBs, walk caches and caches are all made of.
//!
//! Tags and payloads are kept in separate arrays. Under LRU the ways of a set are in order of recency (`lru_sets.rs`), so
//! that a hit in the most recently used way is one compare and no write, and the victim is always the last way. Sets of
//! the usual widths are compared and moved as a few vectors (`words.rs`). A single LRU set of many ways is indexed by a
//! hash instead (`fully_associative.rs`). The other replacement policies keep each entry in its way (`plru_sets.rs` for the
//! usual widths of tree-PLRU, `fixed_ways.rs` for the rest). iTP orders the ways by protection (`instruction_aware.rs`), and CHiRP
//! by recency, with a prediction for each (`reuse_predicted.rs`).

use crate::config::Replacement;
pub(crate) use by_age::ByAge;
use fixed_ways::FixedWaySets;
pub(crate) use fully_associative::FullyAssociative;
use instruction_aware::InstructionAwareSets;
pub(crate) use lru_sets::LruSets;
use lru_sets::WideLruSets;
pub(crate) use plru_sets::PlruSets;
pub(crate) use reuse_predicted::ControlFlow;
use reuse_predicted::ReusePredictedSets;
pub(crate) use words::{EMPTY, Word, equal_mask, find_in_slice, find_tag_and_hole, remove_way};

mod by_age;
mod fixed_ways;
mod fully_associative;
mod instruction_aware;
mod lru_sets;
mod plru_sets;
mod reuse_predicted;
mod words;

/// Sets of equally many ways, each a tag with a word. The owner chooses set and tag; a tag must never be [`EMPTY`].
#[derive(Clone, Debug)]
pub(crate) enum Array<T> {
    Lru1(LruSets<1, T>),
    Lru2(LruSets<2, T>),
    Lru4(LruSets<4, T>),
    Lru8(LruSets<8, T>),
    Lru12(LruSets<12, T>),
    Lru16(LruSets<16, T>),
    WideLru(WideLruSets<T>),
    FullyAssociative(Box<FullyAssociative<T>>),
    Plru4(PlruSets<4, T>),
    Plru8(PlruSets<8, T>),
    InstructionAware(InstructionAwareSets<T>),
    ReusePredicted(Box<ReusePredictedSets<T>>),
    FixedWays(FixedWaySets<T>),
}

/// Calls a method of whichever kind of array it is.
macro_rules! each {
    ($array:expr, $a:ident => $call:expr) => {
        match $array {
            Array::Lru1($a) => $call,
            Array::Lru2($a) => $call,
            Array::Lru4($a) => $call,
            Array::Lru8($a) => $call,
            Array::Lru12($a) => $call,
            Array::Lru16($a) => $call,
            Array::WideLru($a) => $call,
            Array::FullyAssociative($a) => $call,
            Array::Plru4($a) => $call,
            Array::Plru8($a) => $call,
            Array::InstructionAware($a) => $call,
            Array::ReusePredicted($a) => $call,
            Array::FixedWays($a) => $call,
        }
    };
}

impl<T: Word> Array<T> {
    /// Creates an empty array. `ways` divides `entries`, and the policy [takes](Replacement::takes) it. `seed` is for random
    /// replacement.
    ///
    /// # Panics
    /// If `ways` is 0 or does not divide `entries`.
    pub fn new(entries: usize, ways: usize, replacement: Replacement, seed: u64) -> Array<T> {
        assert!(ways > 0 && entries.is_multiple_of(ways), "{entries} entries do not divide into {ways} ways");
        let sets = entries / ways;
        match (replacement, ways) {
            (Replacement::Lru, 1) => Array::Lru1(LruSets::new(sets)),
            (Replacement::Lru, 2) => Array::Lru2(LruSets::new(sets)),
            (Replacement::Lru, 4) => Array::Lru4(LruSets::new(sets)),
            (Replacement::Lru, 8) => Array::Lru8(LruSets::new(sets)),
            (Replacement::Lru, 12) => Array::Lru12(LruSets::new(sets)),
            (Replacement::Lru, 16) => Array::Lru16(LruSets::new(sets)),
            (Replacement::Lru, _) if sets == 1 && ways <= FullyAssociative::<T>::MAX_WAYS => {
                Array::FullyAssociative(Box::new(FullyAssociative::new(ways)))
            }
            (Replacement::Lru, _) => Array::WideLru(WideLruSets::new(sets, ways)),
            (Replacement::TreePlru, 4) => Array::Plru4(PlruSets::new(sets)),
            (Replacement::TreePlru, 8) => Array::Plru8(PlruSets::new(sets)),
            (Replacement::InstructionAware, _) => Array::InstructionAware(InstructionAwareSets::new(sets, ways)),
            (Replacement::ReusePrediction(signature), _) => {
                Array::ReusePredicted(Box::new(ReusePredictedSets::new(sets, ways, signature)))
            }
            _ => Array::FixedWays(FixedWaySets::new(sets, ways, replacement, seed)),
        }
    }

    /// Returns the number of sets.
    pub fn sets(&self) -> usize {
        each!(self, a => a.sets())
    }

    /// Looks `tag` up in `set` and records the use. The caller may change the word in place.
    #[inline(always)]
    pub fn lookup(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        each!(self, a => a.lookup(set, tag))
    }

    /// Inserts `tag`, which a look-up has just missed, with `word`. Returns the evicted entry; `None` if a way was free.
    #[inline(always)]
    pub fn insert(&mut self, set: usize, tag: u64, word: T) -> Option<(u64, T)> {
        debug_assert_ne!(tag, EMPTY);
        let (old, word) = each!(self, a => a.insert(set, tag, word));
        (old != EMPTY).then_some((old, word))
    }

    /// Inserts like [`Array::insert`] for a fetch or another reference, which instruction-aware replacement tells apart.
    #[inline(always)]
    pub fn insert_for(&mut self, set: usize, tag: u64, word: T, fetch: bool) -> Option<(u64, T)> {
        let Array::InstructionAware(sets) = self else { return self.insert(set, tag, word) };
        let (old, word) = sets.insert_for(set, tag, word, fetch);
        (old != EMPTY).then_some((old, word))
    }

    /// Returns the word of `tag`, which `set` has just used, to be changed in place.
    pub fn last_used(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        match self {
            // Another use would count.
            Array::InstructionAware(sets) => sets.word_mut(set, tag),
            Array::ReusePredicted(sets) => sets.word_mut(set, tag),
            others => others.lookup(set, tag),
        }
    }

    /// Returns whether `set` holds `tag`, without recording a use.
    pub fn contains(&self, set: usize, tag: u64) -> bool {
        each!(self, a => find_in_slice(a.set(set).0, tag).is_some())
    }

    /// Removes `tag` from `set`. Returns whether it was there.
    pub fn remove(&mut self, set: usize, tag: u64) -> bool {
        each!(self, a => match find_in_slice(a.set(set).0, tag) {
            Some(way) => {
                a.free_way(set, way);
                true
            }
            None => false,
        })
    }

    /// Removes every entry whose tag satisfies `doomed`.
    pub fn remove_if(&mut self, doomed: impl Fn(u64) -> bool) {
        each!(self, a => for set in 0..a.sets() {
            // From the last way on, so that closing a gap does not move ways that are still to be visited.
            for way in (0..a.set(set).0.len()).rev() {
                let tag = a.set(set).0[way];
                if tag != EMPTY && doomed(tag) {
                    a.free_way(set, way);
                }
            }
        })
    }

    /// Returns all entries, set by set.
    pub fn entries(&self) -> Vec<(u64, T)> {
        each!(self, a => {
            let sets = (0..a.sets()).map(|set| a.set(set));
            sets.flat_map(|(tags, words)| tags.iter().copied().zip(words.iter().copied()))
                .filter(|(tag, _)| *tag != EMPTY)
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lru_evicts_the_least_recently_used_at_every_width() {
        for ways in [4, 5, 8, 12, 16, 20, 40] {
            let mut array = Array::new(ways as usize, ways as usize, Replacement::Lru, 0);
            for tag in 1..=ways {
                assert_eq!(array.insert(0, tag, tag * 10), None);
            }
            assert_eq!(array.lookup(0, 1), Some(&mut 10));
            assert_eq!(array.insert(0, 50, 500), Some((2, 20)), "{ways} ways");
            assert!(array.remove(0, 3) && !array.remove(0, 3));
            assert_eq!(array.insert(0, 60, 600), None);
            assert_eq!(array.insert(0, 70, 700), Some((4, 40)));
            *array.lookup(0, 50).unwrap() = 501;
            array.remove_if(|tag| tag < 50);
            let mut entries = array.entries();
            entries.sort_unstable();
            assert_eq!(entries, [(50, 501), (60, 600), (70, 700)]);
        }
    }

    #[test]
    fn a_lookup_in_a_wide_set_searches_every_way() {
        let mut array = Array::new(91, 91, Replacement::Lru, 0);
        for tag in 1..=91 {
            array.insert(0, tag, tag);
        }
        for tag in (1..=91).rev() {
            assert_eq!(array.lookup(0, tag), Some(&mut { tag }));
        }
        assert_eq!(array.lookup(0, 92), None);
    }
}
