//! Reservations against their twin under random operations, exhaustively in a small world, and in the paper's examples.

use super::*;
use crate::{FrameKind, Frames, ListOrder};
use proptest::prelude::*;
use reach_core::PageShift;
use reach_oracle::reservation::{self as oracle, NaiveReservations, ReservedExtent};

const BASE: PageShift = PageShift(13);

fn shifts(orders: &[u8]) -> Vec<PageShift> {
    orders.iter().map(|order| PageShift(BASE.0 + order)).collect()
}

/// Frames with reservations, their twin, and the frames allocated from both.
struct Pair {
    frames: Frames,
    twin: NaiveReservations,
    /// Pages with frames: object, place, frame.
    pages: Vec<(u32, u64, u64)>,
    /// Blocks that belong to no object: first frame, order.
    others: Vec<(u64, u8)>,
}

impl Pair {
    fn new(memory: u64, orders: &[u8], renewed_by_freeing: bool) -> Pair {
        let mut frames = Frames::new(memory << BASE.0, BASE, ListOrder::Lifo);
        frames.make_reservations(Reserving { ladder: Ladder::new(&shifts(orders)), renewed_by_freeing });
        let twin = NaiveReservations::new(memory as usize, frames.buddy().max_order(), orders, renewed_by_freeing);
        Pair { frames, twin, pages: Vec::new(), others: Vec::new() }
    }

    fn reservations(&self) -> &Reservations {
        self.frames.reservations.as_ref().unwrap()
    }

    fn touch(&mut self, object: u32, place: u64, level: u8) {
        let id = ObjectId(object);
        let placement = self.frames.look_up(id, place);
        match (placement, self.twin.placement(object, place)) {
            (Placement::Populated, oracle::Placement::Populated) => return,
            (Placement::Reserved(a), oracle::Placement::Reserved(b)) if a.0 == b => {
                self.twin.populate(object, place, b)
            }
            (Placement::Vacant(a), oracle::Placement::Vacant(b)) if a == b => {}
            placements => panic!("{object} {place}: {placements:?}"),
        }
        let level = match placement {
            Placement::Vacant(vacant) => level.min(vacant),
            _ => 0,
        };
        let got = self.frames.allocate_page(FrameKind::File, id, place, placement, level);
        if matches!(placement, Placement::Vacant(_)) {
            let reserved = self.twin.reserve(object, place, level, got.map(|got| got.pfn.0));
            assert_eq!(got.map(|got| got.reserved), reserved);
        }
        if let Some(got) = got {
            self.frames.cache(got.pfn);
            self.pages.push((object, place, got.pfn.0));
        }
        self.agree();
    }

    fn free(&mut self, which: usize) {
        if self.pages.is_empty() {
            return;
        }
        let (_, _, pfn) = self.pages.swap_remove(which % self.pages.len());
        self.frames.uncache(Pfn(pfn));
        self.twin.depopulate(pfn);
        self.agree();
    }

    fn take(&mut self, order: u8) {
        let got = self.frames.allocate(order, FrameKind::Table, ObjectId::NONE, 0);
        assert_eq!(got.is_some(), self.twin.preempt_for(order));
        if let Some(pfn) = got {
            self.twin.allocate_other(pfn.0, order);
            self.others.push((pfn.0, order));
        }
        self.agree();
    }

    fn give(&mut self, which: usize) {
        if self.others.is_empty() {
            return;
        }
        let (pfn, order) = self.others.swap_remove(which % self.others.len());
        self.frames.free(Pfn(pfn), 1 << order);
        self.twin.free_other(pfn, order);
        self.agree();
    }

    /// Ends the object while its pages are still in use.
    fn end(&mut self, object: u32) {
        self.frames.end_object(ObjectId(object));
        self.twin.end_object(object);
        for &(_, _, pfn) in self.pages.iter().filter(|page| page.0 == object) {
            self.others.push((pfn, 0));
            // `free` takes only frames that nothing maps or caches.
            self.frames.uncache_in_use(Pfn(pfn));
        }
        self.pages.retain(|page| page.0 != object);
        self.agree();
    }

    fn list(&self, level: Option<u8>) -> Vec<ReservedExtent> {
        let r = self.reservations();
        let extent = |id: u32| {
            let it = r.get(id);
            ReservedExtent { object: it.object.0, place: it.place, level: it.level, pfn: it.pfn.0 }
        };
        match level {
            Some(level) => r.lists[level as usize].iter().map(|(_, start)| extent(r.starts[start])).collect(),
            None => r.starts.values().filter(|&&id| r.get(id).list.is_none()).map(|&id| extent(id)).collect(),
        }
    }

    fn agree(&self) {
        self.frames.check();
        for level in (0..self.reservations().ladder().top()).map(Some).chain([None]) {
            // The order of pieces of one reservation on the same list does not matter, but it is fixed.
            assert_eq!(self.list(level), self.twin.list(level), "list {level:?}");
        }
        let used: u64 = self.frames.census().iter().sum();
        assert_eq!((self.frames.buddy().free_frames(), self.reservations().held(), used), self.twin.frame_counts());
        for &(object, place, _) in &self.pages {
            let full: Vec<u8> = self.reservations().full_levels(ObjectId(object), place).collect();
            assert_eq!(full, self.twin.full_levels(object, place), "{object} {place}");
        }
    }

