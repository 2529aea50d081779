//! Demotion: size by size down to base pages, and at the first write to a clean superpage (Navarro et al. §4.6 and 4.7).

use crate::{Operation, OutOfMemory, Vm, soft};
use reach_core::{Asid, Kind, Label, MappedPage, PageShift, Pte, PteWrites, Vpn};

impl Vm {
    /// Returns `pte` for a page that is mapped because of a reference of `kind`. Where superpages are made by reservation, it
    /// is accessed; after a store it is dirty, otherwise its first store may have to fault.
    pub(crate) fn touched(&self, pte: Pte, kind: Kind) -> Pte {
        match (&self.superpages, kind) {
            (None, _) => pte,
            (Some(_), Kind::Store) => self.watch(pte.with_accessed(true).with_dirty(true)),
            (Some(_), _) => self.watch(pte.with_accessed(true)),
        }
    }

    /// Returns `pte` with [`Pte::WATCHED`] set, so that the first store faults, if the page is clean and writable and the
    /// policy needs that: the first store to one page of an extent decides whether the extent may be one page.
    pub(crate) fn watch(&self, pte: Pte) -> Pte {
        let Some(policy) = &self.superpages else { return pte };
        let wanted = policy.watch_all || pte.shift() > self.base() || pte.watched();
        // Digests are compared for pages whose first write was noticed.
        let wanted = wanted && (!policy.partly_dirty || policy.digest.is_some());
        pte.with_watched(wanted && pte.writable() && !pte.dirty())
    }

    /// Returns the entry of a page that becomes writable and is stored to at once. For [`Vm::protect`].
    pub(crate) fn stored(&self, entry: &MappedPage) -> Pte {
        self.touched(entry.pte.with_writable(true), Kind::Store)
    }

    /// Demotes the page that holds `vpn` down to base pages. With reservations this goes a size at a time, so that the pages
    /// apart from `vpn` stay as large as they can (§4.6).
    pub(crate) fn demote_for(&mut self, asid: Asid, vpn: Vpn, label: Label) -> Result<(), OutOfMemory> {
        if self.superpages.is_none() {
            let base = self.base();
            return self.demote(asid, vpn, base, label);
        }
        while let Some(entry) = self.at(asid).table().page(vpn).filter(|entry| entry.pte.shift() > self.base()) {
            let smaller = *self.next_smaller(entry.pte.shift());
            self.demote(asid, vpn, smaller, label)?;
        }
        Ok(())
    }

    fn next_smaller(&self, size: PageShift) -> &PageShift {
        self.options.sizes.iter().rev().find(|&&smaller| smaller < size).unwrap_or(&self.options.sizes[0])
    }

    /// Charges for demoting all superpages in these pages, which are about to be unmapped, size by size down to base pages,
    /// where the system unmaps so. Only demotions that rewrite entries at the same level count.
    pub(crate) fn charge_demotions_to_unmap(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        if !self.superpages.as_ref().is_some_and(|policy| policy.demote_to_unmap) {
            return;
        }
        let base = self.base();
        let whole = |entry: &MappedPage| entry.pte.shift() == base || entry.pte.soft() & soft::WHOLE != 0;
        for entry in self.at(asid).table().pages(vpn, pages).iter().filter(|entry| !whole(entry)) {
            let table = self.at(asid).table();
            let Some(at) = table.find(entry.vpn).map(|(node, index)| table.entry_addr(node, index)) else { continue };
            let (layout, size) = (&self.options.layout, entry.pte.shift());
            let steps = self
                .options
                .sizes
                .windows(2)
                .filter(|step| step[1] <= size && layout.placement(step[0]).0 == layout.placement(step[1]).0);
            let demotions: u64 = steps.clone().map(|step| 1 << (size.0 - step[1].0)).sum();
            let (entries, steps) = (layout.placement(size).1, steps.count());
            for _ in 0..steps {
                self.account_rewrite(asid, PteWrites { at, entries, nodes: 0 }, size, Operation::Demote, label);
            }
            self.charge_shootdowns(asid, demotions, label);
            self.trap_invalidations(asid, entry.vpn, demotions, label);
            self.tally(asid, |c| c.demotions += demotions);
        }
    }

    /// Answers the first store of the running process to a clean, watched page. A clean superpage is demoted down to the
    /// page, so that the system knows which pages are dirty; when all are, they are promoted again (§4.7).
    ///
    /// # Errors
    /// When there is no memory for the page-table nodes of a demotion.
    pub fn first_write(&mut self, vpn: Vpn) -> Result<(), OutOfMemory> {
        let asid = self.current();
        self.charge(Label::Fault, self.options.costs.trap);
        let Some(entry) = self.at(asid).table().page(vpn) else { return Ok(()) };
        let (first, pages) = match self.partly_dirty() {
            true => (entry.vpn, entry.pte.shift().base_pages(self.base())),
            false => (vpn, 1),
        };
        if pages == 1 {
            self.demote_for(asid, vpn, Label::Remap)?;
        }
        self.note_written(entry.pte.pfn() + (vpn - entry.vpn));
        self.protect(asid, first, pages, Label::Fault, Vm::stored)?;
        self.promote_around(asid, vpn)
    }
}
