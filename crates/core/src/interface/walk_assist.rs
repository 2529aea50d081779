//! Walk assists: hardware that a design adds between the last level of TLB arrays and the page walker.
//!
//! A reference that misses in every array uses the assist as follows:
//! 1. [`WalkAssist::search`] comes first. A hit replaces the walk, and fills all arrays. Without one there is a walk; if the
//!    assist predicted the frame, the reference goes on with it meanwhile, and waits only if the prediction was wrong.
//! 2. A walk that found a translation ends in [`WalkAssist::walked`]. What the assist does there is not waited for.
//! 3. [`WalkAssist::evicted`] follows for each page of the current address space that left the last level.
//!
//! References that will not retire use the assist too, but no prediction. An assist sees address spaces by their numbers,
//! so threads of a core that run one program share its entries. It must forget what [`WalkAssist::invalidate`] names.

use crate::{Asid, Kind, PageShift, Pfn, PhysAddr, Pte, Vpn};
use std::fmt::Debug;
use std::ops::Range;

/// A reference that no TLB array answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbMiss {
    /// Its address space.
    pub asid: Asid,
    /// The base page referred to.
    pub vpn: Vpn,
    /// Fetch, load or store.
    pub kind: Kind,
    /// A number for the instruction: the address of its block plus its index there; for a fetch, the address. 0 if
    /// unknown. Exact only where the assist [asks for it](WalkAssist::reads_instructions).
    pub instruction: u64,
    /// Where in the base page the reference begins, in bytes; 0 if unknown. Exact only where the assist asks for it, as above.
    pub offset: u32,
}

/// What an assist answers to a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssistAnswer {
    /// Nothing: the page is walked for.
    Walk,
    /// The entry of the page that holds the base page.
    Hit(Pte),
    /// The frame of the base page, unless the prediction is wrong. The walk verifies it.
    Predicted {
        /// The frame.
        frame: Pfn,
        /// Cycles that a wrong prediction costs besides the walk.
        penalty: u32,
    },
}

/// A walk that found a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedWalk {
    /// The entry of the page.
    pub pte: Pte,
    /// Cycles of the walk.
    pub cycles: u64,
    /// Page-table entries that it read.
    pub accesses: u64,
    /// How many of them came from memory rather than from a cache. 0 where caches are not modelled.
    pub memory_reads: u64,
}

/// Hardware between the last level of TLB arrays and the page walker.
pub trait WalkAssist: Debug + Send {
    /// Searches for a page, before the walk. The reference waits for what [`AssistPort::wait`] is told.
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer;

    /// Learns from a walk for `miss`.
    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, port: &mut dyn AssistPort) {
        let _ = (miss, walk, port);
    }

    /// Learns that the page of size `shift` whose first base page is `vpn` left the last level of TLB arrays.
    fn evicted(&mut self, asid: Asid, vpn: Vpn, shift: PageShift, port: &mut dyn AssistPort) {
        let _ = (asid, vpn, shift, port);
    }

    /// Forgets every page of `asid` that overlaps the `pages` (at least 1) base pages from `vpn` on. `u64::MAX` means all.
    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64);

    /// Returns the translations of `asid` with which [`WalkAssist::search`] might answer: a base page of each, and its entry.
    /// For checks: the page table must have them.
    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)>;

    /// Whether it reads [`TlbMiss::instruction`] or [`TlbMiss::offset`].
    fn reads_instructions(&self) -> bool {
        false
    }

    /// Whether it keeps its entries in the data caches ([`AssistPort::hold`]), and so needs a timing that models them.
    fn needs_caches(&self) -> bool {
        false
    }

    /// Returns a copy.
    fn clone_box(&self) -> Box<dyn WalkAssist>;
}

impl Clone for Box<dyn WalkAssist> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

/// The rest of the processor, as an assist sees it.
pub trait AssistPort {
    /// Returns the size of base pages.
    fn base(&self) -> PageShift;

    /// Lets the reference wait for `cycles` more. Only in [`WalkAssist::search`].
    fn wait(&mut self, cycles: u32);

    /// Reads a line of 64 bytes through the data caches, as the walker reads entries. Returns the cycles until it is there;
    /// nothing waits for them unless the assist does.
    fn read(&mut self, at: PhysAddr) -> u32;

    /// Begins to read the entry of `level` of a radix tree's path to `vpn` ahead of the walk that follows, if its node exists
    /// (0 is the level of base pages). The walk waits for what is left of it when it gets there.
    fn hasten(&mut self, vpn: Vpn, level: usize);

    /// Reads the line of data `offset` bytes into `frame` while the walk goes on, in case the reference's page lies there. If it
    /// does, the reference's access to its line begins when the walk begins, and it waits for both. If not, the line takes room in
    /// the second level of data caches. Reads nothing where caches are not modelled. Only in [`WalkAssist::search`].
    fn read_data(&mut self, frame: Pfn, offset: u32);

    /// Looks up a line of the assist's own in the second level of data caches. Returns the cycles of a hit.
    fn find(&mut self, line: PhysAddr) -> Option<u32>;

    /// Inserts a line of the assist's own into the second level of data caches, which has missed it.
    fn hold(&mut self, line: PhysAddr);

    /// Returns the page table's entry of the page that holds `vpn`, without reading memory: for entries of a line that has
    /// been read. `None` if it is unmapped. The program must be in that address space.
    fn entry(&self, vpn: Vpn) -> Option<Pte>;

    /// Returns the base pages whose entries lie in one line of 64 bytes with that of `vpn`.
    fn line_of_entries(&self, vpn: Vpn) -> Range<u64>;

    /// Returns the addresses of the entries at which the dimensions of a walk for `vpn` end: that of the page, and in a guest also
    /// the host's for the page. Empty if the page is unmapped.
    fn leaf_entries(&self, vpn: Vpn) -> Vec<PhysAddr>;

    /// Walks for `vpn` in the background, and sets the accessed bit of the entry found. Returns the entry; `None` if the page
    /// is unmapped, or beyond the address space.
    fn walk(&mut self, vpn: Vpn) -> Option<FinishedWalk>;
}
