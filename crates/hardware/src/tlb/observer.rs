//! The interface between the TLBs of a memory-management unit and what observes them.
//!
//! Miss curves, the event log of software-managed TLBs, and the note of ITLB victims implement it. The unit calls it outside
//! the path of first-level hits only.

use super::{Context, Filled, PageSizes, Tlbs};
use reach_core::fold::PageRef;
use reach_core::{Asid, Kind, PageShift, PageTable, Pte, StopReason, Vpn};

/// A look-up for a reference to one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup {
    pub kind: Kind,
    pub context: Context,
    pub vpn: Vpn,
    /// The array in which the look-up hits, and the size of the page there; `None` for a miss in all arrays.
    pub found: Option<(usize, PageShift)>,
    /// The host's page size if the program runs in a guest; TLBs hold no larger page.
    pub host_page: Option<PageShift>,
}

/// Receives the events of the TLBs. Every event does nothing by default.
pub(crate) trait TlbObserver {
    /// A look-up is about to change the TLBs and `table`.
    fn before_lookup(&mut self, _lookup: &Lookup, _tlbs: &Tlbs, _table: &PageTable) {}

    /// A reference has been looked up, and translated if the TLBs missed. `outcome` is the reference's.
    fn after_lookup(&mut self, _lookup: &Lookup, _outcome: &Result<Pte, StopReason>, _tlbs: &Tlbs, _table: &PageTable) {
    }

    /// The hot loop has run `refs`, which all hit in the first level. No entry has changed since.
    fn front_hits(&mut self, _context: Context, _refs: &[PageRef], _tlbs: &Tlbs) {}

    /// A walk has found `pte` for a reference that it permits. The TLBs are filled next.
    fn walked(&mut self, _asid: Asid, _kind: Kind, _vpn: Vpn, _pte: Pte) {}

    /// The TLBs are about to be filled for a reference of `kind`. [`TlbObserver::filled`] follows for each array.
    fn before_fill(&mut self, _kind: Kind) {}

    /// An array has been filled for a reference of `kind`, and may have evicted an entry.
    fn filled(&mut self, _kind: Kind, _sizes: &PageSizes, _filled: Filled) {}

    /// Entries of `context` that overlap the `pages` (at least 1) base pages from `vpn` on are about to be removed.
    fn before_invalidate(&mut self, _tlbs: &Tlbs, _context: Context, _vpn: Vpn, _pages: u64) {}

    /// `context` has been assigned to the address space `asid`.
    fn assigned(&mut self, _context: Context, _asid: Asid) {}
}
