//! The promoter of Gemini: base pages become a huge page where they lie, filled up with those that are missing, or else by a copy (Jia et al.
//! 2023, sections 3 and 4.2).

use super::{Extent, Gemini, PAGES};
use crate::collapse::{Census, Collapse, copy_into_block, may_be_huge, region_of};
use reach_core::{Asid, Label, MappedPage, Pfn, Vpn};
use reach_os::{FrameKind, OutOfMemory, Region, Vm};
use std::collections::BTreeMap;

impl Gemini {
    /// Returns whether an extent of which `used` base pages are in use is to be promoted: all are, or those missing may be allocated.
    fn are_enough(&self, used: u64, vm: &Vm) -> bool {
        let pages = self.pages(vm);
        used >= pages || used > self.preallocate_above * pages / PAGES && !self.is_fragmented(vm)
    }

    /// Notes that page `vpn` has come into use, and requests the promotion of its extent where enough have.
    pub(super) fn note_use(&mut self, vpn: Vpn, vm: &Vm) {
        let extent = (vm.current(), vpn.0 / self.pages(vm));
        let Some(place) = self.places.get_mut(&extent) else { return };
        place.used += 1;
        let (used, requested) = (place.used, place.requested);
        if !requested && self.are_enough(used, vm) {
            self.full.insert(extent);
            self.places.entry(extent).or_default().requested = true;
        }
    }

    /// Promotes an extent: where its pages lie, if all frames of its block can be had, or else, where the other layer has it as a huge
    /// page (`matching`), in another block. Returns whether it did.
    pub(super) fn promote(&mut self, extent: Extent, matching: bool, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let promoted = self.make_huge(extent, matching, vm)?;
        if promoted && let Some(place) = self.places.get_mut(&extent) {
            // No base page is left that a scan would request the promotion of.
            place.used = 0;
        }
        Ok(promoted)
    }

    fn make_huge(&mut self, extent: Extent, matching: bool, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let (asid, first) = (extent.0, Vpn(extent.1 * self.pages(vm)));
        let census = Census::of(asid, first, self.huge, vm);
        if let Some(place) = self.places.get_mut(&extent) {
            // Pages may have been unmapped since they were counted.
            (place.requested, place.used) = (false, census.present);
        }
        let Some(region) = region_of(asid, first, self.huge, vm).filter(may_be_huge) else { return Ok(false) };
        let is_huge = census.pages.iter().any(|page| page.pte.shift() >= self.huge);
        if census.present == 0 || census.shared > 0 || is_huge || !matching && !self.are_enough(census.present, vm) {
            return Ok(false);
        }
        let block = self.places.get(&extent).and_then(|place| place.block);
        if let Some(block) = block
            && self.complete(asid, first, block, &region, &census, vm)?
        {
            return Ok(true);
        }
        if !matching {
            return Ok(false);
        }
        // The copy takes a block that the host has as a huge page, if there is one.
        let order = self.huge.order(vm.base());
        let index = region.index(first, vm.base());
        if let Some(block) = self.matching_block(vm) {
            self.booked.release(block, vm);
            if let Some(pfn) = vm.frames_mut().allocate_at(block, order, FrameKind::Anonymous, region.object, index) {
                let pte = vm.entry(pfn, self.huge, region.protection, true);
                vm.note_private_pages(asid, first, self.pages(vm));
                vm.migrate(asid, first, pte, Label::Daemon)?;
                return Ok(true);
            }
        }
        Ok(copy_into_block(asid, first, self.huge, &region, Label::Daemon, vm)? == Collapse::Done)
    }

    /// Fills the extent at `first` up in its block, and promotes it there: pages that are missing are allocated and zeroed, and
    /// those that lie elsewhere are moved. Returns false where a frame of the block is not free, or page tables take it meanwhile.
    fn complete(
        &mut self,
        asid: Asid,
        first: Vpn,
        block: Pfn,
        region: &Region,
        census: &Census,
        vm: &mut Vm,
    ) -> Result<bool, OutOfMemory> {
        let (base, pages) = (vm.base(), self.pages(vm));
        let mut mapped: BTreeMap<u64, MappedPage> = BTreeMap::new();
        for page in &census.pages {
            if page.pte.shift() > base {
                return Ok(false);
            }
            mapped.insert(page.vpn - first, *page);
        }
        let in_place = |at: u64| mapped.get(&at).is_some_and(|page| page.pte.pfn() == block + at);
        let wanted: Vec<u64> = (0..pages).filter(|&at| !in_place(at)).collect();
        let free = |at: &u64| self.booked.has(block, *at) || vm.frames().buddy().free_block(block + *at).is_some();
        if !wanted.iter().all(free) {
            return Ok(false);
        }
        vm.note_private_pages(asid, first, pages);
        for at in wanted {
            let (vpn, index) = (first + at, region.index(first + at, base));
            let Some(pfn) = self.booked.take_page(block, at, region.object, index, vm) else { return Ok(false) };
            let pte = vm.entry(pfn, base, region.protection, true);
            if mapped.contains_key(&at) {
                vm.migrate(asid, vpn, pte, Label::Daemon)?;
            } else {
                vm.zero(pfn, 1, Label::Daemon);
                vm.map(asid, vpn, pte, Label::Daemon)?;
            }
        }
        // Rights may differ between pages.
        Ok(vm.promote(asid, first, self.huge, Label::Daemon).is_ok())
    }
}
