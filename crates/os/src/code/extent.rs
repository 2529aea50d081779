//! Extents of code that may become superpages: finding them, reading in what is missing, mapping and padding them.

use super::policy::CLUSTER;
use crate::{FaultKind, FrameKind, ObjectId, ObjectKind, OutOfMemory, PageView, Region, Vm};
use reach_core::{Asid, Fault, Kind, Label, MappedPage, PageShift, Pfn, Protection, Role, Span, VirtAddr, Vpn};

/// An aligned extent of addresses with code, and the pages of the file that it maps or may map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    first: Vpn,
    size: PageShift,
    pub(super) object: ObjectId,
    /// Index of the file's page at `first`.
    pub(super) index: u64,
    /// Number of its pages that the file has; those after them are no-ops.
    pub(super) in_file: u64,
}

impl Extent {
    /// Returns the number of base pages.
    pub(super) fn pages(&self, base: PageShift) -> u64 {
        self.size.base_pages(base)
    }
}

impl Vm {
    /// Returns the extent around `vpn` in `region`, which holds code, if it may become one page: it maps one file in order,
    /// and nothing in it can be written. Without padding, all of it is code. With padding it may reach beyond the region,
    /// over read-only parts of the file and free addresses, and beyond the end of the file.
    pub(super) fn code_extent(&self, asid: Asid, vpn: Vpn, region: &Region) -> Option<Extent> {
        let code = self.code.as_ref()?;
        let policy = code.policy;
        if policy.threshold.is_none() || !policy.libraries && region.role != Role::Image {
            return None;
        }
        let (base, size) = (self.base(), *self.options.sizes.get(1)?);
        let (first, pages) = (vpn.align_down(size, base), size.base_pages(base));
        let index = region.index(vpn, base).checked_sub(vpn - first)?;
        let object = self.objects.get(region.object);
        if let Some(name) = &code.only {
            let path = object.path.as_deref().unwrap_or_default();
            path.rsplit('/').next().filter(|file| *file == &**name)?;
        }
        let len = object.len.map_or(u64::MAX, |len| len.div_ceil(base.bytes()));
        let in_file = len.saturating_sub(index).min(pages);
        let (start, end) = (first.0 << base.0, (first.0 + pages) << base.0);
        let in_order = |other: &Region| {
            let offset = |r: &Region| r.offset.wrapping_sub(r.start);
            other.object == region.object && offset(other) == offset(region) && !other.shared && !other.protection.write
        };
        let fits = match policy.padding {
            true => self.at(asid).space.overlapping(start, end).all(in_order),
            false => region.start <= start && end <= region.end && in_file == pages,
        };
        fits.then_some(Extent { first, size, object: region.object, index, in_file })
    }

    /// Returns whether as many clusters of the extent are in memory as the threshold asks for. A warm cache holds all;
    /// no-ops need not be read.
    pub(super) fn populated_enough(&self, extent: &Extent) -> bool {
        let Some(threshold) = self.code.as_ref().and_then(|code| code.policy.threshold) else { return false };
        if self.options().warm {
            return true;
        }
        let object = self.objects.get(extent.object);
        let cluster = (CLUSTER >> self.base().0).max(1);
        let end = extent.index + extent.pages(self.base());
        let in_file = extent.index..extent.index + extent.in_file;
        // Clusters are aligned in the file: an extent that starts within one touches one more than it can hold.
        let starts = (extent.index / cluster..end.div_ceil(cluster)).map(|at| at * cluster);
        let resident = |from: &u64| {
            let (from, to) = ((*from).max(in_file.start), (from + cluster).min(in_file.end));
            from >= to || object.pages.range(from..to).count() as u64 == to - from
        };
        let (some, all) = (starts.clone().filter(resident).count(), starts.count());
        match threshold {
            32.. => some == all,
            _ => some as u64 * 32 >= threshold * (extent.pages(self.base()) / cluster).max(1),
        }
    }

    /// Reads the missing pages of an extent, each gap with one request. Returns whether the extent lies in one block now.
    pub(super) fn complete(&mut self, extent: &Extent) -> Result<bool, OutOfMemory> {
        let (base, pages) = (self.base(), extent.pages(self.base()));
        let mut gap = false;
        for at in 0..pages {
            let index = extent.index + at;
            let absent = !self.objects.get(extent.object).pages.contains_key(&index);
            if absent {
                let pfn = self.allocate_page(FrameKind::File, extent.object, index, None)?;
                if at >= extent.in_file {
                    self.zero(pfn, 1, Label::Remap);
                } else if !self.options().warm {
                    self.accounting.file_read(u64::from(!gap), base.bytes(), Label::Fault);
                }
                self.add_to_cache(extent.object, index, pfn);
            }
            gap = absent;
        }
        Ok(self.block_of(extent).is_some())
    }

