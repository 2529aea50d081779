//! LRU stacks of sets: for one number of sets, which of all numbers of ways would have held a page.

use crate::array::{EMPTY, Word, close_up, find_both};

/// Sets in order of last uses. A hole is what a shootdown has left, as in [`super::full_stack`].
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    tags: Vec<u64>,
    ways: usize,
    /// One less than the number of sets.
    mask: u64,
}

impl Sets {
    /// Sets (a power of two) of at most so many ways.
    pub fn new(sets: usize, ways: usize) -> Sets {
        Sets { tags: vec![EMPTY; sets * ways], ways, mask: sets as u64 - 1 }
    }

    /// How many sets.
    pub fn count(&self) -> u64 {
        self.mask + 1
    }

    fn set(&self, number: u64) -> std::ops::Range<usize> {
        let at = (number & self.mask) as usize * self.ways;
        at..at + self.ways
    }

    /// At which depth `tag`, of page `number`, stands; the number of ways if nowhere.
    pub fn depth(&self, number: u64, tag: u64) -> usize {
        self.tags[self.set(number)].iter().position(|&t| t == tag).unwrap_or(self.ways)
    }

    /// Uses `tag`, of page `number`, which is entered where it is missing. Returns its depth until then.
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
                // The hole takes up what is pushed down, and goes to where the page was.
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

    /// Takes `tag`, of page `number`, out of its set, into which it comes back by [`Sets::push`] after some others: it stands
    /// above all that is here meanwhile. Returns its depth until then.
    #[inline]
    pub fn leave(&mut self, number: u64, tag: u64) -> usize {
        let set = self.set(number);
        let tags = &mut self.tags[set];
        let (found, hole) = find_both(tags, tag);
        if let Some(found) = found {
            tags[found] = EMPTY;
        }
        // What is above the topmost hole moves down into it, and the page's own place is a hole.
        if let Some(hole) = found.into_iter().chain(hole).min() {
            close_up(tags, hole);
        }
        found.unwrap_or(self.ways)
    }

    /// Puts `tag`, of page `number`, in front of all that is in its set.
    #[inline]
    pub fn push(&mut self, number: u64, tag: u64) {
        let set = self.set(number);
        let last = self.ways - 1;
        u64::push_front(&mut self.tags[set], last, tag);
    }

    /// Forgets `tag`, of page `number`.
    pub fn remove(&mut self, number: u64, tag: u64) {
        let set = self.set(number);
        if let Some(found) = self.tags[set].iter_mut().find(|t| **t == tag) {
            *found = EMPTY;
        }
    }

    /// Forgets every tag for which `doomed` says so.
    pub fn remove_all(&mut self, doomed: impl Fn(u64) -> bool) {
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
    fn every_number_of_ways_does_as_an_array_of_that_form() {
        for sets in [1usize, 2, 8] {
            const WAYS: usize = 6;
            let array = |ways: usize| Array::<bool>::new(sets * ways, ways, Replacement::Lru, 0);
            let mut arrays: Vec<_> = (1..=WAYS).map(array).collect();
            let (mut stacks, mut random) = (Sets::new(sets, WAYS), Random::new(sets as u64));
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
