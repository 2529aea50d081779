//! The buddy allocator over base frames (Knuth, TAOCP 1, §2.5): free lists by order, eager coalescing.

use super::chunked::Chunked;
use reach_core::Pfn;
use std::collections::BTreeSet;

/// The order in which free blocks of one size are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListOrder {
    /// The most recently freed block first, as in Linux. O(1).
    #[default]
    Lifo,
    /// The block with the lowest address first. O(log n).
    Address,
}

/// The links of a free block, kept at its first frame.
#[derive(Clone, Copy, Default, PartialEq)]
struct Link {
    next: u32,
    prev: u32,
    /// 0: no free block starts here; otherwise its order plus one.
    mark: u8,
    /// The block, or a part of it, was freed by [`Buddy::free_last`].
    last: bool,
}

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    len: u64,
}

/// A buddy allocator over frames `0..frames`.
///
/// Invariants: free blocks are aligned to their size and disjoint. No two buddies below the largest order are both free, so an
/// aligned extent is wholly free exactly if one free block holds it.
///
/// ```
/// use reach_core::Pfn;
/// use reach_os::{Buddy, ListOrder};
///
/// let mut buddy = Buddy::new(1024, 9, ListOrder::Lifo);
/// assert_eq!(buddy.free_by_order()[9], 2, "two blocks of 512 frames");
/// let page = buddy.allocate(0).unwrap();
/// assert_eq!(buddy.largest_free(), Some(9), "one block was split");
/// buddy.free(page, 0);
/// assert_eq!(buddy.free_by_order()[9], 2, "and joined again");
/// assert_eq!(buddy.allocate_at(Pfn(512), 9), Some(Pfn(512)));
/// ```
pub struct Buddy {
    links: Chunked<Link>,
    lists: Vec<List>,
    sorted: Option<Vec<BTreeSet<u64>>>,
    /// Bit `o` is set if there is a free block of order `o`.
    available: u32,
    frames: u64,
    free: u64,
    /// Number of blocks put on a list or taken from one so far.
    steps: u64,
}

impl Buddy {
    /// Returns an allocator of `frames` free frames, fewer than 2^32 - 1, with orders `0..=max_order`, at most 31.
    ///
    /// # Panics
    /// When an argument is out of range.
    pub fn new(frames: u64, max_order: u8, order: ListOrder) -> Buddy {
        assert!(frames < NIL as u64 && max_order < 32);
        let orders = max_order as usize + 1;
        let mut buddy = Buddy {
            links: Chunked::new(frames),
            lists: vec![List { head: NIL, tail: NIL, len: 0 }; orders],
            sorted: (order == ListOrder::Address).then(|| vec![BTreeSet::new(); orders]),
            available: 0,
            frames,
            free: 0,
            steps: 0,
        };
        buddy.free_range(Pfn(0), frames);
        buddy
    }

    /// Hands out blocks by address from now on ([`ListOrder::Address`]).
    pub(crate) fn sort(&mut self) {
        let mut sorted = vec![BTreeSet::new(); self.lists.len()];
        for (at, order) in self.free_blocks() {
            sorted[order as usize].insert(at);
        }
        self.sorted = Some(sorted);
    }

    /// Hands out the free blocks `blocks` of `order`, all that there are, in this order from now on, unless others are freed
    /// ([`ListOrder::Lifo`]).
    pub(crate) fn give_in_order(&mut self, blocks: Vec<u64>, order: u8) {
        for at in blocks.into_iter().rev() {
            let last = self.take(at, order);
            self.put(at, order, last);
        }
    }

    /// Limits blocks to `2^max_order` frames from now on.
    pub(crate) fn limit(&mut self, max_order: u8) {
        let blocks = self.free_blocks();
        if max_order < self.max_order() {
            for &(at, order) in &blocks {
                self.take(at, order);
            }
            self.free = 0;
            self.lists.truncate(max_order as usize + 1);
            self.sorted.iter_mut().for_each(|sorted| sorted.truncate(max_order as usize + 1));
            for (at, order) in blocks {
                self.free_range(Pfn(at), 1 << order);
            }
        }
    }