    /// Returns the first frame of the aligned block that holds all pages of an extent in order. `None` when none does.
    fn block_of(&self, extent: &Extent) -> Option<Pfn> {
        let pages = extent.pages(self.base());
        let object = self.objects.get(extent.object);
        let mut cached = object.pages.range(extent.index..extent.index + pages);
        let (_, &first) = cached.next()?;
        let in_order = |(at, (&index, &pfn)): (u64, (&u64, &Pfn))| index == extent.index + at && pfn == first + at;
        let all = (1..).zip(cached).filter(|&(at, page)| in_order((at, page))).count() as u64 + 1;
        let whole = all == pages && object.pages.contains_key(&extent.index);
        (whole && first.is_aligned(extent.size, self.base())).then_some(first)
    }

    /// Maps an extent with a superpage over the base pages that are mapped, and thereby answers `fault` if there is one.
    /// Returns `false` when the extent is not in memory in one block, or when the process has private pages there.
    pub(super) fn map_code(
        &mut self,
        asid: Asid,
        extent: &Extent,
        fault: Option<(Fault, &PageView)>,
    ) -> Result<bool, OutOfMemory> {
        let Some(block) = self.block_of(extent) else { return Ok(false) };
        let entries: Vec<MappedPage> = self.at(asid).table().pages(extent.first, extent.pages(self.base()));
        if entries.iter().any(|entry| entry.pte.pfn() != block + (entry.vpn - extent.first)) {
            return Ok(false);
        }
        if fault.is_some() {
            self.charge_fault(asid, FaultKind::File, false);
        }
        self.pad(asid, extent);
        self.record_promoted(extent.object, extent.index);
        let pte = self.touched(self.entry(block, extent.size, Protection::READ_EXECUTE, false), Kind::Fetch);
        let label = if fault.is_some() { Label::Fault } else { Label::Remap };
        match entries.is_empty() {
            true => self.map(asid, extent.first, pte, label)?,
            false => self.replace(asid, extent.first, pte, &entries, label)?,
        }
        Ok(true)
    }

    /// Makes the whole extent code: regions of the file in it become executable, and free addresses become a region of the
    /// file.
    fn pad(&mut self, asid: Asid, extent: &Extent) {
        let base = self.base();
        let (start, end) = (extent.first.0 << base.0, (extent.first.0 + extent.pages(self.base())) << base.0);
        let regions: Vec<Region> = self.at(asid).space.overlapping(start, end).copied().collect();
        let mut from = start;
        for region in &regions {
            let (low, high) = (region.start.max(start), region.end.min(end));
            self.pad_gap(asid, extent, from..low, region);
            if !region.protection.execute {
                let span = Span { start: VirtAddr(low), len: high - low };
                self.at_mut(asid).space.change(span, |region| region.protection = Protection::READ_EXECUTE);
            }
            from = high;
        }
        if let Some(last) = regions.last() {
            self.pad_gap(asid, extent, from..end, last);
        }
    }

    /// Makes the free bytes of `gap` a region of code with the attributes of `like`.
    fn pad_gap(&mut self, asid: Asid, extent: &Extent, gap: std::ops::Range<u64>, like: &Region) {
        if gap.is_empty() {
            return;
        }
        let base = self.base();
        let offset = (extent.index << base.0) + (gap.start - (extent.first.0 << base.0));
        let (start, end, protection) = (gap.start, gap.end, Protection::READ_EXECUTE);
        let region = Region { start, end, offset, protection, private_pages: false, ..*like };
        self.tally(asid, |c| c.padded_bytes += region.len());
        self.add_region(asid, region);
    }

    /// Returns the number of pages of a file that reservations may hold: all of the file, and the padding of its code.
    pub(crate) fn reservable(&self, object: ObjectId) -> u64 {
        let object = self.objects.get(object);
        debug_assert!(matches!(object.kind, ObjectKind::File(_)));
        object.len.map_or(u64::MAX, |len| len.div_ceil(self.base().bytes())).max(object.padded)
    }
}
