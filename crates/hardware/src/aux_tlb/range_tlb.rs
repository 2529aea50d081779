//! The range TLB (Karakostas et al. 2015, §4.1): a few entries, fully associative, with LRU replacement.
//!
//! Entries are in order of recency, so that the position of an entry is also the least size of a range TLB that holds it
//! (Mattson et al. 1970). An invalidated entry leaves a hole in its position: a range evicted from a smaller range TLB does
//! not come back when one of its entries goes. The next range that is entered closes the hole nearest to the front, which
//! is a free entry of every range TLB that large.

use crate::permission::permits;
use crate::tlb::Context;
use reach_core::{Kind, Pte, RangeTranslation, Vpn};

/// Ranges in order of recency. With a sweep there are more positions than the TLB has entries.
#[derive(Clone, Debug)]
pub(crate) struct RangeTlb {
    /// Key of the first page, by position.
    first: Vec<u64>,
    /// Number of pages; 0 in a hole.
    pages: Vec<u64>,
    /// Page-table entry of the first page.
    ptes: Vec<Pte>,
    entries: usize,
    /// Hits by position.
    hits: Vec<u64>,
}

impl RangeTlb {
    /// Creates an empty range TLB of `entries`, which also counts the hits of range TLBs of up to `sweep` entries.
    pub fn new(entries: usize, sweep: usize) -> RangeTlb {
        let places = entries.max(sweep);
        RangeTlb {
            first: vec![0; places],
            pages: vec![0; places],
            ptes: vec![Pte(0); places],
            entries,
            hits: vec![0; places],
        }
    }

    /// Returns the entry of `vpn`, and whether its range was used last. Records a use only if the entry permits a reference
    /// of `kind`.
    pub fn search(&mut self, context: Context, vpn: Vpn, kind: Kind) -> Option<(Pte, bool)> {
        let key = context.key(vpn);
        let place = self.first.iter().zip(&self.pages).position(|(first, pages)| key.wrapping_sub(*first) < *pages)?;
        self.hits[place] += 1;
        if place >= self.entries {
            return None;
        }
        let pte = self.ptes[place];
        let pte = pte.with_pfn(pte.pfn() + (key - self.first[place]));
        if permits(pte, kind) {
            self.move_up(place);
        }
        Some((pte, place == 0))
    }

    /// Inserts `range`. Ranges that overlap it are older, smaller forms of it, and are dropped.
    pub fn insert(&mut self, context: Context, range: &RangeTranslation) {
        let mut same = None;
        for place in 0..self.pages.len() {
            if !self.overlaps(place, context, range.vpn, range.pages) {
                continue;
            }
            if self.first[place] == context.key(range.vpn) && self.pages[place] == range.pages {
                same = Some(place);
            } else {
                self.pages[place] = 0;
            }
        }
        match same {
            Some(place) => self.move_up(place),
            None => {
                let last = self.first_hole(self.pages.len()).unwrap_or(self.pages.len() - 1);
                self.rotate(last);
                self.first[0] = context.key(range.vpn);
                self.pages[0] = range.pages;
            }
        }
        self.ptes[0] = range.pte;
    }

    /// Drops every range of `context` that has a page in `[vpn, vpn + pages)` (§4.3: INVLPG).
    pub fn invalidate(&mut self, context: Context, vpn: Vpn, pages: u64) {
        for place in 0..self.pages.len() {
            if self.overlaps(place, context, vpn, pages) {
                self.pages[place] = 0;
            }
        }
    }

    /// Drops every range.
    pub fn clear(&mut self) {
        self.pages.fill(0);
    }

    /// Returns, for range TLBs of each number of entries from 1 on, how many searches would have hit.
    pub fn hits_by_entries(&self) -> Vec<u64> {
        let sum = |all: &mut u64, hits: &u64| {
            *all += hits;
            Some(*all)
        };
        self.hits.iter().scan(0, sum).collect()
    }

    /// Sets the counts of [`RangeTlb::hits_by_entries`] to 0.
    pub fn reset_hits(&mut self) {
        self.hits.fill(0);
    }

    /// Returns the ranges held of `context`, the most recently used first.
    pub fn ranges(&self, context: Context) -> Vec<RangeTranslation> {
        let held = (0..self.entries.min(self.pages.len())).filter(|&place| self.pages[place] > 0);
        held.filter(|&place| context.owns(self.first[place]))
            .map(|place| RangeTranslation {
                vpn: Context::vpn_of(self.first[place]),
                pages: self.pages[place],
                pte: self.ptes[place],
            })
            .collect()
    }

    fn overlaps(&self, place: usize, context: Context, vpn: Vpn, pages: u64) -> bool {
        let first = Context::vpn_of(self.first[place]).0;
        self.pages[place] > 0
            && context.owns(self.first[place])
            && first < vpn.0.saturating_add(pages)
            && first + self.pages[place] > vpn.0
    }

    /// Moves the range at `place` to the front. Those before it move back by one, up to a hole if there is one.
    fn move_up(&mut self, place: usize) {
        match self.first_hole(place) {
            None => self.rotate(place),
            Some(hole) => {
                self.rotate(hole);
                (self.first[0], self.pages[0], self.ptes[0]) = (self.first[place], self.pages[place], self.ptes[place]);
                self.pages[place] = 0;
            }
        }
    }

    fn first_hole(&self, before: usize) -> Option<usize> {
        self.pages[..before].iter().position(|&pages| pages == 0)
    }

    fn rotate(&mut self, last: usize) {
        if last > 0 {
            self.first[..=last].rotate_right(1);
            self.pages[..=last].rotate_right(1);
            self.ptes[..=last].rotate_right(1);
        }
    }
}
