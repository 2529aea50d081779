//! Preempting reservations (Navarro et al. §4.3, 4.8).

use super::map::NIL;
use super::{Reservation, Reservations};
use crate::ObjectId;
use reach_core::Pfn;

/// A block that a broken reservation frees: its first frame and its order.
pub(crate) type Block = (Pfn, u8);

impl Reservations {
    /// Returns the reservation to preempt for a block of `2^order` frames: on the list of the smallest sufficient size that has
    /// any, the one with the oldest latest allocation.
    fn victim(&self, order: u8) -> Option<u32> {
        let from = self.ladder().holding(order)? as usize;
        self.lists.iter().skip(from).find_map(|list| list.first()).map(|(_, start)| self.starts[start])
    }

    /// Preempts a reservation for a block of `2^order` frames ([`Reservations::break_up`]). Returns its level and the freed
    /// blocks, or `None` when no reservation can yield such a block.
    pub(crate) fn preempt(&mut self, order: u8) -> Option<(u8, Vec<Block>)> {
        let victim = self.victim(order)?;
        self.counts.reclaimed += 1;
        Some((self.get(victim).level, self.break_up(victim)))
    }

    /// Breaks a reservation into extents of the next smaller size. Returns the empty extents, for the allocator. Partly
    /// populated ones become reservations at the heads of their lists; full ones become reservations on no list. Extents of
    /// base pages do not stay reserved.
    fn break_up(&mut self, id: u32) -> Vec<Block> {
        let old = self.remove(id);
        self.counts.broken += 1;
        let level = old.level - 1;
        let order = self.ladder().order(level);
        let mut free = Vec::new();
        for slot in 0..self.ladder().fan(old.level) as usize {
            self.maps.step(1);
            let offset = (slot as u64) << order;
            let below = self.maps.node(old.node).below[slot];
            if below == NIL {
                free.push((old.pfn + offset, order));
                self.held -= 1 << order;
            } else if level > 0 {
                let (place, pfn) = (old.place + offset, old.pfn + offset);
                let piece = Reservation { place, pfn, level, node: below, list: None, ..old };
                let piece = self.add(piece);
                let list = self.maps.node(below).vacant;
                let head = list.and_then(|list| self.lists[list as usize].first());
                let stamp = head.map_or(old.stamp, |&(first, _)| old.stamp.min(first - 1));
                self.relist(piece, stamp);
            }
        }
        self.recount();
        free
    }

    /// Breaks the reservation that holds the vacant frame `pfn` until that frame is free. Returns the freed blocks; none when no
    /// reservation holds the frame.
    pub(crate) fn break_at(&mut self, pfn: Pfn) -> Vec<Block> {
        let mut free = Vec::new();
        while let Some((start, _)) = self.extent_of(pfn) {
            self.counts.reclaimed += 1;
            free.extend(self.break_up(self.starts[&start]));
        }
        free
    }

    /// Returns the level of the reservation that holds frame `pfn`; 0 when none does.
    pub(crate) fn level_over(&self, pfn: Pfn) -> u8 {
        self.extent_of(pfn).map_or(0, |(start, _)| self.get(self.starts[&start]).level)
    }

    /// Returns the first frame and the number of frames of the reservation that holds frame `pfn`. `None` when none does.
    pub(crate) fn extent_of(&self, pfn: Pfn) -> Option<(u64, u64)> {
        let (&start, &id) = self.starts.range(..=pfn.0).next_back()?;
        let pages = self.ladder().pages(self.get(id).level);
        (pfn.0 - start < pages).then_some((start, pages))
    }

    /// Ends the reservations of an object that is gone. Returns the freed blocks, and the frames that are still in use, which
    /// belong to no object any more.
    pub(crate) fn end(&mut self, object: ObjectId) -> (Vec<Block>, Vec<Pfn>) {
        let mut free = Vec::new();
        let mut todo: Vec<u32> = self.maps.reservations_of(object);
        while let Some(id) = todo.pop() {
            let (start, len) = (self.get(id).pfn.0, self.ladder().pages(self.get(id).level));
            free.extend(self.break_up(id));
            todo.extend(self.starts.range(start..start + len).map(|(_, &piece)| piece));
        }
        (free, self.maps.end(object))
    }
}
