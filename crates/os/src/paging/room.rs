//! Room for whoever cannot go on without: the page daemon works while it waits.

use crate::{FrameKind, ObjectId, OutOfMemory, Vm};
use reach_core::Pfn;

/// After so many rounds nothing is left that may go: no page can have been used more than this counts.
const ROUNDS: u32 = super::scan::MOST_ACTIVITY as u32 + 3;

impl Vm {
    /// A block of `2^order` frames is wanted and not to be had: the page daemon finds some at once. A block of several
    /// frames may need more than their number: then one is emptied, as FreeBSD's `contigmalloc` does. Where there is
    /// no page daemon, all file pages that nobody maps are dropped.
    pub(crate) fn make_room(&mut self, order: u8) -> Result<(), OutOfMemory> {
        // What the daemon itself needs must be there.
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

    /// Empties the lowest block of `2^order` frames in which nothing must stay, unless one is free.
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

    fn can_go(&self, pfn: Pfn) -> bool {
        match self.frames.get(pfn).kind {
            FrameKind::Free | FrameKind::Cache => true,
            FrameKind::Anonymous | FrameKind::File => !self.pinned(pfn),
            FrameKind::Table | FrameKind::Wired | FrameKind::Zero => false,
        }
    }

    /// Drops every cached file page that no translation points to. It costs nothing but the later fault: where there is
    /// no page daemon, simulated files are never written back.
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
                self.objects.leave(id, index);
                self.frames.uncache(pfn);
            }
        }
    }
}
