//! Incremental promotion and demotion (Navarro et al. §4.5 to 4.7): superpages where reservations are full.

use crate::{FaultKind, FrameKind, Ladder, Operation, OutOfMemory, PageView, Reserving, Vm, soft};
use reach_core::{Asid, Cause, Fault, Kind, Label, MappedEntry, PageShift, Pte, Vpn, Written};

/// How a system that makes reservations treats superpages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superpages {
    /// Page sizes in use, the base page first.
    pub sizes: Vec<PageShift>,
    /// A page that is freed renews its reservation, too (FreeBSD), not only one that is allocated.
    pub renewed_by_freeing: bool,
    /// Which reservations may reach beyond the end of their object.
    pub past_end: PastEnd,
    /// Cycles for each elementary step ([`Operation`](crate::Operation)) of population maps, lists and the allocator.
    pub step: u64,
    /// A superpage may be dirty in part: it is not demoted by its first write, and pages need not be equally dirty to
    /// become one (§4.7).
    pub partly_dirty: bool,
    /// Hash digests tell which pages of a dirty superpage need not be written (§4.7): thousandths of a cycle for each
    /// byte hashed, when it is read in and again before it would be written. Only with `partly_dirty`, and a page
    /// daemon.
    pub digest: Option<u64>,
    /// Superpages are really made. If not, all is done and charged as if they were (§6.6).
    pub promote: bool,
    /// Unmapping takes superpages apart size by size, where that rewrites replicated entries, as FreeBSD on Alpha did
    /// (§6.6: each entry is visited once for each size).
    pub demote_to_unmap: bool,
    /// The first write to any page is noticed, not only to superpages, so that an extent is promoted as soon as its
    /// last page is dirty.
    pub watch_all: bool,
    /// A fault on a page of a file maps the whole superpage at once where the file's reservation is full.
    pub map_full: bool,
    /// How much of a reservation of private memory must be populated, in percent, for the rest to be populated by the
    /// kernel: 100 leaves it to the program.
    pub threshold: u64,
}

/// Which reservations may reach beyond the end of their object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastEnd {
    /// Those of heaps and stacks, when they are not larger than what is mapped of the object (Navarro §4.2).
    Growing,
    /// Those of private memory, upwards (FreeBSD's `OBJ_ANON`).
    Anonymous,
}

impl Vm {
    /// From now on frames are reserved and superpages made. At boot, before any process. Untouched memory is not shared
    /// then: a first load gets a frame, too, as in BSD.
    pub fn use_superpages(&mut self, how: Superpages) {
        let renewed_by_freeing = how.renewed_by_freeing;
        self.frames.make_reservations(Reserving { ladder: Ladder::new(&how.sizes), renewed_by_freeing });
        self.counters = crate::Counters::new(&how.sizes);
        self.counters.work = Some(Box::default());
        self.options.sizes = how.sizes.clone();
        self.options.zero_page = false;
        self.superpages = Some(how);
    }

