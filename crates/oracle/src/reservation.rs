//! The twin of reservations: what each frame is, and a list of reservations in the order in which they would be
//! preempted; all else is found by looking at every frame (Navarro et al. §4.3, 4.8, 4.9).

use crate::buddy::NaiveBuddy;

/// What a frame is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// It waits in a reservation.
    Waiting,
    /// It holds this page (object, place).
    Page(u32, u64),
    /// Something else has it.
    Other,
}

/// A reservation as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// Whose.
    pub object: u32,
    /// First place in the object.
    pub place: u64,
    /// Size, as a level of the ladder.
    pub level: u8,
    /// First frame.
    pub pfn: u64,
}

/// What the twin says about a page that wants a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This frame waits for it.
    Reserved(u64),
    /// It has one.
    Taken,
    /// Extents up to this level around it are free of pages and reservations.
    Vacant(u8),
}

/// Frames and reservations.
#[derive(Clone, Debug)]
pub struct NaiveReservations {
    orders: Vec<u8>,
    max_order: u8,
    frames: Vec<Use>,
    /// With the time of the latest allocation.
    reservations: Vec<(i64, Extent)>,
    clock: i64,
    renewed_by_freeing: bool,
}

impl NaiveReservations {
    /// `frames` free frames, and page sizes of these orders, 0 first.
    pub fn new(frames: usize, max_order: u8, orders: &[u8], renewed_by_freeing: bool) -> NaiveReservations {
        NaiveReservations {
            orders: orders.to_vec(),
            max_order,
            frames: vec![Use::Free; frames],
            reservations: Vec::new(),
            clock: 0,
            renewed_by_freeing,
        }
    }

    fn pages(&self, level: u8) -> u64 {
        1 << self.orders[level as usize]
    }

    fn covers(&self, extent: &Extent, object: u32, place: u64) -> bool {
        extent.object == object && place >= extent.place && place < extent.place + self.pages(extent.level)
    }

    fn holder(&self, object: u32, place: u64) -> Option<usize> {
        self.reservations.iter().position(|(_, extent)| self.covers(extent, object, place))
    }

    /// Where this page may go.
    pub fn seat(&self, object: u32, place: u64) -> Place {
        if self.frames.contains(&Use::Page(object, place)) {
            return Place::Taken;
        }
        if let Some(at) = self.holder(object, place) {
            let extent = self.reservations[at].1;
            return Place::Reserved(extent.pfn + (place - extent.place));
        }
        let clear = |level: u8| {
            let start = place & !(self.pages(level) - 1);
            (start..start + self.pages(level))
                .all(|place| !self.frames.contains(&Use::Page(object, place)) && self.holder(object, place).is_none())
        };
        Place::Vacant((0..self.orders.len() as u8).rev().find(|&level| clear(level)).expect("this page itself is"))
    }

    fn allocator(&self) -> NaiveBuddy {
        let mut buddy = NaiveBuddy::new(self.frames.len(), self.max_order);
        for (at, frame) in self.frames.iter().enumerate() {
            buddy.set(at as u64, 0, *frame == Use::Free);
        }
        buddy
    }

    /// The level of the largest aligned part of a reservation without any page; `None` when it is full.
    fn yields(&self, extent: &Extent) -> Option<u8> {
        let empty =
            |at: u64, level: u8| (at..at + self.pages(level)).all(|frame| self.frames[frame as usize] == Use::Waiting);
        (0..extent.level).rev().find(|&level| {
            let step = self.pages(level) as usize;
            (extent.pfn..extent.pfn + self.pages(extent.level)).step_by(step).any(|at| empty(at, level))
        })
    }

    /// The reservations on the list of `level`, oldest first; `None` for full ones, which are on none, by frame.
    pub fn list(&self, level: Option<u8>) -> Vec<Extent> {
        let mut list: Vec<_> = self.reservations.iter().filter(|(_, e)| self.yields(e) == level).collect();
        list.sort_by_key(|(stamp, extent)| (if level.is_some() { *stamp } else { 0 }, extent.pfn));
        list.into_iter().map(|&(_, extent)| extent).collect()
    }

    fn stamp_of(&self, extent: &Extent) -> i64 {
        self.reservations.iter().find(|(_, other)| other == extent).expect("it is there").0
    }

    fn break_up(&mut self, extent: Extent) {
        let stamp = self.stamp_of(&extent);
        self.reservations.retain(|(_, other)| *other != extent);
        let (level, pages) = (extent.level - 1, self.pages(extent.level - 1));
        for i in 0..self.pages(extent.level) / pages {
            let piece = Extent { place: extent.place + i * pages, pfn: extent.pfn + i * pages, level, ..extent };
            let frames = piece.pfn as usize..(piece.pfn + pages) as usize;
            if self.frames[frames.clone()].iter().all(|&frame| frame == Use::Waiting) {
                self.frames[frames].fill(Use::Free);
            } else if level > 0 {
                // At the head of its list.
                let list = self.yields(&piece);
                let head = self.list(list).first().map(|first| self.stamp_of(first) - 1);
                let stamp = if list.is_some() { head.map_or(stamp, |head| head.min(stamp)) } else { stamp };
                self.reservations.push((stamp, piece));
            }
        }
    }

