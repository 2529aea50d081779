//! The LRU stacks of all sets, for one number of sets: the depth of a page says which numbers of ways hold it.

use crate::array::{EMPTY, Word, find_tag_and_hole, remove_way};

/// Sets in order of last uses. A shootdown leaves a hole, as in [`super::full_stack`].
#[derive(Clone, Debug)]
pub(super) struct SetStacks {
    tags: Vec<u64>,
    ways: usize,
    /// One less than the number of sets.
    mask: u64,
}

impl SetStacks {
    /// Creates `sets` (a power of two) empty stacks of depth `ways`.
    pub fn new(sets: usize, ways: usize) -> SetStacks {
        SetStacks { tags: vec![EMPTY; sets * ways], ways, mask: sets as u64 - 1 }
    }

    /// Returns the number of sets.
    pub fn count(&self) -> u64 {
        self.mask + 1
    }

    fn set(&self, number: u64) -> std::ops::Range<usize> {
        let at = (number & self.mask) as usize * self.ways;
        at..at + self.ways
    }

    /// Returns the depth of `tag`, of page `number`; the number of ways if it is absent.
    pub fn depth(&self, number: u64, tag: u64) -> usize {
        self.tags[self.set(number)].iter().position(|&t| t == tag).unwrap_or(self.ways)
    }

    /// Moves `tag`, of page `number`, to the front; inserts it if absent. Returns its former depth.
    #[inline]
    pub fn use_tag(&mut self, number: u64, tag: u64) -> usize {
        let set = self.set(number);
        let tags = &mut self.tags[set];
        let mut pushed = tag;
        for at in 0..tags.len() {
            let old = std::mem::replace(&mut tags[at], pushed);
            if old == tag {
                return at;
            }
            if old == EMPTY {
                // The hole absorbs what is pushed down, and moves to where the page was.
                let found = tags[at + 1..].iter().position(|&t| t == tag).map(|further| at + 1 + further);
                if let Some(found) = found {
                    tags[found] = EMPTY;
                }
                return found.unwrap_or(tags.len());
            }
            pushed = old;
        }
        tags.len()
    }

    /// Removes `tag`, of page `number`, until [`SetStacks::push`] returns it. Meanwhile it counts as above all pages that are
    /// here. Returns its former depth.
    #[inline]
    pub fn take(&mut self, number: u64, tag: u64) -> usize {
        let set = self.set(number);
        let tags = &mut self.tags[set];
        let (found, hole) = find_tag_and_hole(tags, tag);
        if let Some(found) = found {
            tags[found] = EMPTY;
        }
        // Pages above the topmost hole move down into it; the page's own place is a hole now.
        if let Some(hole) = found.into_iter().chain(hole).min() {
            remove_way(tags, hole);
        }
        found.unwrap_or(self.ways)
    }

    /// Inserts `tag`, of page `number`, in front of its set.
    #[inline]
    pub fn push(&mut self, number: u64, tag: u64) {
        let set = self.set(number);
        let last = self.ways - 1;
        u64::push_front(&mut self.tags[set], last, tag);
    }

    /// Removes `tag`, of page `number`; leaves a hole.
    pub fn remove(&mut self, number: u64, tag: u64) {
        let set = self.set(number);
        if let Some(found) = self.tags[set].iter_mut().find(|t| **t == tag) {
            *found = EMPTY;
        }
    }

    /// Removes every tag that satisfies `doomed`.
    pub fn remove_if(&mut self, doomed: impl Fn(u64) -> bool) {
        self.tags.iter_mut().filter(|tag| **tag != EMPTY && doomed(**tag)).for_each(|tag| *tag = EMPTY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::config::Replacement;
    use reach_core::Random;

    #[test]
    fn the_depth_of_a_page_says_which_numbers_of_ways_hold_it() {
        for sets in [1usize, 2, 8] {
            const WAYS: usize = 6;
            let array = |ways: usize| Array::<bool>::new(sets * ways, ways, Replacement::Lru, 0);
            let mut arrays: Vec<_> = (1..=WAYS).map(array).collect();
            let (mut stacks, mut random) = (SetStacks::new(sets, WAYS), Random::new(sets as u64));
            for step in 0..20_000 {
                let number = random.below(9 * sets as u64);
                let (set, tag) = (number as usize % sets, number + 1);
                if random.below(6) == 0 {
                    arrays.iter_mut().for_each(|array| _ = array.remove(set, tag));
                    stacks.remove(number, tag);
                    continue;
                }
                let depth = stacks.use_tag(number, tag);
                for (array, ways) in arrays.iter_mut().zip(1..) {
                    let held = array.lookup(set, tag).is_some();
                    assert_eq!(held, depth < ways, "{sets} sets of {ways}, step {step}");
                    if !held {
                        array.insert(set, tag, false);
                    }
                }
            }
        }
    }
}
