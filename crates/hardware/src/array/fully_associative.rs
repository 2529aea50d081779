//! Fully associative arrays under LRU, of any number of ways.
//!
//! Ways stay in place, each with the time of its last use, and an index by hash leads to them: a hit costs the same
//! wherever it is, and what is not there is known at once. Only a miss, which needs the oldest way, looks at all.

use crate::array::{EMPTY, Word};

/// One set of many ways.
#[derive(Clone, Debug)]
pub(crate) struct Full<T> {
    tags: Vec<u64>,
    words: Vec<T>,
    /// When each way was used last; 0 for the free ones.
    used: Vec<i64>,
    now: i64,
    /// The way of each tag, where its hash says or, if that place is taken, behind it; [`FREE`] ends the search.
    index: Vec<u16>,
    /// 64 less the binary logarithm of the index's length.
    shift: u32,
    /// Where the owner's keys, by their hash, were found last. Guesses: they are never wrong about a tag, only about
    /// where to look.
    guesses: Box<[u16; GUESSES]>,
}

const FREE: u16 = u16::MAX;
const GUESSES: usize = 1 << 12;

impl<T: Word> Full<T> {
    /// The most ways.
    pub const MOST: usize = 1 << 12;

    pub fn new(ways: usize) -> Full<T> {
        assert!(ways <= Full::<T>::MOST, "{ways} ways");
        // Sparse enough for most searches to end at the first place.
        let index = (8 * ways).next_power_of_two();
        Full {
            tags: vec![EMPTY; ways],
            words: vec![T::default(); ways],
            used: vec![0; ways],
            now: 0,
            index: vec![FREE; index],
            shift: 64 - index.trailing_zeros(),
            guesses: Box::new([0; GUESSES]),
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
            // What the index names is a way, and what it does not name is none.
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

    /// Looks up what may stand here under one of several tags: `key` is the same for all of them, `is` tells them from
    /// others, `tags` gives them. Asks first where something under a key like this was found last.
    #[inline(always)]
    pub fn lookup_any(
        &mut self,
        key: u64,
        is: impl Fn(u64) -> bool,
        tags: impl IntoIterator<Item = u64>,
    ) -> Option<&mut T> {
        let guess = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - GUESSES.trailing_zeros())) as usize;
        let mut way = usize::from(self.guesses[guess]);
        if !is(self.tags[way]) {
            way = tags.into_iter().find_map(|tag| self.find(tag))?;
            self.guesses[guess] = way as u16;
        }
        Some(self.use_way(way))
    }

    #[inline]
    pub fn insert(&mut self, _: usize, tag: u64, word: T) -> (u64, T) {
        let way = oldest(&self.used);
        let old = (self.tags[way], self.words[way]);
        if old.0 != EMPTY {
            self.forget(old.0);
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

    pub fn vacate(&mut self, _: usize, way: usize) {
        self.forget(self.tags[way]);
        (self.tags[way], self.used[way]) = (EMPTY, 0);
    }

    /// Takes `tag`, which is there, out of the index, and moves up what its place kept away from where it belongs.
    fn forget(&mut self, tag: u64) {
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

/// The index of the least, four at a time.
#[inline(always)]
fn oldest(used: &[i64]) -> usize {
    const LANES: usize = 8;
    let (groups, rest) = used.as_chunks::<LANES>();
    let (mut least, mut at) = ([i64::MAX; LANES], [0i64; LANES]);
    for (i, group) in groups.iter().enumerate() {
        for lane in 0..LANES {
            let less = group[lane] < least[lane];
            least[lane] = if less { group[lane] } else { least[lane] };
            at[lane] = if less { i as i64 } else { at[lane] };
        }
    }
    let lanes = (0..LANES).map(|lane| (least[lane], at[lane] as usize * LANES + lane));
    let rest = rest.iter().enumerate().map(|(i, &used)| (used, groups.len() * LANES + i));
    lanes.chain(rest).min().map_or(0, |(_, way)| way)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::Random;

    /// A list in order of recency.
    struct Naive(Vec<(u64, u64)>);

    #[test]
    fn equals_a_list_in_order_of_recency() {
        for ways in [1, 3, 8, 17, 64, 91, 128] {
            let (mut full, mut naive, mut random) = (Full::new(ways), Naive(Vec::new()), Random::new(ways as u64));
            for step in 1..20_000 {
                let tag = 1 + random.below(3 * ways as u64 / 2 + 1);
                let known = naive.0.iter().position(|&(t, _)| t == tag).map(|at| naive.0.remove(at));
                if random.below(16) == 0 {
                    let way = full.tags.iter().position(|&t| t == tag);
                    assert_eq!(way.is_some(), known.is_some());
                    way.into_iter().for_each(|way| full.vacate(0, way));
                    continue;
                }
                // Keys that several tags have lead to the wrong way now and then.
                let found = match random.below(2) {
                    0 => full.lookup(0, tag),
                    _ => full.lookup_any(tag / 2, |other| other == tag, [tag + 2 * ways as u64, tag]),
                };
                assert_eq!(found.copied(), known.map(|(_, word)| word));
                if known.is_none() {
                    let old = if naive.0.len() == ways { naive.0.pop() } else { None };
                    assert_eq!(full.insert(0, tag, step).0, old.map_or(EMPTY, |(tag, _)| tag));
                }
                naive.0.insert(0, known.unwrap_or((tag, step)));
            }
            let used = full.index.iter().filter(|&&way| way != FREE).count();
            assert_eq!(used, naive.0.len(), "{ways} ways");
        }
    }
}
