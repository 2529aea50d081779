//! The twin of reservations: the use of each frame, and a list of reservations with the time of their last allocation.
//! All else is found by looking at every frame (Navarro et al. §4.3, 4.8, 4.9).

use crate::buddy::NaiveBuddy;

/// The use of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameUse {
    Free,
    /// Reserved and not yet populated.
    Reserved,
    /// The page of an object: object, index.
    Page(u32, u64),
    /// Allocated for something else.
    Other,
}

/// A reservation as tests compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservedExtent {
    /// The object.
    pub object: u32,
    /// The first page in the object.
    pub place: u64,
    /// The level of its size among the page sizes.
    pub level: u8,
    /// The first frame.
    pub pfn: u64,
}

/// Where a page may get its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// This frame is reserved for it.
    Reserved(u64),
    /// It has a frame.
    Populated,
    /// The largest aligned extent around it without pages and reservations has this level.
    Vacant(u8),
}

/// The frames of a memory and the reservations in them.
#[derive(Clone, Debug)]
pub struct NaiveReservations {
    /// The orders of the page sizes.
    orders: Vec<u8>,
    max_order: u8,
    frames: Vec<FrameUse>,
    /// Each with the time of its last allocation.
    reservations: Vec<(i64, ReservedExtent)>,
    clock: i64,
    renewed_by_freeing: bool,
}

impl NaiveReservations {
    /// Creates `frames` free frames, in blocks of up to `2^max_order` frames. `orders` are those of the page sizes, 0
    /// first. `renewed_by_freeing` says that freeing a page renews its reservation as an allocation does.
    pub fn new(frames: usize, max_order: u8, orders: &[u8], renewed_by_freeing: bool) -> NaiveReservations {
        NaiveReservations {
            orders: orders.to_vec(),
            max_order,
            frames: vec![FrameUse::Free; frames],
            reservations: Vec::new(),
            clock: 0,
            renewed_by_freeing,
        }
    }

    fn pages(&self, level: u8) -> u64 {
        1 << self.orders[level as usize]
    }

    fn covers(&self, extent: &ReservedExtent, object: u32, place: u64) -> bool {
        extent.object == object && place >= extent.place && place < extent.place + self.pages(extent.level)
    }

    /// Returns the index of the reservation that covers a page.
    fn covering(&self, object: u32, place: u64) -> Option<usize> {
        self.reservations.iter().position(|(_, extent)| self.covers(extent, object, place))
    }

    /// Returns where page `place` of `object` may get its frame.
    pub fn placement(&self, object: u32, place: u64) -> Placement {
        if self.frames.contains(&FrameUse::Page(object, place)) {
            return Placement::Populated;
        }
        if let Some(at) = self.covering(object, place) {
            let extent = self.reservations[at].1;
            return Placement::Reserved(extent.pfn + (place - extent.place));
        }
        let is_vacant = |level: u8| {
            let start = place & !(self.pages(level) - 1);
            let mut pages = start..start + self.pages(level);
            pages.all(|place| {
                !self.frames.contains(&FrameUse::Page(object, place)) && self.covering(object, place).is_none()
            })
        };
        let largest = (0..self.orders.len() as u8).rev().find(|&level| is_vacant(level));
        Placement::Vacant(largest.expect("the page itself is vacant"))
    }

    fn allocator(&self) -> NaiveBuddy {
        let mut buddy = NaiveBuddy::new(self.frames.len(), self.max_order);
        for (at, frame) in self.frames.iter().enumerate() {
            buddy.set(at as u64, 0, *frame == FrameUse::Free);
        }
        buddy
    }

    /// Returns the level of the largest aligned part of a reservation without pages. `None` if the reservation is full.
    fn largest_empty_part(&self, extent: &ReservedExtent) -> Option<u8> {
        let is_empty = |at: u64, level: u8| {
            (at..at + self.pages(level)).all(|frame| self.frames[frame as usize] == FrameUse::Reserved)
        };
        (0..extent.level).rev().find(|&level| {
            let step = self.pages(level) as usize;
            (extent.pfn..extent.pfn + self.pages(extent.level)).step_by(step).any(|at| is_empty(at, level))
        })
    }

