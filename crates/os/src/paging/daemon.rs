//! The page daemon (Navarro et al. §5.1): it keeps some memory available (`scan.rs`) and, if it serves contiguity, restores regions
//! for which reservations failed.

use crate::memory::Queue;
use crate::{FrameKind, OutOfMemory, Vm};
use reach_core::{Label, Pfn};
use std::collections::BTreeSet;

impl Vm {
    /// Runs the daemon once: for memory if that is short, then for contiguity if reservations failed since the last run.
    ///
    /// # Errors
    /// When there is no memory for the page-table nodes of a demotion.
    pub fn page_daemon(&mut self) -> Result<(), OutOfMemory> {
        self.as_daemon(Vm::run_daemon)
    }

    /// Runs `run` as the daemon, which must not be called again meanwhile. Does nothing without a page daemon, or while it is at
    /// work.
    pub(super) fn as_daemon(
        &mut self,
        run: impl FnOnce(&mut Vm) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        let Some(pager) = self.pager.as_mut().filter(|pager| !pager.running) else { return Ok(()) };
        pager.running = true;
        let done = run(self);
        if let Some(pager) = &mut self.pager {
            pager.running = false;
        }
        done
    }

    /// Wakes the daemon if memory is short, as FreeBSD's allocator does, for memory only. Returns `false` if memory is still
    /// short afterwards; then nothing can be done before pages have had time to become unused.
    ///
    /// # Errors
    /// When there is no memory for the page-table nodes of a demotion.
    pub fn wake_daemon(&mut self) -> Result<bool, OutOfMemory> {
        if !self.short_of_memory() {
            return Ok(true);
        }
        if self.pager.as_ref().is_none_or(|pager| pager.running) {
            return Ok(true);
        }
        self.as_daemon(|vm| vm.reclaim(2 * vm.low_water(), 1))?;
        Ok(!self.short_of_memory())
    }

    fn run_daemon(&mut self) -> Result<(), OutOfMemory> {
        if self.short_of_memory() {
            self.reclaim(2 * self.low_water(), 1)?;
        }
        if self.pager.as_ref().is_some_and(|pager| pager.settings.contiguity) {
            self.counting_scans(Vm::restore_contiguity)?;
        }
        Ok(())
    }

    /// Goes through the inactive list once and moves to the cache only pages that complete regions of the sizes that were
    /// wanted.
    fn restore_contiguity(&mut self) -> Result<(), OutOfMemory> {
        let Some(pager) = &mut self.pager else { return Ok(()) };
        let levels = pager.failed.len();
        let mut wanted = std::mem::replace(&mut pager.failed, vec![0; levels]);
        let goal: u64 = wanted.iter().sum();
        if goal == 0 {
            return Ok(());
        }
        let mut restored = 0;
        let mut hopeless: BTreeSet<(usize, u64)> = BTreeSet::new();
        let inactive: Vec<u64> = self.frames.queues.iter().flat_map(|queues| queues.iter(Queue::Inactive)).collect();
        for at in inactive {
            let Some(level) = (1..levels).rev().find(|&level| wanted[level] > 0) else { break };
            self.charge_scan();
            if self.frames.queues.as_ref().and_then(|queues| queues.of(at)) != Some(Queue::Inactive) {
                continue;
            }
            // The largest region that is wanted and that this page can help to complete.
            for level in (1..=level).rev().filter(|&level| wanted[level] > 0).collect::<Vec<_>>() {
                let pages = self.options.sizes[level].base_pages(self.base());
                let start = at & !(pages - 1);
                if hopeless.contains(&(level, start)) {
                    continue;
                }
                let cycles = pages * self.options.costs.scan_per_page / 8;
                self.charge(Label::Daemon, cycles);
                if start + pages <= self.frames.buddy().frames() && self.restorable(start, pages) {
                    for pfn in (start..start + pages).map(Pfn) {
                        if self.frames.queued(pfn) == Some(Queue::Inactive) {
                            self.evict(pfn)?;
                        }
                    }
                    (wanted[level], restored) = (wanted[level] - 1, restored + 1);
                    break;
                }
                hopeless.insert((level, start));
            }
        }
        self.count_paging(|counts| {
            counts.regions_wanted += goal;
            counts.regions_restored += restored;
        });
        Ok(())
    }

    /// Returns whether these frames would all be available if their inactive pages were in the cache: each is free or cached, or
    /// holds a clean, unused page of a file.
    fn restorable(&self, start: u64, pages: u64) -> bool {
        (start..start + pages).map(Pfn).all(|pfn| {
            let frame = self.frames.get(pfn);
            match frame.kind {
                // In the allocator, or in a reservation that ends with its last page.
                FrameKind::Free | FrameKind::Cache => {
                    let reservation = self.frames.reservations().and_then(|reservations| reservations.extent_of(pfn));
                    reservation.is_none_or(|(first, len)| start <= first && first + len <= start + pages)
                }
                FrameKind::File => {
                    let inactive = self.frames.queued(pfn) == Some(Queue::Inactive) && !self.pinned(pfn);
                    let used = !self.closed(pfn) && self.referenced(pfn);
                    inactive && frame.cached && !self.is_dirty(pfn) && !used
                }
                _ => false,
            }
        })
    }
}
