//! Superpages of code in files (Zhou et al. 2023, §5, 6 and 9): made when enough of them is in memory, residual code
//! padded to whole ones, and copied to private memory as the comparator.

mod census;

pub(crate) use census::CodeSeen;
pub use census::{CodeCensus, Written};

use crate::{FaultKind, FrameKind, ObjectId, ObjectKind, OutOfMemory, PageView, Region, Vm};
use reach_core::{
    Asid, Fault, FaultCause, Kind, Label, MappedPage, PageShift, Pfn, Protection, Role, Span, VirtAddr, Vpn,
};

/// In what pieces a file comes into memory for a fault, in bytes (§5); there are 32 in a superpage of 2 MB.
pub const CLUSTER: u64 = 64 << 10;

/// What is done about code in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePages {
    /// A superpage is made when, after a page had to be read in, so many of its clusters are in memory, in parts of 32;
    /// the others are read then (§5). `None`: never.
    pub threshold: Option<u64>,
    /// Residual code becomes whole superpages, filled with what follows in the file, then with no-ops (§6).
    pub padding: bool,
    /// Shared libraries as well as the executable.
    pub libraries: bool,
    /// Processes that map the same part of a file in the same way share the page of entries that it takes.
    pub share: bool,
    /// Nothing of the above, but the last: whole superpages of code are copied to private memory when they are mapped (§9).
    pub copy: bool,
}

/// An aligned extent of addresses with code, and the file's pages that stand, or might stand, behind it.
#[derive(Clone, Copy, Debug)]
struct Extent {
    first: Vpn,
    size: PageShift,
    object: ObjectId,
    /// Index of the page behind `first`.
    index: u64,
    /// How many of its pages the file has; those after them are no-ops.
    in_file: u64,
}

/// Whether a region holds code of a file.
fn is_code(region: &Region) -> bool {
    region.file && !region.shared && region.protection.execute && !region.protection.write
}

impl Vm {
    /// From now on the code of files is treated so, and other memory as [`Vm::use_superpages`] was told before. At boot.
    pub fn use_code_superpages(&mut self, code: CodePages) {
        self.code = Some(code);
        self.sharing = code.share.then(Default::default);
    }

    /// Only code of files that are called `name`, whatever their folder, becomes superpages. At boot.
    pub fn use_code_superpages_of(&mut self, name: &str) {
        self.code_of = Some(name.into());
    }

    /// Answers a fault of the running process: as [`Vm::reserved_fault`] does, except for code of files. `data`: private
    /// memory without code may become superpages.
    pub fn code_fault(&mut self, fault: Fault, data: bool) -> Result<(), OutOfMemory> {
        self.keep_records()?;
        let view = self.fault_view(fault)?;
        if fault.cause == FaultCause::NotPresent && self.take_shared_table(fault.vpn)? {
            return Ok(());
        }
        self.code_fault_in(fault, data, view)?;
        self.map_for_others(fault.vpn)
    }

    fn code_fault_in(&mut self, fault: Fault, data: bool, view: PageView) -> Result<(), OutOfMemory> {
        let asid = self.current;
        let code = self.code.expect("the system said at boot what becomes of code");
        if fault.cause != FaultCause::NotPresent || !is_code(&view.region) {
            let wanted = match view.region.anonymous() {
                // What a program wrote itself is code by the rule for private memory (§5).
                true if view.protection.execute => code.threshold.is_some() || code.copy,
                true => data,
                false => true,
            };
            return if wanted { self.reserved_fault_in(fault, view) } else { self.demand_fault_in(fault, view) };
        }
        let extent = self.code_extent(asid, fault.vpn, &view.region);
        if let Some(extent) = &extent {
            let pages = self.pages_in(extent);
            if extent.in_file < pages {
                let padded = &mut self.objects.get_mut(extent.object).padded;
                *padded = (*padded).max(extent.index + pages);
            }
            if self.map_code(asid, extent, Some((fault, &view)))? {
                return Ok(());
            }
        }
        let before = self.counters.bytes_read_in;
        self.demand_fault_in(fault, view)?;
        let read = self.counters.bytes_read_in > before || self.options().warm;
        if let Some(extent) = extent.filter(|_| read)
            && self.populated_enough(&extent)
            && self.complete(&extent)?
        {
            self.map_code(asid, &extent, None)?;
        }
        Ok(())
    }

