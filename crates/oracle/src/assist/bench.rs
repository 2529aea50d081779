//! A processor of which an assist sees everything, and which writes down all that the assist asks for.

use reach_core::{AssistPort, FinishedWalk, PageShift, Pfn, PhysAddr, Pte, Vpn};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// What an assist asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To wait for these cycles.
    Wait(u32),
    /// To read a line.
    Read(PhysAddr),
    /// To read the entry of a page and level ahead of the walk.
    Hasten(Vpn, usize),
    /// For a line in the second-level cache.
    Find(PhysAddr),
    /// To insert a line into the second-level cache.
    Hold(PhysAddr),
    /// To read data: the frame, and the byte in it.
    Data(Pfn, u32),
    /// To walk for a page.
    Walk(Vpn),
}

/// A page table as a map, and a second-level cache as a list.
#[derive(Clone, Debug)]
pub struct Bench {
    base: PageShift,
    /// By the first base page.
    pub pages: BTreeMap<u64, Pte>,
    /// The lines of the second-level cache, the least recently used first.
    lines: VecDeque<PhysAddr>,
    capacity: usize,
    /// In the order in which it was asked.
    pub asked: Vec<Asked>,
}

impl Bench {
    /// Creates an empty bench with base pages of `base`, whose second-level cache has `capacity` lines.
    pub fn new(base: PageShift, capacity: usize) -> Bench {
        Bench { base, pages: BTreeMap::new(), lines: VecDeque::new(), capacity, asked: Vec::new() }
    }

    /// Returns the first base page and the entry of the page that holds `vpn`.
    pub fn page(&self, vpn: Vpn) -> Option<(Vpn, Pte)> {
        let (&first, &pte) = self.pages.range(..=vpn.0).next_back()?;
        (vpn.0 < first + pte.shift().base_pages(self.base)).then_some((Vpn(first), pte))
    }

    /// Returns the walk for `vpn`: half of the pages have an entry that comes from memory.
    pub fn walk_for(&self, vpn: Vpn) -> Option<FinishedWalk> {
        let (first, pte) = self.page(vpn)?;
        let pte = Pte(pte.0 | Pte::ACCESSED);
        Some(FinishedWalk { pte, cycles: 20 + first.0 % 7, accesses: 1 + first.0 % 4, memory_reads: first.0 / 3 % 2 })
    }

    fn touch(&mut self, line: PhysAddr) -> bool {
        let held = self.lines.contains(&line);
        self.lines.retain(|other| *other != line);
        if held {
            self.lines.push_back(line);
        }
        held
    }

    /// Lets data take the place of a line.
    pub fn evict(&mut self) {
        self.lines.pop_front();
    }
}

impl AssistPort for Bench {
    fn base(&self) -> PageShift {
        self.base
    }

    fn wait(&mut self, cycles: u32) {
        self.asked.push(Asked::Wait(cycles));
    }

    fn read(&mut self, at: PhysAddr) -> u32 {
        self.asked.push(Asked::Read(at));
        (at.0 / 64 % 5) as u32 * 10
    }

    fn hasten(&mut self, vpn: Vpn, level: usize) {
        self.asked.push(Asked::Hasten(vpn, level));
    }

    fn read_data(&mut self, frame: Pfn, offset: u32) {
        self.asked.push(Asked::Data(frame, offset));
    }

    fn find(&mut self, line: PhysAddr) -> Option<u32> {
        self.asked.push(Asked::Find(line));
        self.touch(line).then_some(14)
    }

    fn hold(&mut self, line: PhysAddr) {
        self.asked.push(Asked::Hold(line));
        if !self.touch(line) {
            self.lines.push_back(line);
        }
        if self.lines.len() > self.capacity {
            self.lines.pop_front();
        }
    }

    fn entry(&self, vpn: Vpn) -> Option<Pte> {
        self.page(vpn).map(|(_, pte)| pte)
    }

    fn line_of_entries(&self, vpn: Vpn) -> Range<u64> {
        let first = vpn.0 / 8 * 8;
        first..first + 8
    }

    fn leaf_entries(&self, vpn: Vpn) -> Vec<PhysAddr> {
        self.page(vpn).map(|(first, _)| PhysAddr((1 << 40) + first.0 * 8)).into_iter().collect()
    }

    fn walk(&mut self, vpn: Vpn) -> Option<FinishedWalk> {
        self.asked.push(Asked::Walk(vpn));
        let walk = self.walk_for(vpn)?;
        let (first, _) = self.page(vpn)?;
        self.pages.insert(first.0, walk.pte);
        Some(walk)
    }
}
