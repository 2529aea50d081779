//! The LRU stack of a fully associative array of any size: which of many capacities would have held a page.
//!
//! Mattson, Gecsei, Slutz and Traiger 1970: under LRU an array of n entries holds the n pages used last, so a page's
//! depth in the order of last uses says for every n at once whether it is held. Only the capacities that are asked
//! about matter, so the depth is not counted: each place of the list knows between which two of them it lies, and a
//! pointer for each capacity is moved when something passes it.
//!
//! A page that is shot down leaves a hole, which an array that held it fills without evicting anything, while a smaller
//! one, which did not, has to evict. Both are right if the topmost hole takes up what is pushed down, and goes to where
//! the page that came to the top was found. An empty array is all holes.

use crate::array::EMPTY;
use std::collections::BinaryHeap;

/// No place.
const NONE: u32 = u32::MAX;

/// A list in order of last uses.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    places: Vec<Place>,
    first: u32,
    last: u32,
    /// The first place behind those that [`super::recent_pages`] keeps in an order of its own.
    settled: u32,
    /// For each capacity the place at that depth: the last that an array of so many entries holds.
    ends: Vec<u32>,
    index: Index,
    /// Holes by the time at which they came to be where they are in the order.
    holes: BinaryHeap<(u64, u32)>,
    now: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// [`EMPTY`] for a hole.
    tag: u64,
    before: u32,
    after: u32,
    /// The number of the least capacity that reaches it.
    within: u32,
    /// Places come in descending order of these.
    used: u64,
}

impl Stack {
    /// For `capacities`, which ascend strictly from at least 1 on.
    pub fn new(capacities: &[u32]) -> Stack {
        let all = capacities.last().copied().unwrap_or(0);
        let place = |at: u32| Place {
            tag: EMPTY,
            before: at.checked_sub(1).unwrap_or(NONE),
            after: if at + 1 < all { at + 1 } else { NONE },
            within: capacities.partition_point(|&capacity| capacity <= at) as u32,
            used: u64::from(all - at),
        };
        let places: Vec<Place> = (0..all).map(place).collect();
        Stack {
            holes: places.iter().zip(0..).map(|(place, at)| (place.used, at)).collect(),
            first: if all > 0 { 0 } else { NONE },
            settled: 0,
            last: all.checked_sub(1).unwrap_or(NONE),
            ends: capacities.iter().map(|capacity| capacity - 1).collect(),
            index: Index::new(all as usize),
            now: u64::from(all),
            places,
        }
    }

    /// Whether `tag` is the one used last.
    #[inline(always)]
    pub fn is_first(&self, tag: u64) -> bool {
        self.places.get(self.first as usize).is_some_and(|first| first.tag == tag)
    }

    /// The number of the least capacity that holds `tag`; how many there are if none does.
    pub fn depth(&self, tag: u64) -> usize {
        self.index.get(tag, &self.places).map_or(self.ends.len(), |at| self.places[at as usize].within as usize)
    }

    /// Uses `tag`, which is entered where it is missing. Returns its depth until then.
    pub fn use_tag(&mut self, tag: u64) -> usize {
        if self.places.is_empty() {
            return 0;
        }
        let hole = self.holes.peek().copied();
        let (at, depth) = match self.index.get(tag, &self.places) {
            Some(found) => {
                let place = self.places[found as usize];
                let depth = place.within as usize;
                match hole.filter(|&(used, _)| used > place.used) {
                    // The hole comes to the top in its stead, and the page's place is the hole.
                    Some((_, hole)) => {
                        self.holes.pop();
                        self.vacate(tag, found);
                        (self.settle(tag, hole), depth)
                    }
                    None => (found, depth),
                }
            }
            None => {
                let at = match hole {
                    Some((_, hole)) => {
                        self.holes.pop();
                        hole
                    }
                    None => {
                        self.index.remove(self.places[self.last as usize].tag, &self.places);
                        self.last
                    }
                };
                (self.settle(tag, at), self.ends.len())
            }
        };
        self.move_to_front(at);
        self.now += 1;
        self.places[at as usize].used = self.now;
        depth
    }

    /// `tag` has been used before all pages used since [`Stack::settle_all`] that were not named here: it stands behind them
    /// from now on. They and it are fewer than the least capacity.
    pub fn sink(&mut self, tag: u64) {
        let Some(at) = self.index.get(tag, &self.places) else { return };
        self.now += 1;
        self.places[at as usize].used = self.now;
        let Place { before, after, .. } = self.places[at as usize];
        if after != self.settled {
            match self.places.get_mut(before as usize) {
                Some(before) => before.after = after,
                None => self.first = after,
            }
            self.places[after as usize].before = before;
            let next = self.settled;
            let above = std::mem::replace(&mut self.places[next as usize].before, at);
            self.places[above as usize].after = at;
            let place = &mut self.places[at as usize];
            (place.before, place.after) = (above, next);
        }
        self.settled = at;
    }

    /// All that has not sunk is in this order, earliest use first.
    pub fn settle_all(&mut self, tags: impl Iterator<Item = u64>) {
        for tag in tags {
            if let Some(at) = self.index.get(tag, &self.places) {
                self.move_to_front(at);
                self.now += 1;
                self.places[at as usize].used = self.now;
            }
        }
        self.settled = self.first;
    }

