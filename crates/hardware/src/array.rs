//! The set-associative array that TLBs, walk caches and caches are all made of.
//!
//! Tags and payloads lie in separate arrays. Under LRU the ways of a set stand in order of recency, so that a hit on
//! the most recently used way is one compare and no write, and the victim is always the last way; sets of the usual
//! widths are compared and moved as a few vectors. The other policies keep ways in place ([`fixed_ways`]).

use crate::config::Replacement;
use fixed_ways::Placed;
pub(crate) use fully_associative::Full;

mod fixed_ways;
mod fully_associative;

/// A tag that no entry ever has.
pub(crate) const EMPTY: u64 = 0;

/// Tagged words in sets of equally many ways. The owner chooses set and tag; a tag must never be zero.
#[derive(Clone, Debug)]
pub(crate) enum Array<T> {
    One(Recent<1, T>),
    Two(Recent<2, T>),
    Four(Recent<4, T>),
    Eight(Recent<8, T>),
    Twelve(Recent<12, T>),
    Sixteen(Recent<16, T>),
    Wide(Wide<T>),
    Full(Box<Full<T>>),
    Placed(Placed<T>),
}

/// Calls a method of whichever kind of array it is.
macro_rules! each {
    ($array:expr, $a:ident => $call:expr) => {
        match $array {
            Array::One($a) => $call,
            Array::Two($a) => $call,
            Array::Four($a) => $call,
            Array::Eight($a) => $call,
            Array::Twelve($a) => $call,
            Array::Sixteen($a) => $call,
            Array::Wide($a) => $call,
            Array::Full($a) => $call,
            Array::Placed($a) => $call,
        }
    };
}

impl<T: Word> Array<T> {
    /// An empty array. `ways` divides `entries`; under tree-PLRU there are at most 64 ways.
    pub fn new(entries: usize, ways: usize, replacement: Replacement, seed: u64) -> Array<T> {
        assert!(ways > 0 && entries.is_multiple_of(ways), "{entries} entries in {ways} ways");
        let sets = entries / ways;
        match (replacement, ways) {
            (Replacement::Lru, 1) => Array::One(Recent::new(sets)),
            (Replacement::Lru, 2) => Array::Two(Recent::new(sets)),
            (Replacement::Lru, 4) => Array::Four(Recent::new(sets)),
            (Replacement::Lru, 8) => Array::Eight(Recent::new(sets)),
            (Replacement::Lru, 12) => Array::Twelve(Recent::new(sets)),
            (Replacement::Lru, 16) => Array::Sixteen(Recent::new(sets)),
            (Replacement::Lru, _) if sets == 1 && ways <= Full::<T>::MOST => Array::Full(Box::new(Full::new(ways))),
            (Replacement::Lru, _) => Array::Wide(Wide::new(sets, ways)),
            _ => Array::Placed(Placed::new(sets, ways, replacement, seed)),
        }
    }

    /// How many sets.
    pub fn sets(&self) -> usize {
        each!(self, a => a.sets())
    }

    /// Looks `tag` up in `set` and notes the use. The word may be changed in place.
    #[inline(always)]
    pub fn lookup(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        each!(self, a => a.lookup(set, tag))
    }

    /// Enters `tag`, which a lookup has just missed, with `word`. Returns the entry that had to go.
    #[inline(always)]
    pub fn insert(&mut self, set: usize, tag: u64, word: T) -> Option<(u64, T)> {
        debug_assert_ne!(tag, EMPTY);
        let (old, word) = each!(self, a => a.insert(set, tag, word));
        (old != EMPTY).then_some((old, word))
    }

    /// Whether `tag` is in `set`, which is no use of it.
    pub fn holds(&self, set: usize, tag: u64) -> bool {
        each!(self, a => find_in_many(a.set(set).0, tag).is_some())
    }

    /// Removes `tag` from `set`. Returns whether it was there.
    pub fn remove(&mut self, set: usize, tag: u64) -> bool {
        each!(self, a => match find_in_many(a.set(set).0, tag) {
            Some(way) => {
                a.vacate(set, way);
                true
            }
            None => false,
        })
    }

    /// Removes every entry for whose tag `doomed` says so.
    pub fn remove_all(&mut self, doomed: impl Fn(u64) -> bool) {
        each!(self, a => for set in 0..a.sets() {
            // From the last way on, so that closing a gap does not move what is still to be seen.
            for way in (0..a.set(set).0.len()).rev() {
                let tag = a.set(set).0[way];
                if tag != EMPTY && doomed(tag) {
                    a.vacate(set, way);
                }
            }
        })
    }

