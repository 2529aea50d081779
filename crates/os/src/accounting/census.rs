//! How contiguous the memory of a process is: in memory, as ranges would see it, and in addresses alone, as ranges could
//! see it at best (Karakostas et al. 2015, Tables 2 and 7).

use reach_core::{MappedPage, Pte, Vpn};

/// The contiguity of one address space, in base pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Pages mapped, pages of zeroes aside.
    pub pages: u64,
    /// Translations, by page size in the order of the machine's sizes.
    pub entries: Vec<u64>,
    /// Lengths of runs of at least eight base pages that are contiguous in addresses and in memory and have the same
    /// rights, ascending.
    pub ranges: Vec<u64>,
    /// Lengths of runs of any length that are contiguous in addresses and have the same rights, ascending.
    pub ideal: Vec<u64>,
}

impl Census {
    /// Returns the number of base pages in ranges.
    pub fn covered(&self) -> u64 {
        self.ranges.iter().sum()
    }

    /// Returns the median length of ranges, the lower of two; 0 without any.
    pub fn median(&self) -> u64 {
        self.ranges.get(self.ranges.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    }

    /// Returns how many ideal ranges, longest first, hold 99 % of the mapped pages.
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

/// Collects the lengths of runs of contiguous pages.
pub(crate) struct Runs {
    /// Shorter runs are dropped.
    least: u64,
    lengths: Vec<u64>,
    /// The page that would continue the last run.
    next: Option<(Vpn, Pte)>,
}

impl Runs {
    /// Returns a collector of runs of at least `least` base pages.
    pub(crate) fn new(least: u64) -> Runs {
        Runs { least, lengths: Vec::new(), next: None }
    }

    /// Adds a page of `pages` base pages. It continues the last run if it follows in addresses and its `key` is the
    /// last one with the frame moved by `step`.
    pub(crate) fn add(&mut self, entry: &MappedPage, pages: u64, key: Pte, step: u64) {
        match self.lengths.last_mut().filter(|_| self.next == Some((entry.vpn, key))) {
            Some(last) => *last += pages,
            None => {
                self.drop_short();
                self.lengths.push(pages);
            }
        }
        self.next = Some((entry.vpn + pages, key.with_pfn(key.pfn() + step)));
    }

    fn drop_short(&mut self) {
        self.lengths.pop_if(|&mut last| last < self.least);
    }

    /// Returns the lengths, ascending.
    pub(crate) fn sorted(mut self) -> Vec<u64> {
        self.drop_short();
        self.lengths.sort_unstable();
        self.lengths
    }
}
