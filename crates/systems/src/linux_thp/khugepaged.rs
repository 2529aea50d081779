//! khugepaged and MADV_COLLAPSE: base pages that are copied into huge pages.
//!
//! | Linux, `mm/khugepaged.c` | here |
//! |---|---|
//! | `khugepaged_scan_mm_slot` | [`LinuxThp::scan`] |
//! | `hpage_collapse_scan_pmd` | [`LinuxThp::collapse_extent`] |
//! | `mthp_collapse`, from 7.2 on | [`LinuxThp::collapse_parts`] |
//! | `collapse_huge_page` | [`LinuxThp::copy_into_block`] |
//! | `collapse_file` | [`LinuxThp::collapse_cached_extent`], in `file.rs` |
//!
//! Linux 7.2 skips blocks that a folio of their size or larger holds. Frames here do not know their folio, so that contiguous,
//! aligned frames stand for it.

use super::{LinuxThp, PTES, Version, is_candidate};
use crate::collapse::{Census, Collapse, copy_into_block};
use reach_core::{Asid, Cycles, Label, PageShift, Span, Vpn};
use reach_os::{OutOfMemory, Region, Vm};

impl LinuxThp {
    /// Scans as many extents as one waking allows, and collapses those that may be.
    pub(super) fn scan(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.next_scan = self.after(now, self.scan_sleep_millisecs, vm);
        let mut left = self.pages_to_scan;
        while left > 0 {
            let Some((asid, first, region)) = self.next_extent(vm) else {
                self.cursor = (Asid(0), 0);
                break;
            };
            self.cursor = (asid, (first.0 << vm.base().0) + self.huge.bytes());
            left = left.saturating_sub(self.huge.base_pages(vm.base()));
            if self.collapse_extent(asid, first, &region, vm)? == Collapse::NoMemory {
                self.next_scan = self.after(now, self.alloc_sleep_millisecs, vm);
                break;
            }
        }
        Ok(())
    }

    /// Returns the first extent at or after the cursor that may be collapsed, in the order of address spaces. `None`: the scan
    /// has come to its end.
    fn next_extent(&self, vm: &Vm) -> Option<(Asid, Vpn, Region)> {
        let size = self.huge.bytes();
        let may = |region: &&Region| match region.anonymous() {
            true => self.allowed(region) || self.collapses_parts(region),
            false => self.files.is_scanned(region, self.enabled, self.huge, vm),
        };
        for (asid, process) in vm.processes().filter(|&(asid, _)| asid >= self.cursor.0) {
            let from = if asid == self.cursor.0 { self.cursor.1 } else { 0 };
            for region in process.space().regions().filter(|region| region.end > from).filter(may) {
                let start = region.start.max(from).next_multiple_of(size);
                if start + size <= region.end {
                    return Some((asid, Vpn(start >> vm.base().0), *region));
                }
            }
        }
        None
    }

    /// Whether khugepaged collapses parts of `region` to blocks smaller than a huge page.
    fn collapses_parts(&self, region: &Region) -> bool {
        self.version == Version::V7_2 && self.multi_size.allowed(region)
    }

    /// Collapses the extent at `first`, which lies within `region`, or parts of it, as far as khugepaged's limits allow.
    fn collapse_extent(&self, asid: Asid, first: Vpn, region: &Region, vm: &mut Vm) -> Result<Collapse, OutOfMemory> {
        if !region.anonymous() {
            return self.collapse_cached_extent(asid, first, region, true, vm);
        }
        let pages = self.huge.base_pages(vm.base());
        let census = Census::of(asid, first, self.huge, vm);
        if census.pages.is_empty() || census.pages.iter().any(|page| page.pte.shift() >= self.huge) {
            return Ok(Collapse::Ineligible);
        }
        vm.charge(Label::Daemon, pages * vm.options().costs.scan_per_page);
        // Linux's limits are per 512 entries; superpages of other machines have other numbers of them.
        let limit = |of_512: u64| of_512 * pages / PTES;
        let is_shared = census.shared > limit(self.max_ptes_shared);
        if census.present == 0 || is_shared || !census.accessed || !census.writable {
            return Ok(Collapse::Ineligible);
        }
        let mut done = Collapse::Ineligible;
        if self.allowed(region) && pages - census.present <= limit(self.max_ptes_none) {
            done = self.copy_into_block(asid, first, self.huge, region, Label::Daemon, vm)?;
        }
        if done != Collapse::Done && self.collapses_parts(region) {
            done = self.collapse_parts(asid, first, region, vm)?;
        }
        Ok(done)
    }