    /// Forgets `tag`.
    pub fn remove(&mut self, tag: u64) {
        if let Some(at) = self.index.get(tag, &self.places) {
            self.vacate(tag, at);
        }
    }

    /// Forgets every tag for which `doomed` says so.
    pub fn remove_all(&mut self, doomed: impl Fn(u64) -> bool) {
        for at in 0..self.places.len() {
            let tag = self.places[at].tag;
            if tag != EMPTY && doomed(tag) {
                self.vacate(tag, at as u32);
            }
        }
    }

    /// The place `at`, which `tag` is in, becomes a hole.
    fn vacate(&mut self, tag: u64, at: u32) {
        self.index.remove(tag, &self.places);
        let place = &mut self.places[at as usize];
        place.tag = EMPTY;
        self.holes.push((place.used, at));
    }

    fn settle(&mut self, tag: u64, at: u32) -> u32 {
        self.places[at as usize].tag = tag;
        self.index.insert(tag, at, &self.places);
        at
    }

    fn move_to_front(&mut self, at: u32) {
        if at == self.first {
            if at == self.settled {
                self.settled = self.places[at as usize].after;
            }
            return;
        }
        let Place { before, after, within, .. } = self.places[at as usize];
        if at == self.settled {
            self.settled = after;
        }
        // What stood last within each smaller capacity is pushed out of it.
        for capacity in 0..within as usize {
            let end = self.ends[capacity];
            self.places[end as usize].within = capacity as u32 + 1;
            let before = self.places[end as usize].before;
            self.ends[capacity] = if before == NONE { at } else { before };
        }
        if self.ends[within as usize] == at {
            self.ends[within as usize] = before;
        }
        self.places[before as usize].after = after;
        match self.places.get_mut(after as usize) {
            Some(after) => after.before = before,
            None => self.last = before,
        }
        self.places[self.first as usize].before = at;
        let place = &mut self.places[at as usize];
        (place.before, place.after, place.within) = (NONE, self.first, 0);
        self.first = at;
    }
}

/// From tags to places: open addressing, in which nothing deleted remains.
#[derive(Clone, Debug)]
struct Index {
    places: Vec<u32>,
    shift: u32,
}

impl Index {
    fn new(most: usize) -> Index {
        let length = (4 * most).next_power_of_two().max(2);
        Index { places: vec![NONE; length], shift: 64 - length.trailing_zeros() }
    }

    #[inline(always)]
    fn home(&self, tag: u64) -> usize {
        (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.places.len() - 1)
    }

    #[inline(always)]
    fn get(&self, tag: u64, places: &[Place]) -> Option<u32> {
        let mut slot = self.home(tag);
        loop {
            let at = self.places[slot];
            if places.get(at as usize)?.tag == tag {
                return Some(at);
            }
            slot = self.next(slot);
        }
    }

    fn insert(&mut self, tag: u64, at: u32, places: &[Place]) {
        debug_assert_eq!(places[at as usize].tag, tag);
        let mut slot = self.home(tag);
        while self.places[slot] != NONE {
            slot = self.next(slot);
        }
        self.places[slot] = at;
    }

    /// Takes out `tag`, which is there and still in its place.
    fn remove(&mut self, tag: u64, places: &[Place]) {
        let mut hole = self.home(tag);
        while places[self.places[hole] as usize].tag != tag {
            hole = self.next(hole);
        }
        let mask = self.places.len() - 1;
        let mut slot = hole;
        loop {
            slot = self.next(slot);
            let at = self.places[slot];
            if at == NONE {
                break;
            }
            let from_home = slot.wrapping_sub(self.home(places[at as usize].tag)) & mask;
            if from_home >= slot.wrapping_sub(hole) & mask {
                self.places[hole] = at;
                hole = slot;
            }
        }
        self.places[hole] = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::config::Replacement;
    use reach_core::Random;

    #[test]
    fn every_capacity_does_as_an_array_of_that_size() {
        for seed in 0..20 {
            let capacities = [1, 2, 3, 5, 8, 9, 17];
            let array = |&n: &u32| Array::<bool>::new(n as usize, n as usize, Replacement::Lru, 0);
            let mut arrays: Vec<_> = capacities.iter().map(array).collect();
            let (mut stack, mut random) = (Stack::new(&capacities), Random::new(seed));
            for step in 0..3000 {
                let tag = 1 + random.below(22);
                match random.below(12) {
                    0 => {
                        arrays.iter_mut().for_each(|array| _ = array.remove(0, tag));
                        stack.remove(tag);
                    }
                    1 if step % 16 == 0 => {
                        let doomed = |other: u64| other % 3 == tag % 3;
                        arrays.iter_mut().for_each(|array| array.remove_all(doomed));
                        stack.remove_all(doomed);
                    }
                    _ => {
                        let held: Vec<bool> = arrays.iter_mut().map(|array| touch(array, tag)).collect();
                        let depth = stack.depth(tag);
                        assert_eq!(stack.use_tag(tag), depth);
                        let expected: Vec<bool> = (0..capacities.len()).map(|at| at >= depth).collect();
                        assert_eq!(held, expected, "seed {seed}, step {step}, tag {tag}");
                        assert!(stack.is_first(tag));
                    }
                }
            }
        }
    }

    fn touch(array: &mut Array<bool>, tag: u64) -> bool {
        let held = array.lookup(0, tag).is_some();
        if !held {
            array.insert(0, tag, false);
        }
        held
    }
}
