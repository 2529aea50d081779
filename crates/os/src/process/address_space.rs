//! Regions of address spaces: mapping, unmapping, protecting and advising, with their translations.

use super::{Populate, Region, page_end};
use crate::{ObjectId, ObjectKind, OutOfMemory, Vm, soft};
use reach_core::{Advice, Asid, Backing, Label, Map, MappedPage, Protection, Pte, Span, Vpn};
use std::ops::Range;

impl Vm {
    /// Maps a region of the running process over whatever was there. Returns the region as the program asked for it. `None`
    /// when it is empty.
    pub(super) fn map_region(&mut self, map: &Map) -> Result<Option<Region>, OutOfMemory> {
        let asid = self.current();
        self.ensure_process(asid)?;
        self.at_mut(asid).maps_seen = true;
        let (start, end) = (map.span.start.0, page_end(map.span));
        if start >= end {
            return Ok(None);
        }
        let mut region = Region {
            shared: map.shared,
            role: map.role,
            huge_shift: map.huge_shift,
            no_reserve: map.no_reserve,
            ..Region::anonymous_at(start, end, map.protection)
        };
        region.file = map.backing != Backing::Anonymous;
        if !region.anonymous() {
            self.split_whole(asid, start, end)?;
        }
        self.unmap_regions(asid, start, end)?;
        match map.backing {
            Backing::File { file, offset } => {
                region.offset = offset;
                region.object = if map.shared { self.objects.shared_file(file) } else { self.objects.file(file) };
                region.file = matches!(self.objects.get(region.object).kind, ObjectKind::File(_));
            }
            Backing::Anonymous if region.shared => {
                let object = self.objects.create(ObjectKind::Shared, Some(region.len()));
                (region.object, region.offset) = (object, 0);
            }
            Backing::Anonymous => {}
        }
        self.add_region(asid, region);
        Ok(Some(region))
    }

    /// Returns the pages of a new region that the program wants populated at once (`MAP_POPULATE`).
    pub(super) fn populate_on_map(&self, map: &Map, region: &Region) -> Option<Populate> {
        let wanted = map.populate && map.protection != Protection::NONE;
        let write = map.protection.write && !map.shared;
        wanted.then(|| Populate { pages: region.pages(self.base()), write })
    }

    /// Adds a region where none is. A private anonymous region without an object continues its neighbour's, or gets a new
    /// one.
    pub(crate) fn add_region(&mut self, asid: Asid, mut region: Region) {
        if region.object == ObjectId::NONE {
            match self.at(asid).space.neighbour(&region) {
                Some((object, offset)) => (region.object, region.offset) = (object, offset),
                None => region.object = self.objects.create(ObjectKind::Private(asid), None),
            }
        }
        self.objects.retain(region.object, region.len());
        self.at_mut(asid).space.insert(region);
    }

    /// Releases the objects of regions that are gone with their translations. Objects that nobody maps any more end, files
    /// excepted.
    pub(super) fn release_regions(&mut self, removed: &[Region]) {
        for region in removed {
            for pfn in self.objects.release(region.object, region.len()) {
                self.frames.uncache(pfn);
            }
            if !self.objects.exists(region.object) {
                self.frames.end_object(region.object);
            } else {
                self.last_close(region.object);
            }
        }
    }

    /// Removes the regions in the bytes `start..end`, and the translations of pages that no region overlaps then.
    pub(super) fn unmap_regions(&mut self, asid: Asid, start: u64, end: u64) -> Result<(), OutOfMemory> {
        self.unshare_tables(asid, start, end)?;
        let removed = self.at_mut(asid).space.carve(start, end);
        if removed.is_empty() {
            return Ok(());
        }
        let mut pages = self.unshared_pages(asid, start, end);
        // A page that must stay whole goes when its last region does.
        for vpn in [start >> self.base().0, (end - 1) >> self.base().0] {
            let entry = self.at(asid).table().page(Vpn(vpn));
            if let Some(entry) = entry.filter(|entry| entry.pte.soft() & soft::WHOLE != 0) {
                let (first, last) = self.extent(&entry);
                if !self.at(asid).space.any(first << self.base().0, last << self.base().0) {
                    pages = pages.start.min(first)..pages.end.max(last);
                }
            }
        }
        if pages.start < pages.end {
            self.unmap(asid, Vpn(pages.start), pages.end - pages.start, Label::Fault)?;
        }
        self.release_regions(&removed);
        Ok(())
    }

    /// Returns the base pages that the bytes `start..end` touch, without those at the ends that some region shares with
    /// bytes outside.
    pub(crate) fn unshared_pages(&self, asid: Asid, start: u64, end: u64) -> Range<u64> {
        let base = self.base();
        let space = &self.at(asid).space;
        let (first, last) = (start >> base.0, end.div_ceil(base.bytes()));
        let first = first + u64::from(space.any(first << base.0, start));
        let last = last - u64::from(space.any(end, last << base.0));
        first..last.max(first)
    }

    /// Returns the first base page of a mapped page, and the one after its last.
    pub(crate) fn extent(&self, entry: &MappedPage) -> (u64, u64) {
        (entry.vpn.0, entry.vpn.0 + entry.pte.shift().base_pages(self.base()))
    }

