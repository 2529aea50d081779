//! Clustered kernel pages (Navarro et al. §5.2): they come from a pool of contiguous memory, so that they fragment as little of it
//! as possible.

use super::Frames;
use crate::{FrameKind, ObjectId};
use reach_core::Pfn;
use std::collections::{BTreeMap, BTreeSet};

/// The pool of frames for the kernel.
pub(crate) struct WiredPool {
    /// Orders of superpages, descending.
    pub(crate) orders: Vec<u8>,
    /// The pool grows by at most `2^most` frames at once.
    most: u8,
    /// Number of frames in memory.
    memory: u64,
    /// The latest search found no inactive page near the kernel's. Another search is useless until more pages than this are
    /// inactive.
    pub(crate) barren: u64,
    free: BTreeSet<u64>,
    /// Blocks by first frame: order, and number of frames in use.
    blocks: BTreeMap<u64, (u8, u64)>,
}

impl WiredPool {
    /// Returns an empty pool. `orders` are those of superpages, ascending. The pool grows by at most `2^most` of the `memory`
    /// frames at once.
    pub(crate) fn new(orders: &[u8], most: u8, memory: u64) -> WiredPool {
        let orders = orders.iter().rev().copied().collect();
        WiredPool { orders, most, memory, barren: 0, free: BTreeSet::new(), blocks: BTreeMap::new() }
    }

    /// Returns the frames of all extents of `2^order` that hold blocks of the pool.
    pub(crate) fn extents(&self, order: u8) -> impl Iterator<Item = u64> {
        let mut firsts: Vec<u64> = self.blocks.keys().map(|start| start >> order).collect();
        firsts.dedup();
        let end = move |first: u64| ((first + 1) << order).min(self.memory);
        firsts.into_iter().flat_map(move |first| first << order..end(first))
    }

    /// Returns the number of free frames in the pool.
    pub(crate) fn unused(&self) -> u64 {
        self.free.len() as u64
    }

    /// Returns the first frame of the block that holds `frame`. `None` when the pool has no such block.
    fn block(&self, frame: u64) -> Option<u64> {
        let (&start, &(order, _)) = self.blocks.range(..=frame).next_back()?;
        (frame - start < 1 << order).then_some(start)
    }

    /// Takes the lowest free frame of the pool. Returns `None` when none is free.
    fn take(&mut self) -> Option<u64> {
        let frame = self.free.pop_first()?;
        let block = self.block(frame)?;
        if let Some((_, used)) = self.blocks.get_mut(&block) {
            *used += 1;
        }
        Some(frame)
    }

    /// Adds the free block of `2^order` frames at `start` to the pool.
    fn grow(&mut self, start: u64, order: u8) {
        self.barren = 0;
        self.free.extend(start..start + (1 << order));
        self.blocks.insert(start, (order, 0));
    }

    /// Gives `frame` back to the pool. Returns `None` if it does not belong to the pool. The inner value is the first frame and
    /// the order of its block if that is all free now; then the block has left the pool.
    pub(crate) fn give(&mut self, frame: u64) -> Option<Option<(u64, u8)>> {
        let block = self.block(frame)?;
        let (order, used) = self.blocks.get_mut(&block)?;
        *used -= 1;
        let (order, used) = (*order, *used);
        self.free.insert(frame);
        if used > 0 {
            return Some(None);
        }
        self.blocks.remove(&block);
        for at in block..block + (1 << order) {
            self.free.remove(&at);
        }
        Some(Some((block, order)))
    }
}

/// Frames in the page daemon's emergency store. Demoting one page down all the sizes of a machine takes a few page-table nodes,
/// and then frees a frame.
const EMERGENCY: usize = 8;

impl Frames {
    /// Takes a wired frame from the pool, which grows if it must. Returns `None` without a pool, or when memory has no frame.
    pub(crate) fn take_wired(&mut self) -> Option<Pfn> {
        if let Some(frame) = self.wired.as_mut()?.take() {
            return Some(Pfn(frame));
        }
        let (block, order) = self.block_for_kernel()?;
        let pool = self.wired.as_mut()?;
        pool.grow(block.0, order);
        pool.take().map(Pfn)
    }

    /// Allocates what the pool grows by. In order of preference: free memory in an extent where the kernel has pages; the
    /// largest block that needs no preemption; a reserved frame in an extent where the kernel has pages; any frame.
    fn block_for_kernel(&mut self) -> Option<(Pfn, u8)> {
        if let Some(block) = self.block_near_kernel() {
            return Some(block);
        }
        let pool = self.wired.as_ref()?;
        let fits = |order: &&u8| **order <= pool.most && self.buddy.largest_free() >= Some(**order);
        let largest = pool.orders.iter().find(fits).copied();
        if largest.is_none()
            && let Some(reserved) = self.vacancy_near_kernel()
        {
            self.break_at(reserved);
            return Some((self.allocate_at(reserved, 0, FrameKind::Wired, ObjectId::NONE, 0)?, 0));
        }
        let order = largest.unwrap_or(0);
        Some((self.allocate(order, FrameKind::Wired, ObjectId::NONE, 0)?, order))
    }

