//! Pages of the kernel's own, clustered (Navarro et al. §5.2): they come from pools of contiguous memory, so that they
//! fragment no more of it than they must.

use std::collections::{BTreeMap, BTreeSet};

/// Blocks of frames for the kernel.
pub(crate) struct WiredPool {
    /// Blocks have `2^order` frames.
    pub(crate) order: u8,
    free: BTreeSet<u64>,
    /// Frames in use, by first frame of each block.
    used: BTreeMap<u64, u64>,
}

impl WiredPool {
    pub(crate) fn new(order: u8) -> WiredPool {
        WiredPool { order, free: BTreeSet::new(), used: BTreeMap::new() }
    }

    fn block(&self, frame: u64) -> u64 {
        frame & !((1 << self.order) - 1)
    }

    /// The lowest frame that is free in the pool.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let frame = self.free.pop_first()?;
        let block = self.block(frame);
        *self.used.entry(block).or_default() += 1;
        Some(frame)
    }

    /// The pool grows by the block at `start`.
    pub(crate) fn grow(&mut self, start: u64) {
        self.free.extend(start..start + (1 << self.order));
        self.used.insert(start, 0);
    }

    /// `frame` comes back, if it is of the pool. Returns the block that is all free then, which leaves the pool.
    pub(crate) fn give(&mut self, frame: u64) -> Option<Option<u64>> {
        let block = self.block(frame);
        let used = self.used.get_mut(&block)?;
        *used -= 1;
        self.free.insert(frame);
        if *used > 0 {
            return Some(None);
        }
        self.used.remove(&block);
        for at in block..block + (1 << self.order) {
            self.free.remove(&at);
        }
        Some(Some(block))
    }
}
