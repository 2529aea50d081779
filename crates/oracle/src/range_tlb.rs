//! The twin of the range TLB: a list of ranges, the most recently used first.

use reach_core::{Asid, Pte, RangeTranslation, Vpn};

/// A range TLB.
#[derive(Clone, Debug)]
pub struct RangeTlb {
    entries: usize,
    held: Vec<(Asid, RangeTranslation)>,
    /// The MRU pointer: the entry used last, until it is dropped.
    last: Option<(Asid, RangeTranslation)>,
}

impl RangeTlb {
    /// Creates an empty range TLB.
    pub fn new(entries: u32) -> RangeTlb {
        RangeTlb { entries: entries as usize, held: Vec::new(), last: None }
    }

    /// Returns the range that holds `vpn`, and whether it was the entry used last. It counts as a use only if the range
    /// `permits` the reference.
    pub fn search(&mut self, asid: Asid, vpn: Vpn, permits: impl Fn(Pte) -> bool) -> Option<(RangeTranslation, bool)> {
        let at = self.held.iter().position(|(owner, range)| *owner == asid && range.vpn <= vpn && vpn < range.end())?;
        let found = self.held[at];
        let was_last = self.last == Some(found);
        if permits(found.1.pte) {
            self.held.remove(at);
            self.held.insert(0, found);
            self.last = Some(found);
        }
        Some((found.1, was_last))
    }

    /// Inserts a range, and drops all that it overlaps.
    pub fn insert(&mut self, asid: Asid, range: RangeTranslation) {
        self.invalidate(asid, range.vpn, range.pages);
        self.held.insert(0, (asid, range));
        self.last = Some((asid, range));
        self.held.truncate(self.entries);
    }

    /// Drops every range of `asid` that overlaps the `pages` from `vpn` on.
    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let end = u128::from(vpn.0) + u128::from(pages);
        self.held.retain(|(owner, range)| *owner != asid || range.end() <= vpn || u128::from(range.vpn.0) >= end);
        self.last = self.last.filter(|last| self.held.contains(last));
    }

    /// Returns all entries, the most recently used first.
    pub fn contents(&self) -> Vec<(Asid, RangeTranslation)> {
        self.held.clone()
    }
}
