//! How contiguous what a process has mapped is: in memory, as ranges would see it, and in addresses alone, as they could at
//! best (Karakostas et al. 2015, Tables 2 and 7).

use crate::{FrameKind, Process, Vm};
use reach_core::{Asid, MappedPage, PageShift, Pte, Vpn};

/// Runs of fewer base pages are no ranges (Karakostas §7).
const LEAST: u64 = 8;

/// The contiguity of one address space, in base pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// All that is mapped, the pages of zeroes aside.
    pub pages: u64,
    /// Translations that it takes, by page size, in the order of the machine's.
    pub entries: Vec<u64>,
    /// Runs of at least eight base pages that follow one another in addresses and in memory with the same rights, the
    /// shortest first.
    pub ranges: Vec<u64>,
    /// Runs of any length that follow one another in addresses with the same rights, the shortest first.
    pub ideal: Vec<u64>,
}

impl Census {
    /// Base pages in ranges.
    pub fn covered(&self) -> u64 {
        self.ranges.iter().sum()
    }

    /// The median length of ranges, the lower one of two; 0 without any.
    pub fn median(&self) -> u64 {
        self.ranges.get(self.ranges.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    }

    /// How many of the ideal ranges, longest first, hold 99 % of what is mapped.
    pub fn for_99_percent(&self) -> u64 {
        let mut left = self.pages - self.pages / 100;
        let mut count = 0;
        for pages in self.ideal.iter().rev() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(*pages);
            count += 1;
        }
        count
    }
}

/// Adds `entry` to the runs, of which the last may go on.
struct Runs {
    /// Shorter ones are not kept.
    least: u64,
    lengths: Vec<u64>,
    next: Option<(Vpn, Pte)>,
}

impl Runs {
    fn new(least: u64) -> Runs {
        Runs { least, lengths: Vec::new(), next: None }
    }

    /// A page of so many base pages; `alike` is what must be equal in the next, and where that has to lie.
    fn take(&mut self, entry: &MappedPage, pages: u64, alike: Pte, step: u64) {
        match self.lengths.last_mut().filter(|_| self.next == Some((entry.vpn, alike))) {
            Some(last) => *last += pages,
            None => {
                self.drop_short();
                self.lengths.push(pages);
            }
        }
        self.next = Some((entry.vpn + pages, alike.with_pfn(alike.pfn() + step)));
    }

    fn drop_short(&mut self) {
        self.lengths.pop_if(|&mut last| last < self.least);
    }

    fn sorted(mut self) -> Vec<u64> {
        self.drop_short();
        self.lengths.sort_unstable();
        self.lengths
    }
}

impl Vm {
    /// How contiguous what `process` has mapped is now.
    pub fn census(&self, process: &Process) -> Census {
        let base = self.base();
        let limit = 1 << (self.options().layout.address_bits() - base.0);
        let mut census = Census { entries: vec![0; self.options().sizes.len()], ..Census::default() };
        let (mut ranges, mut ideal) = (Runs::new(LEAST), Runs::new(1));
        for entry in process.table().iter_pages(Vpn(0), limit) {
            if self.kind_of(entry.pte) == FrameKind::Zero {
                continue;
            }
            let pages = entry.pte.shift().base_pages(base);
            census.pages += pages;
            if let Some(size) = self.options().sizes.iter().position(|&size| size == entry.pte.shift()) {
                census.entries[size] += 1;
            }
            let rights = Pte(entry.pte.0 & (Pte::WRITABLE | Pte::EXECUTABLE)).with_shift(PageShift(0));
            ranges.take(&entry, pages, rights.with_pfn(entry.pte.pfn()), pages);
            ideal.take(&entry, pages, rights, 0);
        }
        census.ranges = ranges.sorted();
        census.ideal = ideal.sorted();
        census
    }

    /// Keeps the census of a process that is about to end, if it has more mapped than those before it.
    pub(crate) fn note_census(&mut self, asid: Asid) {
        if self.code.is_some() {
            self.see_written(asid);
        }
        // Most programs fork and exec: an address space is only looked at if it may be the largest.
        let most = self.counters.census.as_ref().map_or(0, |census| census.pages);
        let larger = |process: &&Process| process.counters.resident_bytes.current >> self.base().0 > most;
        if let Some(process) = self.process(asid).filter(larger) {
            self.counters.census = Some(Box::new(self.census(process)));
        }
    }

    /// The census of the process that had most mapped when it ended, or has now.
    pub fn largest_census(&self) -> Option<Census> {
        let ended = self.counters.census.as_deref().cloned();
        let live = self.processes().map(|(_, process)| self.census(process));
        live.chain(ended).max_by_key(|census| census.pages).filter(|census| census.pages > 0)
    }
}
