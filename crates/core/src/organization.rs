//! Organizations of page tables besides the radix tree: where the entries lie that hardware reads, in which order a walk
//! reads them, and what a change writes.
//!
//! The operating system keeps every translation in the radix tree of [`PageTable`](crate::PageTable), whatever hardware
//! walks, as Linux does on PowerPC. With another organization the tree takes no simulated memory and its writes cost
//! nothing: it is bookkeeping. The organization holds the same entries, lies in simulated frames, and is all that hardware
//! reads. [`EditablePageTable`](crate::EditablePageTable) keeps both in step, so that systems run on any of them unchanged.
//!
//! An organization is one file that implements [`Organization`], and a line in [`PageTableKind`].

use crate::{FrameSource, Layout, PhysAddr, Vpn};
pub(crate) use memory::LARGEST_CHUNK;
use std::fmt::Debug;
use std::str::FromStr;

mod chained;
mod cuckoo;
mod flattened;
mod hashed;
mod learned;
mod memory;
#[cfg(test)]
mod tests;

/// Entries of eight bytes in a bucket of hashed organizations: a line of 64 bytes.
const BUCKET: u64 = 8;
/// Bytes of an entry.
const ENTRY: u64 = 8;

/// An organization of page tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageTableKind {
    /// A tree whose nodes are indexed by bits of the address.
    #[default]
    Radix,
    /// A hash table with open addressing (`hashed.rs`).
    Hashed,
    /// A hash table with chains (`chained.rs`).
    Chained,
    /// Elastic cuckoo page tables (`cuckoo.rs`).
    Cuckoo,
    /// A radix tree of half as many levels (`flattened.rs`).
    Flattened,
    /// A learned index (`learned.rs`).
    Learned,
}

impl PageTableKind {
    /// All organizations.
    pub const ALL: [PageTableKind; 6] = [
        PageTableKind::Radix,
        PageTableKind::Hashed,
        PageTableKind::Chained,
        PageTableKind::Cuckoo,
        PageTableKind::Flattened,
        PageTableKind::Learned,
    ];

    /// The names of all organizations.
    pub const NAMES: [&'static str; PageTableKind::ALL.len()] = {
        let mut names = [""; PageTableKind::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = PageTableKind::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Returns the name on the command line, in files and in results.
    pub const fn name(self) -> &'static str {
        match self {
            PageTableKind::Radix => "radix",
            PageTableKind::Hashed => "hashed",
            PageTableKind::Chained => "chained",
            PageTableKind::Cuckoo => "cuckoo",
            PageTableKind::Flattened => "flattened",
            PageTableKind::Learned => "learned",
        }
    }

    /// Returns the numbers of entries of the walk caches that the organization brings. Those of the machine hold nodes of
    /// radix trees and are not used.
    pub const fn walk_caches(self) -> &'static [u32] {
        match self {
            PageTableKind::Radix | PageTableKind::Hashed | PageTableKind::Chained => &[],
            PageTableKind::Cuckoo => &cuckoo::WALK_CACHES,
            PageTableKind::Flattened => &flattened::WALK_CACHES,
            PageTableKind::Learned => &learned::WALK_CACHES,
        }
    }

    /// Returns whether the entries of eight neighbouring pages are in one line, from which hardware can coalesce them.
    pub const fn clusters(self) -> bool {
        !matches!(self, PageTableKind::Chained)
    }

    /// Makes an empty table of this organization. `None` for the radix tree, which [`crate::PageTable`] is itself.
    pub(crate) fn build(self, layout: &Layout) -> Option<Box<dyn Organization>> {
        match self {
            PageTableKind::Radix => None,
            PageTableKind::Hashed => Some(Box::new(hashed::Hashed::new(layout))),
            PageTableKind::Chained => Some(Box::new(chained::Chained::new(layout))),
            PageTableKind::Cuckoo => Some(Box::new(cuckoo::Cuckoo::new(layout))),
            PageTableKind::Flattened => Some(Box::new(flattened::Flattened::new(layout))),
            PageTableKind::Learned => Some(Box::new(learned::Learned::new(layout))),
        }
    }
}

impl FromStr for PageTableKind {
    type Err = String;

