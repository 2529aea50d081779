//! Large folios of the page cache: blocks of frames that hold several pages of a file or of shared memory as one.
//!
//! A system decides when there is a block, and of what size. These functions allocate it, and map it by one page where the
//! addresses allow that (`do_set_pmd`, `filemap_map_pmd`), or else by its base pages (`finish_fault`).

use super::writable_at_once;
use crate::{FaultKind, Folio, FrameKind, ObjectId, ObjectKind, OutOfMemory, PageView, Region, Vm, soft};
use reach_core::{Asid, Fault, Kind, Label, MappedPage, PageShift, Pfn, Pte, Vpn};
use std::ops::Range;

impl Vm {
    /// Returns the block of the page cache that holds page `vpn` of `region`. `None` where the page is absent or has a frame
    /// of its own.
    pub fn folio_at(&self, region: &Region, vpn: Vpn) -> Option<Folio> {
        self.objects().get(region.object).folio(region.index(vpn, self.base()))
    }

    /// Returns whether page `vpn` of `region`, which maps a file or shared memory, is in memory.
    pub fn is_cached(&self, region: &Region, vpn: Vpn) -> bool {
        self.objects().get(region.object).pages.contains_key(&region.index(vpn, self.base()))
    }

    /// Returns whether an aligned extent of size `shift` around `vpn` lies in `region`, and is aligned in the object, too
    /// (`thp_vma_suitable_order`).
    pub fn suits(&self, region: &Region, vpn: Vpn, shift: PageShift) -> bool {
        let start = vpn.align_down(shift, self.base()).0 << self.base().0;
        let congruent = region.offset.wrapping_sub(region.start).is_multiple_of(shift.bytes());
        congruent && region.start <= start && start + shift.bytes() <= region.end
    }

    /// Gives page `vpn` of `region`, which is absent, and its neighbours a block of `size` that is aligned in the object: zeroed
    /// for shared memory, read in for a file. Returns whether they got it: not if a neighbour is in memory, if the block would
    /// reach beyond the end of a file on a disk, or if memory has no block so large, which is counted.
    pub fn cache_folio(&mut self, region: &Region, vpn: Vpn, size: PageShift) -> bool {
        let asid = self.current();
        let index = region.index(vpn, self.base());
        if !self.has_room_for(region.object, index, size) {
            return false;
        }
        let Some(folio) = self.new_folio(region.object, index, size) else {
            self.tally(asid, |c| c.superpage_fallbacks += 1);
            return false;
        };
        if region.file {
            if !self.options().warm && !self.objects().get(region.object).in_memory {
                self.accounting.file_read(1, size.bytes(), Label::Fault);
                self.tally(asid, |c| c.major_faults += 1);
            }
            return true;
        }
        self.zero(folio.pfn, folio.pages, Label::Fault);
        let page = self.page_within(size) > self.base();
        let huge = self.page_within(size) == size;
        self.tally(asid, |c| {
            c.superpage_faults += u64::from(page);
            c.folio_faults += u64::from(!huge);
        });
        true
    }

    /// Returns whether a block of `size` around page `index` would hold absent pages only, which a file has.
    pub(super) fn has_room_for(&self, object: ObjectId, index: u64, size: PageShift) -> bool {
        let pages = size.base_pages(self.base());
        let first = index - index % pages;
        let object = self.objects().get(object);
        let end = match object.kind {
            ObjectKind::File(_) if !object.in_memory => {
                object.len.map_or(u64::MAX, |len| len.div_ceil(self.base().bytes()))
            }
            _ => u64::MAX,
        };
        let absent = object.pages.range(first..first + pages).next().is_none();
        absent && object.swapped.range(first..first + pages).next().is_none() && first + pages <= end
    }

    /// Holds the files that are in memory before the program starts in blocks of up to `largest`: each part of a file in the
    /// largest aligned one that fits, as large writes leave them. Call at boot.
    pub fn use_file_folios(&mut self, largest: PageShift) {
        self.file_folios = Some(largest);
    }

    /// Brings page `vpn` of `region` into memory, without cost, where files are there before the program starts.
    ///
    /// # Errors
    /// When memory is used up.
    pub fn fill_warm(&mut self, region: &Region, vpn: Vpn) -> Result<(), OutOfMemory> {
        self.cached(region.object, region.index(vpn, self.base()), Label::Fault)?;
        self.pin(None);
        Ok(())
    }

    /// Fills the page cache around page `index` of a file that is in memory before the program starts with the largest block
    /// that fits. Returns its number of pages. `None` where none fits, or where files are not held in blocks.
    pub(super) fn fill_with_folio(&mut self, object: ObjectId, index: u64) -> Option<u64> {
        let base = self.base();
        let largest = self.file_folios.filter(|_| self.options().warm)?;
        let size =
            (base.0 + 1..=largest.0).rev().map(PageShift).find(|&size| self.has_room_for(object, index, size))?;
        self.new_folio(object, index, size).map(|folio| folio.pages)
    }

