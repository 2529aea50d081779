//! Blocks at first touch, which several systems allocate: whether an extent is free, and mapping it by one page or by
//! several.

use crate::{FaultKind, FrameKind, OutOfMemory, PageView, Region, Vm, soft};
use reach_core::{Asid, Label, PageShift, Pfn, Protection, Vpn};

/// A superpage to map at a first touch.
#[derive(Clone, Copy, Debug)]
pub struct Superpage {
    /// Page size.
    pub shift: PageShift,
    /// Access rights of the memory.
    pub rights: Protection,
    /// Stores are allowed at once, because the first touch was a store.
    pub writable: bool,
    /// It stays one page while it is mapped ([`soft::WHOLE`]).
    pub whole: bool,
}

impl Vm {
    /// Returns the first page of the aligned extent of size `shift` around `vpn`. `None` unless the extent lies within
    /// `region` and nothing in it is mapped.
    pub fn extent_within(&self, asid: Asid, vpn: Vpn, shift: PageShift, region: &Region) -> Option<Vpn> {
        let base = self.base();
        let first = vpn.align_down(shift, base);
        let start = first.0 << base.0;
        let fits = region.start <= start && start + shift.bytes() <= region.end;
        (fits && self.nothing_mapped(asid, first, shift.base_pages(base))).then_some(first)
    }

    /// Returns whether no translation exists in these base pages.
    pub fn nothing_mapped(&self, asid: Asid, vpn: Vpn, pages: u64) -> bool {
        self.process(asid).is_none_or(|process| process.table().pages(vpn, pages).is_empty())
    }

    /// Answers a first touch of the running process with a zeroed superpage at `first`, where nothing is mapped. Returns
    /// `false` and only counts the failure when memory has no block so large.
    pub fn map_superpage(&mut self, first: Vpn, view: &PageView, page: Superpage) -> Result<bool, OutOfMemory> {
        let Some(pfn) = self.first_touch_block(first, view, page.shift) else { return Ok(false) };
        self.map_touched(first, pfn, page)
    }

    /// As [`Vm::map_superpage`], in the block at `at`. Returns `false`, and counts no failure, when not all of it is free.
    pub fn map_superpage_at(
        &mut self,
        first: Vpn,
        view: &PageView,
        page: Superpage,
        at: Pfn,
    ) -> Result<bool, OutOfMemory> {
        let (order, index) = (page.shift.order(self.base()), view.region.index(first, self.base()));
        let Some(pfn) = self.frames.allocate_at(at, order, FrameKind::Anonymous, view.region.object, index) else {
            return Ok(false);
        };
        self.charge_first_touch(first, pfn, page.shift);
        self.map_touched(first, pfn, page)
    }

    /// Maps a superpage that the running process has touched, and whose block is zeroed.
    fn map_touched(&mut self, first: Vpn, pfn: Pfn, page: Superpage) -> Result<bool, OutOfMemory> {
        let asid = self.current();
        self.tally(asid, |c| c.superpage_faults += 1);
        let pte = self.entry(pfn, page.shift, page.rights, page.writable);
        self.map(asid, first, pte.with_soft(if page.whole { soft::WHOLE } else { 0 }), Label::Fault)?;
        Ok(true)
    }

    /// Answers a first store of the running process with a zeroed block of `size` at `first`, where nothing is mapped: a
    /// large folio of Linux. It is mapped by the machine's largest pages that are no larger, which are base pages where
    /// the machine has no others. Returns `false` and only counts the failure when memory has no block so large.
    pub fn map_folio(&mut self, first: Vpn, view: &PageView, size: PageShift) -> Result<bool, OutOfMemory> {
        let (asid, base) = (self.current(), self.base());
        let page = self.page_within(size);
        let Some(pfn) = self.first_touch_block(first, view, size) else { return Ok(false) };
        self.tally(asid, |c| {
            c.folio_faults += 1;
            c.superpage_faults += u64::from(page > base);
        });
        for at in (0..size.base_pages(base)).step_by(page.base_pages(base) as usize) {
            let pte = self.entry(pfn + at, page, view.protection, true);
            self.map(asid, first + at, pte, Label::Fault)?;
        }
        Ok(true)
    }

    /// Returns the machine's largest page that is no larger than `size`.
    pub fn page_within(&self, size: PageShift) -> PageShift {
        self.options().sizes.iter().copied().filter(|&page| page <= size).max().unwrap_or(self.base())
    }

    /// Allocates and zeroes a block of `size` for private memory from `first` on, and charges the fault. Returns `None` and
    /// only counts the failure when memory has no block so large.
    fn first_touch_block(&mut self, first: Vpn, view: &PageView, size: PageShift) -> Option<Pfn> {
        let (asid, base) = (self.current(), self.base());
        let index = view.region.index(first, base);
        let block = self.frames.allocate(size.order(base), FrameKind::Anonymous, view.region.object, index);
        let Some(pfn) = block else {
            self.tally(asid, |c| c.superpage_fallbacks += 1);
            return None;
        };
        self.charge_first_touch(first, pfn, size);
        Some(pfn)
    }

    /// Zeroes a block of `size` for private memory from `first` on, and charges the fault.
    fn charge_first_touch(&mut self, first: Vpn, pfn: Pfn, size: PageShift) {
        let (asid, pages) = (self.current(), size.base_pages(self.base()));
        self.charge_fault(asid, FaultKind::Anonymous, false);
        self.zero(pfn, pages, Label::Fault);
        self.note_private_pages(asid, first, pages);
    }

    /// Allocates a block of zeroes that is never freed, for shared superpages of zeroes. Returns `None` when memory has no
    /// block so large.
    pub fn zero_block(&mut self, shift: PageShift) -> Option<Pfn> {
        let base = self.base();
        let pfn = self.frames.allocate(shift.order(base), FrameKind::Zero, crate::ObjectId::NONE, 0)?;
        self.zero(pfn, shift.base_pages(base), Label::Fault);
        Some(pfn)
    }

    /// Notes that the regions in these base pages have private pages, which fork must copy.
    pub fn note_private_pages(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let base = self.base();
        let start = vpn.0 << base.0;
        self.at_mut(asid).space.note_private(start, start + (pages << base.0));
    }
}