    /// Returns the reservations on the list of `level`, least recently allocated first. `None` stands for full
    /// reservations, which are on no list; they are sorted by frame.
    pub fn list(&self, level: Option<u8>) -> Vec<ReservedExtent> {
        let mut list: Vec<_> =
            self.reservations.iter().filter(|(_, extent)| self.largest_empty_part(extent) == level).collect();
        list.sort_by_key(|(time, extent)| (if level.is_some() { *time } else { 0 }, extent.pfn));
        list.into_iter().map(|&(_, extent)| extent).collect()
    }

    fn time_of(&self, extent: &ReservedExtent) -> i64 {
        self.reservations.iter().find(|(_, other)| other == extent).expect("it is reserved").0
    }

    /// Breaks a reservation into parts of the next smaller size. Empty parts are freed, others become reservations.
    fn break_up(&mut self, extent: ReservedExtent) {
        let time = self.time_of(&extent);
        self.reservations.retain(|(_, other)| *other != extent);
        let (level, pages) = (extent.level - 1, self.pages(extent.level - 1));
        for i in 0..self.pages(extent.level) / pages {
            let part = ReservedExtent { place: extent.place + i * pages, pfn: extent.pfn + i * pages, level, ..extent };
            let frames = part.pfn as usize..(part.pfn + pages) as usize;
            if self.frames[frames.clone()].iter().all(|&frame| frame == FrameUse::Reserved) {
                self.frames[frames].fill(FrameUse::Free);
            } else if level > 0 {
                // The part goes to the head of its list.
                let list = self.largest_empty_part(&part);
                let head = self.list(list).first().map(|first| self.time_of(first) - 1);
                let time = if list.is_some() { head.map_or(time, |head| head.min(time)) } else { time };
                self.reservations.push((time, part));
            }
        }
    }

    /// Preempts reservations until a block of `2^order` frames is free. Returns false if all reservations that could
    /// help are gone.
    pub fn preempt_for(&mut self, order: u8) -> bool {
        loop {
            if self.allocator().best_order(order).is_some() {
                return true;
            }
            let levels = 0..self.orders.len() as u8;
            let large_enough = levels.filter(|&level| self.orders[level as usize] >= order);
            let lists: Vec<Vec<ReservedExtent>> = large_enough.map(|level| self.list(Some(level))).collect();
            let Some(victim) = lists.iter().find_map(|list| list.first()) else { return false };
            self.break_up(*victim);
        }
    }

    /// Allocates the free block of `2^order` frames at `pfn` for something other than a page.
    pub fn allocate_other(&mut self, pfn: u64, order: u8) {
        self.change_block(pfn, order, FrameUse::Free, FrameUse::Other);
    }

    /// Frees a block that was allocated for something other than a page.
    pub fn free_other(&mut self, pfn: u64, order: u8) {
        self.change_block(pfn, order, FrameUse::Other, FrameUse::Free);
    }

    fn change_block(&mut self, pfn: u64, order: u8, from: FrameUse, to: FrameUse) {
        for frame in &mut self.frames[pfn as usize..(pfn + (1 << order)) as usize] {
            assert_eq!(*frame, from);
            *frame = to;
        }
    }

