//! The LRU stack of all pages: it says which capacities of a fully associative array hold a page.
//!
//! Mattson, Gecsei, Slutz and Traiger 1970: under LRU an array of n entries holds the n pages used last, so a page's depth
//! in the order of last uses says for every n at once whether it is held. Only the capacities under study matter, so no
//! depth is counted. Each node of the list knows between which two capacities it is, and a pointer for each capacity moves
//! when a page passes it.
//!
//! A page that is shot down leaves a hole. An array that held the page fills it without an eviction, while a smaller array,
//! which did not, has to evict. Both are right if the topmost hole absorbs the pages that are pushed down, and moves to
//! where the page that came to the top was found. An empty array is all holes.

use crate::array::EMPTY;
use std::collections::BinaryHeap;

/// No node.
const NONE: u32 = u32::MAX;

/// A linked list in order of last uses.
#[derive(Clone, Debug)]
pub(super) struct FullStack {
    nodes: Vec<Node>,
    first: u32,
    last: u32,
    /// The first node behind the recent pages, whose order is kept apart ([`super::recent_pages`]).
    settled: u32,
    /// For each capacity, the last node that an array of that many entries holds.
    ends: Vec<u32>,
    index: TagIndex,
    /// Holes by the time of use that gives their position in the order; the topmost first.
    holes: BinaryHeap<(u64, u32)>,
    now: u64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// [`EMPTY`] for a hole.
    tag: u64,
    before: u32,
    after: u32,
    /// Index of the least capacity that includes this node.
    within: u32,
    /// Time of the last use. Nodes are in descending order of it.
    used: u64,
}

impl FullStack {
    /// Creates an empty stack for `capacities`, which are at least 1 and strictly ascending.
    pub fn new(capacities: &[u32]) -> FullStack {
        let all = capacities.last().copied().unwrap_or(0);
        let node = |at: u32| Node {
            tag: EMPTY,
            before: at.checked_sub(1).unwrap_or(NONE),
            after: if at + 1 < all { at + 1 } else { NONE },
            within: capacities.partition_point(|&capacity| capacity <= at) as u32,
            used: u64::from(all - at),
        };
        let nodes: Vec<Node> = (0..all).map(node).collect();
        FullStack {
            holes: nodes.iter().zip(0..).map(|(node, at)| (node.used, at)).collect(),
            first: if all > 0 { 0 } else { NONE },
            settled: 0,
            last: all.checked_sub(1).unwrap_or(NONE),
            ends: capacities.iter().map(|capacity| capacity - 1).collect(),
            index: TagIndex::new(all as usize),
            now: u64::from(all),
            nodes,
        }
    }

    /// Returns whether `tag` is the page used last.
    #[inline(always)]
    pub fn is_first(&self, tag: u64) -> bool {
        self.nodes.get(self.first as usize).is_some_and(|first| first.tag == tag)
    }

    /// Returns the index of the least capacity that holds `tag`; the number of capacities if none does.
    pub fn depth(&self, tag: u64) -> usize {
        self.index.get(tag, &self.nodes).map_or(self.ends.len(), |at| self.nodes[at as usize].within as usize)
    }

    /// Moves `tag` to the front; inserts it if absent. Returns its former depth, as [`FullStack::depth`] does.
    pub fn use_tag(&mut self, tag: u64) -> usize {
        if self.nodes.is_empty() {
            return 0;
        }
        let hole = self.holes.peek().copied();
        let (at, depth) = match self.index.get(tag, &self.nodes) {
            Some(found) => {
                let node = self.nodes[found as usize];
                let depth = node.within as usize;
                match hole.filter(|&(used, _)| used > node.used) {
                    // The page takes the hole's node, and its own becomes the hole.
                    Some((_, hole)) => {
                        self.holes.pop();
                        self.vacate(tag, found);
                        (self.occupy(tag, hole), depth)
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
                        self.index.remove(self.nodes[self.last as usize].tag, &self.nodes);
                        self.last
                    }
                };
                (self.occupy(tag, at), self.ends.len())
            }
        };
        self.move_to_front(at);
        self.now += 1;
        self.nodes[at as usize].used = self.now;
        depth
    }

    /// Moves `tag` behind the recent pages. They and it are fewer than the least capacity. `tag` was used before all pages
    /// that were used since [`FullStack::settle_all`] and have not sunk.
    pub fn sink(&mut self, tag: u64) {
        let Some(at) = self.index.get(tag, &self.nodes) else { return };
        self.now += 1;
        self.nodes[at as usize].used = self.now;
        let Node { before, after, .. } = self.nodes[at as usize];
        if after != self.settled {
            match self.nodes.get_mut(before as usize) {
                Some(before) => before.after = after,
                None => self.first = after,
            }
            self.nodes[after as usize].before = before;
            let next = self.settled;
            let above = std::mem::replace(&mut self.nodes[next as usize].before, at);
            self.nodes[above as usize].after = at;
            let node = &mut self.nodes[at as usize];
            (node.before, node.after) = (above, next);
        }
        self.settled = at;
    }