    /// Allocates a block of `size` for the aligned pages around `index`, which are absent, and adds it to the page cache.
    pub(super) fn new_folio(&mut self, object: ObjectId, index: u64, size: PageShift) -> Option<Folio> {
        let pages = size.base_pages(self.base());
        let first = index - index % pages;
        let kind = match self.objects().get(object).kind {
            ObjectKind::File(_) => FrameKind::File,
            _ => FrameKind::Anonymous,
        };
        let pfn = self.frames.allocate(size.order(self.base()), kind, object, first)?;
        for at in 0..pages {
            self.add_to_cache(object, first + at, pfn + at);
        }
        self.objects.get_mut(object).folios.insert(first, pages);
        Some(Folio { first, pages, pfn })
    }

    /// Answers a first touch of the running process with one page of size `shift`, where the block that holds the page has all
    /// of it, and nothing in it is mapped. `soft` are the page's software bits. Returns whether it did. The caller handles
    /// stores to private memory, which get a copy.
    ///
    /// # Errors
    /// When there is no memory for a page-table node.
    pub fn map_cached_superpage(
        &mut self,
        fault: Fault,
        view: &PageView,
        shift: PageShift,
        soft: u8,
    ) -> Result<bool, OutOfMemory> {
        let (asid, base, region) = (self.current(), self.base(), &view.region);
        let Some(folio) = self.folio_at(region, fault.vpn) else { return Ok(false) };
        if folio.pages < shift.base_pages(base) || !self.suits(region, fault.vpn, shift) {
            return Ok(false);
        }
        let Some(first) = self.extent_within(asid, fault.vpn, shift, region) else { return Ok(false) };
        let pfn = folio.pfn + (region.index(first, base) - folio.first);
        let pte = self.cache_entry(fault, view, pfn, shift).with_soft(soft);
        self.charge_fault(asid, FaultKind::File, false);
        self.map(asid, first, pte, Label::Fault)?;
        Ok(true)
    }

    /// Returns the base pages of `region` that map the block around page `vpn`. `None` where there is no block, or where the region
    /// or a leaf page table holds only a part of it.
    pub(super) fn whole_folio(&self, region: &Region, vpn: Vpn) -> Option<Range<u64>> {
        let folio = self.folio_at(region, vpn)?;
        let first = vpn.0.checked_sub(region.index(vpn, self.base()) - folio.first)?;
        let (mapped, end, bits) = (region.pages(self.base()), first + folio.pages, self.options().layout.bits[0]);
        let inside = mapped.start <= first && end <= mapped.end && first >> bits == (end - 1) >> bits;
        inside.then_some(first..end)
    }

    /// Answers a first touch of the running process by mapping all pages of the block that holds the page, where they lie in
    /// the region and in one leaf page table, and none is mapped; by the machine's largest pages below `limit` that fit. Returns
    /// whether it did. The caller handles stores to private memory, which get a copy.
    ///
    /// # Errors
    /// When there is no memory for a page-table node.
    pub fn map_cached_folio(&mut self, fault: Fault, view: &PageView, limit: PageShift) -> Result<bool, OutOfMemory> {
        let (asid, base, region) = (self.current(), self.base(), &view.region);
        let Some(folio) = self.folio_at(region, fault.vpn) else { return Ok(false) };
        let Some(pages) = self.whole_folio(region, fault.vpn) else { return Ok(false) };
        let first = Vpn(pages.start);
        if !self.nothing_mapped(asid, first, folio.pages) {
            return Ok(false);
        }
        let fits = |page: &PageShift| {
            *page < limit && page.base_pages(base) <= folio.pages && self.suits(region, fault.vpn, *page)
        };
        let page = self.options().sizes.iter().rev().copied().find(fits).unwrap_or(base);
        self.charge_fault(asid, FaultKind::File, false);
        for at in (0..folio.pages).step_by(page.base_pages(base) as usize) {
            let pte = self.cache_entry(fault, view, folio.pfn + at, page);
            self.map(asid, first + at, pte, Label::Fault)?;
        }
        if fault.kind != Kind::Store {
            self.fault_around(asid, fault.vpn, view)?;
        }
        Ok(true)
    }

    /// Returns the entry by which a fault maps frames of the page cache.
    fn cache_entry(&self, fault: Fault, view: &PageView, pfn: Pfn, shift: PageShift) -> Pte {
        let writable = writable_at_once(&view.region) || fault.kind == Kind::Store;
        self.entry(pfn, shift, view.protection, writable)
    }