    /// Reserves for a vacant page and populates it in frame `pfn`, which the system under test chose. The reservation
    /// has the highest level up to `level` for which memory can be found. Returns that level. `None` if not even one
    /// frame is left.
    pub fn reserve(&mut self, object: u32, place: u64, level: u8, pfn: Option<u64>) -> Option<u8> {
        let level = (0..=level).rev().find(|&level| self.preempt_for(self.orders[level as usize]))?;
        let pfn = pfn.expect("the twin found a frame");
        let offset = place & (self.pages(level) - 1);
        let extent = ReservedExtent { object, place: place - offset, level, pfn: pfn - offset };
        let frames = extent.pfn as usize..(extent.pfn + self.pages(level)) as usize;
        assert!(self.frames[frames.clone()].iter().all(|&frame| frame == FrameUse::Free), "{extent:?} is not free");
        self.frames[frames].fill(FrameUse::Reserved);
        if level > 0 {
            self.reservations.push((self.clock, extent));
        }
        self.populate(object, place, pfn);
        Some(level)
    }

    /// Populates a page in the frame that is reserved for it.
    pub fn populate(&mut self, object: u32, place: u64, pfn: u64) {
        assert_eq!(self.frames[pfn as usize], FrameUse::Reserved);
        self.frames[pfn as usize] = FrameUse::Page(object, place);
        if let Some(at) = self.covering(object, place) {
            self.renew(at);
        }
    }

    fn renew(&mut self, reservation: usize) {
        self.clock += 1;
        self.reservations[reservation].0 = self.clock;
    }

    /// Frees the page in frame `pfn`. Its frame returns to its reservation, which ends with its last page.
    pub fn depopulate(&mut self, pfn: u64) {
        let FrameUse::Page(object, place) = self.frames[pfn as usize] else { panic!("no page in frame {pfn}") };
        let Some(at) = self.covering(object, place) else {
            self.frames[pfn as usize] = FrameUse::Free;
            return;
        };
        self.frames[pfn as usize] = FrameUse::Reserved;
        let extent = self.reservations[at].1;
        let frames = extent.pfn as usize..(extent.pfn + self.pages(extent.level)) as usize;
        if self.frames[frames.clone()].iter().all(|&frame| frame == FrameUse::Reserved) {
            self.frames[frames].fill(FrameUse::Free);
            self.reservations.remove(at);
        } else if self.renewed_by_freeing {
            self.renew(at);
        }
    }

    /// Ends an object: its reservations are freed, and the frames of its pages count as allocated for something else.
    pub fn end_object(&mut self, object: u32) {
        let ended: Vec<ReservedExtent> =
            self.reservations.iter().map(|&(_, extent)| extent).filter(|extent| extent.object == object).collect();
        self.reservations.retain(|(_, extent)| extent.object != object);
        for extent in ended {
            for at in extent.pfn..extent.pfn + self.pages(extent.level) {
                if self.frames[at as usize] == FrameUse::Reserved {
                    self.frames[at as usize] = FrameUse::Free;
                }
            }
        }
        for frame in &mut self.frames {
            if matches!(frame, FrameUse::Page(owner, _) if *owner == object) {
                *frame = FrameUse::Other;
            }
        }
    }

    /// Returns the numbers of frames that are free, reserved and in use.
    pub fn frame_counts(&self) -> (u64, u64, u64) {
        let count = |is: fn(&FrameUse) -> bool| self.frames.iter().filter(|&frame| is(frame)).count() as u64;
        (
            count(|frame| *frame == FrameUse::Free),
            count(|frame| *frame == FrameUse::Reserved),
            count(|frame| matches!(frame, FrameUse::Page(..) | FrameUse::Other)),
        )
    }

    /// Returns the levels of the fully populated extents around a page within its reservation, largest first.
    pub fn full_levels(&self, object: u32, place: u64) -> Vec<u8> {
        let Some(at) = self.covering(object, place) else { return Vec::new() };
        let extent = self.reservations[at].1;
        let is_full = |level: &u8| {
            let start = extent.pfn + ((place & !(self.pages(*level) - 1)) - extent.place);
            self.frames[start as usize..(start + self.pages(*level)) as usize]
                .iter()
                .all(|frame| matches!(frame, FrameUse::Page(..)))
        };
        (1..=extent.level).rev().filter(is_full).collect()
    }
}
