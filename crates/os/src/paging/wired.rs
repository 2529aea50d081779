//! Pages of the kernel's own, clustered (Navarro et al. §5.2): they come from pools of contiguous memory, so that they
//! fragment no more of it than they must.

use std::collections::{BTreeMap, BTreeSet};

/// Blocks of frames for the kernel.
pub(crate) struct WiredPool {
    /// Orders of blocks that the pool may grow by, the largest first.
    orders: Vec<u8>,
    free: BTreeSet<u64>,
    /// Blocks by first frame: how large, and how many of their frames are in use.
    blocks: BTreeMap<u64, (u8, u64)>,
}

impl WiredPool {
    /// `orders` ascend.
    pub(crate) fn new(orders: &[u8]) -> WiredPool {
        let orders = orders.iter().rev().copied().collect();
        WiredPool { orders, free: BTreeSet::new(), blocks: BTreeMap::new() }
    }

    /// By which blocks it may grow, the best first.
    pub(crate) fn orders(&self) -> Vec<u8> {
        self.orders.clone()
    }

    /// Frames of the pool that nothing uses.
    pub(crate) fn unused(&self) -> u64 {
        self.free.len() as u64
    }

    /// The block that holds `frame`: its first frame.
    fn block(&self, frame: u64) -> Option<u64> {
        let (&start, &(order, _)) = self.blocks.range(..=frame).next_back()?;
        (frame - start < 1 << order).then_some(start)
    }

    /// The lowest frame that is free in the pool.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let frame = self.free.pop_first()?;
        let block = self.block(frame)?;
        if let Some((_, used)) = self.blocks.get_mut(&block) {
            *used += 1;
        }
        Some(frame)
    }

    /// The pool grows by the block of `2^order` frames at `start`.
    pub(crate) fn grow(&mut self, start: u64, order: u8) {
        self.free.extend(start..start + (1 << order));
        self.blocks.insert(start, (order, 0));
    }

    /// `frame` comes back, if it is of the pool. Returns the block that is all free then, which leaves the pool, with
    /// its order.
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
