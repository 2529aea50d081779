//! The pages used last, kept apart from the orders of all sets.
//!
//! Between two pages of this one list stand in each order of each number of sets just those of its pages in between that
//! share the set, as the low bits of their numbers say (Hill and Smith 1989, all-associativity simulation). So a use of a
//! page that is in it needs no order of any set, changes none, and most often says at once that every array under study
//! holds the page. Orders and stack hear of a page when it joins the list and when it sinks out of it.

use crate::array::{EMPTY, Word, find_in_many};

/// The most pages, and the words for them.
pub(super) const MOST: usize = 62;
pub(super) const WORDS: usize = MOST.next_multiple_of(16);
/// The most numbers of sets: the powers of two below 2^32.
pub(super) const COUNTS: usize = 32;

/// More low bits than two pages have in common.
const NOTHING: usize = 64;

/// How many pages stand above another in its set, for each number of sets.
pub(super) type Above = [u8; COUNTS];

/// The pages used last, latest first.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    tags: [u64; WORDS],
    len: usize,
    most: usize,
    /// By how many low bits of their numbers two pages have in common: a one for each number of sets of which they share
    /// one. At [`NOTHING`] none.
    shares: Box<[Above; 128]>,
    /// For each number of sets the least number of ways that is asked about.
    least: Above,
}

impl Recent {
    /// At most so many pages (up to [`MOST`]). `counts`: each number of sets, ascending, with its least number of ways.
    pub fn new(most: usize, counts: &[(u32, u32)]) -> Recent {
        assert!(most <= MOST && counts.len() <= COUNTS);
        let shares = |bits: usize| {
            let mut shares = [0; COUNTS];
            let all = counts.iter().zip(&mut shares).filter(|_| bits < NOTHING);
            all.for_each(|(&(count, _), share)| *share = u8::from(count.ilog2() as usize <= bits));
            shares
        };
        let mut least = [u8::MAX; COUNTS];
        counts.iter().zip(&mut least).for_each(|(&(_, ways), least)| *least = ways.min(255) as u8);
        Recent { tags: [EMPTY; WORDS], len: 0, most, shares: Box::new(std::array::from_fn(shares)), least }
    }

    /// Whether `tag` is the one used last.
    #[inline(always)]
    pub fn is_first(&self, tag: u64) -> bool {
        self.tags[0] == tag
    }

    /// Where `tag` stands.
    #[inline(always)]
    pub fn find(&self, tag: u64) -> Option<usize> {
        find_in_many(&self.tags, tag)
    }

    /// What stands above `tag`, if that is at `depth` ([`Recent::len`]: below all), less than `WITHIN`.
    #[inline(always)]
    pub fn above<const WITHIN: usize>(&self, tag: u64, depth: usize) -> Above {
        let mut above = [0; COUNTS];
        // Four at a time: how many they are is not to be guessed each time.
        let fours = if WITHIN <= 4 { 1 } else { depth.div_ceil(4).min(WITHIN / 4) };
        for (four, at) in self.tags.as_chunks::<4>().0[..fours].iter().zip((0..).step_by(4)) {
            for (other, at) in four.iter().zip(at..) {
                // Tags begin with the number; where all of it is the same, sizes differ.
                let alike = ((tag ^ other) | 1 << 63).trailing_zeros() as usize;
                let shares = &self.shares[if at < depth { alike } else { NOTHING } & 127];
                above.iter_mut().zip(shares).for_each(|(above, share)| *above += share);
            }
        }
        above
    }

    /// The numbers of sets, as bits, for which a page with so many above it is missing from some array under study.
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
    pub fn missed(&self, above: &Above) -> u32 {
        use std::arch::x86_64::{_mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_max_epu8, _mm256_movemask_epi8};
        // SAFETY: AVX2 is enabled for this whole build; both loads read the 32 bytes of an `Above`.
        unsafe {
            let above = _mm256_loadu_si256(above.as_ptr().cast());
            let least = _mm256_loadu_si256(self.least.as_ptr().cast());
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(above, least), above)) as u32
        }
    }

    #[inline(always)]
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
    pub fn missed(&self, above: &Above) -> u32 {
        (0..COUNTS).fold(0, |missed, at| missed | u32::from(above[at] >= self.least[at]) << at)
    }

    /// The page at `depth`, less than `WITHIN`, is used.
    #[inline(always)]
    pub fn raise<const WITHIN: usize>(&mut self, depth: usize, tag: u64) {
        u64::push_front(&mut self.tags[..WITHIN], depth, tag);
    }

    /// A page joins. Returns the one that sinks out, where one has to.
    #[inline]
    pub fn join(&mut self, tag: u64) -> Option<u64> {
        u64::push_front(&mut self.tags, self.len, tag);
        if self.len < self.most {
            self.len += 1;
            return None;
        }
        Some(std::mem::replace(&mut self.tags[self.len], EMPTY))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has room for any.
    pub fn is_used(&self) -> bool {
        self.most > 0
    }

    /// All, latest first.
    pub fn tags(&self) -> &[u64] {
        &self.tags[..self.len]
    }

    /// Takes the page used the longest ago.
    pub fn take_last(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        Some(std::mem::replace(&mut self.tags[self.len], EMPTY))
    }
}
