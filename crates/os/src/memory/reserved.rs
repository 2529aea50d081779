//! Allocation with reservations: a page gets its reserved frame, or a new reservation; reservations are preempted when the buddy
//! allocator is empty.

use crate::reservation::{Placement, Reservations, Reserving};
use crate::{FrameKind, Frames, ObjectId, Operation};
use reach_core::Pfn;

/// The frame allocated for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllocatedPage {
    pub(crate) pfn: Pfn,
    /// Level of the reservation made for it; 0 for none.
    pub(crate) reserved: u8,
}

impl Frames {
    /// Makes reservations for pages of objects from now on. Call before any page has a frame.
    pub fn make_reservations(&mut self, how: Reserving) {
        self.reservations = Some(Reservations::new(how));
    }

    /// Returns the reservations. `None` where the system makes none.
    pub fn reservations(&self) -> Option<&Reservations> {
        self.reservations.as_ref()
    }

    /// Takes a block of `2^order` frames from the allocator, after preempting as many reservations as that needs (Navarro
    /// §4.3). Returns `None` when there is no such block and nothing to preempt.
    pub(crate) fn take_block(&mut self, order: u8) -> Option<Pfn> {
        loop {
            let before = self.buddy.steps();
            if let Some(pfn) = self.buddy.allocate(order) {
                self.note_buddy_work(Operation::Split, order, before);
                return Some(pfn);
            }
            let (level, free) = self.reservations.as_mut()?.preempt(order)?;
            self.note_work(Operation::Preempt, level);
            for (pfn, order) in free {
                let before = self.buddy.steps();
                self.release(pfn, order);
                self.note_buddy_work(Operation::Join, order, before);
            }
        }
    }

    /// Notes the steps that reservations and population maps took since the last call, as an operation on a page of `level`.
    pub(super) fn note_work(&mut self, operation: Operation, level: u8) {
        if let Some(reservations) = &self.reservations {
            self.work.push((operation, level, reservations.take_steps()));
        }
    }

    /// Notes the steps that the allocator took since it had taken `before`, for a block of `2^order` frames.
    pub(super) fn note_buddy_work(&mut self, operation: Operation, order: u8, before: u64) {
        let steps = self.buddy.steps() - before;
        if let Some(reservations) = self.reservations.as_ref().filter(|_| steps > 0) {
            let level = reservations.ladder().holding(order).unwrap_or(reservations.ladder().top());
            self.work.push((operation, level, steps));
        }
    }

    /// Returns the number of reservations broken so far because memory was short.
    pub(crate) fn preemptions(&self) -> u64 {
        self.reservations.as_ref().map_or(0, |reservations| reservations.counts().reclaimed)
    }

    /// Looks page `index` of `object` up in its population map. Without reservations, nothing is ever reserved.
    pub(crate) fn look_up(&mut self, object: ObjectId, index: u64) -> Placement {
        let reservations = self.reservations.as_ref();
        let placement = reservations.map_or(Placement::Vacant(0), |reservations| reservations.look_up(object, index));
        self.note_work(Operation::LookUp, 0);
        placement
    }

    /// Aligns the placement of `object` so that page `index` falls on `place`, unless its placement is fixed already.
    pub(crate) fn align(&mut self, object: ObjectId, index: u64, place: u64) {
        if let Some(reservations) = &mut self.reservations {
            reservations.align(object, index, place);
        }
    }

    /// Allocates a frame for page `index` of `object`, whose placement was just looked up: the reserved frame, or one of the
    /// largest new reservation of at most `level` that memory has room for. Returns `None` when there is no frame at all.
    pub(crate) fn allocate_page(
        &mut self,
        kind: FrameKind,
        object: ObjectId,
        index: u64,
        placement: Placement,
        level: u8,
    ) -> Option<AllocatedPage> {
        let (pfn, reserved) = match placement {
            Placement::Reserved(pfn) => (pfn, 0),
            // The population map keeps the other frame.
            Placement::Populated => {
                let pfn = self.allocate(0, kind, ObjectId::NONE, index)?;
                return Some(AllocatedPage { pfn, reserved: 0 });
            }
            Placement::Vacant(_) => self.reserve_up_to(object, index, level)?,
        };
        self.assign(pfn, 1, kind, object, index);
        if let Some(reservations) = &mut self.reservations {
            reservations.populate(object, index, pfn);
            self.note_work(Operation::Update, 0);
        }
        Some(AllocatedPage { pfn, reserved })
    }

    /// Makes the largest reservation of at most `level` that memory has room for. Returns the page's frame and the level, 0 for
    /// a single frame.
    fn reserve_up_to(&mut self, object: ObjectId, index: u64, level: u8) -> Option<(Pfn, u8)> {
        for level in (1..=level).rev() {
            let order = self.reservations.as_ref()?.ladder().order(level);
            if let Some(block) = self.take_block(order) {
                let pfn = self.reservations.as_mut()?.reserve(object, index, level, block);
                self.note_work(Operation::Reserve, level);
                return Some((pfn, level));
            }
        }
        Some((self.take_block(0)?, 0))
    }

    /// Ends the reservations of an object that is gone. Frames that are still in use stay so.
    pub(crate) fn end_object(&mut self, object: ObjectId) {
        let Some(reservations) = &mut self.reservations else { return };
        let (free, used) = reservations.end(object);
        for pfn in used {
            self.disown(pfn);
        }
        for (pfn, order) in free {
            self.release(pfn, order);
        }
    }
}
