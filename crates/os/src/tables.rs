//! Frames for the nodes of page tables: the kernel's own memory, which cannot be moved or paged out.

use crate::{FrameKind, Frames, ObjectId};
use reach_core::{FrameSource, Pfn, PhysAddr};

/// Demoting one page down all the sizes of a machine takes a few nodes, and then frees a frame.
const EMERGENCY: usize = 8;

impl Frames {
    /// Page-table nodes taken since the last call, with their sizes in bytes: they have to be zeroed.
    pub(crate) fn new_tables(&mut self) -> Vec<(PhysAddr, u64)> {
        std::mem::take(&mut self.new_tables)
    }

    /// Fills the page daemon's emergency store up to what it should be, as far as there is memory.
    pub(crate) fn top_up(&mut self) {
        while self.queues.is_some() && self.emergency.len() < EMERGENCY {
            match self.allocate(0, FrameKind::Wired, ObjectId::NONE, 0) {
                Some(pfn) => self.emergency.push(pfn),
                None => return,
            }
        }
    }

    /// A frame for a page-table node from the pool of the kernel's pages, where there is one and memory for it.
    fn take_wired(&mut self) -> Option<Pfn> {
        let order = self.wired.as_ref()?.order;
        let frame = match self.wired.as_mut()?.take() {
            Some(frame) => frame,
            None => {
                let block = self.allocate(order, FrameKind::Wired, ObjectId::NONE, 0)?;
                let pool = self.wired.as_mut()?;
                pool.grow(block.0);
                pool.take()?
            }
        };
        self.get_mut(Pfn(frame)).kind = FrameKind::Table;
        Some(Pfn(frame))
    }

    /// How many base frames a page-table node of `bytes` takes.
    pub(crate) fn table_order(&self, bytes: u64) -> u8 {
        bytes.max(self.base.bytes()).ilog2() as u8 - self.base.0
    }
}

impl FrameSource for Frames {
    fn take_table(&mut self, bytes: u64) -> Option<PhysAddr> {
        let order = self.table_order(bytes);
        let pooled = if order == 0 { self.take_wired() } else { None };
        let pfn = match pooled {
            Some(pfn) => pfn,
            None => match self.allocate(order, FrameKind::Table, ObjectId::NONE, 0) {
                Some(pfn) => pfn,
                None if order == 0 => {
                    let pfn = self.emergency.pop()?;
                    self.get_mut(pfn).kind = FrameKind::Table;
                    pfn
                }
                None => return None,
            },
        };
        let at = pfn.addr(self.base);
        self.tables += bytes;
        self.new_tables.push((at, bytes));
        Some(at)
    }

    fn give_table(&mut self, at: PhysAddr, bytes: u64) {
        self.tables -= bytes;
        let pfn = at.pfn(self.base);
        match self.wired.as_mut().filter(|_| bytes <= self.base.bytes()).and_then(|pool| pool.give(pfn.0)) {
            None => self.free(pfn, 1 << self.table_order(bytes)),
            Some(empty) => {
                self.get_mut(pfn).kind = FrameKind::Wired;
                if let (Some(block), Some(pool)) = (empty, &self.wired) {
                    let frames = 1 << pool.order;
                    self.free(Pfn(block), frames);
                }
            }
        }
    }
}
