//! Incremental promotion and demotion (Navarro et al. §4.5 to 4.7): superpages where reservations are full.

use crate::{Ladder, OutOfMemory, Reserving, Vm};
use reach_core::{Asid, Cause, Fault, Kind, Label, MappedEntry, PageShift, Pte, Vpn};

/// How a system that makes reservations treats superpages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superpages {
    /// Cycles for each page allocated, for population maps and lists.
    pub bookkeeping: u64,
    /// A superpage may be dirty in part: it is not demoted by its first write, and pages need not be equally dirty to
    /// become one (§4.7, with hash digests telling later which are).
    pub partly_dirty: bool,
}

impl Vm {
    /// From now on frames are reserved and superpages made, of `sizes` only (base first). At boot, before any process.
    /// Untouched memory is not shared then: a first load gets a frame, too, as in BSD.
    pub fn use_superpages(&mut self, sizes: Vec<PageShift>, renewed_by_freeing: bool, how: Superpages) {
        self.frames.make_reservations(Reserving { ladder: Ladder::new(&sizes), renewed_by_freeing });
        self.counters = crate::Counters::new(&sizes);
        self.options.sizes = sizes;
        self.options.zero_page = false;
        self.superpages = Some(how);
    }

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
        if self.superpages.is_some() { pte.with_watched(pte.writable() && !pte.dirty()) } else { pte }
    }

    /// For [`Vm::protect`]: the page may be, and at once is, stored to.
    pub(crate) fn stored(&self, entry: &MappedEntry) -> Pte {
        self.touched(entry.pte.with_writable(true), Kind::Store)
    }

    /// The page that holds `vpn` is a base page afterwards. With reservations this goes a size at a time, so that what
    /// lies apart from `vpn` stays as large as it can (§4.6).
    pub(crate) fn demote_for(&mut self, asid: Asid, vpn: Vpn, label: Label) -> Result<(), OutOfMemory> {
        if self.superpages.is_none() {
            let base = self.base();
            return self.demote(asid, vpn, base, label);
        }
        while let Some(entry) = self.at(asid).table.page(vpn).filter(|entry| entry.pte.shift() > self.base()) {
            let smaller = *self.next_smaller(entry.pte.shift());
            self.demote(asid, vpn, smaller, label)?;
        }
        Ok(())
    }

    fn next_smaller(&self, size: PageShift) -> &PageShift {
        self.options.sizes.iter().rev().find(|&&smaller| smaller < size).unwrap_or(&self.options.sizes[0])
    }

    /// Answers a fault of the running process by reservation, and promotes what has become full (§4.1, 4.5).
    pub fn reserved_fault(&mut self, fault: Fault) -> Result<(), OutOfMemory> {
        let view = self.fault_view(fault)?;
        let asid = self.current;
        if fault.cause == Cause::Protection && fault.kind == Kind::Store && !self.partly_dirty() {
            let page = self.at(asid).table.page(fault.vpn);
            if page.is_some_and(|page| !page.pte.dirty()) {
                self.demote_for(asid, fault.vpn, Label::Remap)?;
            }
        }
        self.demand_fault_in(fault, view)?;
        self.promote_around(asid, fault.vpn)
    }

    fn partly_dirty(&self) -> bool {
        self.superpages.as_ref().is_some_and(|how| how.partly_dirty)
    }

    /// Makes the largest page around `vpn` that can be made: full in its object's population map, in one reservation,
    /// and mapped here with equal rights and equally clean or dirty. Nothing happens where there is none larger than
    /// what is mapped.
    pub fn promote_around(&mut self, asid: Asid, vpn: Vpn) -> Result<(), OutOfMemory> {
        let Some(entry) = self.process(asid).and_then(|process| process.table.page(vpn)) else { return Ok(()) };
        let Some(reservations) = self.frames.reservations() else { return Ok(()) };
        let frame = self.frames.get(entry.pte.pfn() + (vpn - entry.vpn));
        let place = reservations.place(frame.object, frame.index);
        let mut best = None;
        let mut levels: Vec<u8> = reservations.full_levels(frame.object, frame.index).collect();
        // Whatever cannot be one page cannot be part of a larger one.
        while let Some(level) = levels.pop() {
            let size = self.options.sizes[level as usize];
            if size <= entry.pte.shift() {
                continue;
            }
            let start = vpn.0.checked_sub(place - reservations.ladder().start(level, place)).map(Vpn);
            match start.filter(|start| start.is_aligned(size, self.base()) && self.uniform(asid, *start, size)) {
                Some(start) => best = Some((start, size)),
                None => break,
            }
        }
        let Some((start, size)) = best else { return Ok(()) };
        if self.partly_dirty() {
            self.even_out(asid, start, size)?;
        }
        let promoted = self.promote(asid, start, size, Label::Remap);
        debug_assert_eq!(promoted, Ok(()), "{start:?} of {size} was found uniform");
        Ok(())
    }

    /// Whether the extent is mapped throughout, in the right order, with equal rights and equally clean or dirty.
    fn uniform(&self, asid: Asid, start: Vpn, size: PageShift) -> bool {
        let base = self.base();
        let pages = size.base_pages(base);
        let table = &self.at(asid).table;
        let ignored = Pte::ACCESSED | if self.partly_dirty() { Pte::DIRTY | Pte::WATCHED } else { 0 };
        let state = |pte: Pte| pte.with_pfn(reach_core::Pfn(0)).with_shift(base).0 & !ignored;
        // Memory is mostly populated upwards: what is missing is missing at the end.
        let Some(last) = table.page(start + (pages - 1)) else { return false };
        let mut at = start;
        while at < start + pages {
            let Some(entry) = table.page(at) else { return false };
            let in_order = entry.pte.pfn() + (last.vpn - at) == last.pte.pfn();
            if !in_order || state(entry.pte) != state(last.pte) {
                return false;
            }
            at += entry.pte.shift().base_pages(base);
        }
        true
    }

    /// All pages of the extent are dirty if one is.
    fn even_out(&mut self, asid: Asid, start: Vpn, size: PageShift) -> Result<(), OutOfMemory> {
        let pages = size.base_pages(self.base());
        let entries = self.at(asid).table.pages(start, pages);
        if entries.iter().any(|entry| entry.pte.dirty()) && !entries.iter().all(|entry| entry.pte.dirty()) {
            self.protect(asid, start, pages, Label::Remap, |_, e| e.pte.with_dirty(true).with_watched(false))?;
        }
        Ok(())
    }

    /// A store to a clean page that is watched. A clean superpage is demoted down to the page, so that it stays known
    /// which pages are dirty; when all are, they become one again (§4.7).
    pub fn first_write(&mut self, vpn: Vpn) -> Result<(), OutOfMemory> {
        let asid = self.current;
        self.ledger.charge(Label::Fault, self.options.costs.trap);
        let Some(entry) = self.at(asid).table.page(vpn) else { return Ok(()) };
        let (first, pages) = match self.partly_dirty() {
            true => (entry.vpn, entry.pte.shift().base_pages(self.base())),
            false => (vpn, 1),
        };
        if pages == 1 {
            self.demote_for(asid, vpn, Label::Remap)?;
        }
        self.protect(asid, first, pages, Label::Fault, Vm::stored)?;
        self.promote_around(asid, vpn)
    }
}
