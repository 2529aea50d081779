//! The scans of the page daemon, as FreeBSD 4 does them (`vm_pageout_scan`): approximately least recently used.

use crate::memory::Queue;
use crate::{Operation, OutOfMemory, Vm};
use reach_core::{Label, Pfn};

/// How much a look at a page that was used adds to its activity, and at one that was not takes away (`ACT_ADVANCE`,
/// `ACT_DECLINE`), and the most that it can come to (`ACT_MAX`).
const ADVANCE: u8 = 3;
const DECLINE: u8 = 1;
pub(super) const MOST_ACTIVITY: u8 = 64;

impl Vm {
    /// Frees pages until `target` frames are available, in so many rounds at most. In each, inactive pages that were not
    /// used meanwhile go, from the first on; then as many active pages become inactive as there is a want of, those
    /// that were not used for the longest time.
    pub(crate) fn reclaim(&mut self, target: u64, rounds: u32) -> Result<(), OutOfMemory> {
        self.counting_scans(|vm| vm.reclaim_in(target, rounds))
    }

    /// Counts what the daemon looks at in one run.
    pub(super) fn counting_scans(
        &mut self,
        run: impl FnOnce(&mut Vm) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        let looked = |vm: &Vm| vm.pager.as_ref().map_or(0, |pager| pager.counts.scanned);
        let before = looked(self);
        let done = run(self);
        let base = self.base();
        self.step(Operation::Scan, base, looked(self) - before);
        self.account(Label::Daemon);
        done
    }

    fn reclaim_in(&mut self, target: u64, rounds: u32) -> Result<(), OutOfMemory> {
        for round in 0..rounds {
            self.scan_inactive(target, round > 0)?;
            // `v_inactive_target` is one and a half times what is to be free.
            let wanted = target + self.low_water() * 3 / 2;
            let has = self.available() + self.queued(Queue::Inactive);
            self.scan_active(wanted.saturating_sub(has))?;
            if self.available() >= target {
                break;
            }
        }
        self.stock_pool()
    }

    fn queued(&self, queue: Queue) -> u64 {
        self.frames.queues.as_ref().map_or(0, |queues| queues.len(queue))
    }

    fn first(&self, queue: Queue) -> Option<Pfn> {
        self.frames.queues.as_ref()?.first(queue).map(Pfn)
    }

    pub(super) fn look(&mut self) {
        self.ledger.charge(Label::Daemon, self.options.costs.scan_per_page);
        self.paged(|counts| counts.scanned += 1);
    }

    /// Whether the page at `pfn` is of an object that nobody maps; whether it was used then counts for nothing.
    pub(super) fn closed(&self, pfn: Pfn) -> bool {
        let frame = self.frames.get(pfn);
        frame.cached && self.objects.get(frame.object).mapped == 0
    }

    /// Dirty pages are passed over once, unless `urgent`.
    fn scan_inactive(&mut self, target: u64, urgent: bool) -> Result<(), OutOfMemory> {
        for _ in 0..self.queued(Queue::Inactive) {
            if self.available() >= target {
                break;
            }
            let Some(pfn) = self.first(Queue::Inactive) else { break };
            self.look();
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

    /// The page at `pfn` was used: it goes to the end of the active list, if it still is in memory.
    fn advance(&mut self, pfn: Pfn) {
        if self.frames.queued(pfn).is_some() {
            self.frames.enqueue(pfn);
            let mut frame = self.frames.get_mut(pfn);
            frame.activity = (frame.activity + ADVANCE).min(MOST_ACTIVITY);
        }
    }

    /// Looks at active pages, each once at most, until `wanted` have become inactive or gone.
    fn scan_active(&mut self, mut wanted: u64) -> Result<(), OutOfMemory> {
        for _ in 0..self.queued(Queue::Active) {
            if wanted == 0 {
                break;
            }
            let Some(pfn) = self.first(Queue::Active) else { break };
            self.look();
            let closed = self.closed(pfn);
            if self.pinned(pfn) || !closed && self.referenced(pfn) {
                self.clear_reference(pfn)?;
                self.advance(pfn);
                continue;
            }
            let activity = self.frames.get(pfn).activity.saturating_sub(DECLINE);
            if !closed && activity > 0 {
                // To the end as it is: `enqueue` would have it look used.
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
