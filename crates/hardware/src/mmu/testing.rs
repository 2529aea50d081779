//! What tests may see and force.

use super::{Cursor, Mmu};
use reach_core::{Asid, Pte, Vpn};

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
}

impl Cursor {
    /// The next reference.
    pub fn position(&self) -> usize {
        self.raw
    }
}
