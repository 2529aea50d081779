//! Patterns: the addresses that a bench visits, again and again, each load or fetch waiting for the one before.

pub(crate) mod jump;
mod walk;

pub(crate) use walk::ENTRIES;

use reach_core::Random;

/// Bytes of a line, and of the distance between two visited places in one page. All processors that the probe knows have
/// lines of 64 bytes, or of 128 that are fetched in halves.
pub const LINE: u64 = 64;

/// Bytes of a pair of lines, which many processors fetch together.
pub const PAIR: u64 = 128;

/// Where filler lies, far beyond all pages of patterns with strides.
pub const FILLER: u64 = 1 << 40;

/// The size of the pages that hold a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Page {
    /// 4 KB, by `MADV_NOHUGEPAGE`.
    Small,
    /// 2 MB, by `MADV_HUGEPAGE`.
    Huge,
}

impl Page {
    /// Returns the bytes of a page.
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// Returns the binary logarithm of the bytes of a page.
    pub const fn shift(self) -> u32 {
        match self {
            Page::Small => 12,
            Page::Huge => 21,
        }
    }

    /// Returns the name as machine files write sizes, in lower case: `4k` or `2m`.
    pub const fn name(self) -> &'static str {
        match self {
            Page::Small => "4k",
            Page::Huge => "2m",
        }
    }
}

/// How a pattern visits its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By loads, each of the address that the load before has read.
    Load,
    /// By fetches of instructions, each of which jumps to the next place.
    Fetch,
}

/// Chains of addresses. A bench follows all chains at once, one access of each a step, and each chain from its end to its
/// start again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The size of the pages.
    pub page: Page,
    /// How places are visited.
    pub access: Access,
    /// Offsets in bytes from the start of the bench's area, in the order of the visits. All are distinct multiples of 64. There is
    /// at least one chain, and all chains have the same length of at least 1. Fetches have one chain.
    pub chains: Vec<Vec<u64>>,
}

impl Pattern {
    /// The most chains of a pattern.
    pub const MAX_CHAINS: usize = 16;

    /// Visits the places of the only chain of `page` in this order, by loads.
    fn loads(page: Page, chain: Vec<u64>) -> Pattern {
        Pattern { page, access: Access::Load, chains: vec![chain] }
    }

    /// Visits the places of the only chain by `access`.
    pub fn by(self, access: Access) -> Pattern {
        Pattern { access, ..self }
    }

    /// Visits one line of each of `pages`, given by number and distinct, in random order. Lines differ in their place in the
    /// page, so that they spread over the sets of caches.
    pub fn pages(page: Page, pages: impl IntoIterator<Item = u64>) -> Pattern {
        Pattern::pages_from(page, pages, 0)
    }

    /// Does the same with other lines: number `line` of the first page, and so on.
    pub fn pages_from(page: Page, pages: impl IntoIterator<Item = u64>, line: u64) -> Pattern {
        let lines = page.bytes() / LINE;
        let place = |(i, number): (usize, u64)| number * page.bytes() + (i as u64 + line) % lines * LINE;
        Pattern::loads(page, shuffled(pages.into_iter().enumerate().map(place).collect()))
    }

    /// Visits these places, distinct multiples of 64, in random order.
    pub fn places(page: Page, places: impl IntoIterator<Item = u64>) -> Pattern {
        Pattern::loads(page, shuffled(places.into_iter().collect()))
    }

    /// Visits one line of each of `parts` consecutive parts of 4 KB of huge pages, in random order. Lines differ in their place
    /// in the part, so that they spread over the sets of caches.
    pub fn parts(parts: u64) -> Pattern {
        let lines = Page::Small.bytes() / LINE;
        // The next 64 parts begin one line further: they would be in the sets of the first 64 else.
        let place = |i: u64| i * Page::Small.bytes() + (i + i / lines) % lines * LINE;
        Pattern::loads(Page::Huge, shuffled((0..parts).map(place).collect()))
    }

    /// Visits `lines` consecutive lines in random order.
    pub fn lines(page: Page, lines: u64) -> Pattern {
        Pattern::loads(page, shuffled((0..lines).map(|line| line * LINE).collect()))
    }