    /// Makes pages that must stay whole and reach across the ends of `start..end` ordinary ones, so that they can be
    /// demoted, and unmaps their parts that lie in no region.
    pub(super) fn split_whole(&mut self, asid: Asid, start: u64, end: u64) -> Result<(), OutOfMemory> {
        let base = self.base();
        for byte in [start, end - 1] {
            let entry = self.at(asid).table().page(Vpn(byte >> base.0));
            let Some(entry) = entry.filter(|entry| entry.pte.soft() & soft::WHOLE != 0) else { continue };
            let (first, last) = self.extent(&entry);
            self.protect(asid, entry.vpn, last - first, Label::Fault, |_, entry| {
                entry.pte.with_soft(entry.pte.soft() & !soft::WHOLE)
            })?;
            let mut at = first;
            let space = &self.at(asid).space;
            let mut gaps = Vec::new();
            for region in space.overlapping(first << base.0, last << base.0) {
                gaps.push(at..region.pages(base).start);
                at = at.max(region.pages(base).end);
            }
            gaps.push(at..last);
            for gap in gaps.into_iter().filter(|gap| gap.start < gap.end) {
                self.unmap(asid, Vpn(gap.start), gap.end - gap.start, Label::Fault)?;
            }
        }
        Ok(())
    }

    /// Changes the access rights of the bytes in `span`, and of their translations.
    pub(super) fn protect_regions(
        &mut self,
        asid: Asid,
        span: Span,
        protection: Protection,
    ) -> Result<(), OutOfMemory> {
        let (start, end) = (span.start.0, page_end(span));
        self.unshare_tables(asid, start, end)?;
        let rounded = Span { start: span.start, len: end - start };
        self.at_mut(asid).space.change(rounded, |region| region.protection = protection);
        let base = self.base();
        let (first, last) = (start >> base.0, end.div_ceil(base.bytes()));
        self.protect(asid, Vpn(first), last - first, Label::Fault, |vm, entry| {
            let pages = entry.pte.shift().base_pages(base);
            match vm.at(asid).space.page(entry.vpn, pages, base) {
                Some(view) => vm.with_rights(entry.pte, &view.region, view.protection),
                None => entry.pte,
            }
        })
    }

    /// Returns `pte` with its region's new `rights`. It becomes writable at once only where no store has to be noticed any
    /// more (`can_change_pte_writable`).
    fn with_rights(&self, pte: Pte, region: &Region, rights: Protection) -> Pte {
        let frames = pte.shift().base_pages(self.base());
        let at_once = match region.shared {
            true => !region.file || pte.writable() || pte.dirty(),
            false => self.sole_owner(pte.pfn(), frames),
        };
        self.watch(pte.with_executable(rights.execute).with_writable(rights.write && at_once))
    }

    /// Carries out `madvise` on the bytes in `span`. Returns the pages to populate.
    pub(super) fn advise(&mut self, asid: Asid, span: Span, advice: Advice) -> Result<Option<Populate>, OutOfMemory> {
        let (start, end) = (span.start.0, page_end(span));
        if start >= end {
            return Ok(None);
        }
        let base = self.base();
        let rounded = Span { start: span.start, len: end - start };
        let populate = |write| Some(Populate { pages: start >> base.0..end.div_ceil(base.bytes()), write });
        let space = &mut self.at_mut(asid).space;
        match advice {
            Advice::Huge => space.change(rounded, |region| region.huge = Some(true)),
            Advice::NoHuge => space.change(rounded, |region| region.huge = Some(false)),
            Advice::DontFork => space.change(rounded, |region| region.dont_fork = true),
            Advice::DontNeed => {
                let pages = self.unshared_pages(asid, start, end);
                if pages.start < pages.end {
                    self.unmap(asid, Vpn(pages.start), pages.end - pages.start, Label::Fault)?;
                }
            }
            Advice::PopulateRead => return Ok(populate(false)),
            Advice::PopulateWrite => return Ok(populate(true)),
            Advice::WillNeed => self.read_ahead(asid, start, end)?,
            // Lazily freed pages go only under memory pressure; the system does the collapsing.
            Advice::Free | Advice::Collapse => {}
        }
        Ok(None)
    }

    /// Reads the files mapped at these bytes into the page cache. The program does not wait.
    fn read_ahead(&mut self, asid: Asid, start: u64, end: u64) -> Result<(), OutOfMemory> {
        let base = self.base();
        let regions: Vec<Region> = self.at(asid).space.overlapping(start, end).filter(|r| r.file).copied().collect();
        for region in regions {
            let pages = region.pages(base);
            let limit = self.objects.get(region.object).len.map_or(u64::MAX, |len| len.div_ceil(base.bytes()));
            for vpn in pages.start.max(start >> base.0)..pages.end.min(end.div_ceil(base.bytes())) {
                let index = region.index(Vpn(vpn), base);
                if index < limit {
                    self.cache_page(&region, Vpn(vpn), Label::Fault)?;
                }
            }
        }
        self.pin(None);
        Ok(())
    }
}
