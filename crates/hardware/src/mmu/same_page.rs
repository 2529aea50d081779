//! The same-page filter: references that stay on a page need its physical address, but no look-up.
//!
//! As long as a side (instructions or data) stays on a page that it has looked up for the same kind of reference, another
//! look-up would hit the most recently used entry and change nothing ([`reach_core::fold`]).

use reach_core::{Kind, Pte, Vpn};

/// A page number that no reference has.
const NO_PAGE: Vpn = Vpn(!0);

/// The page that each side is on, with its translation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SamePageFilter {
    /// Folding is exact for the arrays of this unit, so that the filter applies.
    pub enabled: bool,
    /// Something was invalidated, or the address space or the running thread has changed, since the last run.
    stale: bool,
    /// Since then, the filter may be stale for instructions or data, so that no run of references may be skipped.
    pub unconfirmed: bool,
    code: Vpn,
    code_pte: Pte,
    data: Vpn,
    data_pte: Pte,
    /// The page of the data side has been looked up for a load, and for a store.
    loaded: bool,
    stored: bool,
}

impl SamePageFilter {
    pub fn new(enabled: bool) -> SamePageFilter {
        SamePageFilter {
            enabled,
            stale: false,
            unconfirmed: false,
            code: NO_PAGE,
            code_pte: Pte(0),
            data: NO_PAGE,
            data_pte: Pte(0),
            loaded: false,
            stored: false,
        }
    }

    /// Returns the translation of `vpn` if the side of `kind` is on that page and needs no look-up for `kind`.
    #[inline(always)]
    pub fn get(&self, kind: Kind, vpn: Vpn) -> Option<Pte> {
        let (same, pte) = match kind {
            Kind::Fetch => (self.code == vpn, self.code_pte),
            Kind::Load => (self.data == vpn && self.loaded, self.data_pte),
            Kind::Store => (self.data == vpn && self.stored, self.data_pte),
        };
        same.then_some(pte)
    }

    /// Records that `vpn` has been looked up for `kind`, with the result `pte`.
    #[inline(always)]
    pub fn set(&mut self, kind: Kind, vpn: Vpn, pte: Pte) {
        if !self.enabled {
            return;
        }
        if kind == Kind::Fetch {
            (self.code, self.code_pte) = (vpn, pte);
            return;
        }
        if self.data != vpn {
            (self.data, self.loaded, self.stored) = (vpn, false, false);
        }
        self.data_pte = pte;
        self.loaded |= kind == Kind::Load;
        self.stored |= kind == Kind::Store;
    }

    /// Clears both sides: the next reference of each is looked up.
    pub fn clear(&mut self) {
        (self.code, self.code_pte) = (NO_PAGE, Pte(0));
        self.data_pte = Pte(0);
        self.clear_data();
    }

    /// Clears the data side.
    pub fn clear_data(&mut self) {
        (self.data, self.loaded, self.stored) = (NO_PAGE, false, false);
    }

    /// Clears the filter at the next run: the pages may have left the arrays.
    pub fn set_stale(&mut self) {
        self.stale = true;
    }

    /// Begins a run. Returns whether the filter was stale; always, if `perfect`.
    pub fn begin_run(&mut self, perfect: bool) -> bool {
        // A perfect unit holds nothing: its first look-up has to see every change of the page table.
        let stale = std::mem::take(&mut self.stale) || perfect;
        if stale {
            self.clear();
        }
        stale
    }
}