    /// Returns how often a block was put on a list or taken from one: the work of splitting and joining.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the number of frames, free or not.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the number of free frames.
    pub fn free_frames(&self) -> u64 {
        self.free
    }

    /// Returns the largest order.
    pub fn max_order(&self) -> u8 {
        self.lists.len() as u8 - 1
    }

    /// Returns the number of free blocks of each order, from order 0 on.
    pub fn free_by_order(&self) -> Vec<u64> {
        self.lists.iter().map(|list| list.len).collect()
    }

    /// Returns the number of free frames in blocks of fewer than 2^`order` frames.
    pub fn free_below(&self, order: u8) -> u64 {
        self.lists.iter().enumerate().take(order.into()).map(|(order, list)| list.len << order).sum()
    }

    /// Returns the order of the largest free block. `None` when no frame is free.
    pub fn largest_free(&self) -> Option<u8> {
        (self.available != 0).then(|| 31 - self.available.leading_zeros() as u8)
    }

    /// Allocates a block of `2^order` frames from the low end of a smallest free block that holds it. Returns its first frame,
    /// or `None` when no free block is large enough.
    pub fn allocate(&mut self, order: u8) -> Option<Pfn> {
        let fitting = self.available.checked_shr(order as u32)?;
        if order > self.max_order() || fitting == 0 {
            return None;
        }
        let from = order + fitting.trailing_zeros() as u8;
        let at = match &self.sorted {
            Some(sorted) => *sorted[from as usize].first().expect("the mask says that there is one"),
            None => self.lists[from as usize].head as u64,
        };
        let last = self.take(at, from);
        self.split(at, from, at, order, last);
        self.free -= 1 << order;
        Some(Pfn(at))
    }

    /// Allocates the block of `2^order` frames at `at`, which must be aligned. Returns `None` unless all of it is free.
    pub fn allocate_at(&mut self, at: Pfn, order: u8) -> Option<Pfn> {
        let (head, from) = self.free_block(at)?;
        if from < order {
            return None;
        }
        debug_assert!(at.0.is_multiple_of(1 << order));
        let last = self.take(head, from);
        self.split(head, from, at.0, order, last);
        self.free -= 1 << order;
        Some(at)
    }

    /// Returns the first frame and the order of the free block that holds frame `at`. `None` when the frame is not free.
    pub fn free_block(&self, at: Pfn) -> Option<(u64, u8)> {
        if at.0 >= self.frames {
            return None;
        }
        (0..=self.max_order()).find_map(|order| {
            let head = at.0 & !((1 << order) - 1);
            (self.links.get(head).mark == order + 1).then_some((head, order))
        })
    }

    /// Frees the block of `2^order` frames at `at` and coalesces it with its free buddies.
    ///
    /// # Panics
    /// When part of the block lies outside memory or is free already.
    pub fn free(&mut self, at: Pfn, order: u8) {
        self.release(at, order, false);
    }

    /// Frees a block as [`Buddy::free`] does, but to the end of its list (Navarro §4.1 puts blocks that hold cached pages
    /// there, so that allocation approximates A-LRU). Blocks that it becomes part of, and parts of it, go to the end too. The
    /// same as `free` under [`ListOrder::Address`].
    pub fn free_last(&mut self, at: Pfn, order: u8) {
        self.release(at, order, true);
    }

    /// Frees `len` frames from `at` on, as the largest aligned blocks.
    pub fn free_range(&mut self, at: Pfn, len: u64) {
        let end = at.0 + len;
        let mut at = at.0;
        while at < end {
            let aligned = if at == 0 { 31 } else { at.trailing_zeros().min(31) };
            let order = aligned.min((end - at).ilog2()).min(self.max_order() as u32) as u8;
            self.free(Pfn(at), order);
            at += 1 << order;
        }
    }

    fn release(&mut self, at: Pfn, order: u8, last: bool) {
        assert!(order <= self.max_order() && at.0.is_multiple_of(1 << order), "{at:?} is not aligned to order {order}");
        assert!(at.0 + (1 << order) <= self.frames, "{at:?} of order {order} is outside memory");
        assert!(self.free_block(at).is_none(), "{at:?} is free already");
        self.free += 1 << order;
        let (mut at, mut order, mut last) = (at.0, order, last);
        while order < self.max_order() {
            let buddy = at ^ (1 << order);
            if buddy >= self.frames || self.links.get(buddy).mark != order + 1 {
                break;
            }
            last |= self.take(buddy, order);
            at &= buddy;
            order += 1;
        }
        self.put(at, order, last);
    }

