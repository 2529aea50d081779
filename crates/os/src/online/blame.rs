//! Romer's full `online` policy: when a page is missed that was replaced earlier, those candidates are to blame that then
//! had several entries in the TLB; as one page they would have left room.

use super::{Candidate, Candidates};
use reach_core::{Asid, Vpn};
use std::collections::{BTreeMap, BTreeSet};

/// What the TLB holds, and who is to blame for what it does not.
#[derive(Clone, Debug, Default)]
pub(super) struct Blame {
    /// Entries by address space, first base page and order, with how many arrays hold them.
    entries: BTreeMap<(Asid, Vpn, u8), u32>,
    /// By replaced page.
    to_blame: BTreeMap<(Asid, Vpn, u8), Vec<Candidate>>,
}

impl Blame {
    pub fn entered(&mut self, asid: Asid, vpn: Vpn, order: u8) {
        *self.entries.entry((asid, vpn, order)).or_default() += 1;
    }

    /// The page is still among what `candidates` count.
    pub fn left(&mut self, asid: Asid, vpn: Vpn, order: u8, replaced: bool, candidates: &Candidates) {
        let page = (asid, vpn, order);
        match self.entries.get_mut(&page) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.entries.remove(&page);
            }
        }
        if !replaced {
            self.to_blame.remove(&page);
            return;
        }
        let (mut seen, mut several) = (BTreeSet::new(), BTreeSet::new());
        for &(asid, vpn, order) in self.entries.keys() {
            for level in candidates.level(order) + 1..=candidates.top() {
                let around = candidates.around(asid, level, vpn);
                if !seen.insert(around) {
                    several.insert(around);
                }
            }
        }
        let unrelated = |c: &Candidate| c.asid != asid || candidates.around(asid, c.level, vpn).vpn != c.vpn;
        self.to_blame.insert(page, several.into_iter().filter(unrelated).collect());
    }

    /// The page that holds `vpn`, of this order, is missed: who is to blame.
    pub fn missed(&mut self, asid: Asid, vpn: Vpn, order: u8) -> Vec<Candidate> {
        self.to_blame.remove(&(asid, Vpn(vpn.0 >> order << order), order)).unwrap_or_default()
    }

    pub fn exited(&mut self, asid: Asid) {
        self.entries.retain(|(of, ..), _| *of != asid);
        self.to_blame.retain(|(of, ..), _| *of != asid);
    }
}
