//! Cache pages (Navarro et al. §5.1): clean, unmapped pages of files. The allocator and reservations count them as free and hand
//! them out last; until then they can be reactivated with their contents.

use crate::reservation::Placement;
use crate::{FrameKind, Frames, ObjectId, Operation};
use reach_core::Pfn;

impl Frames {
    /// Makes the unmapped page of a file at `pfn` a cache page.
    pub(crate) fn make_cache_page(&mut self, pfn: Pfn) {
        let mut frame = self.get_mut(pfn);
        debug_assert!(frame.kind == FrameKind::File && frame.cached && frame.maps == 0 && !frame.dirty, "{frame:?}");
        frame.kind = FrameKind::Cache;
        let (object, index) = (frame.object, frame.index);
        drop(frame);
        self.cache_pages += 1;
        self.unqueue(pfn);
        self.leave_population_map(object, index, pfn);
    }

    /// Puts the cache page at `pfn` to use again. Takes its frame from the allocator, or from the reservation that holds it,
    /// which is preempted unless it reserves the frame for this very page.
    pub(crate) fn reactivate(&mut self, pfn: Pfn) {
        let frame = self.get(pfn);
        debug_assert_eq!(frame.kind, FrameKind::Cache);
        let (object, index) = (frame.object, frame.index);
        let own = loop {
            match self.look_up(object, index) {
                Placement::Reserved(reserved) if reserved == pfn => break true,
                // A second frame is reserved for the page.
                Placement::Reserved(reserved) => self.break_at(reserved),
                Placement::Populated | Placement::Vacant(_) => break false,
            }
        };
        if !own {
            if self.buddy.free_block(pfn).is_none() {
                self.break_at(pfn);
            }
            let taken = self.buddy.allocate_at(pfn, 0);
            debug_assert_eq!(taken, Some(pfn), "a cache page is free or reserved");
        }
        self.get_mut(pfn).kind = FrameKind::File;
        self.cache_pages -= 1;
        // The fault that maps the page makes it active.
        self.deactivate(pfn);
        if let Some(reservations) = &mut self.reservations {
            reservations.populate(object, index, pfn);
            self.note_work(Operation::Update, 0);
        }
    }

    /// Preempts the reservation that holds the vacant frame `pfn` until that frame is free.
    pub(super) fn break_at(&mut self, pfn: Pfn) {
        let Some(reservations) = &mut self.reservations else { return };
        let level = reservations.level_over(pfn);
        let free = reservations.break_at(pfn);
        self.note_work(Operation::Preempt, level);
        for (pfn, order) in free {
            self.release(pfn, order);
        }
    }

    /// Frees a block to the allocator, to the end of its list if it holds cache pages.
    pub(crate) fn release(&mut self, pfn: Pfn, order: u8) {
        let cached = |at| self.get(Pfn(at)).kind == FrameKind::Cache;
        if self.cache_pages > 0 && (pfn.0..pfn.0 + (1 << order)).any(cached) {
            self.buddy.free_last(pfn, order);
        } else {
            self.buddy.free(pfn, order);
        }
    }

    /// Returns the cache pages whose frames were allocated since the last call. The caller removes them from their files.
    pub(crate) fn take_dropped(&mut self) -> Vec<(ObjectId, u64)> {
        std::mem::take(&mut self.dropped)
    }
}
