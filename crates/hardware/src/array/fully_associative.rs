//! Fully associative arrays under LRU, of any number of ways.
//!
//! Each entry keeps its way, with the time of its last use, and a hash index maps tags to ways. A hit costs the same
//! wherever it is, and a miss is known at once. Only an insertion looks for the oldest way.

use super::by_age::ByAge;
use super::words::{EMPTY, Word};

/// One set of many ways.
#[derive(Clone, Debug)]
pub(crate) struct FullyAssociative<T> {
    tags: Vec<u64>,
    words: Vec<T>,
    /// Time of each way's last use; 0 for free ways.
    used: Vec<i64>,
    now: i64,
    by_age: ByAge,
    /// Open-addressed hash index of ways, with linear probing; [`FREE`] ends a search.
    index: Vec<u16>,
    /// 64 less the binary logarithm of the index's length.
    shift: u32,
    /// By hash of the owner's key, the way in which [`FullyAssociative::lookup_any`] found it last. A hint may name the
    /// wrong way; the tag there decides.
    hints: Box<[u16; HINTS]>,
}

/// A free place of the index.
const FREE: u16 = u16::MAX;
/// Number of hints, a power of two.
const HINTS: usize = 1 << 12;

impl<T: Word> FullyAssociative<T> {
    /// Maximum number of ways.
    pub const MAX_WAYS: usize = 1 << 12;

    pub fn new(ways: usize) -> FullyAssociative<T> {
        assert!(ways <= Self::MAX_WAYS, "{ways} ways: expected at most {}", Self::MAX_WAYS);
        // At most one eighth full, so that most searches end at the first place.
        let index = (8 * ways).next_power_of_two();
        FullyAssociative {
            tags: vec![EMPTY; ways],
            words: vec![T::default(); ways],
            used: vec![0; ways],
            now: 0,
            by_age: ByAge::default(),
            index: vec![FREE; index],
            shift: 64 - index.trailing_zeros(),
            hints: Box::new([0; HINTS]),
        }
    }

    pub fn sets(&self) -> usize {
        1
    }

    pub fn set(&self, _: usize) -> (&[u64], &[T]) {
        (&self.tags, &self.words)
    }

    #[inline(always)]
    fn home(&self, tag: u64) -> usize {
        (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.index.len() - 1)
    }

    #[inline(always)]
    pub fn lookup(&mut self, _: usize, tag: u64) -> Option<&mut T> {
        let way = self.find(tag)?;
        Some(self.use_way(way))
    }

    #[inline(always)]
    fn find(&self, tag: u64) -> Option<usize> {
        let mut place = self.home(tag);
        loop {
            // `FREE` is beyond the last way, so it ends the search here.
            let way = usize::from(self.index[place]);
            if *self.tags.get(way)? == tag {
                return Some(way);
            }
            place = self.next(place);
        }
    }

    #[inline(always)]
    fn use_way(&mut self, way: usize) -> &mut T {
        self.now += 1;
        self.used[way] = self.now;
        &mut self.words[way]
    }

    /// Looks up a page that may be held under one of several tags, and records the use. `key` is common to all of them,
    /// `is` recognises them, and `tags` lists them. Tries first the way that the hint for `key` names.
    #[inline(always)]
    pub fn lookup_any(
        &mut self,
        key: u64,
        is: impl Fn(u64) -> bool,
        tags: impl IntoIterator<Item = u64>,
    ) -> Option<&mut T> {
        let hint = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HINTS.trailing_zeros())) as usize;
        let mut way = usize::from(self.hints[hint]);
        if !is(self.tags[way]) {
            way = tags.into_iter().find_map(|tag| self.find(tag))?;
            self.hints[hint] = way as u16;
        }
        Some(self.use_way(way))
    }

    #[inline]
    pub fn insert(&mut self, _: usize, tag: u64, word: T) -> (u64, T) {
        let way = self.by_age.oldest(&self.used);
        let old = (self.tags[way], self.words[way]);
        if old.0 != EMPTY {
            self.unindex(old.0);
        }
        let mut place = self.home(tag);
        while self.index[place] != FREE {
            place = self.next(place);
        }
        self.index[place] = way as u16;
        self.now += 1;
        (self.tags[way], self.words[way], self.used[way]) = (tag, word, self.now);
        old
    }

    pub fn free_way(&mut self, _: usize, way: usize) {
        self.unindex(self.tags[way]);
        (self.tags[way], self.used[way]) = (EMPTY, 0);
        self.by_age.forget();
    }

    /// Removes `tag`, which must be present, from the index, and moves later entries of its probe sequence up.
    fn unindex(&mut self, tag: u64) {
        let mut hole = self.home(tag);
        while self.tags[usize::from(self.index[hole])] != tag {
            hole = self.next(hole);
        }
        let mut place = hole;
        loop {
            place = self.next(place);
            let way = self.index[place];
            if way == FREE {
                break;
            }
            let from_home = place.wrapping_sub(self.home(self.tags[usize::from(way)])) & (self.index.len() - 1);
            let from_hole = place.wrapping_sub(hole) & (self.index.len() - 1);
            if from_home >= from_hole {
                self.index[hole] = way;
                hole = place;
            }
        }
        self.index[hole] = FREE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::Random;

    /// Tags and words in order of recency.
    struct RecencyList(Vec<(u64, u64)>);

    #[test]
    fn a_fully_associative_array_equals_a_list_in_order_of_recency() {
        for ways in [1, 3, 8, 17, 64, 91, 128] {
            let mut array = FullyAssociative::new(ways);
            let (mut naive, mut random) = (RecencyList(Vec::new()), Random::new(ways as u64));
            for step in 1..20_000 {
                let tag = 1 + random.below(3 * ways as u64 / 2 + 1);
                let known = naive.0.iter().position(|&(t, _)| t == tag).map(|at| naive.0.remove(at));
                if random.below(16) == 0 {
                    let way = array.tags.iter().position(|&t| t == tag);
                    assert_eq!(way.is_some(), known.is_some());
                    way.into_iter().for_each(|way| array.free_way(0, way));
                    continue;
                }
                // Two tags share each key, so some hints name the wrong way.
                let found = match random.below(2) {
                    0 => array.lookup(0, tag),
                    _ => array.lookup_any(tag / 2, |other| other == tag, [tag + 2 * ways as u64, tag]),
                };
                assert_eq!(found.copied(), known.map(|(_, word)| word));
                if known.is_none() {
                    let old = if naive.0.len() == ways { naive.0.pop() } else { None };
                    assert_eq!(array.insert(0, tag, step).0, old.map_or(EMPTY, |(tag, _)| tag));
                }
                naive.0.insert(0, known.unwrap_or((tag, step)));
            }
            let used = array.index.iter().filter(|&&way| way != FREE).count();
            assert_eq!(used, naive.0.len(), "{ways} ways");
        }
    }
}