    /// Whether a block of `2^order` frames can be had, after preempting what must be.
    pub fn obtain(&mut self, order: u8) -> bool {
        loop {
            if self.allocator().best_order(order).is_some() {
                return true;
            }
            let levels = 0..self.orders.len() as u8;
            let fitting = levels.filter(|&level| self.orders[level as usize] >= order);
            let lists: Vec<Vec<Extent>> = fitting.map(|level| self.list(Some(level))).collect();
            let Some(victim) = lists.iter().find_map(|list| list.first()) else { return false };
            self.break_up(*victim);
        }
    }

    /// The block at `pfn` goes to something else, or comes back.
    pub fn other(&mut self, pfn: u64, order: u8, taken: bool) {
        let (from, to) = if taken { (Use::Free, Use::Other) } else { (Use::Other, Use::Free) };
        for frame in &mut self.frames[pfn as usize..(pfn + (1 << order)) as usize] {
            assert_eq!(*frame, from);
            *frame = to;
        }
    }

    /// The vacant page gets a reservation of the greatest level up to `level` that can be had; returns that level, or
    /// `None` where not even one frame can. `pfn` says where the frame for the page came to lie.
    pub fn reserve(&mut self, object: u32, place: u64, level: u8, pfn: Option<u64>) -> Option<u8> {
        let level = (0..=level).rev().find(|&level| self.obtain(self.orders[level as usize]))?;
        let pfn = pfn.expect("the twin found a frame");
        let offset = place & (self.pages(level) - 1);
        let extent = Extent { object, place: place - offset, level, pfn: pfn - offset };
        let frames = extent.pfn as usize..(extent.pfn + self.pages(level)) as usize;
        assert!(self.frames[frames.clone()].iter().all(|&frame| frame == Use::Free), "{extent:?} is not free");
        self.frames[frames].fill(Use::Waiting);
        if level > 0 {
            self.reservations.push((self.clock, extent));
        }
        self.populate(object, place, pfn);
        Some(level)
    }

    /// The page gets the frame that waits for it.
    pub fn populate(&mut self, object: u32, place: u64, pfn: u64) {
        assert_eq!(self.frames[pfn as usize], Use::Waiting);
        self.frames[pfn as usize] = Use::Page(object, place);
        if let Some(at) = self.holder(object, place) {
            self.clock += 1;
            self.reservations[at].0 = self.clock;
        }
    }

    /// The page at `pfn` goes.
    pub fn depopulate(&mut self, pfn: u64) {
        let Use::Page(object, place) = self.frames[pfn as usize] else { panic!("no page at {pfn}") };
        let Some(at) = self.holder(object, place) else {
            self.frames[pfn as usize] = Use::Free;
            return;
        };
        self.frames[pfn as usize] = Use::Waiting;
        let extent = self.reservations[at].1;
        let frames = extent.pfn as usize..(extent.pfn + self.pages(extent.level)) as usize;
        if self.frames[frames.clone()].iter().all(|&frame| frame == Use::Waiting) {
            self.frames[frames].fill(Use::Free);
            self.reservations.remove(at);
        } else if self.renewed_by_freeing {
            self.clock += 1;
            self.reservations[at].0 = self.clock;
        }
    }

    /// The object ends; its pages become something else's.
    pub fn end(&mut self, object: u32) {
        let gone: Vec<Extent> =
            self.reservations.iter().map(|&(_, extent)| extent).filter(|extent| extent.object == object).collect();
        self.reservations.retain(|(_, extent)| extent.object != object);
        for extent in gone {
            for at in extent.pfn..extent.pfn + self.pages(extent.level) {
                if self.frames[at as usize] == Use::Waiting {
                    self.frames[at as usize] = Use::Free;
                }
            }
        }
        for frame in &mut self.frames {
            if matches!(frame, Use::Page(o, _) if *o == object) {
                *frame = Use::Other;
            }
        }
    }

    /// Frames that are free, that wait in reservations, and that are in use.
    pub fn census(&self) -> (u64, u64, u64) {
        let count = |wanted: fn(&Use) -> bool| self.frames.iter().filter(|&frame| wanted(frame)).count() as u64;
        (
            count(|frame| *frame == Use::Free),
            count(|frame| *frame == Use::Waiting),
            count(|frame| matches!(frame, Use::Page(..) | Use::Other)),
        )
    }

    /// Levels of extents around a page that are full and lie in one reservation, largest first.
    pub fn full(&self, object: u32, place: u64) -> Vec<u8> {
        let Some(at) = self.holder(object, place) else { return Vec::new() };
        let extent = self.reservations[at].1;
        let full = |level: &u8| {
            let start = extent.pfn + ((place & !(self.pages(*level) - 1)) - extent.place);
            self.frames[start as usize..(start + self.pages(*level)) as usize]
                .iter()
                .all(|frame| matches!(frame, Use::Page(..)))
        };
        (1..=extent.level).rev().filter(full).collect()
    }
}
