//! Reservations of frames (Navarro et al. §4.1, 4.3, 4.8, 4.9), on any ladder of page sizes.
//!
//! A reservation is an aligned extent of frames, as large as some superpage. At least one frame holds a page of an object; the
//! others are reserved for the pages around it. Population maps (`map.rs`) say which pages have frames. Reservations that are
//! not full are on lists, from which they are preempted when memory runs short.
//!
//! There is one list for each size but the largest. A reservation is on the list of the largest extent that preempting it would
//! free, in the order of its latest allocation. A ladder with a single superpage has one list, which is what FreeBSD calls the
//! queue of partially populated reservations.

mod check;
mod ladder;
mod map;
mod preempt;
#[cfg(test)]
mod tests;

pub use ladder::Ladder;

use crate::{ObjectId, ReservationCounts};
use map::{Found, Maps, NIL};
use reach_core::Pfn;
use std::collections::{BTreeMap, BTreeSet};

/// How a system makes reservations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserving {
    /// The page sizes that may be reserved, the base page first.
    pub ladder: Ladder,
    /// Freeing a page renews its reservation's place in the list, too (FreeBSD), not only allocating one.
    pub renewed_by_freeing: bool,
}

#[derive(Clone, Debug)]
struct Reservation {
    object: ObjectId,
    /// Its first place in the object's population maps.
    place: u64,
    level: u8,
    pfn: Pfn,
    node: u32,
    /// Time of the latest allocation of one of its frames.
    stamp: i64,
    /// The list that it is on. `None` when it is full.
    list: Option<u8>,
}

/// Where a frame goes whose page was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// No reservation holds it: the caller frees it to the allocator.
    Plain,
    /// It stays in its reservation.
    Kept,
    /// It was the last of its reservation, which ends: the caller frees this block of `2^order` frames to the allocator.
    Block(Pfn, u8),
}

/// The placement of a page in its population map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// This frame is reserved for the page.
    Reserved(Pfn),
    /// The page has a frame.
    Populated,
    /// No frame is reserved for the page; extents around it up to this level can be reserved.
    Vacant(u8),
}

/// All reservations.
#[derive(Clone, Debug)]
pub struct Reservations {
    how: Reserving,
    maps: Maps,
    all: Vec<Option<Reservation>>,
    unused: Vec<u32>,
    /// Reservations by time of the latest allocation and first frame, for each list.
    lists: Vec<BTreeSet<(i64, u64)>>,
    /// Reservations by first frame.
    starts: BTreeMap<u64, u32>,
    /// Number of allocations so far.
    clock: i64,
    /// Frames that are reserved and vacant.
    held: u64,
    counts: ReservationCounts,
}

impl Reservations {
    /// Returns an empty set of reservations.
    pub fn new(how: Reserving) -> Reservations {
        Reservations {
            maps: Maps::new(how.ladder.clone()),
            lists: vec![BTreeSet::new(); how.ladder.top() as usize],
            how,
            all: Vec::new(),
            unused: Vec::new(),
            starts: BTreeMap::new(),
            clock: 0,
            held: 0,
            counts: ReservationCounts::default(),
        }
    }

    /// Returns the counts of reservations.
    pub fn counts(&self) -> ReservationCounts {
        self.counts
    }

    /// Returns the page sizes.
    pub fn ladder(&self) -> &Ladder {
        &self.how.ladder
    }

    /// Returns the number of frames that are reserved and vacant.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Returns the number of reservations, full ones included.
    pub fn count(&self) -> u64 {
        self.starts.len() as u64
    }

    /// Returns the number of reservations on each list, the list of base pages first.
    pub fn listed(&self) -> Vec<u64> {
        self.lists.iter().map(|list| list.len() as u64).collect()
    }

    /// Aligns the placement of `object` so that page `index` falls on `place` modulo the largest size. Does nothing when the
    /// placement was fixed before.
    pub(crate) fn align(&mut self, object: ObjectId, index: u64, place: u64) {
        let top = self.ladder().pages(self.ladder().top());
        let maps = self.maps.objects.entry(object).or_default();
        if maps.roots.is_empty() && maps.colour.is_none() {
            maps.colour = Some(place.wrapping_sub(index) & (top - 1));
        }
    }

    /// Returns the place of page `index` in the population maps of its object.
    pub(crate) fn place(&self, object: ObjectId, index: u64) -> u64 {
        self.maps.place(object, index)
    }

    /// Looks page `index` of `object` up (§4.9: reserved frame lookup, overlap avoidance).
    pub(crate) fn look_up(&self, object: ObjectId, index: u64) -> Placement {
        let place = self.maps.place(object, index);
        match self.maps.find(object, place) {
            Found::Reserved(id) => {
                let reservation = self.get(id);
                Placement::Reserved(reservation.pfn + (place - reservation.place))
            }
            Found::Populated => Placement::Populated,
            Found::Vacant(level) => Placement::Vacant(level),
        }
    }

    /// Reserves the block at `pfn` for the empty extent of `level` (at least 1) around page `index`, which must be
    /// populated next. Returns the frame for that page.
    pub(crate) fn reserve(&mut self, object: ObjectId, index: u64, level: u8, pfn: Pfn) -> Pfn {
        let place = self.maps.place(object, index);
        let start = self.ladder().start(level, place);
        let node = self.maps.grow(object, place, level);
        debug_assert_eq!(self.maps.node(node).some, 0, "the extent overlaps allocated pages");
        self.held += self.ladder().pages(level);
        self.add(Reservation { object, place: start, level, pfn, node, stamp: self.clock, list: None });
        pfn + (place - start)
    }

