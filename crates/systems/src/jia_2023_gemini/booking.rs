//! Huge booking: blocks of the size of a huge page that are set aside for a time (Jia et al. 2023, sections 3 and 4).
//!
//! A booked block is kernel memory for the allocator. Its frames leave it one by one, as base pages, or all at once, as a huge page.

use reach_core::{Cycles, Pfn};
use reach_os::{FrameKind, ObjectId, Vm};
use std::collections::BTreeMap;

/// A booked block.
#[derive(Debug)]
struct Block {
    until: Cycles,
    /// By frame: whether it is still booked.
    booked: Vec<bool>,
}

impl Block {
    /// Returns the runs of frames that are still booked: the first and the number of each.
    fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for at in (0..).zip(&self.booked).filter(|(_, booked)| **booked).map(|(at, _)| at) {
            match runs.last_mut() {
                Some((start, length)) if *start + *length == at => *length += 1,
                _ => runs.push((at, 1)),
            }
        }
        runs
    }
}

/// All booked blocks, by their first frame.
#[derive(Debug, Default)]
pub(super) struct Booked {
    blocks: BTreeMap<u64, Block>,
}

impl Booked {
    /// Returns whether any block is booked.
    pub fn any(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Books the block of `2^order` frames at `at` until `until`. Does nothing where not all of it is free.
    pub fn book(&mut self, at: Pfn, order: u8, until: Cycles, vm: &mut Vm) {
        if vm.frames_mut().allocate_at(at, order, FrameKind::Wired, ObjectId::NONE, 0).is_some() {
            self.blocks.insert(at.0, Block { until, booked: vec![true; 1 << order] });
        }
    }

    /// Books a block of `2^order` frames that the allocator chooses, and returns it. Without `until`, it is free again at once.
    pub fn book_any(&mut self, order: u8, until: Option<Cycles>, vm: &mut Vm) -> Option<Pfn> {
        let at = vm.frames_mut().allocate(order, FrameKind::Wired, ObjectId::NONE, 0)?;
        match until {
            Some(until) => drop(self.blocks.insert(at.0, Block { until, booked: vec![true; 1 << order] })),
            None => vm.frames_mut().free(at, 1 << order),
        }
        Some(at)
    }

    /// Returns whether the block at `at` is booked, and all of it still.
    pub fn is_whole(&self, at: Pfn) -> bool {
        self.blocks.get(&at.0).is_some_and(|block| block.booked.iter().all(|&booked| booked))
    }

    /// Returns whether frame number `index` of the block at `at` is booked.
    pub fn has(&self, at: Pfn, index: u64) -> bool {
        self.blocks.get(&at.0).is_some_and(|block| block.booked[index as usize])
    }

    /// Allocates frame number `index` of the block at `at` for page `page` of `object`: booked or free. Returns `None` where it is
    /// neither.
    pub fn take_page(&mut self, at: Pfn, index: u64, object: ObjectId, page: u64, vm: &mut Vm) -> Option<Pfn> {
        if let Some(block) = self.blocks.get_mut(&at.0)
            && std::mem::take(&mut block.booked[index as usize])
        {
            vm.frames_mut().free(at + index, 1);
            if block.booked.iter().all(|&booked| !booked) {
                self.blocks.remove(&at.0);
            }
        }
        vm.frames_mut().allocate_at(at + index, 0, FrameKind::Anonymous, object, page)
    }

    /// Frees what is left of the block at `at`, if it is booked.
    pub fn release(&mut self, at: Pfn, vm: &mut Vm) {
        if let Some(block) = self.blocks.remove(&at.0) {
            block.runs().into_iter().for_each(|(start, length)| vm.frames_mut().free(at + start, length));
        }
    }

    /// Frees all blocks.
    pub fn release_all(&mut self, vm: &mut Vm) {
        let all: Vec<u64> = self.blocks.keys().copied().collect();
        all.into_iter().for_each(|at| self.release(Pfn(at), vm));
    }

    /// Frees the blocks whose time has come by `now`, and returns them.
    pub fn expire(&mut self, now: Cycles, vm: &mut Vm) -> Vec<Pfn> {
        let due = self.blocks.iter().filter(|(_, block)| block.until <= now);
        let due: Vec<Pfn> = due.map(|(&at, _)| Pfn(at)).collect();
        due.iter().for_each(|&at| self.release(at, vm));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::{Layout, PageShift};
    use reach_os::Options;

    #[test]
    fn booked_frames_leave_one_by_one_and_the_rest_when_its_time_has_come() {
        let mut vm = Vm::new(Options::linux(Layout::x86_64(), vec![PageShift(12), PageShift(21)], 64 << 20)).unwrap();
        let (free, at) = (vm.frames().buddy().free_frames(), Pfn(1024));
        let mut booked = Booked::default();
        booked.book(at, 9, Cycles(50), &mut vm);
        booked.book(at, 9, Cycles(70), &mut vm);
        assert_eq!(vm.frames().buddy().free_frames(), free - 512, "it is booked once");
        assert!(booked.is_whole(at) && !booked.is_whole(Pfn(512)));
        assert_eq!(booked.take_page(at, 3, ObjectId::NONE, 0, &mut vm), Some(Pfn(1027)));
        assert_eq!(booked.take_page(at, 3, ObjectId::NONE, 0, &mut vm), None, "it is in use");
        assert!(!booked.is_whole(at) && booked.has(at, 2) && !booked.has(at, 3));
        assert_eq!(booked.expire(Cycles(49), &mut vm), []);
        assert_eq!(booked.expire(Cycles(50), &mut vm), [at]);
        assert!(!booked.any());
        assert_eq!(vm.frames().buddy().free_frames(), free - 1);
        assert_eq!(vm.frames().get(Pfn(1027)).kind, FrameKind::Anonymous);
        // Without a booking, a free frame is all that is needed.
        assert_eq!(booked.take_page(at, 4, ObjectId::NONE, 0, &mut vm), Some(Pfn(1028)));
        vm.frames().check();
    }
}