    /// Collapses aligned parts of the extent at `first` to blocks of the sizes of `mthp`: walks through it, and tries the largest
    /// size first wherever one is aligned.
    fn collapse_parts(&self, asid: Asid, first: Vpn, region: &Region, vm: &mut Vm) -> Result<Collapse, OutOfMemory> {
        let base = vm.base();
        let end = first + self.huge.base_pages(base);
        let (mut at, mut any, mut last) = (first, Collapse::Ineligible, Collapse::Ineligible);
        while at < end {
            let mut step = 1;
            for &size in self.multi_size.sizes() {
                step = size.base_pages(base);
                if at.0 % step != 0 {
                    continue;
                }
                last = self.collapse_part(asid, at, size, region, vm)?;
                if last == Collapse::Done {
                    any = Collapse::Done;
                    break;
                }
            }
            at += step;
        }
        Ok(if any == Collapse::Done { any } else { last })
    }

    /// Collapses the part of `size` at `first`. Since a collapse fills holes, a limit between all and nothing would make the next
    /// larger size eligible in turn, so that `max_ptes_none` below its greatest value counts as 0 (`collapse_max_ptes_none`).
    fn collapse_part(
        &self,
        asid: Asid,
        first: Vpn,
        size: PageShift,
        region: &Region,
        vm: &mut Vm,
    ) -> Result<Collapse, OutOfMemory> {
        let least = if self.max_ptes_none == PTES - 1 { 1 } else { size.base_pages(vm.base()) };
        let census = Census::of(asid, first, size, vm);
        let is_larger = census.pages.iter().any(|page| page.pte.shift() > size);
        if census.present < least || census.shared > 0 || census.is_block || is_larger {
            return Ok(Collapse::Ineligible);
        }
        self.copy_into_block(asid, first, size, region, Label::Daemon, vm)
    }

    /// MADV_COLLAPSE: collapses all aligned extents in `span` of memory that can have huge pages, without limits.
    pub(super) fn collapse_span(&mut self, span: Span, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let (asid, base, size) = (vm.current(), vm.base(), self.huge.bytes());
        let regions: Vec<Region> = match vm.process(asid) {
            Some(process) => process.space().overlapping(span.start.0, span.end().0).copied().collect(),
            None => return Ok(()),
        };
        for region in &regions {
            if !is_candidate(region) && !self.files.is_collapsible(region, vm) {
                continue;
            }
            let mut at = region.start.max(span.start.0).next_multiple_of(size);
            while at + size <= region.end.min(span.end().0) {
                let first = Vpn(at >> base.0);
                if !region.anonymous() {
                    self.collapse_cached_extent(asid, first, region, false, vm)?;
                    at += size;
                    continue;
                }
                let census = Census::of(asid, first, self.huge, vm);
                if !census.pages.is_empty() && census.pages.iter().all(|page| page.pte.shift() < self.huge) {
                    self.copy_into_block(asid, first, self.huge, region, Label::Copy, vm)?;
                }
                at += size;
            }
        }
        Ok(())
    }

    /// Copies the extent of `size` at `first`, which lies within `region`, into a block of its size.
    fn copy_into_block(
        &self,
        asid: Asid,
        first: Vpn,
        size: PageShift,
        region: &Region,
        label: Label,
        vm: &mut Vm,
    ) -> Result<Collapse, OutOfMemory> {
        if size == self.huge {
            self.reclaim_for(region, vm);
        }
        copy_into_block(asid, first, size, region, label, vm)
    }
}