    /// All entries.
    pub fn entries(&self) -> Vec<(u64, T)> {
        each!(self, a => {
            let sets = (0..a.sets()).map(|set| a.set(set));
            sets.flat_map(|(tags, words)| tags.iter().copied().zip(words.iter().copied()))
                .filter(|(tag, _)| *tag != EMPTY)
                .collect()
        })
    }
}

/// LRU sets of a width known to the compiler, in order of recency.
#[derive(Clone, Debug)]
pub(crate) struct Recent<const WAYS: usize, T> {
    tags: Vec<[u64; WAYS]>,
    words: Vec<[T; WAYS]>,
}

impl<const WAYS: usize, T: Word> Recent<WAYS, T> {
    fn new(sets: usize) -> Self {
        Recent { tags: vec![[EMPTY; WAYS]; sets], words: vec![[T::default(); WAYS]; sets] }
    }

    fn sets(&self) -> usize {
        self.tags.len()
    }

    fn set(&self, set: usize) -> (&[u64], &[T]) {
        (&self.tags[set], &self.words[set])
    }

    #[inline(always)]
    fn lookup(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        if self.tags[set][0] == tag { Some(&mut self.words[set][0]) } else { self.lookup_flat(set, tag) }
    }

    /// The same without looking at the most recent way first: where it is as likely as not that one, guessing wrong
    /// costs more than moving it to where it is.
    #[inline(always)]
    pub fn lookup_flat(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        let tags = &mut self.tags[set];
        let way = find(tags, tag)?;
        u64::push_front(tags, way, tag);
        let words = &mut self.words[set];
        let word = words[way % WAYS];
        T::push_front(words, way, word);
        Some(&mut words[0])
    }

    #[inline(always)]
    fn insert(&mut self, set: usize, tag: u64, word: T) -> (u64, T) {
        let (tags, words) = (&mut self.tags[set], &mut self.words[set]);
        debug_assert!(!tags.contains(&tag), "insertion of what is there");
        // The last way is the oldest, or free.
        let old = (tags[WAYS - 1], words[WAYS - 1]);
        u64::push_front(tags, WAYS - 1, tag);
        T::push_front(words, WAYS - 1, word);
        old
    }

    fn vacate(&mut self, set: usize, way: usize) {
        self.tags[set][way..].rotate_left(1);
        self.words[set][way..].rotate_left(1);
        self.tags[set][WAYS - 1] = EMPTY;
    }
}

/// The index of `tag`, all ways at once.
#[inline(always)]
fn find<const WAYS: usize>(tags: &[u64; WAYS], tag: u64) -> Option<usize> {
    let mut hits = 0u32;
    let (fours, rest) = tags.as_chunks::<4>();
    for (i, four) in fours.iter().enumerate() {
        hits |= equal(four, tag) << (4 * i);
    }
    for (i, &t) in rest.iter().enumerate() {
        hits |= u32::from(t == tag) << (4 * fours.len() + i);
    }
    if hits == 0 { None } else { Some(hits.trailing_zeros() as usize) }
}

