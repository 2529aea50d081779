//! The twin of a range TLB: a list of ranges, the last used first.

use reach_core::{Asid, Pte, RangeTranslation, Vpn};

/// Ranges of address spaces.
#[derive(Clone, Debug)]
pub struct RangeTlb {
    entries: usize,
    held: Vec<(Asid, RangeTranslation)>,
    /// The MRU pointer: what was used last, until it goes.
    last: Option<(Asid, RangeTranslation)>,
}

impl RangeTlb {
    /// An empty one.
    pub fn new(entries: u32) -> RangeTlb {
        RangeTlb { entries: entries as usize, held: Vec::new(), last: None }
    }

    /// The range that holds `vpn`, and whether it was used last. Counts as a use if it `may` be used.
    pub fn search(&mut self, asid: Asid, vpn: Vpn, may: impl Fn(Pte) -> bool) -> Option<(RangeTranslation, bool)> {
        let at = self.held.iter().position(|(owner, range)| *owner == asid && range.vpn <= vpn && vpn < range.end())?;
        let found = self.held[at];
        let used_last = self.last == Some(found);
        if may(found.1.pte) {
            self.held.remove(at);
            self.held.insert(0, found);
            self.last = Some(found);
        }
        Some((found.1, used_last))
    }

    /// Enters a range in place of all that it overlaps.
    pub fn enter(&mut self, asid: Asid, range: RangeTranslation) {
        self.invalidate(asid, range.vpn, range.pages);
        self.held.insert(0, (asid, range));
        self.last = Some((asid, range));
        self.held.truncate(self.entries);
    }

    /// Drops every range of `asid` with a page among these.
    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let end = u128::from(vpn.0) + u128::from(pages);
        self.held.retain(|(owner, range)| *owner != asid || range.end() <= vpn || u128::from(range.vpn.0) >= end);
        self.last = self.last.filter(|last| self.held.contains(last));
    }

    /// All that it holds.
    pub fn held(&self) -> Vec<(Asid, RangeTranslation)> {
        self.held.clone()
    }
}
