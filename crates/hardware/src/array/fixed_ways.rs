//! Sets whose entries keep their ways: tree-PLRU of unusual widths, rotating tree-PLRU, NRU, quad-age LRU and random
//! replacement.

use super::words::{EMPTY, Word, find_in_slice};
use crate::config::Replacement;
use reach_core::Random;

/// Sets whose entries keep their ways.
#[derive(Clone, Debug)]
pub(crate) struct FixedWaySets<T> {
    ways: usize,
    tags: Vec<u64>,
    words: Vec<T>,
    state: ReplacementState,
    /// By hash of a tag, the way in which such a tag was found last. It may be wrong; the tag there decides. Empty for few ways,
    /// all of which are compared as fast.
    hints: Box<[u16]>,
}

/// The most ways without hints.
const FEW_WAYS: usize = 16;
/// Number of hints, a power of two.
const HINTS: usize = 1 << 8;

/// State of the replacement policy, for all sets.
#[derive(Clone, Debug)]
enum ReplacementState {
    /// One tree for each set.
    TreePlru(Vec<u64>),
    /// For each set, the three trees from bits 0, 16 and 32 on, and from bit 48 on the number of that used last.
    RotatingPlru(Vec<u64>),
    /// One reference bit for each way; each set starts a new word.
    Nru(Vec<u64>),
    /// Two bits for each way of a set.
    QuadAgeLru(Vec<u64>),
    Random(Random),
}

impl<T: Word> FixedWaySets<T> {
    pub fn new(sets: usize, ways: usize, replacement: Replacement, seed: u64) -> FixedWaySets<T> {
        let state = match replacement {
            Replacement::TreePlru => ReplacementState::TreePlru(vec![0; sets]),
            Replacement::RotatingPlru => ReplacementState::RotatingPlru(vec![0; sets]),
            Replacement::Nru => ReplacementState::Nru(vec![0; sets * ways.div_ceil(64)]),
            Replacement::QuadAgeLru => ReplacementState::QuadAgeLru(vec![first_bits(ways) * FREE_AGE; sets]),
            Replacement::Random => ReplacementState::Random(Random::new(seed)),
            Replacement::Lru | Replacement::InstructionAware | Replacement::ReusePrediction(_) => {
                unreachable!("these sets are kept in order")
            }
            Replacement::PageTableAware => unreachable!("machine files give it to data caches only"),
        };
        let hints = vec![0; if ways > FEW_WAYS { HINTS } else { 0 }].into();
        FixedWaySets { ways, tags: vec![EMPTY; sets * ways], words: vec![T::default(); sets * ways], state, hints }
    }

    pub fn sets(&self) -> usize {
        self.tags.len() / self.ways
    }

    pub fn set(&self, set: usize) -> (&[u64], &[T]) {
        let at = set * self.ways;
        (&self.tags[at..at + self.ways], &self.words[at..at + self.ways])
    }

    #[inline]
    pub fn lookup(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        let way = self.find(set, tag)?;
        self.record_use(set, way, HIT_AGE);
        Some(&mut self.words[set * self.ways + way])
    }