    /// Restores the order of the recent pages: `tags`, earliest use first. No page is recent afterwards.
    pub fn settle_all(&mut self, tags: impl Iterator<Item = u64>) {
        for tag in tags {
            if let Some(at) = self.index.get(tag, &self.nodes) {
                self.move_to_front(at);
                self.now += 1;
                self.nodes[at as usize].used = self.now;
            }
        }
        self.settled = self.first;
    }

    /// Removes `tag`; leaves a hole.
    pub fn remove(&mut self, tag: u64) {
        if let Some(at) = self.index.get(tag, &self.nodes) {
            self.vacate(tag, at);
        }
    }

    /// Removes every tag that satisfies `doomed`.
    pub fn remove_if(&mut self, doomed: impl Fn(u64) -> bool) {
        for at in 0..self.nodes.len() {
            let tag = self.nodes[at].tag;
            if tag != EMPTY && doomed(tag) {
                self.vacate(tag, at as u32);
            }
        }
    }

    /// Turns node `at`, which holds `tag`, into a hole.
    fn vacate(&mut self, tag: u64, at: u32) {
        self.index.remove(tag, &self.nodes);
        let node = &mut self.nodes[at as usize];
        node.tag = EMPTY;
        self.holes.push((node.used, at));
    }

    /// Puts `tag` into node `at`, a hole. Returns `at`.
    fn occupy(&mut self, tag: u64, at: u32) -> u32 {
        self.nodes[at as usize].tag = tag;
        self.index.insert(tag, at, &self.nodes);
        at
    }

    fn move_to_front(&mut self, at: u32) {
        if at == self.first {
            if at == self.settled {
                self.settled = self.nodes[at as usize].after;
            }
            return;
        }
        let Node { before, after, within, .. } = self.nodes[at as usize];
        if at == self.settled {
            self.settled = after;
        }
        // The last node within each smaller capacity is pushed out of it.
        for capacity in 0..within as usize {
            let end = self.ends[capacity];
            self.nodes[end as usize].within = capacity as u32 + 1;
            let before = self.nodes[end as usize].before;
            self.ends[capacity] = if before == NONE { at } else { before };
        }
        if self.ends[within as usize] == at {
            self.ends[within as usize] = before;
        }
        self.nodes[before as usize].after = after;
        match self.nodes.get_mut(after as usize) {
            Some(after) => after.before = before,
            None => self.last = before,
        }
        self.nodes[self.first as usize].before = at;
        let node = &mut self.nodes[at as usize];
        (node.before, node.after, node.within) = (NONE, self.first, 0);
        self.first = at;
    }
}

/// A hash map from tags to nodes: open addressing with linear probing, without tombstones.
#[derive(Clone, Debug)]
struct TagIndex {
    slots: Vec<u32>,
    shift: u32,
}

impl TagIndex {
    fn new(max_tags: usize) -> TagIndex {
        let length = (4 * max_tags).next_power_of_two().max(2);
        TagIndex { slots: vec![NONE; length], shift: 64 - length.trailing_zeros() }
    }

    #[inline(always)]
    fn home(&self, tag: u64) -> usize {
        (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    #[inline(always)]
    fn get(&self, tag: u64, nodes: &[Node]) -> Option<u32> {
        let mut slot = self.home(tag);
        loop {
            let at = self.slots[slot];
            if nodes.get(at as usize)?.tag == tag {
                return Some(at);
            }
            slot = self.next(slot);
        }
    }

    fn insert(&mut self, tag: u64, at: u32, nodes: &[Node]) {
        debug_assert_eq!(nodes[at as usize].tag, tag);
        let mut slot = self.home(tag);
        while self.slots[slot] != NONE {
            slot = self.next(slot);
        }
        self.slots[slot] = at;
    }

    /// Removes `tag`, which is present and still in its node.
    fn remove(&mut self, tag: u64, nodes: &[Node]) {
        let mut hole = self.home(tag);
        while nodes[self.slots[hole] as usize].tag != tag {
            hole = self.next(hole);
        }
        let mask = self.slots.len() - 1;
        let mut slot = hole;
        loop {
            slot = self.next(slot);
            let at = self.slots[slot];
            if at == NONE {
                break;
            }
            let from_home = slot.wrapping_sub(self.home(nodes[at as usize].tag)) & mask;
            if from_home >= slot.wrapping_sub(hole) & mask {
                self.slots[hole] = at;
                hole = slot;
            }
        }
        self.slots[hole] = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::config::Replacement;
    use reach_core::Random;

    #[test]
    fn the_depth_of_a_page_says_which_capacities_hold_it() {
        for seed in 0..20 {
            let capacities = [1, 2, 3, 5, 8, 9, 17];
            let array = |&n: &u32| Array::<bool>::new(n as usize, n as usize, Replacement::Lru, 0);
            let mut arrays: Vec<_> = capacities.iter().map(array).collect();
            let (mut stack, mut random) = (FullStack::new(&capacities), Random::new(seed));
            for step in 0..3000 {
                let tag = 1 + random.below(22);
                match random.below(12) {
                    0 => {
                        arrays.iter_mut().for_each(|array| _ = array.remove(0, tag));
                        stack.remove(tag);
                    }
                    1 if step % 16 == 0 => {
                        let doomed = |other: u64| other % 3 == tag % 3;
                        arrays.iter_mut().for_each(|array| array.remove_if(doomed));
                        stack.remove_if(doomed);
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