    /// Something was mapped at `start`. If it is a file's code, the file's pages will be placed to suit it: its data lie
    /// at other distances from their places in the file, and are often touched first. Where that is wanted, whole
    /// superpages of code are copied to private memory (§9): what a program without such help would do later, it does
    /// now, and reads the code, page by page.
    pub(crate) fn code_mapped(&mut self, start: VirtAddr) -> Result<(), OutOfMemory> {
        let Some(code) = self.code else { return Ok(()) };
        let (asid, base) = (self.current, self.base());
        let region = self.process(asid).and_then(|process| process.space().find(start)).copied();
        let Some(region) = region.filter(is_code) else { return Ok(()) };
        self.see_code(&region);
        let first = Vpn(region.start >> base.0);
        self.frames.align(region.object, region.index(first, base), first.0);
        if !code.copy {
            return Ok(());
        }
        let size = self.options.sizes[1];
        let pages = size.base_pages(base);
        let mut at = Vpn(region.start.div_ceil(size.bytes()) * pages);
        while ((at.0 + pages) << base.0) <= region.end {
            if self.nothing_mapped(asid, at, pages) && !self.copy_extent(asid, at, size, &region)? {
                self.tally(asid, |c| c.superpage_fallbacks += 1);
            }
            at += pages;
        }
        Ok(())
    }

    fn copy_extent(&mut self, asid: Asid, first: Vpn, size: PageShift, region: &Region) -> Result<bool, OutOfMemory> {
        let base = self.base();
        let (pages, order) = (size.base_pages(base), size.order(base));
        let Some(block) = self.frames.allocate(order, FrameKind::Anonymous, ObjectId::NONE, 0) else {
            return Ok(false);
        };
        self.hold(block, pages);
        self.charge_fault(asid, FaultKind::Anonymous, false);
        let window = (self.options().fault_around >> base.0).max(1);
        for at in 0..pages {
            let page = self.cache_page(region, first + at, Label::Fault)?;
            if page.read_in || at % window == 0 {
                self.charge_fault(asid, FaultKind::File, page.read_in);
            }
            self.copy(page.pfn, block + at, 1, Label::Copy);
            self.pin(None);
        }
        self.let_go(1);
        self.own(asid, first, pages);
        let pte = self.entry(block, size, region.protection, false);
        self.map(asid, first, self.touched(pte, Kind::Fetch), Label::Remap)?;
        Ok(true)
    }

    fn pages_in(&self, extent: &Extent) -> u64 {
        extent.size.base_pages(self.base())
    }

