//! The twin of a TLB in memory: every entry in one list, in order of use.

use reach_core::{Asid, AssistAnswer, AssistPort, FinishedWalk, PageShift, PhysAddr, Pte, TlbMiss, Vpn, WalkAssist};

/// A TLB in memory of four-way sets.
#[derive(Clone, Debug)]
pub struct NaivePomTlb {
    base: PageShift,
    /// The sizes of small and of large pages.
    sizes: Vec<PageShift>,
    /// Sets for each size.
    sets: u64,
    /// Address space, index of the size, number of the page and entry, the least recently used first.
    entries: Vec<(Asid, usize, u64, Pte)>,
    /// Regions of a large page in which the last page was large, modulo 512.
    large: Vec<u64>,
}

impl NaivePomTlb {
    /// Creates an empty one of `bytes`, for a machine with pages of `sizes`.
    pub fn new(bytes: u64, sizes: &[PageShift]) -> NaivePomTlb {
        let sizes: Vec<PageShift> = sizes.iter().copied().take(2).collect();
        NaivePomTlb { base: sizes[0], sizes, sets: bytes / 128, entries: Vec::new(), large: Vec::new() }
    }

    fn number(&self, size: usize, vpn: Vpn) -> u64 {
        vpn.0 / self.sizes[size].base_pages(self.base)
    }

    fn set(&self, asid: Asid, number: u64) -> u64 {
        (number + u64::from(asid.0)) % self.sets
    }

    fn region(&self, vpn: Vpn) -> u64 {
        self.number(self.sizes.len() - 1, vpn) % 512
    }

    fn predict(&mut self, vpn: Vpn, large: bool) {
        let region = self.region(vpn);
        self.large.retain(|other| *other != region);
        if large {
            self.large.push(region);
        }
    }
}

impl WalkAssist for NaivePomTlb {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        let large_first = self.sizes.len() > 1 && self.large.contains(&self.region(miss.vpn));
        let mut order: Vec<usize> = (0..self.sizes.len()).collect();
        if large_first {
            order.reverse();
        }
        for size in order {
            let number = self.number(size, miss.vpn);
            let line = (1 << 44) + (size as u64 * self.sets + self.set(miss.asid, number)) * 64;
            let cycles = port.read(PhysAddr(line));
            port.wait(cycles);
            let is_it = |entry: &(Asid, usize, u64, Pte)| (entry.0, entry.1, entry.2) == (miss.asid, size, number);
            if let Some(at) = self.entries.iter().position(is_it) {
                let entry = self.entries.remove(at);
                self.entries.push(entry);
                self.predict(miss.vpn, size == 1);
                return AssistAnswer::Hit(entry.3);
            }
        }
        AssistAnswer::Walk
    }

    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, _: &mut dyn AssistPort) {
        let large = self.sizes.len() > 1 && walk.pte.shift() >= self.sizes[1];
        let size = usize::from(large);
        let number = self.number(size, miss.vpn);
        // A larger page is entered in pieces.
        let before =
            miss.vpn.align_down(self.sizes[size], self.base) - miss.vpn.align_down(walk.pte.shift(), self.base);
        let pte = walk.pte.with_pfn(walk.pte.pfn() + before).with_shift(self.sizes[size]);
        self.entries.retain(|entry| (entry.0, entry.1, entry.2) != (miss.asid, size, number));
        self.entries.push((miss.asid, size, number, pte));
        let set = self.set(miss.asid, number);
        let in_set = |entry: &(Asid, usize, u64, Pte)| entry.1 == size && self.set(entry.0, entry.2) == set;
        let all: Vec<usize> = (0..self.entries.len()).filter(|&at| in_set(&self.entries[at])).collect();
        if all.len() > 4 {
            self.entries.remove(all[0]);
        }
        self.predict(miss.vpn, large);
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let (base, sizes) = (self.base, self.sizes.clone());
        let end = vpn.0.saturating_add(pages);
        self.entries.retain(|&(of, size, number, _)| {
            let pages = sizes[size].base_pages(base);
            of != asid || number * pages >= end || (number + 1) * pages <= vpn.0
        });
    }

    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        let of = self.entries.iter().filter(|entry| entry.0 == asid);
        of.map(|&(_, size, number, pte)| (Vpn(number * self.sizes[size].base_pages(self.base)), pte)).collect()
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
