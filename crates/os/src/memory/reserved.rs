//! Frames with reservations: how a page gets its frame, and how memory is had when the allocator has none.

use crate::reservation::{Reservations, Reserving, Seat};
use crate::{FrameKind, Frames, ObjectId, Operation};
use reach_core::Pfn;

/// A frame that a page got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seated {
    pub(crate) pfn: Pfn,
    /// The level of the reservation made for it, 0 for none.
    pub(crate) reserved: u8,
}

impl Frames {
    /// From now on pages of objects may be given frames by reservation. Before any has one.
    pub fn make_reservations(&mut self, how: Reserving) {
        self.reservations = Some(Reservations::new(how));
    }

    /// The reservations, where the system makes any.
    pub fn reservations(&self) -> Option<&Reservations> {
        self.reservations.as_ref()
    }

    /// A block of `2^order` free frames: the allocator's, or what preempting reservations yields (§4.3).
    pub(crate) fn obtain(&mut self, order: u8) -> Option<Pfn> {
        loop {
            let before = self.buddy.steps();
            if let Some(pfn) = self.buddy.allocate(order) {
                self.did_buddy(Operation::Split, order, before);
                return Some(pfn);
            }
            let (level, free) = self.reservations.as_mut()?.preempt(order)?;
            self.did(Operation::Preempt, level);
            for (pfn, order) in free {
                let before = self.buddy.steps();
                self.release(pfn, order);
                self.did_buddy(Operation::Join, order, before);
            }
        }
    }

    /// Notes the steps that reservations and population maps took since the last time.
    pub(crate) fn did(&mut self, operation: Operation, level: u8) {
        if let Some(reservations) = &self.reservations {
            self.work.push((operation, level, reservations.take_steps()));
        }
    }

    /// Notes the steps that the allocator took since `before`, for a block of `2^order` frames.
    pub(crate) fn did_buddy(&mut self, operation: Operation, order: u8, before: u64) {
        let steps = self.buddy.steps() - before;
        if let Some(reservations) = self.reservations.as_ref().filter(|_| steps > 0) {
            let level = reservations.ladder().holding(order).unwrap_or(reservations.ladder().top());
            self.work.push((operation, level, steps));
        }
    }

    /// Reservations broken so far for want of memory.
    pub(crate) fn preemptions(&self) -> u64 {
        self.reservations.as_ref().map_or(0, |reservations| reservations.counts().reclaimed)
    }

    /// Where page `index` of `object` may go; nothing is reserved where the system makes no reservations.
    pub(crate) fn seat(&mut self, object: ObjectId, index: u64) -> Seat {
        let seat = self.reservations.as_ref().map_or(Seat::Vacant(0), |reservations| reservations.seat(object, index));
        self.did(Operation::LookUp, 0);
        seat
    }

    /// Pages of `object` will be placed so that page `index` falls on `place`, unless that was decided before.
    pub(crate) fn align(&mut self, object: ObjectId, index: u64, place: u64) {
        if let Some(reservations) = &mut self.reservations {
            reservations.align(object, index, place);
        }
    }

    /// A frame for page `index` of `object`, whose seat was just looked up: the reserved one, or one of a new
    /// reservation of at most `level`, as large as can be had. `None` when there is no frame at all.
    pub(crate) fn sit(
        &mut self,
        kind: FrameKind,
        object: ObjectId,
        index: u64,
        seat: Seat,
        level: u8,
    ) -> Option<Seated> {
        let (pfn, reserved) = match seat {
            Seat::Reserved(pfn) => (pfn, 0),
            // The map speaks of the other frame.
            Seat::Taken => {
                let pfn = self.allocate(0, kind, ObjectId::NONE, index)?;
                return Some(Seated { pfn, reserved: 0 });
            }
            Seat::Vacant(_) => self.reserve_up_to(object, index, level)?,
        };
        self.assign(pfn, 1, kind, object, index);
        if let Some(reservations) = &mut self.reservations {
            reservations.populate(object, index, pfn);
            self.did(Operation::Update, 0);
        }
        Some(Seated { pfn, reserved })
    }

    fn reserve_up_to(&mut self, object: ObjectId, index: u64, level: u8) -> Option<(Pfn, u8)> {
        for level in (1..=level).rev() {
            let order = self.reservations.as_ref()?.ladder().order(level);
            if let Some(block) = self.obtain(order) {
                let pfn = self.reservations.as_mut()?.reserve(object, index, level, block);
                self.did(Operation::Reserve, level);
                return Some((pfn, level));
            }
        }
        Some((self.obtain(0)?, 0))
    }

    /// The object is gone, and with it its reservations. Frames that others still use stay theirs.
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
