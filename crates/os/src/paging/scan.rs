//! The scans of the page daemon, as FreeBSD 4 does them (`vm_pageout_scan`): approximately least recently used.

use crate::memory::Queue;
use crate::{Operation, OutOfMemory, Vm};
use reach_core::{Label, Pfn};

/// Activity that a scan adds to a page that was used (`ACT_ADVANCE`).
const ADVANCE: u8 = 3;
/// Activity that a scan takes from a page that was not used (`ACT_DECLINE`).
const DECLINE: u8 = 1;
/// Largest activity (`ACT_MAX`).
pub(super) const MOST_ACTIVITY: u8 = 64;

impl Vm {
    /// Evicts pages until `target` frames are available, in at most `rounds` rounds. A round evicts inactive pages that were not used
    /// meanwhile, from the first on. Then the active pages with the least activity become inactive, as many as are wanted there.
    pub(crate) fn reclaim(&mut self, target: u64, rounds: u32) -> Result<(), OutOfMemory> {
        self.counting_scans(|vm| vm.reclaim_in(target, rounds))
    }

    /// Counts the pages that the daemon scans in `run` as one operation.
    pub(super) fn counting_scans(
        &mut self,
        run: impl FnOnce(&mut Vm) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        let scanned = |vm: &Vm| vm.pager.as_ref().map_or(0, |pager| pager.counts.scanned);
        let before = scanned(self);
        let done = run(self);
        let base = self.base();
        self.count_steps(Operation::Scan, base, scanned(self) - before);
        self.charge_frame_work(Label::Daemon);
        done
    }

    fn reclaim_in(&mut self, target: u64, rounds: u32) -> Result<(), OutOfMemory> {
        for round in 0..rounds {
            self.scan_inactive(target, round > 0)?;
            // `v_inactive_target` is one and a half times the low-water mark.
            let wanted = target + self.low_water() * 3 / 2;
            let has = self.available() + self.queued(Queue::Inactive);
            self.scan_active(wanted.saturating_sub(has))?;
            if self.available() >= target {
                break;
            }
        }
        self.stock_pool()
    }

    /// Returns the number of pages on a list.
    fn queued(&self, queue: Queue) -> u64 {
        self.frames.queues.as_ref().map_or(0, |queues| queues.len(queue))
    }

    /// Returns the first page of a list.
    fn first(&self, queue: Queue) -> Option<Pfn> {
        self.frames.queues.as_ref()?.first(queue).map(Pfn)
    }

    /// Charges for scanning one page and counts it.
    pub(super) fn charge_scan(&mut self) {
        self.charge(Label::Daemon, self.options.costs.scan_per_page);
        self.count_paging(|counts| counts.scanned += 1);
    }

    /// Returns whether the page at `pfn` belongs to an object without mappings, whose reference bits do not count.
    pub(super) fn closed(&self, pfn: Pfn) -> bool {
        let frame = self.frames.get(pfn);
        frame.cached && self.objects.get(frame.object).mapped == 0
    }

    /// Evicts inactive pages that were not used until `target` frames are available. Dirty pages are skipped once, unless
    /// `urgent`.
    fn scan_inactive(&mut self, target: u64, urgent: bool) -> Result<(), OutOfMemory> {
        for _ in 0..self.queued(Queue::Inactive) {
            if self.available() >= target {
                break;
            }
            let Some(pfn) = self.first(Queue::Inactive) else { break };
            self.charge_scan();
            if self.pinned(pfn) || !self.closed(pfn) && self.referenced(pfn) {
                self.clear_reference(pfn)?;
                self.advance(pfn);
            } else if !urgent && !self.frames.get(pfn).passed && self.is_dirty(pfn) {
                self.frames.deactivate(pfn);
                self.frames.get_mut(pfn).passed = true;
            } else {
                self.evict(pfn)?;
            }
        }
        Ok(())
    }

    /// Moves the page at `pfn`, which was used, to the end of the active list, if it is still in memory.
    fn advance(&mut self, pfn: Pfn) {
        if self.frames.queued(pfn).is_some() {
            self.frames.activate(pfn);
            let mut frame = self.frames.get_mut(pfn);
            frame.activity = (frame.activity + ADVANCE).min(MOST_ACTIVITY);
        }
    }

    /// Scans active pages, each at most once, until `wanted` of them are inactive or evicted.
    fn scan_active(&mut self, mut wanted: u64) -> Result<(), OutOfMemory> {
        for _ in 0..self.queued(Queue::Active) {
            if wanted == 0 {
                break;
            }
            let Some(pfn) = self.first(Queue::Active) else { break };
            self.charge_scan();
            let closed = self.closed(pfn);
            if self.pinned(pfn) || !closed && self.referenced(pfn) {
                self.clear_reference(pfn)?;
                self.advance(pfn);
                continue;
            }
            let activity = self.frames.get(pfn).activity.saturating_sub(DECLINE);
            if !closed && activity > 0 {
                // `activate` would make the page look used.
                self.frames.rotate(pfn);
                self.frames.get_mut(pfn).activity = activity;
                continue;
            }
            wanted -= 1;
            if closed && !self.is_dirty(pfn) {
                self.evict(pfn)?;
            } else {
                self.frames.deactivate(pfn);
            }
        }
        Ok(())
    }
}
