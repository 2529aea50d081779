//! Cache pages (Navarro et al. §5.1): clean pages of files that nobody maps. The allocator and reservations count them
//! as free and hand them out last; until then they can be had back with what they hold.

use crate::reservation::Seat;
use crate::{FrameKind, Frames, ObjectId, Operation};
use reach_core::Pfn;

impl Frames {
    /// The unmapped page of a file at `pfn` becomes a cache page.
    pub(crate) fn shelve(&mut self, pfn: Pfn) {
        let mut frame = self.get_mut(pfn);
        debug_assert!(frame.kind == FrameKind::File && frame.cached && frame.maps == 0 && !frame.dirty, "{frame:?}");
        frame.kind = FrameKind::Cache;
        let (object, index) = (frame.object, frame.index);
        drop(frame);
        self.cache_pages += 1;
        self.unqueue(pfn);
        self.leave_map(object, index, pfn);
    }

    /// The cache page at `pfn` is used again: it leaves the allocator, or the reservation, which is preempted unless it
    /// is this very page's.
    pub(crate) fn revive(&mut self, pfn: Pfn) {
        let frame = self.get(pfn);
        debug_assert_eq!(frame.kind, FrameKind::Cache);
        let (object, index) = (frame.object, frame.index);
        let own = loop {
            match self.seat(object, index) {
                Seat::Reserved(seat) if seat == pfn => break true,
                // Another frame is reserved for the page, which has one.
                Seat::Reserved(seat) => self.break_at(seat),
                Seat::Taken | Seat::Vacant(_) => break false,
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
        // Whoever faults on it makes it active.
        self.deactivate(pfn);
        if let Some(reservations) = &mut self.reservations {
            reservations.populate(object, index, pfn);
            self.did(Operation::Update, 0);
        }
    }

    /// The reservation that holds the vacant frame `pfn` is preempted until that frame is free.
    pub(super) fn break_at(&mut self, pfn: Pfn) {
        let Some(reservations) = &mut self.reservations else { return };
        let level = reservations.level_over(pfn);
        let free = reservations.break_at(pfn);
        self.did(Operation::Preempt, level);
        for (pfn, order) in free {
            self.release(pfn, order);
        }
    }

    /// Gives a block to the allocator: last among its equals if it holds cache pages.
    pub(crate) fn release(&mut self, pfn: Pfn, order: u8) {
        let cached = |at| self.get(Pfn(at)).kind == FrameKind::Cache;
        if self.cache_pages > 0 && (pfn.0..pfn.0 + (1 << order)).any(cached) {
            self.buddy.free_last(pfn, order);
        } else {
            self.buddy.free(pfn, order);
        }
    }

    /// Cache pages whose frames were handed out since the last call: their files do not have them any more.
    pub(crate) fn take_dropped(&mut self) -> Vec<(ObjectId, u64)> {
        std::mem::take(&mut self.dropped)
    }
}