    /// Whether first loads from untouched memory share a page of zeroes. At boot, before any process.
    pub fn share_zeroes(&mut self, on: bool) {
        self.options.zero_page = on;
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
        let Some(how) = &self.superpages else { return pte };
        let wanted = how.watch_all || pte.shift() > self.base() || pte.watched();
        // Digests are compared for pages whose first write was seen, so that it must be.
        let wanted = wanted && (!how.partly_dirty || how.digest.is_some());
        pte.with_watched(wanted && pte.writable() && !pte.dirty())
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

    /// Charges for demoting all superpages in this range, which is about to be unmapped, size by size down to base
    /// pages, where the system unmaps so. Only sizes that rewrite the entries they stand in are taken apart.
    pub(crate) fn take_apart(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        if !self.superpages.as_ref().is_some_and(|how| how.demote_to_unmap) {
            return;
        }
        let base = self.base();
        let whole = |entry: &MappedEntry| entry.pte.shift() == base || entry.pte.soft() & soft::WHOLE != 0;
        for entry in self.at(asid).table.pages(vpn, pages).iter().filter(|entry| !whole(entry)) {
            let table = &self.at(asid).table;
            let Some(at) = table.find(entry.vpn).map(|(node, index)| table.entry_at(node, index)) else { continue };
            let (layout, size) = (&self.options.layout, entry.pte.shift());
            let steps = self
                .options
                .sizes
                .windows(2)
                .filter(|step| step[1] <= size && layout.place(step[0]).0 == layout.place(step[1]).0);
            let demotions: u64 = steps.clone().map(|step| 1 << (size.0 - step[1].0)).sum();
            let (entries, steps) = (layout.place(size).1, steps.count());
            for _ in 0..steps {
                self.rewrote(asid, Written { at, entries, nodes: 0 }, size, Operation::Demote, label);
            }
            self.ledger.charge(label, demotions * self.options.costs.shootdown);
            self.tally(asid, |c| {
                c.demotions += demotions;
                c.shootdowns += demotions;
            });
        }
    }

    /// Answers a fault of the running process by reservation, and promotes what has become full (§4.1, 4.5).
    pub fn reserved_fault(&mut self, fault: Fault) -> Result<(), OutOfMemory> {
        self.keep_records()?;
        let view = self.fault_view(fault)?;
        let asid = self.current;
        if fault.cause == Cause::Protection && fault.kind == Kind::Store && !self.partly_dirty() {
            let page = self.at(asid).table.page(fault.vpn);
            if page.is_some_and(|page| !page.pte.dirty()) {
                self.demote_for(asid, fault.vpn, Label::Remap)?;
            }
        }
        if fault.cause == Cause::Missing && self.map_full(asid, fault, &view)? {
            return Ok(());
        }
        self.demand_fault_in(fault, view)?;
        if view.region.anonymous() {
            self.fill_up(asid, fault.vpn, &view)?;
        }
        self.promote_around(asid, fault.vpn)
    }

    /// Populates the rest of the smallest superpage around `vpn` where enough of its reservation is in use (Talluri and
    /// Hill's promotion threshold).
    fn fill_up(&mut self, asid: Asid, vpn: Vpn, view: &PageView) -> Result<(), OutOfMemory> {
        let threshold = self.superpages.as_ref().map_or(100, |how| how.threshold);
        let (base, region) = (self.base(), view.region);
        let size = self.options.sizes[1];
        let (first, pages) = (vpn.align_down(size, base), size.base_pages(base));
        let (object, index) = (region.object, region.index(vpn, base));
        let Some(reservations) = self.frames.reservations().filter(|_| threshold < 100) else { return Ok(()) };
        let (some, _) = reservations.population(object, index, 1);
        let whole = region.start <= first.0 << base.0 && (first.0 << base.0) + size.bytes() <= region.end;
        let due = u64::from(some) * 100 >= threshold * pages && u64::from(some) < pages;
        if !(due && whole && reservations.covers(object, index)) {
            return Ok(());
        }
        for at in (first.0..first.0 + pages).map(Vpn) {
            if self.at(asid).table.find(at).is_none() && !self.in_swap(asid, at) {
                let index = region.index(at, base);
                let pfn = self.page_frame(FrameKind::Anonymous, object, index, Some((&region, at)))?;
                self.own(asid, at, 1);
                self.zero(pfn, 1, Label::Remap);
                let pte = self.watch(self.entry(pfn, base, view.protection, true));
                self.map(asid, at, pte, Label::Remap)?;
            }
        }
        Ok(())
    }

    /// Maps the superpage around a fault on an object's page, if its reservation is full and its pages are all there.
    fn map_full(&mut self, asid: Asid, fault: Fault, view: &PageView) -> Result<bool, OutOfMemory> {
        let (base, region) = (self.base(), &view.region);
        let wanted = self.superpages.as_ref().is_some_and(|how| how.map_full);
        if !wanted || region.anonymous() || (fault.kind == Kind::Store && !region.shared) {
            return Ok(false);
        }
        let (object, index) = (region.object, region.index(fault.vpn, base));
        let levels: Vec<u8> = match self.frames.reservations() {
            Some(reservations) => reservations.full_levels(object, index).collect(),
            None => return Ok(false),
        };
        for level in levels {
            let size = self.options.sizes[level as usize];
            let Some(first) = self.extent_within(asid, fault.vpn, size, region) else { continue };
            let back = fault.vpn - first;
            let Some(&pfn) = index.checked_sub(back).and_then(|first| self.objects.get(object).pages.get(&first))
            else {
                continue;
            };
            if pfn.is_aligned(size, base) && self.objects.get(object).pages.get(&index) == Some(&(pfn + back)) {
                self.charge_fault(asid, FaultKind::File, false);
                // As after a promotion of clean pages: a store will be noticed.
                let pte = self.entry(pfn, size, view.protection, fault.kind == Kind::Store || !region.file);
                self.map(asid, first, self.touched(pte, fault.kind), Label::Fault)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn partly_dirty(&self) -> bool {
        self.superpages.as_ref().is_some_and(|how| how.partly_dirty)
    }

    /// Makes the largest page around `vpn` that can be made: full in its object's population map, in one reservation,
    /// and mapped here with equal rights and equally clean or dirty. Nothing happens where there is none larger than
    /// what is mapped.
    pub fn promote_around(&mut self, asid: Asid, vpn: Vpn) -> Result<(), OutOfMemory> {
        match self.promotable(asid, vpn, false) {
            Some((start, size)) => self.make_superpage(asid, start, size),
            None => Ok(()),
        }
    }

    /// The same where, besides, all pages of the extent are referenced (§4.6). Returns whether there was one.
    pub(crate) fn promote_referenced(&mut self, asid: Asid, vpn: Vpn) -> Result<bool, OutOfMemory> {
        match self.promotable(asid, vpn, true) {
            Some((start, size)) => self.make_superpage(asid, start, size).map(|()| true),
            None => Ok(false),
        }
    }

    fn promotable(&self, asid: Asid, vpn: Vpn, referenced: bool) -> Option<(Vpn, PageShift)> {
        let entry = self.process(asid)?.table.page(vpn)?;
        let reservations = self.frames.reservations()?;
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
            match start
                .filter(|start| start.is_aligned(size, self.base()) && self.uniform(asid, *start, size, referenced))
            {
                Some(start) => best = Some((start, size)),
                None => break,
            }
        }
        best
    }

    fn make_superpage(&mut self, asid: Asid, start: Vpn, size: PageShift) -> Result<(), OutOfMemory> {
        if !self.superpages.as_ref().is_some_and(|how| how.promote) {
            // As in the paper, entries are rewritten all the same, in a part of them that the processor ignores.
            let (_, entries) = self.options.layout.place(size);
            let table = &self.at(asid).table;
            if let Some(at) = table.find(start).map(|(node, index)| table.entry_at(node, index)) {
                self.rewrote(asid, Written { at, entries, nodes: 0 }, size, Operation::Promote, Label::Remap);
            }
            return Ok(());
        }
        self.even_out(asid, start, size)?;
        let promoted = self.promote(asid, start, size, Label::Remap);
        debug_assert_eq!(promoted, Ok(()), "{start:?} of {size} was found uniform");
        Ok(())
    }

    /// Whether the extent is mapped throughout, in the right order, with equal rights and equally clean or dirty,
    /// and, if that is asked, referenced.
    fn uniform(&self, asid: Asid, start: Vpn, size: PageShift, referenced: bool) -> bool {
        let base = self.base();
        let pages = size.base_pages(base);
        let table = &self.at(asid).table;
        let ignored = Pte::ACCESSED | Pte::WATCHED | if self.partly_dirty() { Pte::DIRTY } else { 0 };
        let state = |pte: Pte| pte.with_pfn(reach_core::Pfn(0)).with_shift(base).0 & !ignored;
        // Memory is mostly populated upwards: what is missing is missing at the end.
        let Some(last) = table.page(start + (pages - 1)) else { return false };
        let mut at = start;
        while at < start + pages {
            let Some(entry) = table.page(at) else { return false };
            let in_order = entry.pte.pfn() + (last.vpn - at) == last.pte.pfn();
            if !in_order || state(entry.pte) != state(last.pte) || (referenced && !entry.pte.accessed()) {
                return false;
            }
            at += entry.pte.shift().base_pages(base);
        }
        true
    }

    /// Makes the marks of pages that are to become one the same: dirty if one is; else watched.
    fn even_out(&mut self, asid: Asid, start: Vpn, size: PageShift) -> Result<(), OutOfMemory> {
        let pages = size.base_pages(self.base());
        let entries = self.at(asid).table.pages(start, pages);
        let dirty = entries.iter().any(|entry| entry.pte.dirty());
        let whole = |vm: &Vm, pte: Pte| vm.watch(pte.with_dirty(dirty).with_shift(size)).with_shift(pte.shift());
        if entries.iter().any(|entry| whole(self, entry.pte) != entry.pte) {
            self.protect(asid, start, pages, Label::Remap, |vm, entry| whole(vm, entry.pte))?;
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
        self.note_written(entry.pte.pfn() + (vpn - entry.vpn));
        self.protect(asid, first, pages, Label::Fault, Vm::stored)?;
        self.promote_around(asid, vpn)
    }
}
