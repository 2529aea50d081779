//! The buddy allocator (Knuth, TAOCP 1, §2.5) over base frames: free lists by order, eager coalescing.

use super::chunked::Chunked;
use reach_core::Pfn;
use std::collections::BTreeSet;

/// In which order free blocks of one size are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListOrder {
    /// The most recently freed first, as Linux does. O(1).
    #[default]
    Lifo,
    /// The lowest address first. O(log n).
    Address,
}

/// The links of a free block, kept at its first frame.
#[derive(Clone, Copy, Default, PartialEq)]
struct Link {
    next: u32,
    prev: u32,
    /// 0: no free block starts here; otherwise its order plus one.
    mark: u8,
    /// It, or a part of it, was freed by [`Buddy::free_last`].
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
/// Invariants: free blocks are aligned to their size and disjoint; no two free buddies stand side by side below the
/// greatest order, so an aligned extent is wholly free exactly if one free block holds it.
pub struct Buddy {
    links: Chunked<Link>,
    lists: Vec<List>,
    sorted: Option<Vec<BTreeSet<u64>>>,
    /// Bit `o` is set when there is a free block of order `o`.
    available: u32,
    frames: u64,
    free: u64,
    /// Lists entered and left so far.
    steps: u64,
}

impl Buddy {
    /// An allocator of `frames` (at most 2^32 - 1) free frames with orders `0..=max_order` (at most 31).
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

    /// From now on blocks are handed out by address ([`ListOrder::Address`]).
    pub(crate) fn sort(&mut self) {
        let mut sorted = vec![BTreeSet::new(); self.lists.len()];
        for (at, order) in self.free_blocks() {
            sorted[order as usize].insert(at);
        }
        self.sorted = Some(sorted);
    }

    /// From now on no block is larger than `2^max_order` frames.
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

    /// How often a block was put on a list or taken from one: the work of splitting and joining.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How many frames there are, free or not.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// How many of them are free.
    pub fn free_frames(&self) -> u64 {
        self.free
    }

    /// The greatest order.
    pub fn max_order(&self) -> u8 {
        self.lists.len() as u8 - 1
    }

    /// How many free blocks there are of each order, smallest first.
    pub fn free_by_order(&self) -> Vec<u64> {
        self.lists.iter().map(|list| list.len).collect()
    }

    /// The order of the largest free block.
    pub fn largest_free(&self) -> Option<u8> {
        (self.available != 0).then(|| 31 - self.available.leading_zeros() as u8)
    }

    /// A block of `2^order` frames from the smallest block that holds it, split from its low end.
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

    /// The block of `2^order` frames at `at`, which must be aligned; `None` unless all of it is free.
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

    /// The free block that holds frame `at`: its first frame and its order.
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
    /// When part of it lies outside memory or is free already.
    pub fn free(&mut self, at: Pfn, order: u8) {
        self.release(at, order, false);
    }

    /// Like [`Buddy::free`], but the block comes last among its equals (Navarro §4.1 puts blocks that hold cached
    /// pages there, so that allocation approximates A-LRU); so do blocks that it becomes part of, and parts of it. The
    /// same as `free` under [`ListOrder::Address`].
    pub fn free_last(&mut self, at: Pfn, order: u8) {
        self.release(at, order, true);
    }

    /// Frees `len` frames from `at` on as the largest aligned blocks.
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
        assert!(order <= self.max_order() && at.0.is_multiple_of(1 << order), "{at:?} is no block of order {order}");
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

    /// Frees what a block (`head`, `from`), just taken, has beyond the wanted block (`at`, `order`) inside it.
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

    /// Returns whether it was to come last.
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

    /// All free blocks in the order of their addresses: (first frame, order). Linear in memory; for tests and reports.
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