    /// Returns a frame that is reserved and still vacant, in an extent where the kernel has pages.
    fn vacancy_near_kernel(&self) -> Option<Pfn> {
        let pool = self.wired.as_ref()?;
        let reservations = self.reservations.as_ref()?;
        let vacant = |pfn: &Pfn| {
            matches!(self.get(*pfn).kind, FrameKind::Free | FrameKind::Cache) && reservations.extent_of(*pfn).is_some()
        };
        pool.orders.iter().rev().find_map(|&order| pool.extents(order).map(Pfn).find(vacant))
    }

    /// Allocates a free block in an extent where the kernel has pages, which is lost to superpages already: the smallest block
    /// in the smallest such extent, but no more than the smallest superpage.
    fn block_near_kernel(&mut self) -> Option<(Pfn, u8)> {
        let pool = self.wired.as_ref()?;
        let free = |at| self.buddy.free_block(Pfn(at));
        let within = |order: &u8| pool.extents(*order).filter_map(free).min_by_key(|&(_, order)| order);
        let (start, order) = pool.orders.iter().rev().find_map(within)?;
        let order = order.min(*pool.orders.last()?);
        Some((self.allocate_at(Pfn(start), order, FrameKind::Wired, ObjectId::NONE, 0)?, order))
    }

    /// Grows the pool by a free block near its pages. Returns whether there was one.
    pub(crate) fn grow_near_kernel(&mut self) -> bool {
        let block = self.block_near_kernel();
        if let (Some((at, order)), Some(pool)) = (block, &mut self.wired) {
            pool.grow(at.0, order);
        }
        block.is_some()
    }

    /// Allocates a wired frame, from the pool where there is one.
    pub(crate) fn wire(&mut self) -> Option<Pfn> {
        match self.wired {
            Some(_) => self.take_wired(),
            None => self.allocate(0, FrameKind::Wired, ObjectId::NONE, 0),
        }
    }

    /// Fills the emergency store, as far as there is memory.
    pub(crate) fn top_up(&mut self) {
        while self.queues.is_some() && self.emergency.len() < EMERGENCY {
            match self.wire() {
                Some(pfn) => self.emergency.push(pfn),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The twin is a list of frames, each with its block and whether it is in use.
        #[test]
        fn the_pool_equals_a_list_of_frames(words in proptest::collection::vec(any::<u16>(), 1..200)) {
            let mut pool = WiredPool::new(&[3, 6], 6, 250);
            let mut frames: Vec<(u64, u64, bool)> = Vec::new();
            for word in words {
                let (op, number) = (word % 3, u64::from(word / 3));
                match op {
                    0 => {
                        let order = (number % 4) as u8;
                        let start = (number / 4 % 31) << 3;
                        if frames.iter().all(|&(_, block, _)| block != start) {
                            pool.grow(start, order);
                            frames.extend((start..start + (1 << order)).map(|frame| (frame, start, false)));
                            frames.sort_unstable();
                        }
                    }
                    1 => {
                        let free = frames.iter_mut().find(|(.., used)| !used);
                        prop_assert_eq!(pool.take(), free.as_ref().map(|frame| frame.0));
                        if let Some(frame) = free {
                            frame.2 = true;
                        }
                    }
                    _ => {
                        let used = frames.iter().filter(|(.., used)| *used).count() as u64;
                        let Some(nth) = number.checked_rem(used) else { continue };
                        let frame = frames.iter_mut().filter(|(.., used)| *used).nth(nth as usize).unwrap();
                        frame.2 = false;
                        let (frame, block, _) = *frame;
                        let block: Vec<_> = frames.iter().filter(|&&(_, of, _)| of == block).copied().collect();
                        let empty = block.iter().all(|(.., used)| !used);
                        let leaves = empty.then(|| (block[0].0, block.len().ilog2() as u8));
                        prop_assert_eq!(pool.give(frame), Some(leaves));
                        frames.retain(|frame| !empty || !block.contains(frame));
                    }
                }
                prop_assert_eq!(pool.unused(), frames.iter().filter(|(.., used)| !used).count() as u64);
                let extents: BTreeSet<u64> = frames.iter().map(|(_, block, _)| block >> 6).collect();
                let expected = extents.into_iter().flat_map(|at| at << 6..((at + 1) << 6).min(250));
                prop_assert!(pool.extents(6).eq(expected));
                prop_assert_eq!(pool.give(1 << 20), None);
            }
        }
    }
}
