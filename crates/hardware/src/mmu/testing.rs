//! Access for tests of other crates.

use super::{Cursor, Mmu};
use reach_core::{Asid, Pte, RangeTranslation, Vpn};

impl Mmu {
    /// Disables folding: looks up every reference, though folding would be exact.
    pub fn disable_folding(&mut self) {
        self.same_page.enabled = false;
    }

    /// Returns whether runs of references are folded.
    pub fn folds(&self) -> bool {
        self.same_page.enabled
    }

    /// Returns every translation held: array, address space, first base page, entry.
    pub fn contents(&self) -> Vec<(usize, Asid, Vpn, Pte)> {
        let held = |(asid, context)| {
            let held = self.tlbs.translations(context).into_iter();
            held.map(move |(array, vpn, pte)| (array, asid, vpn, pte))
        };
        self.spaces.assigned().flat_map(held).collect()
    }

    /// Returns every range held, by address space, the most recently used first.
    pub fn ranges(&self) -> Vec<(Asid, RangeTranslation)> {
        let held = |(asid, context)| {
            let ranges = self.aux_tlb.as_ref().map(|aux_tlb| aux_tlb.ranges_of(context)).unwrap_or_default();
            ranges.into_iter().map(move |range| (asid, range))
        };
        self.spaces.assigned().flat_map(held).collect()
    }

    /// Returns every page held in cluster entries, by address space.
    pub fn aux_tlb_pages(&self) -> Vec<(Asid, Vpn, Pte)> {
        let held = |(asid, context)| {
            let pages = self.aux_tlb.as_ref().map(|aux_tlb| aux_tlb.pages_of(context)).unwrap_or_default();
            pages.into_iter().map(move |(vpn, pte)| (asid, vpn, pte))
        };
        self.spaces.assigned().flat_map(held).collect()
    }
}

impl Mmu {
    /// Returns the walk assist's translations of the current address space.
    pub fn assist_translations(&self) -> Vec<(Vpn, Pte)> {
        self.assist.as_ref().map_or(Vec::new(), |attached| attached.translations(self.spaces.asid))
    }
}

impl Cursor {
    /// Returns the index of the next reference.
    pub fn position(&self) -> usize {
        self.next_ref
    }
}