    #[inline(always)]
    fn find(&mut self, set: usize, tag: u64) -> Option<usize> {
        let tags = &self.tags[set * self.ways..][..self.ways];
        let hash = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HINTS.trailing_zeros());
        let Some(hint) = self.hints.get_mut(hash as usize) else { return find_in_slice(tags, tag) };
        let hinted = usize::from(*hint);
        if tags[hinted] == tag {
            return Some(hinted);
        }
        let way = find_in_slice(tags, tag)?;
        *hint = way as u16;
        Some(way)
    }

    #[inline]
    pub fn insert(&mut self, set: usize, tag: u64, word: T) -> (u64, T) {
        let free = find_in_slice(self.set(set).0, EMPTY);
        let way = free.unwrap_or_else(|| self.victim(set));
        self.record_use(set, way, FILL_AGE);
        let at = set * self.ways + way;
        (std::mem::replace(&mut self.tags[at], tag), std::mem::replace(&mut self.words[at], word))
    }

    pub fn free_way(&mut self, set: usize, way: usize) {
        self.tags[set * self.ways + way] = EMPTY;
        match &mut self.state {
            ReplacementState::Nru(bits) => bits[set * self.ways.div_ceil(64) + way / 64] &= !(1 << (way % 64)),
            ReplacementState::QuadAgeLru(ages) => ages[set] |= FREE_AGE << (2 * way),
            _ => {}
        }
    }

    /// Records a use of `way`, whose age becomes `age` under quad-age LRU.
    fn record_use(&mut self, set: usize, way: usize, age: u64) {
        match &mut self.state {
            ReplacementState::TreePlru(trees) => plru_touch(&mut trees[set], self.ways, way),
            ReplacementState::RotatingPlru(trees) => rotating_touch(&mut trees[set], self.ways / 3, way),
            ReplacementState::Nru(bits) => {
                let words = self.ways.div_ceil(64);
                nru_touch(&mut bits[set * words..][..words], self.ways, way);
            }
            ReplacementState::QuadAgeLru(ages) => quad_age_touch(&mut ages[set], self.ways, way, age),
            ReplacementState::Random(_) => {}
        }
    }

    fn victim(&mut self, set: usize) -> usize {
        match &mut self.state {
            ReplacementState::TreePlru(trees) => plru_victim(trees[set], self.ways),
            ReplacementState::RotatingPlru(trees) => rotating_victim(trees[set], self.ways / 3),
            ReplacementState::Nru(bits) => {
                let words = self.ways.div_ceil(64);
                nru_victim(&bits[set * words..][..words], self.ways)
            }
            ReplacementState::QuadAgeLru(ages) => quad_age_victim(ages[set], self.ways),
            ReplacementState::Random(random) => random.below(self.ways as u64) as usize,
        }
    }
}

/// Points every node on the path to `way` at the other side. Node 1 is the root; the children of `i` are `2i` and `2i + 1`.
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

/// Returns the way at which the tree points.
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

/// Where the number of the tree used last begins.
const LAST_TREE: u32 = 48;

/// Records a use of `way` in the one of three trees of `ways` ways that it is in.
fn rotating_touch(trees: &mut u64, ways: usize, way: usize) {
    let (number, way) = (way / ways, way % ways);
    let mut tree = *trees >> (16 * number) & 0xffff;
    plru_touch(&mut tree, ways, way);
    let others = *trees & ((1 << LAST_TREE) - 1) & !(0xffff << (16 * number));
    *trees = others | tree << (16 * number) | (number as u64) << LAST_TREE;
}

/// Returns the way at which the tree after the last used one points.
fn rotating_victim(trees: u64, ways: usize) -> usize {
    let number = ((trees >> LAST_TREE) as usize + 1) % 3;
    number * ways + plru_victim(trees >> (16 * number) & 0xffff, ways)
}

/// Sets the reference bit of `way`. Clears the others if no clear bit is left.
fn nru_touch(bits: &mut [u64], ways: usize, way: usize) {
    bits[way / 64] |= 1 << (way % 64);
    if bits.iter().map(|word| word.count_ones() as usize).sum::<usize>() == ways {
        bits.fill(0);
        bits[way / 64] |= 1 << (way % 64);
    }
}

/// Returns the first way whose reference bit is clear, or way 0 of a direct-mapped set.
fn nru_victim(bits: &[u64], ways: usize) -> usize {
    let word = bits.iter().position(|&word| word != !0).unwrap_or(0);
    (64 * word + bits[word].trailing_ones() as usize) % ways
}

/// Quad-age LRU: the age of a way that has just hit, of one that has just been filled, and of a free one.
const HIT_AGE: u64 = 0;
const FILL_AGE: u64 = 1;
const FREE_AGE: u64 = 3;

/// Returns the lower bit of each way's age.
fn first_bits(ways: usize) -> u64 {
    0x5555_5555_5555_5555 & (u64::MAX >> (64 - 2 * ways))
}

/// Sets the age of `way`, less than 3. Ages the other ways alike until one of them has age 3.
fn quad_age_touch(ages: &mut u64, ways: usize, way: usize, age: u64) {
    *ages = *ages & !(FREE_AGE << (2 * way)) | age << (2 * way);
    let others = first_bits(ways) & !(1 << (2 * way));
    let (low, high) = (*ages & others, *ages >> 1 & others);
    let missing = match (low, high) {
        _ if low & high != 0 => 0,
        (0, 0) => 3,
        (_, 0) => 2,
        _ => 1,
    };
    *ages += others * missing;
}

