//! Coalesced entries: one translation of several neighbouring base pages ([`crate::config::Tlb::coalesce`] has the rule).
//!
//! Processors that coalesce compare the entries of the line that the walk has read (AMD since Zen, Arm since Cortex-A76). An
//! entry of all pages has one accessed bit and one dirty bit, so pages are coalesced only if neither has to be set any more.

use super::Mmu;
use crate::config;
use reach_core::{Kind, NodeId, PageShift, PageTable, Pte, Slot, Vpn};

/// Returns the span of the entries of `machine` that are coalesced; `None` if none are, or if it is a guest's and the host's
/// pages are smaller.
pub(super) fn span(machine: &config::Machine) -> Option<PageShift> {
    let host_page = machine.nested.as_ref().map(|nested| nested.host_page);
    let coalesces = machine.coalesces().filter(|_| machine.layout.kind.clusters());
    coalesces.filter(|&span| host_page.is_none_or(|host_page| span <= host_page))
}

impl Mmu {
    /// Fills the first `depth` levels after a walk that ended at the entry `at` of `table`, which is `pte` and translates `vpn`.
    #[inline(always)]
    pub(super) fn fill_walked(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        pte: Pte,
        at: (NodeId, usize),
        table: &PageTable,
        depth: usize,
    ) {
        let coalesced =
            self.coalesces.filter(|_| pte.shift() == self.base).and_then(|span| self.coalesce(span, at, table));
        self.counters.walks_coalesced += u64::from(coalesced.is_some());
        let entered = coalesced.unwrap_or(pte);
        match self.assist {
            None => self.fill(kind, vpn, entered, depth),
            Some(_) => self.fill_assisted(kind, vpn, entered, depth),
        }
    }

    /// Returns the entry for all base pages of the aligned `span` around the entry `at` of `table`; `None` unless all pages
    /// are alike.
    fn coalesce(&self, span: PageShift, (node, index): (NodeId, usize), table: &PageTable) -> Option<Pte> {
        let pages = span.base_pages(self.base) as usize;
        let first_index = index & !(pages - 1);
        let Slot::Leaf(first) = table.slot(node, first_index) else { return None };
        let settled = first.accessed() && (first.dirty() || !first.writable());
        let aligned = first.pfn().0.is_multiple_of(pages as u64);
        let follows = |page: usize| match table.slot(node, first_index + page) {
            Slot::Leaf(pte) => pte == first.with_pfn(first.pfn() + page as u64),
            _ => false,
        };
        (settled && aligned && (1..pages).all(follows)).then(|| first.with_shift(span))
    }
}
