//! Populating pages before they are touched: the rest of an extent that is populated enough, and superpages of files that are
//! in memory.

use crate::{FaultKind, FrameKind, OutOfMemory, PageView, Vm};
use reach_core::{Asid, Fault, Kind, Label, Vpn};

impl Vm {
    /// Populates the rest of the smallest superpage around the faulting page if enough of its reservation is in use (Talluri
    /// and Hill's promotion threshold). Where pages must be equally dirty to be promoted, a store makes all of them dirty.
    pub(super) fn populate_rest(&mut self, asid: Asid, fault: Fault, view: &PageView) -> Result<(), OutOfMemory> {
        let vpn = fault.vpn;
        let dirty = fault.kind == Kind::Store && !self.partly_dirty();
        let threshold = self.superpages.as_ref().map_or(100, |policy| policy.threshold);
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
            if self.at(asid).table().find(at).is_none() && !self.in_swap(asid, at) {
                let index = region.index(at, base);
                let pfn = self.allocate_page(FrameKind::Anonymous, object, index, Some((&region, at)))?;
                self.note_private_pages(asid, at, 1);
                self.zero(pfn, 1, Label::Remap);
                let pte = self.watch(self.entry(pfn, base, view.protection, true).with_dirty(dirty));
                self.map(asid, at, pte, Label::Remap)?;
            }
        }
        Ok(())
    }

    /// Maps the superpage around a fault on an object's page if its reservation is full and its pages are resident. Returns
    /// whether it did.
    pub(super) fn map_full_superpage(
        &mut self,
        asid: Asid,
        fault: Fault,
        view: &PageView,
    ) -> Result<bool, OutOfMemory> {
        let (base, region) = (self.base(), &view.region);
        let wanted = self.superpages.as_ref().is_some_and(|policy| policy.map_full);
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
                // As after a promotion of clean pages, the first store faults.
                let pte = self.entry(pfn, size, view.protection, fault.kind == Kind::Store || !region.file);
                self.map(asid, first, self.touched(pte, fault.kind), Label::Fault)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}