/// Returns the first way of age 3, or way 0 of a direct-mapped set.
fn quad_age_victim(ages: u64, ways: usize) -> usize {
    let oldest = ages & ages >> 1 & first_bits(ways);
    if oldest == 0 { 0 } else { oldest.trailing_zeros() as usize / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_set(replacement: Replacement) -> FixedWaySets<u64> {
        let mut sets = FixedWaySets::new(1, 4, replacement, 1);
        for tag in 1..=4 {
            assert_eq!(sets.insert(0, tag, tag * 10).0, EMPTY);
        }
        sets
    }

    #[test]
    fn plru_evicts_away_from_the_last_use() {
        let mut sets = full_set(Replacement::TreePlru);
        sets.lookup(0, 1);
        // Ways hold 1 2 3 4; the last uses are 4, then 1: the tree points right, and there away from 4.
        assert_eq!(sets.insert(0, 5, 50), (3, 30));
    }

    #[test]
    fn rotating_plru_takes_the_tree_after_that_of_the_last_use() {
        let mut sets = FixedWaySets::new(1, 12, Replacement::RotatingPlru, 0);
        for tag in 1..=12 {
            sets.insert(0, tag, tag * 10);
        }
        // The last use was in the third tree, so the first gives the victim, in the half that 4 and 3 did not use last.
        assert_eq!(sets.insert(0, 13, 130), (1, 10));
        assert_eq!(sets.insert(0, 14, 140), (5, 50));
        sets.lookup(0, 2);
        assert_eq!(sets.insert(0, 15, 150), (7, 70), "the second tree again, in the half away from 14");
    }

    #[test]
    fn nru_clears_the_others_when_all_are_referenced() {
        let mut sets = full_set(Replacement::Nru);
        // The fourth insertion set the last bit and cleared the first three.
        assert_eq!(sets.insert(0, 5, 50), (1, 10));
        sets.lookup(0, 2);
        assert_eq!(sets.insert(0, 6, 60), (3, 30));
    }

    #[test]
    fn quad_age_lru_keeps_what_has_hit_longer_than_what_was_filled() {
        let mut sets = full_set(Replacement::QuadAgeLru);
        // The fourth fill left no free way: 1, 2 and 3 went from age 1 to 3, and 4 has age 1.
        sets.lookup(0, 1);
        assert_eq!(sets.insert(0, 5, 50), (2, 20));
        assert_eq!(sets.insert(0, 6, 60), (3, 30), "1 has age 0, and 5 has age 1");
        // Nothing had age 3 then, so 1, 4 and 5 aged by 2: 4 and 5 to 3, 1 to 2.
        assert_eq!(sets.insert(0, 7, 70), (5, 50), "the first way of age 3");
        assert_eq!(sets.insert(0, 8, 80), (4, 40));
        assert!(sets.lookup(0, 1).is_some());
        sets.free_way(0, 0);
        assert_eq!(sets.insert(0, 9, 90).0, EMPTY, "the free way is filled before ways of age 3");
    }

    #[test]
    fn hints_change_nothing() {
        let mut random = Random::new(5);
        for (sets, ways) in [(1, 17), (1, 128), (4, 32)] {
            let mut hinted = FixedWaySets::new(sets, ways, Replacement::Nru, 0);
            let mut plain = FixedWaySets { hints: Box::default(), ..hinted.clone() };
            assert!(!hinted.hints.is_empty());
            for step in 1..20_000 {
                let tag = 1 + random.below((2 * sets * ways) as u64);
                let set = tag as usize % sets;
                let found = hinted.lookup(set, tag).copied();
                assert_eq!(found, plain.lookup(set, tag).copied(), "{ways} ways, step {step}");
                if found.is_none() {
                    assert_eq!(hinted.insert(set, tag, step), plain.insert(set, tag, step));
                } else if random.below(16) == 0 {
                    let way = find_in_slice(plain.set(set).0, tag).unwrap();
                    hinted.free_way(set, way);
                    plain.free_way(set, way);
                }
            }
        }
    }

    #[test]
    fn nru_fills_sets_of_one_way_and_of_many() {
        for ways in [1, 2, 64, 65, 128] {
            let mut sets = FixedWaySets::new(1, ways, Replacement::Nru, 0);
            for tag in 1..1000 {
                sets.insert(0, tag, true);
            }
            assert_eq!(sets.set(0).0.iter().filter(|&&tag| tag != EMPTY).count(), ways);
            assert!(sets.lookup(0, 999).is_some(), "{ways} ways");
        }
    }

    #[test]
    fn random_replacement_depends_on_the_seed_only() {
        let run = |seed| {
            let mut sets = FixedWaySets::new(1, 8, Replacement::Random, seed);
            (1..100).map(|tag| sets.insert(0, tag, true).0).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
