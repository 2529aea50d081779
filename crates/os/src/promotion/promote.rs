//! Promotion where a reservation is full and its pages are alike (Navarro et al. §4.5).

use crate::{Operation, OutOfMemory, Vm};
use reach_core::{Asid, Label, PageShift, Pte, PteWrites, Vpn};

impl Vm {
    /// Promotes the largest extent around `vpn` that can be: full in its object's population map, in one reservation, and
    /// mapped here with equal rights and equally clean or dirty. Does nothing when that is no larger than the mapped page, or if
    /// the policy attempts only the first full extent from the root (§4.9) and that is larger.
    pub fn promote_around(&mut self, asid: Asid, vpn: Vpn) -> Result<(), OutOfMemory> {
        match self.largest_promotable(asid, vpn, false) {
            Some((start, size)) => self.make_superpage(asid, start, size),
            None => Ok(()),
        }
    }

    /// Promotes as [`Vm::promote_around`] does, an extent whose pages are all referenced (§4.6). Returns whether there was
    /// one.
    pub(crate) fn promote_referenced(&mut self, asid: Asid, vpn: Vpn) -> Result<bool, OutOfMemory> {
        match self.largest_promotable(asid, vpn, true) {
            Some((start, size)) => self.make_superpage(asid, start, size).map(|()| true),
            None => Ok(false),
        }
    }

    /// Returns the first page and the size of the largest extent around `vpn` that can be promoted.
    fn largest_promotable(&self, asid: Asid, vpn: Vpn, referenced: bool) -> Option<(Vpn, PageShift)> {
        let entry = self.process(asid)?.table().page(vpn)?;
        let reservations = self.frames.reservations()?;
        let frame = self.frames.get(entry.pte.pfn() + (vpn - entry.vpn));
        let place = reservations.place(frame.object, frame.index);
        let mut best = None;
        let mut levels: Vec<u8> = reservations.full_levels(frame.object, frame.index).collect();
        let only = levels.first().copied().filter(|_| self.superpages.as_ref().is_some_and(|policy| policy.first_full));
        // An extent that cannot be one page cannot be part of a larger one.
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
        let attempted = |size| only.is_none_or(|level| self.options.sizes[level as usize] == size);
        best.filter(|&(_, size)| attempted(size))
    }

    /// Promotes an extent, or only charges for it where the policy makes no superpages.
    fn make_superpage(&mut self, asid: Asid, start: Vpn, size: PageShift) -> Result<(), OutOfMemory> {
        if !self.superpages.as_ref().is_some_and(|policy| policy.promote) {
            // As in the paper, entries are rewritten all the same, in a part of them that the processor ignores.
            let (_, entries) = self.options.layout.placement(size);
            let table = self.at(asid).table();
            if let Some(at) = table.find(start).map(|(node, index)| table.entry_addr(node, index)) {
                self.account_rewrite(asid, PteWrites { at, entries, nodes: 0 }, size, Operation::Promote, Label::Remap);
            }
            return Ok(());
        }
        self.equalize_marks(asid, start, size)?;
        let promoted = self.promote(asid, start, size, Label::Remap);
        debug_assert_eq!(promoted, Ok(()), "{start:?} of {size} was found uniform");
        Ok(())
    }

    /// Returns whether the extent is mapped throughout, in order, with equal rights and equally clean or dirty, and, if
    /// `referenced`, with every page accessed.
    fn uniform(&self, asid: Asid, start: Vpn, size: PageShift, referenced: bool) -> bool {
        let base = self.base();
        let pages = size.base_pages(base);
        let table = self.at(asid).table();
        let ignored = Pte::ACCESSED | Pte::WATCHED | if self.partly_dirty() { Pte::DIRTY } else { 0 };
        let state = |pte: Pte| pte.with_pfn(reach_core::Pfn(0)).with_shift(base).0 & !ignored;
        // Memory is mostly populated upwards, so that a missing page is most likely the last.
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

    /// Makes dirty and watched bits of pages equal before they become one: all dirty if one is, else all watched.
    fn equalize_marks(&mut self, asid: Asid, start: Vpn, size: PageShift) -> Result<(), OutOfMemory> {
        let pages = size.base_pages(self.base());
        let entries = self.at(asid).table().pages(start, pages);
        let dirty = entries.iter().any(|entry| entry.pte.dirty());
        let whole = |vm: &Vm, pte: Pte| vm.watch(pte.with_dirty(dirty).with_shift(size)).with_shift(pte.shift());
        if entries.iter().any(|entry| whole(self, entry.pte) != entry.pte) {
            self.protect(asid, start, pages, Label::Remap, |vm, entry| whole(vm, entry.pte))?;
        }
        Ok(())
    }
}
