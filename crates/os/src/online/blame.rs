//! Blame for evictions, in Romer's full `online` policy: when an evicted page is missed, the candidates that had several entries in the
//! TLB at its eviction are charged. As one page they would have left room for it.

use super::{Candidate, Candidates};
use reach_core::{Asid, Vpn};
use std::collections::{BTreeMap, BTreeSet};

/// The contents of the TLB, and the candidates to blame for evictions from it.
#[derive(Clone, Debug, Default)]
pub(super) struct Blame {
    /// Entries by address space, first base page and order, with how many arrays hold them.
    entries: BTreeMap<(Asid, Vpn, u8), u32>,
    /// Candidates to blame, by evicted page.
    to_blame: BTreeMap<(Asid, Vpn, u8), Vec<Candidate>>,
}

impl Blame {
    /// Records that the TLB has a new entry.
    pub fn inserted(&mut self, asid: Asid, vpn: Vpn, order: u8) {
        *self.entries.entry((asid, vpn, order)).or_default() += 1;
    }

    /// Records that an entry was removed, by eviction or otherwise. Call before `candidates` records it.
    pub fn removed(&mut self, asid: Asid, vpn: Vpn, order: u8, evicted: bool, candidates: &Candidates) {
        let page = (asid, vpn, order);
        match self.entries.get_mut(&page) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.entries.remove(&page);
            }
        }
        if !evicted {
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

    /// Returns the candidates to blame for a miss on the page of this order that holds `vpn`.
    pub fn missed(&mut self, asid: Asid, vpn: Vpn, order: u8) -> Vec<Candidate> {
        self.to_blame.remove(&(asid, Vpn(vpn.0 >> order << order), order)).unwrap_or_default()
    }

    /// Forgets an address space that has ended.
    pub fn exited(&mut self, asid: Asid) {
        self.entries.retain(|(of, ..), _| *of != asid);
        self.to_blame.retain(|(of, ..), _| *of != asid);
    }
}
