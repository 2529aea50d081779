//! Where Gemini puts what is touched for the first time (EMA, Jia et al. 2023, section 4.2).

use super::{Extent, Gemini, Other};
use reach_core::{Asid, Pfn, Vpn};
use reach_os::{OutOfMemory, PageView, Region, Superpage, Vm};

impl Gemini {
    /// Maps a huge page at `first`, where nothing is mapped. Returns false where no block is free.
    pub(super) fn map_huge(&mut self, first: Vpn, view: &PageView, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let page = Superpage { shift: self.huge, rights: view.protection, writable: true, whole: false };
        let extent = (vm.current(), first.0 / self.pages(vm));
        // A host may have booked a block for it.
        let own = self.places.get(&extent).and_then(|place| place.block).filter(|&block| self.booked.is_whole(block));
        if let Some(block) = own.or_else(|| self.matching_block(vm)) {
            self.booked.release(block, vm);
            self.timed_out.remove(&(block.0 / self.pages(vm)));
            if vm.map_superpage_at(first, view, page, block)? {
                self.places.entry(extent).or_default().block = Some(block);
                return Ok(true);
            }
        }
        let mapped = vm.map_superpage(first, view, page)?;
        if mapped && let Some(page) = vm.process(extent.0).and_then(|process| process.table().page(first)) {
            self.places.entry(extent).or_default().block = Some(page.pte.pfn());
        }
        Ok(mapped)
    }

    /// Returns whether base pages of `extent` get a block. In fragmented memory, a host keeps blocks for its guest's huge pages.
    fn gets_block(&self, extent: Extent, vm: &Vm) -> bool {
        match &self.other {
            Other::Guest(theirs) => theirs.contains(&extent) || !self.is_fragmented(vm),
            Other::Host(_) | Other::Unknown => true,
        }
    }

    /// Allocates a frame for page `vpn` of `region`: the one at its place in the block of its extent. The first page of an extent
    /// takes a block for it, one that the host has as a huge page if there is one. Returns `None` where the extent is not all within
    /// the region, no block is free, or the frame is taken.
    pub(super) fn place(&mut self, asid: Asid, vpn: Vpn, region: &Region, vm: &mut Vm) -> Option<Pfn> {
        let first = vpn.align_down(self.huge, vm.base());
        let pages = self.pages(vm);
        let extent = (asid, first.0 / pages);
        let own = region.pages(vm.base());
        if first.0 < own.start || first.0 + pages > own.end || !self.gets_block(extent, vm) {
            return None;
        }
        let (object, index) = (region.object, region.index(vpn, vm.base()));
        let block = self.places.get(&extent).and_then(|place| place.block);
        if let Some(block) = block
            && let Some(pfn) = self.booked.take_page(block, vpn - first, object, index, vm)
        {
            return Some(pfn);
        }
        // A block that others have taken is given up for another, as long as the extent has no page.
        if !vm.nothing_mapped(asid, first, pages) {
            return None;
        }
        let block = match self.matching_block(vm) {
            Some(block) => block,
            None => self.book_any(vm)?,
        };
        if let Some(until) = self.until(vm) {
            self.booked.book(block, self.huge.order(vm.base()), until, vm);
        }
        self.timed_out.remove(&(block.0 / pages));
        self.places.entry(extent).or_default().block = Some(block);
        self.booked.take_page(block, vpn - first, object, index, vm)
    }
}
