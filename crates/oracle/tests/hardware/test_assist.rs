//! A walk assist that does at random all that an assist may do. What it does depends on the misses alone, so that an MMU and its
//! twin can each have a copy.

use reach_core::{
    Asid, AssistAnswer, AssistPort, FinishedWalk, PageShift, PhysAddr, Pte, Random, TlbMiss, Vpn, WalkAssist,
};

/// Addresses of its own, beyond all frames.
const OWN: u64 = 1 << 46;
/// The most translations that it holds.
const MOST: usize = 12;

#[derive(Clone, Debug)]
pub struct TestAssist {
    random: Random,
    reads_instructions: bool,
    base: PageShift,
    /// The oldest first.
    held: Vec<(Asid, Vpn, Pte)>,
}

impl TestAssist {
    pub fn new(seed: u64, base: PageShift) -> TestAssist {
        TestAssist { random: Random::new(seed), reads_instructions: seed % 2 == 1, base, held: Vec::new() }
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn position(&self, asid: Asid, vpn: Vpn) -> Option<usize> {
        let holds = |&(of, first, pte): &(Asid, Vpn, Pte)| {
            of == asid && vpn.align_down(pte.shift(), self.base) == first.align_down(pte.shift(), self.base)
        };
        self.held.iter().position(holds)
    }

    fn add(&mut self, asid: Asid, vpn: Vpn, pte: Pte) {
        if self.position(asid, vpn).is_none() {
            self.held.push((asid, vpn, pte));
        }
        if self.held.len() > MOST {
            self.held.remove(0);
        }
    }
}

impl WalkAssist for TestAssist {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        if self.reads_instructions && miss.instruction % 7 == 3 {
            port.wait(1);
        }
        if self.one_in(4) {
            let cycles = port.read(PhysAddr(OWN + self.random.below(64) * 64));
            port.wait(cycles);
        }
        if self.one_in(4) {
            let line = PhysAddr(2 * OWN + self.random.below(16) * 64);
            match port.find(line) {
                Some(cycles) => port.wait(cycles),
                None => port.hold(line),
            }
        }
        if self.one_in(4) {
            for at in port.leaf_entries(miss.vpn) {
                let cycles = port.read(at);
                port.wait(cycles);
            }
        }
        for level in 0..2 {
            if self.one_in(4) {
                port.hasten(miss.vpn, level);
            }
        }
        if self.one_in(3) {
            let within = |pte: Pte| pte.pfn() + miss.vpn.0 % pte.shift().base_pages(port.base());
            let real = port.entry(miss.vpn).map(within);
            for frame in real.into_iter().flat_map(|frame| [frame + self.random.below(2), frame + 7]) {
                port.read_data(frame, miss.offset);
            }
        }
        if let Some(at) = self.position(miss.asid, miss.vpn).filter(|_| self.random.below(4) > 0) {
            return AssistAnswer::Hit(self.held[at].2);
        }
        let real = port.entry(miss.vpn).filter(|_| self.random.below(3) == 0);
        real.map_or(AssistAnswer::Walk, |pte| {
            let frame = pte.pfn() + miss.vpn.0 % pte.shift().base_pages(port.base()) + self.random.below(2);
            AssistAnswer::Predicted { frame, penalty: self.random.below(30) as u32 }
        })
    }

    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, port: &mut dyn AssistPort) {
        if walk.cycles.is_multiple_of(3) || walk.accesses > 2 || walk.memory_reads > 0 {
            self.add(miss.asid, miss.vpn, walk.pte);
        }
        if self.one_in(3)
            && let Some(walk) = port.walk(miss.vpn + 1)
        {
            self.add(miss.asid, miss.vpn + 1, walk.pte);
        }
        let line = port.line_of_entries(miss.vpn);
        let mate = Vpn(line.start + self.random.below(line.end - line.start));
        if let Some(pte) = port.entry(mate) {
            self.add(miss.asid, mate, pte);
        }
    }

    fn evicted(&mut self, asid: Asid, vpn: Vpn, shift: PageShift, port: &mut dyn AssistPort) {
        let first = vpn + self.random.below(shift.base_pages(port.base()));
        let pte = port.entry(first).expect("the page table has what a TLB had");
        self.add(asid, first, pte);
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let (base, end) = (self.base, vpn.0.saturating_add(pages));
        self.held.retain(|&(of, at, pte)| {
            let first = at.align_down(pte.shift(), base).0;
            of != asid || first >= end || first + pte.shift().base_pages(base) <= vpn.0
        });
    }

    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        self.held.iter().filter(|(of, ..)| *of == asid).map(|&(_, vpn, pte)| (vpn, pte)).collect()
    }

    fn reads_instructions(&self) -> bool {
        self.reads_instructions
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
