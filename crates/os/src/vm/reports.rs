//! Reports on the state of memory: samples over time, and censuses of what processes have mapped. They change nothing but
//! the counters that keep them.

use crate::accounting::Runs;
use crate::memory::Queue;
use crate::{Census, FrameKind, Process, Sample, Vm, contiguity};
use reach_core::{Asid, Cycles, MappedPage, PageShift, Pfn, Pte, Vpn};
use std::collections::BTreeSet;

/// Runs of fewer base pages are no ranges (Karakostas et al. 2015, §7).
const SHORTEST_RANGE: u64 = 8;

impl Vm {
    /// Adds the present state of memory to the series of [`Counters`](crate::Counters). Takes time linear in memory.
    pub fn sample(&mut self, now: Cycles) {
        let sample = Sample { millis: now.0 / (self.options.hertz / 1000).max(1), ..self.sample_memory() };
        self.accounting.total.series.push(sample);
    }

    /// Returns the present state of memory. Takes time linear in memory where there is a page daemon; without one, the
    /// sizes of its lists are 0.
    pub(crate) fn sample_memory(&self) -> Sample {
        let (base, buddy) = (self.base(), self.frames.buddy());
        let share = contiguity(buddy, &self.options.sizes);
        let mut sample = Sample {
            contiguity: (share * 1e6).round() as u64,
            free: buddy.free_frames() << base.0,
            ..Sample::default()
        };
        let Some(queues) = &self.frames.queues else { return sample };
        let top = self.options.sizes.last().map_or(0, |size| size.order(base));
        let extents = |queue| queues.iter(queue).map(|at| at >> top);
        let in_use: BTreeSet<u64> = extents(Queue::Active).chain(extents(Queue::Inactive)).collect();
        let kernel = |at: &u64| matches!(self.frames.get(Pfn(*at)).kind, FrameKind::Wired | FrameKind::Table);
        let wired: BTreeSet<u64> = (0..buddy.frames()).filter(kernel).map(|at| at >> top).collect();
        sample.active = queues.len(Queue::Active) << base.0;
        sample.inactive = queues.len(Queue::Inactive) << base.0;
        (sample.in_use, sample.wired) = (in_use.len() as u64, wired.len() as u64);
        sample
    }

    /// Returns how contiguous the memory that `process` has mapped is.
    pub fn census(&self, process: &Process) -> Census {
        let base = self.base();
        let limit = 1 << (self.options().layout.address_bits() - base.0);
        let mut census = Census { entries: vec![0; self.options().sizes.len()], ..Census::default() };
        let (mut ranges, mut ideal) = (Runs::new(SHORTEST_RANGE), Runs::new(1));
        for entry in process.table().iter_pages(Vpn(0), limit) {
            if self.kind_of(entry.pte) == FrameKind::Zero {
                continue;
            }
            let pages = entry.pte.shift().base_pages(base);
            census.pages += pages;
            if let Some(size) = self.options().sizes.iter().position(|&size| size == entry.pte.shift()) {
                census.entries[size] += 1;
            }
            let rights = Pte(entry.pte.0 & (Pte::WRITABLE | Pte::EXECUTABLE)).with_shift(PageShift(0));
            ranges.add(&entry, pages, rights.with_pfn(entry.pte.pfn()), pages);
            ideal.add(&entry, pages, rights, 0);
        }
        census.ranges = ranges.sorted();
        census.ideal = ideal.sorted();
        census
    }

    /// Keeps the censuses of a process that is about to end, if it has more mapped than those before it.
    pub(crate) fn keep_census(&mut self, asid: Asid) {
        self.record_written_code(asid);
        // Most programs fork and exec: an address space is only looked at if it may be the largest.
        let most = self.counters().census.as_ref().map_or(0, |census| census.pages);
        let resident = self.accounting.of(asid).map_or(0, |counters| counters.resident_bytes.current);
        if let Some(process) = self.process(asid).filter(|_| resident >> self.base().0 > most) {
            self.accounting.total.census = Some(Box::new(self.census(process)));
        }
    }

    /// Returns the census of the process that had most memory mapped when it ended, or has now. `None` if no process has
    /// mapped anything.
    pub fn largest_census(&self) -> Option<Census> {
        let ended = self.counters().census.as_deref().cloned();
        let live = self.processes().map(|(_, process)| self.census(process));
        live.chain(ended).max_by_key(|census| census.pages).filter(|census| census.pages > 0)
    }

    /// Returns the superpages of `process`, by address.
    pub fn superpages(&self, process: &Process) -> Vec<MappedPage> {
        let base = self.base();
        let Some(&smallest) = self.options.sizes.get(1) else { return Vec::new() };
        let mut found: Vec<MappedPage> = Vec::new();
        for region in process.space().regions() {
            let pages = region.pages(base);
            let mut at = Vpn(pages.start);
            while at.0 < pages.end {
                at = match process.table().page(at) {
                    Some(page) if page.pte.shift() > base => {
                        // Two regions may lie in one superpage.
                        if found.last() != Some(&page) {
                            found.push(page);
                        }
                        page.vpn + page.pte.shift().base_pages(base)
                    }
                    _ => at.align_down(smallest, base) + smallest.base_pages(base),
                };
            }
        }
        found
    }

    /// Returns the kind of frame behind a translation; for reports.
    pub fn kind_of(&self, pte: Pte) -> FrameKind {
        self.frames.get(pte.pfn()).kind
    }
}
