//! Making room for an allocation that failed: the page daemon works while the allocation waits.

use crate::{FrameKind, ObjectId, OutOfMemory, Vm};
use reach_core::Pfn;

/// Rounds after which every page that may go is gone: activity cannot exceed its maximum.
const ROUNDS: u32 = super::scan::MOST_ACTIVITY as u32 + 3;

impl Vm {
    /// Makes room for a block of `2^order` frames. The page daemon evicts pages at once. If that does not yield a block of several
    /// frames, one block is emptied, as FreeBSD's `contigmalloc` does. Without a page daemon, all unmapped file pages are
    /// dropped. The caller checks whether there is a block now.
    pub(crate) fn make_room(&mut self, order: u8) -> Result<(), OutOfMemory> {
        // The daemon itself must not wait for the daemon.
        if self.pager.as_ref().is_none_or(|pager| pager.running) {
            self.drop_idle_file_pages();
            return Ok(());
        }
        self.as_daemon(|vm| {
            let target = vm.available() + vm.low_water().max(1);
            vm.reclaim(target, ROUNDS)?;
            if order > 0 { vm.clear_block(order) } else { Ok(()) }
        })
    }

    /// Empties blocks of `2^order` frames whose pages may all go, from the lowest on, until one is free.
    fn clear_block(&mut self, order: u8) -> Result<(), OutOfMemory> {
        let pages = 1 << order;
        let mut at = 0;
        while at + pages <= self.frames.buddy().frames() && self.frames.buddy().largest_free() < Some(order) {
            if (at..at + pages).all(|at| self.can_go(Pfn(at))) {
                for pfn in (at..at + pages).map(Pfn) {
                    if self.frames.queued(pfn).is_some() {
                        self.evict(pfn)?;
                    }
                }
            }
            at += pages;
        }
        Ok(())
    }

    /// Returns whether the frame is free, or its page may be evicted.
    fn can_go(&self, pfn: Pfn) -> bool {
        match self.frames.get(pfn).kind {
            FrameKind::Free | FrameKind::Cache => true,
            FrameKind::Anonymous | FrameKind::File => !self.pinned(pfn),
            FrameKind::Table | FrameKind::Wired | FrameKind::Zero => false,
        }
    }

    /// Drops every page of a file that no translation points to. That costs only the later fault: without a page daemon, simulated
    /// files are never written back.
    pub fn drop_idle_file_pages(&mut self) {
        let files: Vec<ObjectId> = self.objects.files().map(|(_, id)| id).collect();
        for id in files {
            let idle: Vec<(u64, Pfn)> = self
                .objects
                .get(id)
                .pages
                .iter()
                .map(|(&index, &pfn)| (index, pfn))
                .filter(|&(_, pfn)| self.frames.get(pfn).maps == 0 && !self.pinned(pfn))
                .collect();
            for (index, pfn) in idle {
                if self.frames.get(pfn).dirty {
                    self.write_out(pfn);
                }
                self.objects.remove_page(id, index);
                self.frames.uncache(pfn);
            }
        }
    }
}
