//! The set-associative array that TLBs, walk caches and caches are all made of.
//!
//! Tags and payloads lie in separate arrays. Under LRU the ways of a set stand in order of recency, so that a hit on
//! the most recently used way is one compare and no write, and the victim is always the last way. The other policies
//! keep ways in place and one word of state a set.

use crate::config::Replacement;
use reach_core::Random;

/// A tag that no entry ever has.
pub(crate) const EMPTY: u64 = 0;

/// Tagged words in sets of equally many ways. The owner chooses set and tag; a tag must never be zero.
#[derive(Clone, Debug)]
pub(crate) struct Array<W> {
    ways: usize,
    tags: Vec<u64>,
    words: Vec<W>,
    policy: Policy,
}

#[derive(Clone, Debug)]
enum Policy {
    Lru,
    TreePlru(Vec<u64>),
    Nru(Vec<u64>),
    Random(Random),
}

/// Calls `f::<WAYS>` for the widths that machines have, so that their loops unroll into a few vector instructions.
macro_rules! by_ways {
    ($ways:expr, $f:ident($($arg:expr),*), $otherwise:expr) => {
        match $ways {
            2 => $f::<2, _>($($arg),*),
            4 => $f::<4, _>($($arg),*),
            8 => $f::<8, _>($($arg),*),
            12 => $f::<12, _>($($arg),*),
            16 => $f::<16, _>($($arg),*),
            _ => $otherwise,
        }
    };
}

impl<W: Copy + Default> Array<W> {
    /// An empty array. `ways` divides `entries`; under tree-PLRU there are at most 64 ways.
    pub fn new(entries: usize, ways: usize, replacement: Replacement, seed: u64) -> Array<W> {
        assert!(ways > 0 && entries % ways == 0, "{entries} entries in {ways} ways");
        let sets = entries / ways;
        let policy = match replacement {
            Replacement::Lru => Policy::Lru,
            Replacement::TreePlru => Policy::TreePlru(vec![0; sets]),
            Replacement::Nru => Policy::Nru(vec![0; sets * ways.div_ceil(64)]),
            Replacement::Random => Policy::Random(Random::new(seed)),
        };
        Array { ways, tags: vec![EMPTY; entries], words: vec![W::default(); entries], policy }
    }

    /// How many sets.
    pub fn sets(&self) -> usize {
        self.tags.len() / self.ways
    }

    /// Whether a hit on the first way of a set changes nothing, so that [`Array::first_is`] is a whole lookup.
    pub fn is_lru(&self) -> bool {
        matches!(self.policy, Policy::Lru)
    }

    /// The word of the first way of `set`, when its tag is `tag`. Only a lookup under LRU.
    #[inline(always)]
    pub fn first(&self, set: usize, tag: u64) -> Option<W> {
        let at = set * self.ways;
        if self.tags[at] == tag { Some(self.words[at]) } else { None }
    }

    /// Looks `tag` up in `set` and notes the use. The word may be changed in place.
    #[inline(always)]
    pub fn lookup(&mut self, set: usize, tag: u64) -> Option<&mut W> {
        let at = set * self.ways;
        if self.tags[at] == tag && self.is_lru() {
            return Some(&mut self.words[at]);
        }
        let way = find(&self.tags[at..at + self.ways], tag)?;
        Some(self.promote(set, way))
    }

    /// Notes a use of `way`; returns its word.
    #[inline(always)]
    fn promote(&mut self, set: usize, way: usize) -> &mut W {
        let at = set * self.ways;
        match &mut self.policy {
            Policy::Lru => {
                let (tag, word) = (self.tags[at + way], self.words[at + way]);
                push_front(&mut self.tags[at..=at + way], tag);
                push_front(&mut self.words[at..=at + way], word);
                return &mut self.words[at];
            }
            Policy::TreePlru(trees) => plru_touch(&mut trees[set], self.ways, way),
            Policy::Nru(bits) => {
                let words = self.ways.div_ceil(64);
                nru_touch(&mut bits[set * words..][..words], self.ways, way);
            }
            Policy::Random(_) => {}
        }
        &mut self.words[at + way]
    }

