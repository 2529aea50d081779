//! The range TLB (Karakostas et al. 2015, §4.1): few entries, any of which may hold any range; the least recently used goes.
//!
//! Entries stand in order of recency, so that an entry's place is also the size from which on a range TLB would hold it
//! (Mattson et al. 1970). An invalidated entry leaves a hole in its place: what has been pushed out of a smaller range TLB
//! does not come back when one of its entries goes. The next range that comes closes the hole nearest to the front, which
//! is the free entry of every range TLB that reaches so far.

use crate::mmu::allows;
use crate::tlb::Context;
use reach_core::{Kind, Pte, RangeTranslation, Vpn};

/// Ranges by recency, with more than the entries that there are where others are to be counted.
#[derive(Clone, Debug)]
pub(crate) struct RangeTlb {
    /// The first page of each, with its context.
    first: Vec<u64>,
    /// How many pages; none in a hole.
    pages: Vec<u64>,
    /// The first page's entry.
    ptes: Vec<Pte>,
    entries: usize,
    /// Hits by place.
    hits: Vec<u64>,
}

impl RangeTlb {
    /// An empty one of `entries`, which also counts for others of up to `sweep`.
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

    /// The entry of `vpn`, and whether it is in the range used last. One that forbids a reference of `kind` is not used.
    pub fn search(&mut self, context: Context, vpn: Vpn, kind: Kind) -> Option<(Pte, bool)> {
        let key = context.key(vpn);
        let place = self.first.iter().zip(&self.pages).position(|(first, pages)| key.wrapping_sub(*first) < *pages)?;
        self.hits[place] += 1;
        if place >= self.entries {
            return None;
        }
        let pte = self.ptes[place];
        let pte = pte.with_pfn(pte.pfn() + (key - self.first[place]));
        if allows(pte, kind) {
            self.move_up(place);
        }
        Some((pte, place == 0))
    }

    /// Enters `range`. What it overlaps are older, smaller forms of it, and go.
    pub fn enter(&mut self, context: Context, range: &RangeTranslation) {
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

    /// How many searches a range TLB of each number of entries, from 1 on, would have answered.
    pub fn hits_by_entries(&self) -> Vec<u64> {
        let sum = |all: &mut u64, hits: &u64| {
            *all += hits;
            Some(*all)
        };
        self.hits.iter().scan(0, sum).collect()
    }

    /// What it holds of `context`. For checks.
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

    /// The range at `place` comes first. Those before it move back by one, up to a hole if there is one.
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
