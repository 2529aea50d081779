//! The pages used last, kept apart from the orders of all sets.
//!
//! Between two pages of this one list stand in each order of each number of sets just those of its pages in between that
//! share the set, as the low bits of their numbers say (Hill and Smith 1989, all-associativity simulation). So a use of a
//! page that is in it needs no order of any set, changes none, and most often says at once that every array under study
//! holds the page. Orders and stack hear of a page when it joins the list and when it sinks out of it.

use crate::array::{EMPTY, Word, find_in_many};

/// The most pages.
pub(super) const MOST: usize = 30;
/// The most numbers of sets: the powers of two below 2^32.
pub(super) const COUNTS: usize = 32;

/// How many pages stand above another in its set, for each number of sets.
pub(super) type Above = [u8; COUNTS];

/// The pages used last, latest first.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    tags: [u64; COUNTS],
    len: usize,
    most: usize,
    /// By how many low bits of their numbers two pages have in common: a one for each number of sets of which they share
    /// one.
    shares: Vec<Above>,
    /// For each number of sets the least number of ways that is asked about.
    least: Above,
}

impl Recent {
    /// At most so many pages (up to [`MOST`]). `counts`: each number of sets, ascending, with its least number of ways.
    pub fn new(most: usize, counts: &[(u32, u32)]) -> Recent {
        assert!(most <= MOST && counts.len() <= COUNTS);
        let shares = |bits: u32| {
            let mut shares = [0; COUNTS];
            counts.iter().zip(&mut shares).for_each(|(&(count, _), share)| *share = u8::from(count.ilog2() <= bits));
            shares
        };
        let mut least = [u8::MAX; COUNTS];
        counts.iter().zip(&mut least).for_each(|(&(_, ways), least)| *least = ways.min(255) as u8);
        Recent { tags: [EMPTY; COUNTS], len: 0, most, shares: (0..64).map(shares).collect(), least }
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

    /// What stands above `tag`, if that is at `depth` ([`Recent::len`]: below all).
    #[inline(always)]
    pub fn above(&self, tag: u64, depth: usize) -> Above {
        let mut above = [0; COUNTS];
        for other in &self.tags[..depth] {
            // Tags begin with the number; where all of it is the same, sizes differ.
            let shares = &self.shares[((tag ^ other) | 1 << 63).trailing_zeros() as usize];
            above.iter_mut().zip(shares).for_each(|(above, share)| *above += share);
        }
        above
    }

    /// The numbers of sets, as bits, for which a page with so many above it is missing from some array under study.
    #[inline(always)]
    pub fn missed(&self, above: &Above) -> u32 {
        (0..COUNTS).fold(0, |missed, at| missed | u32::from(above[at] >= self.least[at]) << at)
    }

    /// The page at `depth` is used.
    #[inline(always)]
    pub fn raise(&mut self, depth: usize, tag: u64) {
        u64::push_front(&mut self.tags, depth, tag);
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
