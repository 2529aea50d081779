//! LRU sets whose ways are kept in order of recency: the most recently used first, the victim last.

use super::words::{EMPTY, Word, find_in_set, find_in_slice};

/// LRU sets of a width known to the compiler.
#[derive(Clone, Debug)]
pub(crate) struct LruSets<const WAYS: usize, T> {
    tags: Vec<[u64; WAYS]>,
    words: Vec<[T; WAYS]>,
}

impl<const WAYS: usize, T: Word> LruSets<WAYS, T> {
    pub fn new(sets: usize) -> Self {
        LruSets { tags: vec![[EMPTY; WAYS]; sets], words: vec![[T::default(); WAYS]; sets] }
    }

    pub fn sets(&self) -> usize {
        self.tags.len()
    }

    pub fn set(&self, set: usize) -> (&[u64], &[T]) {
        (&self.tags[set], &self.words[set])
    }

    #[inline(always)]
    pub fn lookup(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        if self.tags[set][0] == tag { Some(&mut self.words[set][0]) } else { self.lookup_all_ways(set, tag) }
    }

    /// Looks `tag` up without a first test of the most recent way. Where hits in that way are unpredictable, a
    /// misprediction costs more than moving its entry to where it is.
    #[inline(always)]
    pub fn lookup_all_ways(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        let tags = &mut self.tags[set];
        let way = find_in_set(tags, tag)?;
        u64::push_front(tags, way, tag);
        let words = &mut self.words[set];
        let word = words[way % WAYS];
        T::push_front(words, way, word);
        Some(&mut words[0])
    }

    #[inline(always)]
    pub fn insert(&mut self, set: usize, tag: u64, word: T) -> (u64, T) {
        let (tags, words) = (&mut self.tags[set], &mut self.words[set]);
        debug_assert!(!tags.contains(&tag), "tag {tag:#x} is already in set {set}");
        // The last way is the oldest, or free.
        let old = (tags[WAYS - 1], words[WAYS - 1]);
        u64::push_front(tags, WAYS - 1, tag);
        T::push_front(words, WAYS - 1, word);
        old
    }

    pub fn free_way(&mut self, set: usize, way: usize) {
        self.tags[set][way..].rotate_left(1);
        self.words[set][way..].rotate_left(1);
        self.tags[set][WAYS - 1] = EMPTY;
    }
}

/// LRU sets of any width.
#[derive(Clone, Debug)]
pub(crate) struct WideLruSets<T> {
    ways: usize,
    tags: Vec<u64>,
    words: Vec<T>,
}

impl<T: Word> WideLruSets<T> {
    pub fn new(sets: usize, ways: usize) -> Self {
        WideLruSets { ways, tags: vec![EMPTY; sets * ways], words: vec![T::default(); sets * ways] }
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
        let way = find_in_slice(self.set(set).0, tag)?;
        let at = set * self.ways;
        // Whole vectors up to that of `way`. The last few ways may not fill one.
        let end = at + (way / 4 * 4 + 4).min(self.ways);
        u64::push_front(&mut self.tags[at..end], way, tag);
        let word = self.words[at + way];
        T::push_front(&mut self.words[at..end], way, word);
        Some(&mut self.words[at])
    }

    #[inline]
    pub fn insert(&mut self, set: usize, tag: u64, word: T) -> (u64, T) {
        let at = set * self.ways;
        let (tags, words) = (&mut self.tags[at..at + self.ways], &mut self.words[at..at + self.ways]);
        let last = self.ways - 1;
        let old = (tags[last], words[last]);
        u64::push_front(tags, last, tag);
        T::push_front(words, last, word);
        old
    }

    pub fn free_way(&mut self, set: usize, way: usize) {
        let at = set * self.ways;
        self.tags[at + way..at + self.ways].rotate_left(1);
        self.words[at + way..at + self.ways].rotate_left(1);
        self.tags[at + self.ways - 1] = EMPTY;
    }
}
