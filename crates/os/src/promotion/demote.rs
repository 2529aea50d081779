//! Superpages cease to be: size by size down to base pages, and at the first write to one that is clean (Navarro et al. §4.6
//! and 4.7).

use crate::{Operation, OutOfMemory, Vm, soft};
use reach_core::{Asid, Kind, Label, MappedPage, PageShift, Pte, PteWrites, Vpn};

impl Vm {
    /// `pte` as it is to be when its page is mapped because of a reference of `kind`: after a store it is dirty,
    /// otherwise its first store is to be noticed. Only where superpages are made by reservation.
    pub(crate) fn touched(&self, pte: Pte, kind: Kind) -> Pte {
        match (&self.superpages, kind) {
            (None, _) => pte,
            (Some(_), Kind::Store) => self.watch(pte.with_accessed(true).with_dirty(true)),
            (Some(_), _) => self.watch(pte.with_accessed(true)),
        }
    }

    /// `pte` with the first store to it noticed if it is clean and can be stored to. The first store to one page of an
    /// extent decides whether the extent may be, or become, one page.
    pub(crate) fn watch(&self, pte: Pte) -> Pte {
        let Some(how) = &self.superpages else { return pte };
        let wanted = how.watch_all || pte.shift() > self.base() || pte.watched();
        // Digests are compared for pages whose first write was seen, so that it must be.
        let wanted = wanted && (!how.partly_dirty || how.digest.is_some());
        pte.with_watched(wanted && pte.writable() && !pte.dirty())
    }

    /// For [`Vm::protect`]: the page may be, and at once is, stored to.
    pub(crate) fn stored(&self, entry: &MappedPage) -> Pte {
        self.touched(entry.pte.with_writable(true), Kind::Store)
    }

    /// The page that holds `vpn` is a base page afterwards. With reservations this goes a size at a time, so that what
    /// lies apart from `vpn` stays as large as it can (§4.6).
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

    /// Charges for demoting all superpages in this range, which is about to be unmapped, size by size down to base
    /// pages, where the system unmaps so. Only sizes that rewrite the entries they stand in are taken apart.
    pub(crate) fn take_apart(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        if !self.superpages.as_ref().is_some_and(|how| how.demote_to_unmap) {
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
                self.rewrote(asid, PteWrites { at, entries, nodes: 0 }, size, Operation::Demote, label);
            }
            self.ledger.charge(label, demotions * self.options.costs.shootdown);
            self.tally(asid, |c| {
                c.demotions += demotions;
                c.shootdowns += demotions;
            });
        }
    }

    /// A store to a clean page that is watched. A clean superpage is demoted down to the page, so that it stays known
    /// which pages are dirty; when all are, they become one again (§4.7).
    pub fn first_write(&mut self, vpn: Vpn) -> Result<(), OutOfMemory> {
        let asid = self.current;
        self.ledger.charge(Label::Fault, self.options.costs.trap);
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
