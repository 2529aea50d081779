//! Tree-PLRU sets of a width known to the compiler. Entries keep their ways, so a hit moves nothing.

use super::words::{EMPTY, Word, find_in_set, find_in_slice};

/// Tree-PLRU sets of 4 or 8 ways, as most first-level TLBs have.
#[derive(Clone, Debug)]
pub(crate) struct PlruSets<const WAYS: usize, T> {
    tags: Vec<[u64; WAYS]>,
    words: Vec<[T; WAYS]>,
    /// One tree for each set. Node 1 is the root; the children of `i` are `2i` and `2i + 1`. A set bit points right.
    trees: Vec<u8>,
}

impl<const WAYS: usize, T: Word> PlruSets<WAYS, T> {
    /// By way: the nodes on its path, and the same nodes all pointing away from it.
    const PATHS: ([u8; WAYS], [u8; WAYS]) = paths();

    pub fn new(sets: usize) -> Self {
        PlruSets { tags: vec![[EMPTY; WAYS]; sets], words: vec![[T::default(); WAYS]; sets], trees: vec![0; sets] }
    }

    pub fn sets(&self) -> usize {
        self.tags.len()
    }

    pub fn set(&self, set: usize) -> (&[u64], &[T]) {
        (&self.tags[set], &self.words[set])
    }

    #[inline(always)]
    fn record_use(&mut self, set: usize, way: usize) {
        let (nodes, away) = (Self::PATHS.0[way % WAYS], Self::PATHS.1[way % WAYS]);
        self.trees[set] = self.trees[set] & !nodes | away;
    }

    #[inline(always)]
    pub fn lookup(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        let way = find_in_set(&self.tags[set], tag)?;
        self.record_use(set, way);
        Some(&mut self.words[set][way % WAYS])
    }

    #[inline]
    pub fn insert(&mut self, set: usize, tag: u64, word: T) -> (u64, T) {
        let way = find_in_slice(&self.tags[set], EMPTY).unwrap_or_else(|| victim(self.trees[set], WAYS));
        self.record_use(set, way);
        let (tags, words) = (&mut self.tags[set], &mut self.words[set]);
        (std::mem::replace(&mut tags[way], tag), std::mem::replace(&mut words[way], word))
    }

    pub fn free_way(&mut self, set: usize, way: usize) {
        self.tags[set][way] = EMPTY;
    }
}

/// Returns the way at which `tree` points.
fn victim(tree: u8, ways: usize) -> usize {
    let mut node = 1;
    while node < ways {
        node = 2 * node + usize::from(tree >> node & 1);
    }
    node - ways
}

/// See [`PlruSets::PATHS`].
const fn paths<const WAYS: usize>() -> ([u8; WAYS], [u8; WAYS]) {
    assert!(WAYS.is_power_of_two() && WAYS <= 8, "a tree has one bit of a byte for each node");
    let (mut nodes, mut away) = ([0; WAYS], [0; WAYS]);
    let mut way = 0;
    while way < WAYS {
        // From the leaf, number `way`, to the root.
        let mut child = WAYS + way;
        while child > 1 {
            let parent = child / 2;
            nodes[way] |= 1 << parent;
            if child.is_multiple_of(2) {
                away[way] |= 1 << parent;
            }
            child = parent;
        }
        way += 1;
    }
    (nodes, away)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_victim_is_away_from_the_last_uses() {
        let mut sets = PlruSets::<8, u64>::new(1);
        for tag in 1..=8 {
            assert_eq!(sets.insert(0, tag, tag * 10).0, EMPTY);
        }
        // The root points left, at ways 0 to 3, whose last uses were 3 and 1, in that order of nodes: way 0.
        assert_eq!(sets.insert(0, 9, 90), (1, 10));
        // Now the root points right, away from 8 in way 7: way 4.
        assert_eq!(sets.insert(0, 10, 100), (5, 50));
        sets.lookup(0, 3);
        assert_eq!(sets.insert(0, 11, 110), (7, 70), "right half again, and there away from way 4");
        sets.free_way(0, 1);
        assert_eq!(sets.insert(0, 12, 120).0, EMPTY);
    }
}