    /// Enters `tag`, which a lookup has just missed, with `word`. Returns the entry that had to go.
    #[inline(always)]
    pub fn insert(&mut self, set: usize, tag: u64, word: W) -> Option<(u64, W)> {
        debug_assert_ne!(tag, EMPTY);
        let at = set * self.ways;
        if self.is_lru() {
            // The last way is the oldest, or free.
            let (tags, words) = (&mut self.tags[at..at + self.ways], &mut self.words[at..at + self.ways]);
            debug_assert!(!tags.contains(&tag), "insertion of what is there");
            let old = (tags[tags.len() - 1], words[words.len() - 1]);
            by_ways!(tags.len(), shift(tags, tag), push_front(tags, tag));
            by_ways!(words.len(), shift(words, word), push_front(words, word));
            return (old.0 != EMPTY).then_some(old);
        }
        self.replace(set, tag, word)
    }

    /// Insertion where ways stay in place.
    fn replace(&mut self, set: usize, tag: u64, word: W) -> Option<(u64, W)> {
        let at = set * self.ways;
        let free = find(&self.tags[at..at + self.ways], EMPTY);
        let way = free.unwrap_or_else(|| match &mut self.policy {
            Policy::TreePlru(trees) => plru_victim(trees[set], self.ways),
            Policy::Nru(bits) => {
                let words = self.ways.div_ceil(64);
                nru_victim(&bits[set * words..][..words], self.ways)
            }
            Policy::Random(random) => random.below(self.ways as u64) as usize,
            Policy::Lru => unreachable!("ways move under LRU"),
        });
        let old = (self.tags[at + way], self.words[at + way]);
        self.tags[at + way] = tag;
        *self.promote(set, way) = word;
        (old.0 != EMPTY).then_some(old)
    }

    /// Removes `tag` from `set`. Returns its word.
    pub fn remove(&mut self, set: usize, tag: u64) -> Option<W> {
        let at = set * self.ways;
        let way = find(&self.tags[at..at + self.ways], tag)?;
        let word = self.words[at + way];
        self.vacate(set, way);
        Some(word)
    }

    /// Removes every entry of which `doomed(tag, word)` says so; tells `gone` of each.
    pub fn retain(&mut self, mut doomed: impl FnMut(u64, W) -> bool, mut gone: impl FnMut(u64, W)) {
        for set in 0..self.sets() {
            let at = set * self.ways;
            // From the last way on, so that closing a gap does not move what is still to be seen.
            for way in (0..self.ways).rev() {
                let (tag, word) = (self.tags[at + way], self.words[at + way]);
                if tag != EMPTY && doomed(tag, word) {
                    self.vacate(set, way);
                    gone(tag, word);
                }
            }
        }
    }

    /// Frees a way. Under LRU the gap closes, so that free ways stand last.
    fn vacate(&mut self, set: usize, way: usize) {
        let at = set * self.ways;
        if self.is_lru() {
            self.tags[at + way..at + self.ways].rotate_left(1);
            self.words[at + way..at + self.ways].rotate_left(1);
            self.tags[at + self.ways - 1] = EMPTY;
        } else {
            self.tags[at + way] = EMPTY;
            if let Policy::Nru(bits) = &mut self.policy {
                bits[set * self.ways.div_ceil(64) + way / 64] &= !(1 << (way % 64));
            }
        }
    }

    /// All entries: set, tag, word.
    pub fn entries(&self) -> impl Iterator<Item = (usize, u64, W)> {
        let ways = self.ways;
        let pairs = self.tags.iter().zip(&self.words).enumerate();
        pairs.filter(|(_, (tag, _))| **tag != EMPTY).map(move |(i, (&tag, &word))| (i / ways, tag, word))
    }
}

/// The index of `tag`.
#[inline(always)]
fn find(tags: &[u64], tag: u64) -> Option<usize> {
    by_ways!(tags.len(), find_among(tags, tag), find_in_many(tags, tag))
}

/// All ways at once without branches, which compilers turn into vector compares.
#[inline(always)]
fn find_among<const WAYS: usize, T: Copy + PartialEq>(tags: &[T], tag: T) -> Option<usize> {
    let tags: &[T; WAYS] = tags.try_into().expect("called for this width");
    let mut hits = 0u32;
    for (i, &t) in tags.iter().enumerate() {
        hits |= u32::from(t == tag) << i;
    }
    (hits != 0).then(|| hits.trailing_zeros() as usize)
}

/// Eight at a time.
#[inline(always)]
fn find_in_many(tags: &[u64], tag: u64) -> Option<usize> {
    let mut chunks = tags.chunks_exact(8);
    let mut base = 0;
    for chunk in &mut chunks {
        if let Some(i) = find_among::<8, _>(chunk, tag) {
            return Some(base + i);
        }
        base += 8;
    }
    chunks.remainder().iter().position(|&t| t == tag).map(|i| base + i)
}