    /// Frees what the block (`head`, `from`), just taken, has besides the wanted block (`at`, `order`) inside it.
    fn split(&mut self, mut head: u64, from: u8, at: u64, order: u8, last: bool) {
        for half in (order..from).rev() {
            let upper = head + (1 << half);
            if at >= upper {
                self.put(head, half, last);
                head = upper;
            } else {
                self.put(upper, half, last);
            }
        }
    }

    /// Puts a free block on its list, at the end if `last`.
    fn put(&mut self, at: u64, order: u8, last: bool) {
        let slot = order as usize;
        self.steps += 1;
        let list = &mut self.lists[slot];
        list.len += 1;
        self.available |= 1 << order;
        let mut link = Link { next: NIL, prev: NIL, mark: order + 1, last };
        if let Some(sorted) = &mut self.sorted {
            sorted[slot].insert(at);
        } else if list.head == NIL {
            (list.head, list.tail) = (at as u32, at as u32);
        } else if last {
            link.prev = list.tail;
            self.links.get_mut(list.tail as u64).next = at as u32;
            list.tail = at as u32;
        } else {
            link.next = list.head;
            self.links.get_mut(list.head as u64).prev = at as u32;
            list.head = at as u32;
        }
        self.links.set(at, link);
    }

    /// Takes a free block from its list. Returns whether it belonged at the end.
    fn take(&mut self, at: u64, order: u8) -> bool {
        let slot = order as usize;
        self.steps += 1;
        let link = self.links.set(at, Link::default());
        debug_assert_eq!(link.mark, order + 1);
        let list = &mut self.lists[slot];
        list.len -= 1;
        if list.len == 0 {
            self.available &= !(1 << order);
        }
        if let Some(sorted) = &mut self.sorted {
            sorted[slot].remove(&at);
            return link.last;
        }
        match link.prev {
            NIL => list.head = link.next,
            prev => self.links.get_mut(prev as u64).next = link.next,
        }
        match link.next {
            NIL => list.tail = link.prev,
            next => self.links.get_mut(next as u64).prev = link.prev,
        }
        link.last
    }

    /// Returns all free blocks by address, as pairs of first frame and order. Takes time linear in memory; for tests and
    /// reports.
    pub fn free_blocks(&self) -> Vec<(u64, u8)> {
        let mut found = Vec::new();
        for (order, list) in self.lists.iter().enumerate() {
            if let Some(sorted) = &self.sorted {
                found.extend(sorted[order].iter().map(|&at| (at, order as u8)));
                continue;
            }
            let mut at = list.head;
            while at != NIL {
                found.push((at as u64, order as u8));
                at = self.links.get(at as u64).next;
            }
        }
        found.sort_unstable();
        found
    }

    /// Checks the invariants. For tests and debug builds.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check(&self) {
        let blocks = self.free_blocks();
        let mut end = 0;
        for &(at, order) in &blocks {
            assert!(at >= end, "free blocks overlap at {at}");
            end = at + (1 << order);
            assert!(end <= self.frames && at.is_multiple_of(1 << order));
            assert_eq!(self.links.get(at).mark, order + 1, "mark of {at}");
            let buddy = at ^ (1 << order);
            let lone = order == self.max_order() || buddy >= self.frames || self.links.get(buddy).mark != order + 1;
            assert!(lone, "{at} and its buddy of order {order} are both free");
        }
        assert_eq!(blocks.iter().map(|&(_, order)| 1u64 << order).sum::<u64>(), self.free, "free frames");
        for (order, list) in self.lists.iter().enumerate() {
            assert_eq!(blocks.iter().filter(|block| block.1 as usize == order).count() as u64, list.len);
            assert_eq!(self.available >> order & 1 == 1, list.len > 0, "mask of order {order}");
        }
    }
}
