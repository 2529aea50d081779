//! Frames for the nodes of page tables and range tables: kernel memory, which cannot be moved or paged out.

use crate::{FrameKind, Frames, ObjectId};
use reach_core::{FrameSource, Pfn, PhysAddr};

impl Frames {
    /// Returns the nodes allocated since the last call, with their sizes in bytes. The caller zeroes them.
    pub(crate) fn new_tables(&mut self) -> Vec<(PhysAddr, u64)> {
        std::mem::take(&mut self.new_tables)
    }

    /// Records that the `bytes` at `pfn`, which are the kernel's, are a node. Returns their address.
    fn record_table(&mut self, pfn: Pfn, bytes: u64) -> PhysAddr {
        self.set_kind(pfn, self.table_order(bytes), FrameKind::Table);
        let at = pfn.addr(self.base);
        self.tables += bytes;
        self.new_tables.push((at, bytes));
        at
    }

    /// Sets the kind of a block of `2^order` frames.
    fn set_kind(&mut self, pfn: Pfn, order: u8, kind: FrameKind) {
        for at in pfn.0..pfn.0 + (1 << order) {
            self.get_mut(Pfn(at)).kind = kind;
        }
    }

    /// Returns the binary logarithm of the base frames that a node of `bytes` takes.
    pub(crate) fn table_order(&self, bytes: u64) -> u8 {
        bytes.max(self.base.bytes()).ilog2() as u8 - self.base.0
    }
}

impl FrameSource for Frames {
    fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
        let order = self.table_order(bytes);
        if let Some(at) = self.spare_roots.iter().position(|spare| spare.1 == order) {
            let (pfn, _) = self.spare_roots.swap_remove(at);
            return Some(self.record_table(pfn, bytes));
        }
        let pooled = if order == 0 { self.take_wired() } else { None };
        let pfn = match pooled {
            Some(pfn) => pfn,
            None => match self.allocate(order, FrameKind::Table, ObjectId::NONE, 0) {
                Some(pfn) => pfn,
                None if order == 0 => self.emergency.pop()?,
                None => return None,
            },
        };
        Some(self.record_table(pfn, bytes))
    }

    fn free_table(&mut self, at: PhysAddr, bytes: u64) {
        if self.unshare_table(at) {
            return;
        }
        self.tables -= bytes;
        let pfn = at.pfn(self.base);
        let order = self.table_order(bytes);
        // Nodes of several pages, which few machines have and only as roots, are kept: fragmented memory may have no
        // other block for one.
        if order > 0 && self.queues.is_some() {
            self.set_kind(pfn, order, FrameKind::Wired);
            self.spare_roots.push((pfn, order));
            return;
        }
        match self.wired.as_mut().filter(|_| bytes <= self.base.bytes()).and_then(|pool| pool.give(pfn.0)) {
            None => self.free(pfn, 1 << order),
            Some(empty) => {
                self.get_mut(pfn).kind = FrameKind::Wired;
                if let Some((block, order)) = empty {
                    self.free(Pfn(block), 1 << order);
                }
            }
        }
    }
}
