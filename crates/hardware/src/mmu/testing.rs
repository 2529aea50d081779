//! What tests may see and force.

use super::{Cursor, Mmu};
use reach_core::{Asid, Pte, RangeTranslation, Vpn};

impl Mmu {
    /// Looks every reference up, though folding would be exact.
    pub fn look_up_every_reference(&mut self) {
        self.foldable = false;
    }

    /// Whether runs of references are folded.
    pub fn folds(&self) -> bool {
        self.foldable
    }

    /// Every translation held: array, address space, first base page.
    pub fn contents(&self) -> Vec<(usize, Asid, Vpn, Pte)> {
        let mut all = Vec::new();
        for (asid, context) in self.contexts.iter().enumerate() {
            let Some(context) = *context else { continue };
            let held = self.tlbs.translations(context).into_iter();
            all.extend(held.map(|(array, vpn, pte)| (array, Asid(asid as u32), vpn, pte)));
        }
        all
    }

    /// Every range held: address space by address space, the last used first.
    pub fn ranges(&self) -> Vec<(Asid, RangeTranslation)> {
        let contexts = self.contexts.iter().enumerate().filter_map(|(asid, context)| Some((asid, (*context)?)));
        let held = |(asid, context)| {
            let ranges = self.aux_tlb.as_ref().map(|aux_tlb| aux_tlb.ranges_of(context)).unwrap_or_default();
            ranges.into_iter().map(move |range| (Asid(asid as u32), range))
        };
        contexts.flat_map(held).collect()
    }

    /// Every page held by what stands beside the last level.
    pub fn pages_aux_tlb(&self) -> Vec<(Asid, Vpn, Pte)> {
        let contexts = self.contexts.iter().enumerate().filter_map(|(asid, context)| Some((asid, (*context)?)));
        let held = |(asid, context)| {
            let pages = self.aux_tlb.as_ref().map(|aux_tlb| aux_tlb.pages_of(context)).unwrap_or_default();
            pages.into_iter().map(move |(vpn, pte)| (Asid(asid as u32), vpn, pte))
        };
        contexts.flat_map(held).collect()
    }
}

impl Cursor {
    /// The next reference.
    pub fn position(&self) -> usize {
        self.raw
    }
}
