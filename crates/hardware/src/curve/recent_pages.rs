//! The most recent pages, kept apart from the stacks of all sets.
//!
//! In the stack of a set, the pages between two recent pages are those recent pages between them that share the set, as the
//! low bits of their numbers say (Hill and Smith 1989, all-associativity simulation). So a use of a recent page reads and
//! changes no stack, and most often shows at once that every array under study holds the page. The stacks see a page when
//! it joins this list and when it leaves.

use crate::array::{EMPTY, Word, find_in_slice};

/// Maximum number of recent pages.
pub(super) const MAX_PAGES: usize = 62;
/// Words of the list: whole groups of sixteen.
pub(super) const WORDS: usize = MAX_PAGES.next_multiple_of(16);
/// Maximum number of different numbers of sets: the powers of two below 2^32.
pub(super) const MAX_COUNTS: usize = 32;

/// Index into `shares` for a page that does not count.
const UNRELATED: usize = 64;

/// For each number of sets, the number of pages above another page in its set.
pub(super) type Above = [u8; MAX_COUNTS];

/// The most recent pages, latest first.
#[derive(Clone, Debug)]
pub(super) struct RecentPages {
    tags: [u64; WORDS],
    len: usize,
    max: usize,
    /// By the number of low bits that two page numbers have in common: a one for each number of sets with which the pages
    /// share a set. All zero at [`UNRELATED`].
    shares: Box<[Above; 128]>,
    /// For each number of sets, the least number of ways under study.
    least: Above,
}

impl RecentPages {
    /// Creates an empty list of at most `max` pages (up to [`MAX_PAGES`]; 0 disables it). `counts` has each number of sets,
    /// ascending, with its least number of ways.
    pub fn new(max: usize, counts: &[(u32, u32)]) -> RecentPages {
        assert!(max <= MAX_PAGES && counts.len() <= MAX_COUNTS);
        let shares = |bits: usize| {
            let mut shares = [0; MAX_COUNTS];
            let all = counts.iter().zip(&mut shares).filter(|_| bits < UNRELATED);
            all.for_each(|(&(count, _), share)| *share = u8::from(count.ilog2() as usize <= bits));
            shares
        };
        let mut least = [u8::MAX; MAX_COUNTS];
        counts.iter().zip(&mut least).for_each(|(&(_, ways), least)| *least = ways.min(255) as u8);
        RecentPages { tags: [EMPTY; WORDS], len: 0, max, shares: Box::new(std::array::from_fn(shares)), least }
    }

    /// Returns whether `tag` is the most recent page.
    #[inline(always)]
    pub fn is_first(&self, tag: u64) -> bool {
        self.tags[0] == tag
    }

    /// Returns the depth of `tag`; `None` if it is not a recent page.
    #[inline(always)]
    pub fn find(&self, tag: u64) -> Option<usize> {
        find_in_slice(&self.tags, tag)
    }

    /// Returns, for each number of sets, how many of the first `depth` recent pages (at most `WITHIN`) share the set of `tag`.
    #[inline(always)]
    pub fn above_in_set<const WITHIN: usize>(&self, tag: u64, depth: usize) -> Above {
        let mut above = [0; MAX_COUNTS];
        // Four at a time, because a loop that ends exactly at `depth` would be mispredicted each time.
        let fours = if WITHIN <= 4 { 1 } else { depth.div_ceil(4).min(WITHIN / 4) };
        for (four, at) in self.tags.as_chunks::<4>().0[..fours].iter().zip((0..).step_by(4)) {
            for (other, at) in four.iter().zip(at..) {
                // The low bits of a tag are the page number; if those are all equal, the sizes differ.
                let alike = ((tag ^ other) | 1 << 63).trailing_zeros() as usize;
                let shares = &self.shares[if at < depth { alike } else { UNRELATED } & 127];
                above.iter_mut().zip(shares).for_each(|(above, share)| *above += share);
            }
        }
        above
    }

    /// Returns the numbers of sets, as bits, with which a page with `above` pages above it misses in some array under study.
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
        (0..MAX_COUNTS).fold(0, |missed, at| missed | u32::from(above[at] >= self.least[at]) << at)
    }

    /// Moves `tag`, which is at `depth`, less than `WITHIN`, to the front.
    #[inline(always)]
    pub fn move_to_front<const WITHIN: usize>(&mut self, depth: usize, tag: u64) {
        u64::push_front(&mut self.tags[..WITHIN], depth, tag);
    }

    /// Inserts `tag` in front. Returns the page that leaves; `None` if there was room.
    #[inline]
    pub fn insert(&mut self, tag: u64) -> Option<u64> {
        u64::push_front(&mut self.tags, self.len, tag);
        if self.len < self.max {
            self.len += 1;
            return None;
        }
        Some(std::mem::replace(&mut self.tags[self.len], EMPTY))
    }

    /// Returns the number of recent pages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the list has room for any page.
    pub fn is_enabled(&self) -> bool {
        self.max > 0
    }

    /// Returns all recent pages, latest first.
    pub fn tags(&self) -> &[u64] {
        &self.tags[..self.len]
    }

    /// Removes and returns the least recent page; `None` if there is none.
    pub fn take_last(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        Some(std::mem::replace(&mut self.tags[self.len], EMPTY))
    }
}
