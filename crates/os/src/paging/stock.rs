//! Keeping kernel pages in stock (Navarro et al. §5.2).

use crate::memory::Queue;
use crate::{OutOfMemory, Vm};
use reach_core::Pfn;

/// Frames that the pool keeps in stock, where that costs no extent.
const STOCK: u64 = 16;

impl Vm {
    /// Stocks the pool before the kernel needs frames, from extents where it has pages already. Idle pages are evicted from there, so
    /// that no other extent is fragmented (§5.2).
    pub(super) fn stock_pool(&mut self) -> Result<(), OutOfMemory> {
        let stock = STOCK.min(self.frames.buddy().frames() >> 8);
        let inactive = self.frames.queues.as_ref().map_or(0, |queues| queues.len(Queue::Inactive));
        let Some(pool) = self.frames.wired.as_ref().filter(|pool| pool.unused() < stock / 2) else { return Ok(()) };
        if inactive <= pool.barren {
            return Ok(());
        }
        let mut idle = self.idle_near_kernel().into_iter();
        while self.frames.wired.as_ref().is_some_and(|pool| pool.unused() < stock) && !self.frames.grow_near_kernel() {
            let Some(pfn) = idle.next().filter(|&pfn| self.idle(pfn)) else { break };
            self.evict(pfn)?;
        }
        self.forget_dropped();
        if let Some(pool) = &mut self.frames.wired {
            pool.barren = if pool.unused() < stock { inactive + stock } else { 0 };
        }
        Ok(())
    }

    /// Returns idle pages in extents where the kernel has pages, those in the smallest extents first.
    fn idle_near_kernel(&self) -> Vec<Pfn> {
        let Some(pool) = &self.frames.wired else { return Vec::new() };
        let near = pool.orders.iter().rev().flat_map(|&order| pool.extents(order));
        near.map(Pfn).filter(|&pfn| self.idle(pfn)).take(STOCK as usize).collect()
    }

    /// Returns whether `pfn` holds a page that has not been used for long and need not be written.
    fn idle(&self, pfn: Pfn) -> bool {
        self.frames.queued(pfn) == Some(Queue::Inactive)
            && !self.pinned(pfn)
            && !self.is_dirty(pfn)
            && (self.closed(pfn) || !self.referenced(pfn))
    }
}