    /// The extent around `vpn` in `region`, which holds code, if it may be one page: all of it is the file's, in order,
    /// and nothing in it can be written. Without padding, all of it is code; with padding it may reach beyond the
    /// region, over what is read-only and over addresses that are free, and beyond the file.
    fn code_extent(&self, asid: Asid, vpn: Vpn, region: &Region) -> Option<Extent> {
        let code = self.code?;
        if code.threshold.is_none() || !code.libraries && region.role != Role::Image {
            return None;
        }
        let (base, size) = (self.base(), *self.options.sizes.get(1)?);
        let (first, pages) = (vpn.align_down(size, base), size.base_pages(base));
        let index = region.index(vpn, base).checked_sub(vpn - first)?;
        let object = self.objects.get(region.object);
        if let Some(name) = &self.code_of {
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
        let fits = match code.padding {
            true => self.at(asid).space.overlapping(start, end).all(in_order),
            false => region.start <= start && end <= region.end && in_file == pages,
        };
        fits.then_some(Extent { first, size, object: region.object, index, in_file })
    }

    /// Whether as many clusters of the extent are in memory as the threshold says. A warm cache holds all; no-ops need
    /// not be read.
    fn populated_enough(&self, extent: &Extent) -> bool {
        let Some(threshold) = self.code.and_then(|code| code.threshold) else { return false };
        if self.options().warm {
            return true;
        }
        let object = self.objects.get(extent.object);
        let cluster = (CLUSTER >> self.base().0).max(1);
        let end = extent.index + self.pages_in(extent);
        let in_file = extent.index..extent.index + extent.in_file;
        // Clusters are the file's: where an extent starts within one, it has parts of two more than fit in it.
        let starts = (extent.index / cluster..end.div_ceil(cluster)).map(|at| at * cluster);
        let resident = |from: &u64| {
            let (from, to) = ((*from).max(in_file.start), (from + cluster).min(in_file.end));
            from >= to || object.pages.range(from..to).count() as u64 == to - from
        };
        let (some, all) = (starts.clone().filter(resident).count(), starts.count());
        match threshold {
            32.. => some == all,
            _ => some as u64 * 32 >= threshold * (self.pages_in(extent) / cluster).max(1),
        }
    }

    /// Brings in what is missing of an extent: each gap is one read. Returns whether all of it lies in one block now.
    fn complete(&mut self, extent: &Extent) -> Result<bool, OutOfMemory> {
        let (base, pages) = (self.base(), self.pages_in(extent));
        let mut gap = false;
        for at in 0..pages {
            let index = extent.index + at;
            let absent = !self.objects.get(extent.object).pages.contains_key(&index);
            if absent {
                let pfn = self.page_frame(FrameKind::File, extent.object, index, None)?;
                if at >= extent.in_file {
                    self.zero(pfn, 1, Label::Remap);
                } else if !self.options().warm {
                    self.charge_read(u64::from(!gap), base.bytes(), Label::Fault);
                }
                self.enter(extent.object, index, pfn);
            }
            gap = absent;
        }
        Ok(self.block_of(extent).is_some())
    }

    /// The block that holds all of an extent's pages, in order.
    fn block_of(&self, extent: &Extent) -> Option<Pfn> {
        let pages = self.pages_in(extent);
        let object = self.objects.get(extent.object);
        let mut cached = object.pages.range(extent.index..extent.index + pages);
        let (_, &first) = cached.next()?;
        let in_order = |(at, (&index, &pfn)): (u64, (&u64, &Pfn))| index == extent.index + at && pfn == first + at;
        let all = (1..).zip(cached).filter(|&(at, page)| in_order((at, page))).count() as u64 + 1;
        let whole = all == pages && object.pages.contains_key(&extent.index);
        (whole && first.is_aligned(extent.size, self.base())).then_some(first)
    }

    /// Maps an extent of which all is in memory, in one block, with a superpage, over the base pages that are mapped.
    /// Not where the process has pages of its own there. Answers `fault` with it, if there is one.
    fn map_code(
        &mut self,
        asid: Asid,
        extent: &Extent,
        fault: Option<(Fault, &PageView)>,
    ) -> Result<bool, OutOfMemory> {
        let Some(block) = self.block_of(extent) else { return Ok(false) };
        let entries: Vec<MappedPage> = self.at(asid).table().pages(extent.first, self.pages_in(extent));
        if entries.iter().any(|entry| entry.pte.pfn() != block + (entry.vpn - extent.first)) {
            return Ok(false);
        }
        if fault.is_some() {
            self.charge_fault(asid, FaultKind::File, false);
        }
        self.pad(asid, extent);
        self.see_promoted(extent.object, extent.index);
        let pte = self.touched(self.entry(block, extent.size, Protection::READ_EXECUTE, false), Kind::Fetch);
        let label = if fault.is_some() { Label::Fault } else { Label::Remap };
        match entries.is_empty() {
            true => self.map(asid, extent.first, pte, label)?,
            false => self.replace(asid, extent.first, pte, &entries, label)?,
        }
        Ok(true)
    }

    /// Makes the whole extent code: regions of the file in it get the right to be executed, and what is free becomes a
    /// region of the file.
    fn pad(&mut self, asid: Asid, extent: &Extent) {
        let base = self.base();
        let (start, end) = (extent.first.0 << base.0, (extent.first.0 + self.pages_in(extent)) << base.0);
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

    /// How many pages of a file reservations may take in: all, and those that pad its code.
    pub(crate) fn reservable(&self, object: ObjectId) -> u64 {
        let object = self.objects.get(object);
        debug_assert!(matches!(object.kind, ObjectKind::File(_)));
        object.len.map_or(u64::MAX, |len| len.div_ceil(self.base().bytes())).max(object.padded)
    }
}