    fn from_str(name: &str) -> Result<PageTableKind, String> {
        PageTableKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| format!("page table {name:?}: expected one of {}", PageTableKind::NAMES.join(", ")))
    }
}

/// Consecutive entries of one page: one, or as many as the page is replicated in ([`Layout::placement`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// The level whose entries span as much as each of these, 0 for base pages.
    pub level: usize,
    /// Number of the first entry: its address divided by what an entry spans.
    pub first: u64,
    /// Number of entries, a power of two. `first` is a multiple of it.
    pub count: u64,
}

impl Entries {
    /// Returns the blocks of [`BUCKET`] entries that these lie in, each with the mask of the entries in it.
    fn blocks(self) -> impl Iterator<Item = (u64, u8)> {
        let each = self.count.min(BUCKET);
        let mask = ((1u16 << each) - 1) as u8;
        (self.first..self.first + self.count)
            .step_by(BUCKET as usize)
            .map(move |first| (first / BUCKET, mask << (first % BUCKET)))
    }
}

/// Memory that the operating system reads or writes when it changes an organization, besides the entries of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableTraffic {
    /// First byte.
    pub at: PhysAddr,
    /// Number of bytes.
    pub bytes: u64,
    /// `true` for a write, `false` for a read.
    pub write: bool,
}

/// The processor's side of a walk.
pub trait Walker {
    /// Reads entries or lines at these addresses at the same time. `found` is the index of the entry that ends the walk; the
    /// walk waits for it alone, and for the slowest if none does. Returns whether the walk goes on; `false` aborts it.
    fn read(&mut self, at: &[PhysAddr], found: Option<usize>) -> bool;

    /// Reads lines at these addresses while the walk goes on, which does not wait for them.
    fn read_aside(&mut self, at: &[PhysAddr]);

    /// Returns whether walk cache `cache` holds `number`.
    fn lookup(&mut self, cache: usize, number: u64) -> bool;

    /// Enters `number` into walk cache `cache`.
    fn insert(&mut self, cache: usize, number: u64);
}

/// A page table of one address space that is not a radix tree.
pub trait Organization: Debug + Send + Sync {
    /// Returns the physical memory that the table takes, in bytes.
    fn bytes(&self) -> u64;

    /// Adds `entries`, none of which is present, and logs the traffic besides the writes of the entries themselves. Returns
    /// `None`, and then no entry was added, when memory is exhausted.
    fn insert(&mut self, entries: Entries, memory: &mut dyn FrameSource, log: &mut Vec<TableTraffic>) -> Option<()>;

    /// Removes `entries`, all of which are present, and logs the traffic besides the writes of the entries themselves.
    fn remove(&mut self, entries: Entries, log: &mut Vec<TableTraffic>);

    /// Returns the address of the entry of `level` that a walk for `vpn` ends at; `None` when it is not present.
    fn find(&self, level: usize, vpn: Vpn) -> Option<PhysAddr>;

    /// Walks to `vpn`. If a page is mapped there, the last read includes its entry. Returns `false` if `walker` aborted.
    fn walk(&self, vpn: Vpn, walker: &mut dyn Walker) -> bool;

    /// Frees all memory. The table must not be used afterwards.
    fn release(&mut self, memory: &mut dyn FrameSource);

    /// Checks the invariants. For tests and debug builds.
    ///
    /// # Panics
    /// When an invariant does not hold.
    fn check(&self);

    /// Returns a copy in the same frames.
    fn copied(&self) -> Box<dyn Organization>;
}

/// The number of the entry of each level for an address.
#[derive(Clone, Debug)]
struct Numbers {
    /// By level: the binary logarithm of the base pages that an entry spans.
    orders: Vec<u8>,
}

impl Numbers {
    fn new(layout: &Layout) -> Numbers {
        Numbers { orders: (0..layout.levels()).map(|level| layout.span(level).order(layout.base)).collect() }
    }

    fn of(&self, level: usize, vpn: Vpn) -> u64 {
        vpn.0 >> self.orders[level]
    }

    fn levels(&self) -> usize {
        self.orders.len()
    }
}

/// Returns a hash of `key` with equidistributed bits; functions of different `seed` are independent.
fn hash(key: u64, seed: u64) -> u64 {
    crate::Random::new(key ^ seed.wrapping_mul(0xd6e8_feb8_6659_fd93)).next_u64()
}