    /// Visits the first lines of `pairs` consecutive pairs: all of the first page in random order, then those of the next.
    /// Translations are rarely missed, however many pages there are.
    pub fn page_by_page(page: Page, pairs: u64) -> Pattern {
        let each = page.bytes() / PAIR;
        let pages = (0..pairs.div_ceil(each)).map(|p| (p * each..pairs.min((p + 1) * each)).map(|pair| pair * PAIR));
        Pattern::loads(page, pages.flat_map(|page| shuffled(page.collect())).collect())
    }

    /// Visits both lines of `pairs` consecutive pairs of huge pages, one after the other: all pairs of the first page in random
    /// order, then those of the next.
    pub fn both_of_pairs(pairs: u64) -> Pattern {
        let Pattern { chains, .. } = Pattern::page_by_page(Page::Huge, pairs);
        Pattern::loads(Page::Huge, chains.into_iter().flatten().flat_map(|first| [first, first + LINE]).collect())
    }

    /// Visits `lines` consecutive lines of huge pages by `chains` chains: each goes along its own part, line by line.
    pub fn streams(lines: u64, chains: usize) -> Pattern {
        Pattern::loads(Page::Huge, (0..lines).map(|line| line * LINE).collect()).divided(chains)
    }

    /// Adds to the end of the only chain `lines` lines of a few pages of their own, which replace what the first-level data
    /// cache holds: an entry of a page table is then read from a later one.
    pub fn with_filler(mut self, lines: u64) -> Pattern {
        let each = self.page.bytes() / LINE;
        // Every eighth page, and no first one of eight: sets that other pages use stay free.
        let place = |line: u64| FILLER + (line / each * 8 + 1) * self.page.bytes() + line % each * LINE;
        self.chains[0].extend((0..lines).map(place));
        self
    }

    /// Divides the only chain into `chains` of equal length. Drops what is left over.
    pub fn divided(self, chains: usize) -> Pattern {
        let length = self.steps() / chains;
        let chains = self.chains[0].chunks_exact(length).take(chains).map(<[u64]>::to_vec).collect();
        Pattern { chains, ..self }
    }

    /// Returns the steps of a lap.
    pub fn steps(&self) -> usize {
        self.chains[0].len()
    }

    /// Returns the end of the last page that the pattern visits, as an offset.
    pub fn end(&self) -> u64 {
        let last = self.chains.iter().flatten().max().copied().unwrap_or(0);
        (last >> self.page.shift()).saturating_add(1) << self.page.shift()
    }
}

/// Returns `offsets` in random order: always the same for the same number of them.
fn shuffled(mut offsets: Vec<u64>) -> Vec<u64> {
    let mut random = Random::new(offsets.len() as u64);
    for i in (1..offsets.len()).rev() {
        offsets.swap(i, random.below(i as u64 + 1) as usize);
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn patterns_visit_each_place_once_and_each_page_at_another_line() {
        let pattern = Pattern::pages(Page::Small, (0..64).map(|i| i * 16));
        let places: BTreeSet<u64> = pattern.chains[0].iter().copied().collect();
        assert_eq!(places.len(), 64);
        assert_eq!(places.iter().map(|place| place % 4096).collect::<BTreeSet<_>>().len(), 64);
        assert_eq!(pattern.end(), (63 * 16 + 1) * 4096);
        let turned = Pattern::pages_from(Page::Small, (0..64).map(|i| i * 16), 17);
        assert_eq!(turned.end(), pattern.end());
        assert!(turned.chains[0].iter().all(|place| !places.contains(place)), "each page at another line");
        let parts = Pattern::parts(1024);
        let sets: BTreeSet<u64> = parts.chains[0].iter().map(|place| place % 65_536).collect();
        assert_eq!(sets.len(), 1024, "each line in another set of a cache of 1,024 sets");
        assert_eq!(parts.end(), 2 * Page::Huge.bytes());
        let lines = Pattern::page_by_page(Page::Small, 70);
        assert_eq!(lines.chains[0].iter().copied().collect::<BTreeSet<_>>().len(), 70);
        assert!(lines.chains[0][..32].iter().all(|&place| place < 4096));
    }

    #[test]
    fn divided_chains_have_one_length_and_no_place_in_common() {
        let pattern = Pattern::lines(Page::Huge, 100).divided(3);
        assert_eq!(pattern.chains.iter().map(Vec::len).collect::<Vec<_>>(), [33; 3]);
        assert_eq!(pattern.chains.iter().flatten().collect::<BTreeSet<_>>().len(), 99);
    }
}