    fn run(&mut self, word: u64) {
        let mut rest = word >> 4;
        let mut below = |n: u64| {
            let value = rest % n;
            rest /= n;
            value
        };
        let top = self.reservations().ladder().top();
        match word % 16 {
            0..=8 => {
                let (object, near) = (below(3) as u32, below(4) > 0);
                // Mostly next to the last page, so that extents fill up.
                let last = self.pages.last().map_or(0, |page| page.1);
                let place = if near { last + below(3) } else { below(3 << self.reservations().ladder().order(top)) };
                self.touch(object, place, below(u64::from(top) + 2).min(u64::from(top)) as u8);
            }
            9..=11 => self.free(below(1 << 16) as usize),
            12 => self.take(below(4) as u8),
            13 | 14 => self.give(below(1 << 16) as usize),
            _ => self.end(below(3) as u32),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reservations_agree_with_their_twin(
        words in proptest::collection::vec(any::<u64>(), 1..200),
        ladder in prop::sample::select(vec![vec![0, 2, 4, 6], vec![0, 1, 2, 3, 4], vec![0, 4], vec![0, 3, 4]]),
        memory in 64u64..160,
        renewed: bool,
    ) {
        let mut pair = Pair::new(memory, &ladder, renewed);
        for word in words {
            pair.run(word);
        }
    }
}

/// Every sequence of five operations on sixteen frames in which two objects want extents of four.
#[test]
fn reservations_agree_with_their_twin_in_every_small_world() {
    let operations: [fn(&mut Pair); 7] = [
        |pair| pair.touch(0, 0, 2),
        |pair| pair.touch(0, 1, 2),
        |pair| pair.touch(1, 5, 2),
        |pair| pair.touch(1, 8, 1),
        |pair| pair.take(2),
        |pair| pair.free(0),
        |pair| pair.end(0),
    ];
    for code in 0..operations.len().pow(5) {
        let mut pair = Pair::new(16, &[0, 1, 2], false);
        let mut rest = code;
        for _ in 0..5 {
            operations[rest % operations.len()](&mut pair);
            rest /= operations.len();
        }
    }
}

/// Figure 3 of the paper: four pages make an extent, and so on up.
#[test]
fn populations_are_those_of_the_papers_figure() {
    let mut pair = Pair::new(1024, &[0, 2, 4, 6, 8], false);
    // The second quarter of the root: one extent with a page in one child, one with a partial and a full child, one full.
    let places = [64 + 5].into_iter().chain([64 + 16, 64 + 20, 64 + 21, 64 + 22, 64 + 23]).chain(64 + 32..64 + 48);
    for place in places {
        pair.touch(0, place, 4);
    }
    let population = |place, level| pair.reservations().population(ObjectId(0), place, level);
    assert_eq!(population(64, 4), (1, 0));
    assert_eq!(population(64, 3), (3, 1));
    assert_eq!([64, 80, 96].map(|place| population(place, 2)), [(1, 0), (2, 1), (4, 4)]);
    assert_eq!(pair.list(Some(3)).len(), 1, "three quarters of the root are empty");
}

/// §4.8: a 512 KB reservation on the list of 64 KB is broken into eight. §6.6: with one 4 MB region of memory and a stride of
/// 4 MB, one allocation in seven preempts.
#[test]
fn one_preemption_in_seven_allocations() {
    let mut pair = Pair::new(512, &[0, 3, 6, 9], false);
    let mut preemptions = Vec::new();
    for i in 0..58 {
        let before = pair.frames.preemptions();
        pair.touch(0, i * 512, 3);
        preemptions.push(pair.frames.preemptions() - before);
        if i == 8 {
            let sizes = |level| pair.list(Some(level)).iter().map(|e| e.level).collect::<Vec<_>>();
            assert_eq!((sizes(0).len(), sizes(1).len()), (2, 7), "two of 64 KB, seven of 512 KB");
        }
    }
    let expected: Vec<u64> = (0..58).map(|i| u64::from(i > 0 && i % 7 == 1)).collect();
    assert_eq!(preemptions, expected);
}

/// Allocating a page renews its reservation.
#[test]
fn the_reservation_with_the_oldest_allocation_is_preempted_first() {
    let mut pair = Pair::new(16, &[0, 2], false);
    for object in 0..4 {
        pair.touch(object, 0, 1);
    }
    pair.touch(0, 1, 1);
    pair.take(0);
    assert_eq!(pair.list(Some(0)).iter().map(|e| e.object).collect::<Vec<_>>(), [2, 3, 0]);
    // A full one is on no list, so that it is never preempted.
    pair.touch(0, 2, 1);
    pair.touch(0, 3, 1);
    assert_eq!(pair.list(None).iter().map(|e| e.object).collect::<Vec<_>>(), [0]);
    while pair.frames.allocate(0, FrameKind::Table, ObjectId::NONE, 0).is_some() {}
    assert_eq!(pair.reservations().count(), 1);
}