/// Moves all elements back by one, the last out, and puts `first` in front.
#[inline(always)]
fn push_front<T: Copy>(words: &mut [T], first: T) {
    words.copy_within(0..words.len() - 1, 1);
    words[0] = first;
}

/// [`push_front`] for a set of known width.
#[inline(always)]
fn shift<const WAYS: usize, T: Copy>(words: &mut [T], first: T) {
    let words: &mut [T; WAYS] = words.try_into().expect("called for this width");
    let old = *words;
    words[0] = first;
    words[1..].copy_from_slice(&old[..WAYS - 1]);
}

/// Points every node on the way to `way` at the other side. Node 1 is the root; children of `i` are `2i` and `2i + 1`.
fn plru_touch(tree: &mut u64, ways: usize, way: usize) {
    let mut node = 1;
    let mut half = ways / 2;
    while half > 0 {
        let right = way & half != 0;
        *tree = *tree & !(1 << node) | u64::from(!right) << node;
        node = 2 * node + usize::from(right);
        half /= 2;
    }
}

/// Follows the tree from the root.
fn plru_victim(tree: u64, ways: usize) -> usize {
    let mut node = 1;
    let mut way = 0;
    let mut half = ways / 2;
    while half > 0 {
        let right = tree >> node & 1 != 0;
        if right {
            way |= half;
        }
        node = 2 * node + usize::from(right);
        half /= 2;
    }
    way
}

/// Sets the reference bit of `way`; when all ways that hold something are then referenced, clears the others.
fn nru_touch(bits: &mut [u64], ways: usize, way: usize) {
    bits[way / 64] |= 1 << (way % 64);
    let all = (0..ways).all(|w| bits[w / 64] >> (w % 64) & 1 != 0);
    if all {
        bits.fill(0);
        bits[way / 64] |= 1 << (way % 64);
    }
}

/// The first way whose reference bit is clear.
fn nru_victim(bits: &[u64], ways: usize) -> usize {
    (0..ways).find(|w| bits[w / 64] >> (w % 64) & 1 == 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(replacement: Replacement) -> Array<u64> {
        let mut array = Array::new(4, 4, replacement, 1);
        for tag in 1..=4 {
            assert_eq!(array.insert(0, tag, tag * 10), None);
        }
        array
    }

    #[test]
    fn lru_evicts_the_least_recent() {
        let mut array = full(Replacement::Lru);
        assert_eq!(array.lookup(0, 1), Some(&mut 10));
        assert_eq!(array.insert(0, 5, 50), Some((2, 20)));
        assert_eq!(array.remove(0, 3), Some(30));
        assert_eq!(array.insert(0, 6, 60), None);
        assert_eq!(array.insert(0, 7, 70), Some((4, 40)));
        assert_eq!(array.lookup(0, 7), Some(&mut 70));
    }

    #[test]
    fn plru_evicts_away_from_the_last_use() {
        let mut array = full(Replacement::TreePlru);
        array.lookup(0, 1);
        // Ways in place 1 2 3 4; last uses 4 then 1: the tree points right, and there away from 4.
        assert_eq!(array.insert(0, 5, 50), Some((3, 30)));
    }

    #[test]
    fn nru_clears_the_others_when_all_are_referenced() {
        let mut array = full(Replacement::Nru);
        // The fourth insertion set the last bit and cleared the first three.
        assert_eq!(array.insert(0, 5, 50), Some((1, 10)));
        array.lookup(0, 2);
        assert_eq!(array.insert(0, 6, 60), Some((3, 30)));
    }

    #[test]
    fn random_is_seeded() {
        let run = |seed| {
            let mut array = Array::new(8, 8, Replacement::Random, seed);
            (1..100).filter_map(|tag| array.insert(0, tag, 0)).map(|e| e.0).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn wide_sets_are_searched_whole() {
        let mut array = Array::new(91, 91, Replacement::Lru, 0);
        for tag in 1..=91 {
            array.insert(0, tag, tag);
        }
        for tag in (1..=91).rev() {
            assert_eq!(array.lookup(0, tag), Some(&mut { tag }));
        }
        let mut gone = Vec::new();
        array.retain(|tag, _| tag % 2 == 0, |tag, _| gone.push(tag));
        assert_eq!((gone.len(), array.entries().count()), (45, 46));
    }
}