    /// Collapses the pages of the object that the aligned extent of size `shift` at `first` in `region` maps into one block, of
    /// which the pages that are absent are zeroed, or read in from a file (`collapse_file`). All processes lose their
    /// translations of the old pages, and find the block at their next fault. Returns `false` when memory has no block so large,
    /// which is counted.
    ///
    /// # Errors
    /// When there is no memory for the page-table nodes of a demotion.
    pub fn collapse_cached(
        &mut self,
        asid: Asid,
        region: &Region,
        first: Vpn,
        shift: PageShift,
        label: Label,
    ) -> Result<bool, OutOfMemory> {
        let (base, id) = (self.base(), region.object);
        let (pages, index) = (shift.base_pages(base), region.index(first, base));
        debug_assert!(index.is_multiple_of(pages), "page {index}: expected a multiple of {pages}");
        let file = matches!(self.objects().get(id).kind, ObjectKind::File(_));
        let kind = if file { FrameKind::File } else { FrameKind::Anonymous };
        let Some(block) = self.frames.allocate(shift.order(base), kind, id, index) else {
            self.tally(asid, |c| c.superpage_fallbacks += 1);
            return Ok(false);
        };
        self.hold(block, pages);
        let unmapped = self.unmap_cached(id, index, pages, label);
        self.release_held(1);
        unmapped?;
        let mut absent = 0;
        for at in 0..pages {
            match self.objects().get(id).pages.get(&(index + at)).copied() {
                Some(old) => {
                    self.copy(old, block + at, 1, label);
                    self.objects.remove_page(id, index + at);
                    self.frames.uncache(old);
                }
                None if file => absent += 1,
                None => self.zero(block + at, 1, label),
            }
            self.add_to_cache(id, index + at, block + at);
        }
        if absent > 0 && !self.options().warm && !self.objects().get(id).in_memory {
            self.accounting.file_read(1, absent << base.0, label);
        }
        self.objects.get_mut(id).folios.insert(index, pages);
        self.gauge_memory(asid);
        Ok(true)
    }

    /// Unmaps the cached pages `index..index + pages` of an object in all processes. Private copies stay.
    pub fn unmap_cached(&mut self, id: ObjectId, index: u64, pages: u64, label: Label) -> Result<(), OutOfMemory> {
        let base = self.base();
        let mut places: Vec<(Asid, MappedPage)> = Vec::new();
        for (asid, process) in self.processes() {
            for region in process.space().regions().filter(|region| region.object == id) {
                let Range { start, end } = region.pages(base);
                let near = index.saturating_sub(region.index(Vpn(start), base));
                let from = (start + near).min(end);
                let until = (start + (index + pages).saturating_sub(region.index(Vpn(start), base))).min(end);
                let entries = process.table().pages(Vpn(from), until.saturating_sub(from));
                let cached = |entry: &MappedPage| self.frames().get(entry.pte.pfn()).cached;
                places.extend(entries.into_iter().filter(cached).map(|entry| (asid, entry)));
            }
        }
        for (asid, entry) in places {
            self.unmap(asid, entry.vpn, entry.pte.shift().base_pages(base), label)?;
        }
        Ok(())
    }

    /// Maps the block that holds the extent of size `shift` at `first` in `region` by one page, in place of the pages of the
    /// block that are mapped there (`collapse_pte_mapped_thp`). Returns `false` where something else is mapped, or the block is
    /// smaller.
    ///
    /// # Errors
    /// When there is no memory for a page-table node.
    pub fn promote_cached(
        &mut self,
        asid: Asid,
        region: &Region,
        first: Vpn,
        shift: PageShift,
        label: Label,
    ) -> Result<bool, OutOfMemory> {
        let pages = shift.base_pages(self.base());
        let Some(folio) = self.folio_at(region, first).filter(|folio| folio.pages >= pages) else { return Ok(false) };
        let entries = self.at(asid).table().pages(first, pages);
        let in_place = |entry: &MappedPage| entry.pte.pfn() == folio.pfn + (entry.vpn - first);
        if entries.iter().any(|entry| entry.pte.shift() >= shift || !in_place(entry)) {
            return Ok(false);
        }
        let marked = entries.iter().fold(0, |bits, entry| bits | entry.pte.0 & (Pte::ACCESSED | Pte::DIRTY));
        let pte = self.entry(folio.pfn, shift, region.protection, writable_at_once(region));
        let pte = Pte(pte.with_soft(soft::REFAULT).0 | marked);
        if entries.is_empty() {
            self.tally(asid, |c| c.promotions += 1);
        }
        self.replace(asid, first, pte, &entries, label)?;
        Ok(true)
    }
}
