//! Eager paging (Karakostas et al. 2015, §5.2, Figure 5): a mapping gets its memory when it is made, in the largest free
//! blocks, rather than page by page when it is touched.

use crate::{OutOfMemory, PageView, Region, Translated, Vm};
use reach_core::{Asid, Label, Permille, Pfn, Protection, RangeTranslation, Role, Vpn};

/// One part in this many of memory is not given out in advance, so that pages that are touched still get frames.
const KEPT_FREE: u64 = 16;

impl Region {
    /// Returns whether mmap, brk and mremap may page the region eagerly: private memory with some access right and
    /// accounted swap space, but no stack. The kernel's `vm_brk` also makes the zeroed part of a program's image.
    fn may_be_eager(&self) -> bool {
        self.anonymous() && self.role != Role::Stack && !self.no_reserve && self.protection != Protection::NONE
    }
}

impl Vm {
    /// Gives the bytes `start..end`, which the running process has just mapped, their memory, as far as the policy allows
    /// and there is enough. The rest is left to demand paging.
    pub(crate) fn page_eagerly(&mut self, start: u64, end: u64) -> Result<(), OutOfMemory> {
        let asid = self.current();
        let Some(ranging) = self.translation.ranging() else { return Ok(()) };
        if start >= end || self.process(asid).is_none() {
            return Ok(());
        }
        let pages = self.unshared_pages(asid, start, end);
        let wanted = pages.end - pages.start;
        let view = self.at(asid).space.page(Vpn(pages.start), 1, self.base());
        let eager = |view: &PageView| {
            view.region.may_be_eager() && (view.region.role != Role::Heap || end - start >= ranging.heap)
        };
        let Some(view) = view.filter(|view| wanted >= ranging.least && eager(view)) else { return Ok(()) };
        if ranging.translated == Translated::BySegment && !self.at(asid).table().segments().is_empty() {
            return Ok(());
        }
        if self.fragmentation() > ranging.fragmented {
            self.accounting.count_ranges(|c| c.fragmented += 1);
            return Ok(());
        }
        self.accounting.count_ranges(|c| c.eager += 1);
        let mut at = pages.start;
        for mapped in self.at(asid).table().pages(Vpn(pages.start), wanted) {
            self.fill_gap(asid, &view, at..mapped.vpn.0)?;
            at = self.extent(&mapped).1;
        }
        self.fill_gap(asid, &view, at..pages.end)?;
        self.account_range_accesses(asid, Label::Fault);
        Ok(())
    }

    /// Returns the share of free memory that lies in blocks smaller than [`Ranging::BLOCK`](crate::Ranging::BLOCK), or than
    /// the allocator's largest block if that is smaller still.
    pub fn fragmentation(&self) -> Permille {
        let order = (crate::Ranging::BLOCK >> self.base().0).max(1).ilog2();
        let buddy = self.frames.buddy();
        let small = buddy.free_below(order.min(u32::from(buddy.max_order())) as u8);
        Permille::ratio(small, buddy.free_frames()).unwrap_or_default()
    }

    /// Maps the base pages of `gap`, where nothing is mapped, run by run.
    fn fill_gap(&mut self, asid: Asid, view: &PageView, gap: std::ops::Range<u64>) -> Result<(), OutOfMemory> {
        if gap.start >= gap.end {
            return Ok(());
        }
        let runs = self.take_blocks(view, gap.clone());
        if runs.iter().map(|run| run.pages).sum::<u64>() < gap.end - gap.start {
            self.accounting.count_ranges(|c| c.short += 1);
        }
        for run in &runs {
            self.hold(run.pte.pfn(), run.pages);
        }
        self.note_private_pages(asid, Vpn(gap.start), gap.end - gap.start);
        for &run in &runs {
            self.zero(run.pte.pfn(), run.pages, Label::Fault);
            let joined = self.join_ranges(asid, run);
            for vpn in (run.vpn.0..run.end().0).map(Vpn) {
                self.map(asid, vpn, run.pte_at(vpn).with_range(joined), Label::Fault)?;
            }
            self.add_segment(asid, run);
        }
        self.release_held(runs.len());
        Ok(())
    }

    /// Allocates frames for the pages of `gap`, in as few contiguous runs as their blocks make. Returns fewer pages when
    /// memory is short.
    fn take_blocks(&mut self, view: &PageView, gap: std::ops::Range<u64>) -> Vec<RangeTranslation> {
        let base = self.base();
        let rights = self.entry(Pfn(0), base, view.protection, true);
        let rights = rights.with_range(true).with_accessed(true).with_dirty(true);
        let mut runs: Vec<RangeTranslation> = Vec::new();
        let mut at = gap.start;
        while let Some((pfn, pages)) = self.take_block(view, Vpn(at), gap.end - at) {
            let block = RangeTranslation { vpn: Vpn(at), pages, pte: rights.with_pfn(pfn) };
            match runs.last_mut().filter(|last| last.is_continued_by(&block)) {
                Some(last) => last.pages += pages,
                None => runs.push(block),
            }
            at += pages;
        }
        runs
    }

    /// Allocates the largest free block of at most `wanted` pages; with [`Ranging::larger`](crate::Ranging::larger), exactly
    /// `wanted` pages out of a larger block where there is one. Returns its first frame and its pages. `None` when memory is
    /// short.
    fn take_block(&mut self, view: &PageView, vpn: Vpn, wanted: u64) -> Option<(Pfn, u64)> {
        let kept = self.frames.buddy().frames() / KEPT_FREE;
        let room = self.frames.buddy().free_frames().saturating_sub(kept + wanted / 256 + 8);
        let wanted = wanted.min(room);
        let largest = self.frames.buddy().largest_free()?;
        let whole = wanted.checked_ilog2()? as u8;
        let (object, index) = (view.region.object, view.region.index(vpn, self.base()));
        let larger = self.translation.ranging().is_some_and(|ranging| ranging.larger)
            && !wanted.is_power_of_two()
            && whole < largest;
        let order = if larger { whole + 1 } else { whole.min(largest) };
        let pages = wanted.min(1 << order);
        let pfn = self.frames.allocate_part(order, pages, object, index)?;
        self.forget_dropped();
        self.charge(Label::Fault, self.options().costs.fault);
        self.accounting.count_ranges(|c| {
            c.eager_blocks += 1;
            c.eager_pages += pages;
        });
        Some((pfn, pages))
    }
}
