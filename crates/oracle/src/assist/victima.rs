//! The twin of translations in lines of the second-level cache: a list of the clusters that were put there.

use reach_core::{Asid, AssistAnswer, AssistPort, FinishedWalk, PageShift, PhysAddr, Pte, TlbMiss, Vpn, WalkAssist};

/// Clusters of eight translations in the second-level cache.
#[derive(Clone, Debug)]
pub struct NaiveVictima {
    sizes: Vec<PageShift>,
    /// The fewest walks, and the fewest that read memory, for a page whose translation is kept.
    least: [u64; 2],
    /// Every walk: address space, first base page of the page, and whether it read memory.
    walks: Vec<(Asid, Vpn, bool)>,
    /// Clusters that were put into the cache: address space, page size, number.
    clusters: Vec<(Asid, PageShift, u64)>,
}

impl NaiveVictima {
    /// Creates an empty one for a machine with pages of `sizes`.
    pub fn new(frequency: u64, cost: u64, sizes: &[PageShift]) -> NaiveVictima {
        NaiveVictima { sizes: sizes.to_vec(), least: [frequency, cost], walks: Vec::new(), clusters: Vec::new() }
    }

    fn base(&self) -> PageShift {
        self.sizes[0]
    }

    fn cluster(&self, asid: Asid, shift: PageShift, vpn: Vpn) -> (Asid, PageShift, u64) {
        (asid, shift, vpn.0 / (8 * shift.base_pages(self.base())))
    }

    fn line(&self, (asid, shift, number): (Asid, PageShift, u64)) -> PhysAddr {
        let size = self.sizes.iter().position(|&size| size == shift).expect("a size of the machine") as u64;
        let salt = (u64::from(asid.0) * (1 << 20) + size).wrapping_mul(0x9e37_79b9_7f4a_7c15) / (1 << 26);
        PhysAddr((1 << 45) + (number ^ salt) % (1 << 38) * 64)
    }

    /// Counts up to 15.
    fn is_costly(&self, asid: Asid, first: Vpn) -> bool {
        let of_page: Vec<bool> =
            self.walks.iter().filter(|walk| (walk.0, walk.1) == (asid, first)).map(|walk| walk.2).collect();
        let costly = of_page.iter().filter(|memory| **memory).count() as u64;
        (of_page.len() as u64).min(15) >= self.least[0] && costly.min(15) >= self.least[1]
    }

    fn hold(&mut self, asid: Asid, vpn: Vpn, shift: PageShift, port: &mut dyn AssistPort) {
        let cluster = self.cluster(asid, shift, vpn);
        let is_new = !self.clusters.contains(&cluster);
        if is_new {
            self.clusters.push(cluster);
        }
        if is_new || port.find(self.line(cluster)).is_none() {
            port.hold(self.line(cluster));
        }
    }
}

impl WalkAssist for NaiveVictima {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        for shift in self.sizes.clone() {
            let cluster = self.cluster(miss.asid, shift, miss.vpn);
            if !self.clusters.contains(&cluster) {
                continue;
            }
            match port.find(self.line(cluster)) {
                None => self.clusters.retain(|other| *other != cluster),
                Some(cycles) => match port.entry(miss.vpn) {
                    Some(pte) if pte.shift() == shift && pte.accessed() => {
                        port.wait(cycles);
                        return AssistAnswer::Hit(pte);
                    }
                    _ => {}
                },
            }
        }
        AssistAnswer::Walk
    }

    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, port: &mut dyn AssistPort) {
        let first = miss.vpn.align_down(walk.pte.shift(), self.base());
        self.walks.push((miss.asid, first, walk.memory_reads > 0));
        if self.is_costly(miss.asid, first) {
            self.hold(miss.asid, miss.vpn, walk.pte.shift(), port);
        }
    }

    fn evicted(&mut self, asid: Asid, vpn: Vpn, shift: PageShift, port: &mut dyn AssistPort) {
        if !self.sizes.contains(&shift) {
            return;
        }
        let cluster = self.cluster(asid, shift, vpn);
        let is_there = self.clusters.contains(&cluster) && port.find(self.line(cluster)).is_some();
        if !is_there && self.is_costly(asid, vpn) && port.walk(vpn).is_some() {
            self.hold(asid, vpn, shift, port);
        }
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let (base, end) = (self.base(), vpn.0.saturating_add(pages));
        self.clusters.retain(|&(of, shift, number)| {
            let pages = 8 * shift.base_pages(base);
            of != asid || number * pages >= end || (number + 1) * pages <= vpn.0
        });
        if pages == u64::MAX {
            self.walks.retain(|walk| walk.0 != asid);
        }
    }

    fn translations(&self, _: Asid) -> Vec<(Vpn, Pte)> {
        Vec::new()
    }

    fn needs_caches(&self) -> bool {
        true
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