    /// Records that page `index` of `object` has frame `pfn`, reserved or not.
    pub(crate) fn populate(&mut self, object: ObjectId, index: u64, pfn: Pfn) {
        let place = self.maps.place(object, index);
        let leaf = self.maps.populate(object, place, pfn);
        if let Some(id) = self.maps.reservation_over(leaf) {
            self.held -= 1;
            self.clock += 1;
            self.relist(id, self.clock);
            self.recount();
        }
    }

    /// Returns the elementary steps taken since the last call.
    pub(crate) fn take_steps(&self) -> u64 {
        self.maps.steps.take()
    }

    /// Brings the gauges of the counts up to date.
    fn recount(&mut self) {
        let listed = self.lists.iter().map(|list| list.len() as u64).sum();
        self.counts.partpopq.set(listed);
        self.counts.fullpop.set(self.count() - listed);
    }

    /// Records that page `index` of `object` no longer has frame `pfn`. A page that has another frame keeps that.
    pub(crate) fn depopulate(&mut self, object: ObjectId, index: u64, pfn: Pfn) -> Freed {
        let place = self.maps.place(object, index);
        let Some(leaf) = self.maps.depopulate(object, place, pfn) else { return Freed::Plain };
        let freed = match self.maps.reservation_over(leaf) {
            None => Freed::Plain,
            Some(id) if self.maps.node(self.get(id).node).some == 0 => {
                let reservation = self.remove(id);
                let pages = self.ladder().pages(reservation.level);
                self.held -= pages - 1;
                self.counts.freed += 1;
                Freed::Block(reservation.pfn, self.ladder().order(reservation.level))
            }
            Some(id) => {
                self.held += 1;
                if self.how.renewed_by_freeing {
                    self.clock += 1;
                    self.relist(id, self.clock);
                } else {
                    self.relist(id, self.get(id).stamp);
                }
                Freed::Kept
            }
        };
        self.maps.prune(object, place, leaf);
        self.recount();
        freed
    }

    /// Returns the levels of extents around page `index` that are full and lie in one reservation, largest first (§4.9:
    /// promotion decisions).
    pub(crate) fn full_levels(&self, object: ObjectId, index: u64) -> impl Iterator<Item = u8> {
        let mut reserved = false;
        self.maps.path(object, self.maps.place(object, index)).filter_map(move |(level, node)| {
            reserved |= node.reservation != NIL;
            (reserved && node.vacant.is_none()).then_some(level)
        })
    }

    /// Returns the number of children of the extent of `level` around page `index` that hold pages, and of those that are full.
    pub fn population(&self, object: ObjectId, index: u64, level: u8) -> (u32, u32) {
        let path = self.maps.path(object, self.maps.place(object, index));
        path.filter(|&(at, _)| at == level).map(|(_, node)| (node.some, node.full)).last().unwrap_or((0, 0))
    }

    /// Returns whether page `index` lies in a reservation.
    pub fn covers(&self, object: ObjectId, index: u64) -> bool {
        self.maps.path(object, self.maps.place(object, index)).any(|(_, node)| node.reservation != NIL)
    }

    fn get(&self, id: u32) -> &Reservation {
        self.all[id as usize].as_ref().expect("lists and maps name live reservations")
    }

    fn add(&mut self, reservation: Reservation) -> u32 {
        self.maps.step(1);
        let (pfn, node) = (reservation.pfn.0, reservation.node);
        let id = match self.unused.pop() {
            Some(id) => {
                self.all[id as usize] = Some(reservation);
                id
            }
            None => {
                self.all.push(Some(reservation));
                self.all.len() as u32 - 1
            }
        };
        self.starts.insert(pfn, id);
        self.maps.node_mut(node).reservation = id;
        id
    }

    fn remove(&mut self, id: u32) -> Reservation {
        let reservation = self.all[id as usize].take().expect("lists and maps name live reservations");
        self.unused.push(id);
        self.maps.step(1);
        self.starts.remove(&reservation.pfn.0);
        self.maps.node_mut(reservation.node).reservation = NIL;
        if let Some(list) = reservation.list {
            self.lists[list as usize].remove(&(reservation.stamp, reservation.pfn.0));
        }
        reservation
    }

    /// Moves a reservation to the list where it belongs, with the time `stamp`.
    fn relist(&mut self, id: u32, stamp: i64) {
        let reservation = self.all[id as usize].as_mut().expect("lists and maps name live reservations");
        let list = self.maps.node(reservation.node).vacant;
        if (reservation.list, reservation.stamp) == (list, stamp) {
            return;
        }
        // Taking it off one list and putting it on another are a step each: lists know their ends.
        self.maps.step(u64::from(reservation.list.is_some()) + u64::from(list.is_some()));
        if let Some(old) = reservation.list {
            self.lists[old as usize].remove(&(reservation.stamp, reservation.pfn.0));
        }
        (reservation.list, reservation.stamp) = (list, stamp);
        if let Some(list) = list {
            self.lists[list as usize].insert((stamp, reservation.pfn.0));
        }
    }
}
