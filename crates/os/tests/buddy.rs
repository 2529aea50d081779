//! The buddy allocator against its twin: exhaustively in a small world, and at random in a larger one.

use proptest::prelude::*;
use reach_core::Pfn;
use reach_oracle::buddy::NaiveBuddy;
use reach_os::{Buddy, ListOrder};

/// An allocator and its twin, with the allocated blocks.
struct Pair {
    real: Buddy,
    twin: NaiveBuddy,
    order: ListOrder,
    /// Allocated blocks: first frame, order.
    allocated: Vec<(u64, u8)>,
}

impl Pair {
    fn new(frames: u64, max_order: u8, order: ListOrder) -> Pair {
        let real = Buddy::new(frames, max_order, order);
        Pair { real, twin: NaiveBuddy::new(frames as usize, max_order), order, allocated: Vec::new() }
    }

    fn allocate(&mut self, order: u8) {
        let best = self.twin.best_order(order);
        let lowest = self.twin.lowest(order);
        let at = self.real.allocate(order);
        assert_eq!(at.is_some(), best.is_some());
        let Some(at) = at else { return };
        if self.order == ListOrder::Address {
            assert_eq!(Some(at.0), lowest);
        }
        let from = self.twin.free_blocks().into_iter().find(|&(start, o)| start <= at.0 && at.0 < start + (1 << o));
        assert_eq!(from.map(|block| block.1), best, "the smallest block that fits is split");
        self.take(at.0, order);
    }

    fn allocate_at(&mut self, at: u64, order: u8) {
        let fits = self.twin.is_free(at as usize, order);
        assert_eq!(self.real.allocate_at(Pfn(at), order).is_some(), fits);
        if fits {
            self.take(at, order);
        }
    }

    fn take(&mut self, at: u64, order: u8) {
        assert!(self.twin.is_free(at as usize, order));
        self.twin.set(at, order, false);
        self.allocated.push((at, order));
        self.agree();
    }

    fn free(&mut self, which: usize, last: bool) {
        if self.allocated.is_empty() {
            return;
        }
        let (at, order) = self.allocated.swap_remove(which % self.allocated.len());
        if last {
            self.real.free_last(Pfn(at), order)
        } else {
            self.real.free(Pfn(at), order)
        }
        self.twin.set(at, order, true);
        self.agree();
    }

    fn agree(&self) {
        self.real.check();
        assert_eq!(self.real.free_blocks(), self.twin.free_blocks());
        assert_eq!(self.real.free_frames(), self.twin.count());
    }
}

#[test]
fn the_allocator_agrees_with_its_twin_in_every_small_world() {
    const OPERATIONS: u64 = 7;
    for order in [ListOrder::Lifo, ListOrder::Address] {
        for sequence in 0..OPERATIONS.pow(6) {
            let mut pair = Pair::new(16, 4, order);
            let mut rest = sequence;
            for _ in 0..6 {
                match rest % OPERATIONS {
                    choice @ 0..3 => pair.allocate(choice as u8),
                    3 => pair.allocate_at(6, 1),
                    4 => pair.free(0, false),
                    5 => pair.free(pair.allocated.len().saturating_sub(1), true),
                    _ => pair.free(1, false),
                }
                rest /= OPERATIONS;
            }
        }
    }
}

#[test]
fn a_terabyte_is_free_in_blocks_of_the_largest_order() {
    let frames = (1u64 << 40) / 4096;
    let mut buddy = Buddy::new(frames, 19, ListOrder::Lifo);
    assert_eq!(buddy.free_by_order()[19], 512, "blocks of 2 GB");
    let page = buddy.allocate(0).unwrap();
    assert_eq!(buddy.free_by_order()[..19], [1; 19]);
    buddy.free(page, 0);
    assert_eq!(buddy.free_by_order()[19], 512);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_allocator_agrees_with_its_twin(
        frames in 1u64..300,
        max_order in 0u8..8,
        sorted: bool,
        operations in proptest::collection::vec((0u8..4, any::<u16>(), 0u8..8), 1..80),
    ) {
        let mut pair = Pair::new(frames, max_order, if sorted { ListOrder::Address } else { ListOrder::Lifo });
        pair.agree();
        for (operation, number, order) in operations {
            match operation {
                0 => pair.allocate(order.min(max_order)),
                1 => {
                    let order = order.min(max_order);
                    pair.allocate_at((number as u64 % frames) >> order << order, order);
                }
                _ => pair.free(number as usize, operation == 3),
            }
        }
    }
}

/// Navarro et al. §4.1 and 5.1: blocks with cached pages are allocated last, also after they were joined or split.
#[test]
fn blocks_freed_last_are_allocated_last() {
    let mut buddy = Buddy::new(64, 6, ListOrder::Lifo);
    let all = buddy.allocate(6).unwrap();
    // Four lone blocks of two frames: the first is freed last, and so is one frame of the second.
    for (at, last) in [(0, true), (8, false), (9, true), (16, false), (17, false), (24, false), (25, false)] {
        match (at, last) {
            (0, _) => buddy.free_last(all, 1),
            (at, true) => buddy.free_last(Pfn(at), 0),
            (at, false) => buddy.free(Pfn(at), 0),
        }
    }
    let order: Vec<u64> = (0..4).map(|_| buddy.allocate(1).unwrap().0).collect();
    assert_eq!(order, [24, 16, 0, 8]);
    // Half of such a block comes after a lone frame that was freed before the block was split.
    buddy.free(Pfn(40), 0);
    buddy.free_last(Pfn(32), 1);
    buddy.allocate_at(Pfn(32), 0).unwrap();
    assert_eq!((0..2).map(|_| buddy.allocate(0).unwrap().0).collect::<Vec<_>>(), [40, 33]);
    buddy.check();
}
