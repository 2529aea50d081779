//! A memory controller that translates shadow addresses (Impulse, in Fang et al. 1999, section 3.2). No memory backs a
//! shadow address: the controller maps it to a real one by its own table, of which it caches entries in the MTLB.

use crate::array::Array;
use crate::config::Replacement;
use reach_core::{ControllerOptions, PageShift, Pfn, PhysAddr};
use std::collections::HashMap;

/// Counts of a memory controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerCounters {
    /// Shadow addresses that the controller translated, of lines fetched and lines written back.
    pub retranslations: u64,
    /// Retranslations that missed in the MTLB.
    pub misses: u64,
}

/// A memory controller with a table from shadow frames to real frames.
#[derive(Clone, Debug)]
pub struct Controller {
    options: ControllerOptions,
    page: PageShift,
    table: HashMap<u64, u64>,
    mtlb: Array<u64>,
    /// Counts since the start.
    pub counters: ControllerCounters,
}

impl Controller {
    /// Creates a controller with an empty table, for frames of size `page`.
    pub fn new(options: ControllerOptions, page: PageShift) -> Controller {
        let mtlb = Array::new(options.entries as usize, options.ways as usize, Replacement::Lru, 0);
        Controller { options, page, table: HashMap::new(), mtlb, counters: ControllerCounters::default() }
    }

    /// Returns whether `at` is a shadow address.
    #[inline(always)]
    pub fn claims(&self, at: PhysAddr) -> bool {
        at >= self.options.base
    }

    /// Maps the frame `shadow` to `real`; `None` removes the mapping.
    pub fn set(&mut self, shadow: Pfn, real: Option<Pfn>) {
        match real {
            Some(real) => self.table.insert(shadow.0, real.0),
            None => self.table.remove(&shadow.0),
        };
        let (set, tag) = self.place(shadow);
        self.mtlb.remove(set, tag);
    }

    /// Translates `at`. Returns the real address and the cycles that the translation adds: 0 outside shadow space. A
    /// shadow address without a mapping is returned unchanged (debug builds panic).
    pub fn retranslate(&mut self, at: PhysAddr) -> (PhysAddr, u32) {
        if !self.claims(at) {
            return (at, 0);
        }
        self.counters.retranslations += 1;
        let shadow = at.pfn(self.page);
        let (set, tag) = self.place(shadow);
        let (real, cycles) = match self.mtlb.lookup(set, tag) {
            Some(&mut real) => (real, self.options.hit),
            None => {
                self.counters.misses += 1;
                let Some(&real) = self.table.get(&shadow.0) else {
                    debug_assert!(false, "{at:?} is not in the controller's table");
                    return (at, self.options.hit + self.options.miss);
                };
                self.fetch(shadow);
                (real, self.options.hit + self.options.miss)
            }
        };
        (PhysAddr(Pfn(real).addr(self.page).0 | at.0 & (self.page.bytes() - 1)), cycles)
    }

    /// Receives a dirty line at `at`. A line whose shadow frame has no mapping any more is dropped.
    pub fn write_back(&mut self, at: PhysAddr) {
        if self.claims(at) && self.table.contains_key(&at.pfn(self.page).0) {
            self.retranslate(at);
        }
    }

    /// Reads the group of table entries around that of `shadow` into the MTLB. That of `shadow` becomes the most recent.
    fn fetch(&mut self, shadow: Pfn) {
        let group = u64::from(self.options.group);
        let first = shadow.0 & !(group - 1);
        for near in (first..first + group).filter(|&near| near != shadow.0).chain([shadow.0]) {
            let (set, tag) = self.place(Pfn(near));
            if let Some(&real) = self.table.get(&near)
                && self.mtlb.lookup(set, tag).is_none()
            {
                self.mtlb.insert(set, tag, real);
            }
        }
    }

    fn place(&self, shadow: Pfn) -> (usize, u64) {
        (shadow.0 as usize & (self.mtlb.sets() - 1), shadow.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(base: u64, group: u32) -> ControllerOptions {
        ControllerOptions { base: PhysAddr(base), entries: 4, ways: 2, hit: 2, miss: 60, group }
    }

    /// Figure 1 of the paper: the processor has translated 0x00004080 to 0x80240080, in a superpage of 16 KB.
    #[test]
    fn retranslation_reproduces_the_example_of_the_paper() {
        let mut controller = Controller::new(options(0x8000_0000, 1), PageShift(12));
        for (page, real) in [0x40138, 0x06155, 0x20012, 0x13579].into_iter().enumerate() {
            controller.set(Pfn(0x80240 + page as u64), Some(Pfn(real)));
        }
        assert_eq!(controller.retranslate(PhysAddr(0x8024_0080)), (PhysAddr(0x4013_8080), 62));
        assert_eq!(controller.retranslate(PhysAddr(0x8024_0fff)), (PhysAddr(0x4013_8fff), 2), "the MTLB holds it now");
        assert_eq!(controller.retranslate(PhysAddr(0x8024_1080)), (PhysAddr(0x0615_5080), 62));
        assert_eq!(controller.retranslate(PhysAddr(0x4013_8080)), (PhysAddr(0x4013_8080), 0), "not a shadow address");
        assert_eq!(controller.counters, ControllerCounters { retranslations: 3, misses: 2 });
        controller.set(Pfn(0x80240), Some(Pfn(0x7)));
        assert_eq!(
            controller.retranslate(PhysAddr(0x8024_0080)),
            (PhysAddr(0x7080), 62),
            "the new mapping replaces the cached one"
        );
    }

    #[test]
    fn the_mtlb_evicts_the_least_recently_used_entry() {
        let mut controller = Controller::new(options(1 << 44, 1), PageShift(12));
        let at = |page: u64| PhysAddr((1 << 44) + (page << 12));
        for page in 0..6 {
            controller.set(at(page).pfn(PageShift(12)), Some(Pfn(100 + page)));
        }
        // Two sets of two ways: pages 0, 2 and 4 do not fit in one.
        let cycles = [0, 2, 0, 4, 0, 2].map(|page| controller.retranslate(at(page)).1);
        assert_eq!(cycles, [62, 62, 2, 62, 2, 62]);
    }

    #[test]
    fn an_mtlb_miss_fetches_the_whole_group() {
        let mut controller = Controller::new(options(1 << 44, 4), PageShift(12));
        let at = |page: u64| PhysAddr((1 << 44) + (page << 12));
        for page in [0, 1, 3, 4] {
            controller.set(at(page).pfn(PageShift(12)), Some(Pfn(100 + page)));
        }
        assert_eq!([1, 0, 3, 4].map(|page| controller.retranslate(at(page)).1), [62, 2, 2, 62]);
        controller.set(at(3).pfn(PageShift(12)), None);
        let before = controller.counters;
        controller.write_back(at(3));
        assert_eq!(controller.counters, before, "a write-back to an unmapped shadow frame is dropped");
    }
}
