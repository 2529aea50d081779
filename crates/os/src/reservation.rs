//! Reservations of frames (Navarro et al. §4.1, 4.3, 4.8, 4.9), on any ladder of page sizes.
//!
//! A reservation is an aligned extent of frames, as large as some superpage, of which at least one holds a page of an
//! object and the others wait for the pages around it. What is populated is known from population maps (`map.rs`).
//! Reservations that are not full stand in lists, from which they are preempted when memory runs short.
//!
//! One list for each size but the largest: a reservation is on the list of the largest extent that preempting it would
//! free, in the order of its latest allocation. A ladder with a single superpage has one list, which is then what
//! FreeBSD calls the queue of partially populated reservations.

mod check;
mod ladder;
mod map;
mod preempt;
#[cfg(test)]
mod tests;

pub use ladder::Ladder;

use crate::{Gauge, ObjectId};
use map::{Found, Maps, NIL};
use reach_core::Pfn;
use std::collections::{BTreeMap, BTreeSet};

/// How reservations differ between designs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserving {
    /// The page sizes that may be reserved, the base page first.
    pub ladder: Ladder,
    /// A page that is freed renews its reservation, too (FreeBSD), not only one that is allocated.
    pub renewed_by_freeing: bool,
}

#[derive(Clone, Debug)]
struct Reservation {
    object: ObjectId,
    /// Its first place in the object's maps.
    place: u64,
    level: u8,
    pfn: Pfn,
    node: u32,
    /// When a frame of it was last allocated.
    stamp: i64,
    /// Which list it is on.
    list: Option<u8>,
}

/// What became of a frame that lost its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// No reservation holds it: it is the allocator's.
    Plain,
    /// It stays in its reservation.
    Kept,
    /// It was the last of its reservation, which ends: this block of `2^order` frames is the allocator's.
    Block(Pfn, u8),
}

/// Where a page that is to be allocated may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// This frame is reserved for it.
    Reserved(Pfn),
    /// Another frame stands for that page already.
    Taken,
    /// Nothing is reserved; extents up to this level may be.
    Vacant(u8),
}

/// What happened to reservations, as FreeBSD counts it (`vm.reserv`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservationCounts {
    /// Broken for any reason.
    pub broken: u64,
    /// Ended because their last page was freed.
    pub freed: u64,
    /// Broken because memory was short.
    pub reclaimed: u64,
    /// Full ones.
    pub fullpop: Gauge,
    /// Others: those on lists.
    pub partpopq: Gauge,
}

/// All reservations.
#[derive(Clone, Debug)]
pub struct Reservations {
    how: Reserving,
    maps: Maps,
    all: Vec<Option<Reservation>>,
    unused: Vec<u32>,
    /// By time and first frame.
    lists: Vec<BTreeSet<(i64, u64)>>,
    /// By first frame.
    starts: BTreeMap<u64, u32>,
    clock: i64,
    held: u64,
    counts: ReservationCounts,
}

impl Reservations {
    /// None so far.
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

    /// What happened to them.
    pub fn counts(&self) -> ReservationCounts {
        self.counts
    }

    /// The page sizes.
    pub fn ladder(&self) -> &Ladder {
        &self.how.ladder
    }

    /// Frames that are reserved and hold nothing.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// How many reservations there are, full ones included.
    pub fn count(&self) -> u64 {
        self.starts.len() as u64
    }

    /// Reservations on each list, the list of base pages first.
    pub fn listed(&self) -> Vec<u64> {
        self.lists.iter().map(|list| list.len() as u64).collect()
    }

    /// Pages of `object` will be placed so that page `index` falls on `place` modulo the largest size, unless that was
    /// decided before.
    pub(crate) fn align(&mut self, object: ObjectId, index: u64, place: u64) {
        let top = self.ladder().pages(self.ladder().top());
        let maps = self.maps.objects.entry(object).or_default();
        if maps.roots.is_empty() && maps.colour.is_none() {
            maps.colour = Some(place.wrapping_sub(index) & (top - 1));
        }
    }

    /// The place of page `index`: where it stands among the extents of its object.
    pub(crate) fn place(&self, object: ObjectId, index: u64) -> u64 {
        self.maps.place(object, index)
    }

    /// Where page `index` of `object` may go (§4.9: reserved frame lookup, overlap avoidance).
    pub(crate) fn seat(&self, object: ObjectId, index: u64) -> Seat {
        let place = self.maps.place(object, index);
        match self.maps.find(object, place) {
            Found::Reserved(id) => {
                let reservation = self.get(id);
                Seat::Reserved(reservation.pfn + (place - reservation.place))
            }
            Found::Populated => Seat::Taken,
            Found::Vacant(level) => Seat::Vacant(level),
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

    /// Page `index` of `object` now has frame `pfn`, reserved or not.
    pub(crate) fn populate(&mut self, object: ObjectId, index: u64, pfn: Pfn) {
        let place = self.maps.place(object, index);
        let leaf = self.maps.fill(object, place, pfn);
        if let Some(id) = self.maps.reservation_over(leaf) {
            self.held -= 1;
            self.clock += 1;
            self.file(id, self.clock);
            self.recount();
        }
    }

    /// Elementary steps of all that was done since the last call.
    pub(crate) fn take_steps(&self) -> u64 {
        self.maps.steps.take()
    }

    /// Brings the gauges up to date.
    fn recount(&mut self) {
        let listed = self.lists.iter().map(|list| list.len() as u64).sum();
        self.counts.partpopq.set(listed);
        self.counts.fullpop.set(self.count() - listed);
    }

    /// Page `index` of `object` no longer has frame `pfn`. A page that has another frame keeps it.
    pub(crate) fn depopulate(&mut self, object: ObjectId, index: u64, pfn: Pfn) -> Freed {
        let place = self.maps.place(object, index);
        let Some(leaf) = self.maps.empty(object, place, pfn) else { return Freed::Plain };
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
                    self.file(id, self.clock);
                } else {
                    self.file(id, self.get(id).stamp);
                }
                Freed::Kept
            }
        };
        self.maps.prune(object, place, leaf);
        self.recount();
        freed
    }

    /// Extents around page `index` that are full and lie in one reservation, as levels, largest first (§4.9: promotion
    /// decisions).
    pub(crate) fn full_levels(&self, object: ObjectId, index: u64) -> impl Iterator<Item = u8> {
        let mut reserved = false;
        self.maps.path(object, self.maps.place(object, index)).filter_map(move |(level, node)| {
            reserved |= node.reservation != NIL;
            (reserved && node.vacant.is_none()).then_some(level)
        })
    }

    /// How many children of the extent of `level` around page `index` hold pages, and how many are full.
    pub fn population(&self, object: ObjectId, index: u64, level: u8) -> (u32, u32) {
        let path = self.maps.path(object, self.maps.place(object, index));
        path.filter(|&(at, _)| at == level).map(|(_, node)| (node.some, node.full)).last().unwrap_or((0, 0))
    }

    /// Whether page `index` lies in a reservation.
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

    /// Puts a reservation on the list where it belongs, as of `stamp`.
    fn file(&mut self, id: u32, stamp: i64) {
        let reservation = self.all[id as usize].as_mut().expect("lists and maps name live reservations");
        let list = self.maps.node(reservation.node).vacant;
        if (reservation.list, reservation.stamp) == (list, stamp) {
            return;
        }
        // Off one list, on to another; both know their ends.
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