/// Which of four words equal `word`, as bits. Written out because compilers turn the plain loop into twenty
/// instructions rather than these three.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
#[inline(always)]
pub(crate) fn equal(four: &[u64; 4], word: u64) -> u32 {
    use std::arch::x86_64::{
        _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_movemask_pd, _mm256_set1_epi64x,
    };
    // SAFETY: AVX2 is enabled for this whole build; the load reads the 32 bytes that `four` refers to.
    unsafe {
        let four = _mm256_loadu_si256(four.as_ptr().cast());
        let same = _mm256_cmpeq_epi64(four, _mm256_set1_epi64x(word as i64));
        _mm256_movemask_pd(_mm256_castsi256_pd(same)) as u32
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
#[inline(always)]
pub(crate) fn equal(four: &[u64; 4], word: u64) -> u32 {
    four.iter().enumerate().map(|(i, &w)| u32::from(w == word) << i).sum()
}

/// What arrays hold beside tags.
pub(crate) trait Word: Copy + Default {
    /// Puts `first` in front and moves the words before number `way` back by one, over that one.
    fn push_front(words: &mut [Self], way: usize, first: Self);
}

impl Word for bool {
    /// Eight at a time, as bytes of one word.
    #[inline(always)]
    fn push_front(words: &mut [bool], way: usize, first: bool) {
        let (eights, rest) = words.as_chunks_mut::<8>();
        let beyond = 8 * eights.len();
        let mut carry = u64::from(first);
        for (i, eight) in eights.iter_mut().enumerate() {
            let old = u64::from_le_bytes(eight.map(u8::from));
            let within = (way + 1).saturating_sub(8 * i).min(8);
            let stay = u64::MAX.checked_shl(8 * within as u32).unwrap_or(0);
            *eight = ((old << 8 | carry) & !stay | old & stay).to_le_bytes().map(|byte| byte != 0);
            carry = old >> 56;
        }
        push_front_one_by_one(rest, (way + 1).saturating_sub(beyond), carry != 0);
    }
}

/// The same for the first `ways` of a few words.
#[inline(always)]
fn push_front_one_by_one<T: Copy>(words: &mut [T], ways: usize, mut carry: T) {
    for (i, word) in words.iter_mut().enumerate() {
        let old = *word;
        *word = if i < ways { carry } else { old };
        carry = old;
    }
}

impl Word for u64 {
    /// Four at a time, all of the fours up to that of `way`: which way it is is not to be guessed.
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
    fn push_front(words: &mut [u64], way: usize, first: u64) {
        use std::arch::x86_64::{
            __m256i, _mm256_blend_epi32, _mm256_blendv_epi8, _mm256_cmpgt_epi64, _mm256_loadu_si256,
            _mm256_permute4x64_epi64, _mm256_set1_epi64x, _mm256_setr_epi64x, _mm256_storeu_si256,
        };
        let (fours, rest) = words.as_chunks_mut::<4>();
        let beyond = fours.len();
        // SAFETY: AVX2 is enabled for this whole build; every load and store covers the 32 bytes of one four.
        let carry = unsafe {
            let lanes = _mm256_setr_epi64x(0, 1, 2, 3);
            let mut carry = _mm256_set1_epi64x(first as i64);
            for (i, four) in fours.iter_mut().enumerate() {
                let at: *mut __m256i = four.as_mut_ptr().cast();
                let old = _mm256_loadu_si256(at);
                let turned = _mm256_permute4x64_epi64::<0b10_01_00_11>(old);
                let moved = _mm256_blend_epi32::<0b11>(turned, carry);
                carry = turned;
                let within = _mm256_cmpgt_epi64(_mm256_set1_epi64x(way as i64 + 1 - 4 * i as i64), lanes);
                _mm256_storeu_si256(at, _mm256_blendv_epi8(old, moved, within));
            }
            std::arch::x86_64::_mm256_extract_epi64::<0>(carry) as u64
        };
        push_front_one_by_one(rest, (way + 1).saturating_sub(4 * beyond), carry);
    }

    #[inline(always)]
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
    fn push_front(words: &mut [u64], way: usize, first: u64) {
        words.copy_within(0..way, 1);
        words[0] = first;
    }
}

/// Takes word number `way` out: those behind it move forward by one, and the last is [`EMPTY`]. Four at a time, all of
/// the fours from that of `way` on, as above.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
pub(crate) fn close_up(words: &mut [u64], way: usize) {
    use std::arch::x86_64::{
        __m256i, _mm256_blend_epi32, _mm256_blendv_epi8, _mm256_cmpgt_epi64, _mm256_loadu_si256,
        _mm256_permute4x64_epi64, _mm256_set1_epi64x, _mm256_setr_epi64x, _mm256_storeu_si256,
    };
    let (fours, rest) = words.as_chunks_mut::<4>();
    let mut behind = EMPTY;
    for (i, word) in rest.iter_mut().enumerate().rev() {
        let old = *word;
        *word = if 4 * fours.len() + i < way { old } else { behind };
        behind = old;
    }
    // SAFETY: AVX2 is enabled for this whole build; every load and store covers the 32 bytes of one four.
    unsafe {
        let lanes = _mm256_setr_epi64x(0, 1, 2, 3);
        let mut carry = _mm256_set1_epi64x(behind as i64);
        for (i, four) in fours.iter_mut().enumerate().skip(way / 4).rev() {
            let at: *mut __m256i = four.as_mut_ptr().cast();
            let old = _mm256_loadu_si256(at);
            let turned = _mm256_permute4x64_epi64::<0b00_11_10_01>(old);
            let moved = _mm256_blend_epi32::<0b1100_0000>(turned, carry);
            carry = turned;
            let stay = _mm256_cmpgt_epi64(_mm256_set1_epi64x(way as i64 - 4 * i as i64), lanes);
            _mm256_storeu_si256(at, _mm256_blendv_epi8(moved, old, stay));
        }
    }
}

#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
pub(crate) fn close_up(words: &mut [u64], way: usize) {
    let last = words.len() - 1;
    words.copy_within(way + 1.., way);
    words[last] = EMPTY;
}

/// LRU sets of any width, in order of recency.
#[derive(Clone, Debug)]
pub(crate) struct Wide<T> {
    ways: usize,
    tags: Vec<u64>,
    words: Vec<T>,
}

impl<T: Word> Wide<T> {
    fn new(sets: usize, ways: usize) -> Self {
        Wide { ways, tags: vec![EMPTY; sets * ways], words: vec![T::default(); sets * ways] }
    }

    fn sets(&self) -> usize {
        self.tags.len() / self.ways
    }

    fn set(&self, set: usize) -> (&[u64], &[T]) {
        let at = set * self.ways;
        (&self.tags[at..at + self.ways], &self.words[at..at + self.ways])
    }

    #[inline]
    fn lookup(&mut self, set: usize, tag: u64) -> Option<&mut T> {
        let way = find_in_many(self.set(set).0, tag)?;
        let at = set * self.ways;
        // The last few may not make a four.
        let end = at + (way / 4 * 4 + 4).min(self.ways);
        u64::push_front(&mut self.tags[at..end], way, tag);
        let word = self.words[at + way];
        T::push_front(&mut self.words[at..end], way, word);
        Some(&mut self.words[at])
    }

    #[inline]
    fn insert(&mut self, set: usize, tag: u64, word: T) -> (u64, T) {
        let at = set * self.ways;
        let (tags, words) = (&mut self.tags[at..at + self.ways], &mut self.words[at..at + self.ways]);
        let last = self.ways - 1;
        let old = (tags[last], words[last]);
        u64::push_front(tags, last, tag);
        T::push_front(words, last, word);
        old
    }

    fn vacate(&mut self, set: usize, way: usize) {
        let at = set * self.ways;
        self.tags[at + way..at + self.ways].rotate_left(1);
        self.words[at + way..at + self.ways].rotate_left(1);
        self.tags[at + self.ways - 1] = EMPTY;
    }
}

/// The index of `tag`, sixteen ways at a time.
#[inline(always)]
pub(crate) fn find_in_many(tags: &[u64], tag: u64) -> Option<usize> {
    let (chunks, rest) = tags.as_chunks::<16>();
    for (i, chunk) in chunks.iter().enumerate() {
        if let Some(way) = find(chunk, tag) {
            return Some(16 * i + way);
        }
    }
    rest.iter().position(|&t| t == tag).map(|way| 16 * chunks.len() + way)
}

/// The indices of `tag` and of the first [`EMPTY`] word, in one go.
#[inline(always)]
pub(crate) fn find_both(tags: &[u64], tag: u64) -> (Option<usize>, Option<usize>) {
    let first =
        |found: Option<usize>, bits: u32, at| found.or((bits != 0).then(|| at + bits.trailing_zeros() as usize));
    let (mut found, mut empty) = (None, None);
    for (chunk, at) in tags.chunks(16).zip((0..).step_by(16)) {
        let (fours, rest) = chunk.as_chunks::<4>();
        let bits = |tag| {
            let rest = rest.iter().enumerate().map(|(i, &t)| u32::from(t == tag) << (4 * fours.len() + i));
            fours
                .iter()
                .enumerate()
                .map(|(i, four)| equal(four, tag) << (4 * i))
                .chain(rest)
                .fold(0, |all, some| all | some)
        };
        (found, empty) = (first(found, bits(tag), at), first(empty, bits(EMPTY), at));
    }
    (found, empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_taken_out_in_every_width() {
        for width in 1..40 {
            for way in 0..width {
                let mut words: Vec<u64> = (1..=width as u64).collect();
                let mut plain = words.clone();
                assert_eq!(find_both(&words, way as u64 + 1), (Some(way), None));
                close_up(&mut words, way);
                plain.remove(way);
                plain.push(EMPTY);
                assert_eq!(words, plain, "{way} of {width}");
                assert_eq!(find_both(&words, way as u64 + 1), (None, Some(width - 1)));
            }
        }
    }

    #[test]
    fn lru_evicts_the_least_recent_in_every_width() {
        for ways in [4, 5, 8, 12, 16, 20, 40] {
            let mut array = Array::new(ways as usize, ways as usize, Replacement::Lru, 0);
            for tag in 1..=ways {
                assert_eq!(array.insert(0, tag, tag * 10), None);
            }
            assert_eq!(array.lookup(0, 1), Some(&mut 10));
            assert_eq!(array.insert(0, 50, 500), Some((2, 20)), "{ways} ways");
            assert!(array.remove(0, 3) && !array.remove(0, 3));
            assert_eq!(array.insert(0, 60, 600), None);
            assert_eq!(array.insert(0, 70, 700), Some((4, 40)));
            *array.lookup(0, 50).unwrap() = 501;
            array.remove_all(|tag| tag < 50);
            let mut entries = array.entries();
            entries.sort_unstable();
            assert_eq!(entries, [(50, 501), (60, 600), (70, 700)]);
        }
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
        assert_eq!(array.lookup(0, 92), None);
    }
}
