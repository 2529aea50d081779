//! Range tables: the range translations of one address space, in a B-tree (Karakostas et al. 2015, §4.2).
//!
//! Nodes lie in simulated frames, so walker and operating system read real addresses. A node holds four ranges and
//! points to five children. BASE and LIMIT of 36 bits each and a word for OFFSET and rights make 68 bytes; the pointers
//! take 40. A node thus takes two cache lines of 64 bytes, and 32 nodes fill a page of 4 KB.

use crate::{FrameSource, PhysAddr, Pte, Vpn};
use std::collections::BTreeSet;

mod edit;
mod pack;
#[cfg(test)]
mod tests;

/// The most ranges of a node.
const MAX_RANGES: usize = 4;
/// The fewest ranges of a node other than the root.
const MIN_RANGES: usize = MAX_RANGES / 2;

/// A range translation: consecutive virtual pages in consecutive frames, with the same rights.
///
/// ```
/// use reach_core::{PageShift, Pfn, Pte, RangeTranslation, Vpn};
///
/// let pte = Pte::new(Pfn(500), PageShift(12));
/// let range = RangeTranslation { vpn: Vpn(100), pages: 20, pte };
/// assert!(range.contains(Vpn(119)) && !range.contains(range.end()));
/// assert_eq!(range.pte_at(Vpn(107)).pfn(), Pfn(507));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeTranslation {
    /// The first base page (BASE).
    pub vpn: Vpn,
    /// Number of base pages. LIMIT is the page after the last.
    pub pages: u64,
    /// The entry of the first page, with the rights of all. OFFSET is its frame number minus BASE.
    pub pte: Pte,
}

impl RangeTranslation {
    /// Returns the base page after the last (LIMIT).
    #[inline(always)]
    pub fn end(&self) -> Vpn {
        self.vpn + self.pages
    }

    /// Returns whether `vpn` lies in the range.
    #[inline(always)]
    pub fn contains(&self, vpn: Vpn) -> bool {
        vpn.0.wrapping_sub(self.vpn.0) < self.pages
    }

    /// Returns the entry of `vpn`, which must lie in the range.
    #[inline(always)]
    pub fn pte_at(&self, vpn: Vpn) -> Pte {
        self.pte.with_pfn(self.pte.pfn() + (vpn - self.vpn))
    }

    /// Returns the part of `pages` base pages that starts at `vpn`. It must lie in the range.
    pub fn subrange(&self, vpn: Vpn, pages: u64) -> RangeTranslation {
        debug_assert!(self.vpn <= vpn && vpn + pages <= self.end());
        RangeTranslation { vpn, pages, pte: self.pte_at(vpn) }
    }

    /// Returns whether `next` begins where this range ends, in memory as in addresses, with the same rights.
    pub fn is_continued_by(&self, next: &RangeTranslation) -> bool {
        next.vpn == self.end() && next.pte == self.pte.with_pfn(self.pte.pfn() + self.pages)
    }
}

/// An access of the operating system to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAccess {
    /// First byte of the node.
    pub at: PhysAddr,
    /// `true` when the node was written, `false` when it was only read.
    pub written: bool,
}

#[derive(Clone, Debug, Default)]
struct Node {
    ranges: Vec<RangeTranslation>,
    /// One child more than ranges; empty in a leaf.
    children: Vec<u32>,
}

/// A page of nodes.
#[derive(Clone, Copy, Debug)]
struct Page {
    at: PhysAddr,
    /// Number of its nodes that are in use.
    used: u32,
}

/// The range table of one address space.
///
/// Nodes have numbers; those of one page are consecutive. [`RangeTable::walk`] is the hardware walker's access. All
/// other accesses are the operating system's, recorded for [`RangeTable::take_accesses`].
///
/// ```
/// use reach_core::{FrameSource, PageShift, Pfn, PhysAddr, Pte, RangeTable, RangeTranslation, Vpn};
///
/// /// Hands out physical memory from address 0 on.
/// struct Memory(u64);
/// impl FrameSource for Memory {
///     fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
///         self.0 += bytes;
///         Some(PhysAddr(self.0 - bytes))
///     }
///     fn free_table(&mut self, _: PhysAddr, _: u64) {}
/// }
///
/// let mut memory = Memory(0);
/// let mut table = RangeTable::new(4096, &mut memory).unwrap();
/// let pte = Pte::new(Pfn(500), PageShift(12));
/// table.insert(RangeTranslation { vpn: Vpn(100), pages: 20, pte }, &mut memory);
/// let mut nodes_read = 0;
/// let range = table.walk(Vpn(107), |_| nodes_read += 1).unwrap();
/// assert_eq!((range.pages, nodes_read), (20, 1));
/// assert_eq!(table.walk(Vpn(120), |_| {}), None);
/// ```
#[derive(Clone, Debug)]
pub struct RangeTable {
    nodes: Vec<Node>,
    /// The pages of the nodes, in the order of node numbers; `None` where the page was freed.
    pages: Vec<Option<Page>>,
    /// Unused nodes of allocated pages. The lowest number is taken first, so pages fill up.
    free: BTreeSet<u32>,
    root: u32,
    height: u32,
    len: usize,
    page_bytes: u64,
    accesses: Vec<NodeAccess>,
}

impl RangeTable {
    /// Bytes of a node: two cache lines.
    pub const NODE_BYTES: u64 = 128;

    /// Makes an empty table, which has a root only. Nodes are allocated in pages of `page_bytes`. Returns `None` when
    /// there is no frame for the first page.
    pub fn new(page_bytes: u64, frames: &mut impl FrameSource) -> Option<RangeTable> {
        let mut table = RangeTable {
            nodes: Vec::new(),
            pages: Vec::new(),
            free: BTreeSet::new(),
            root: 0,
            height: 1,
            len: 0,
            page_bytes,
            accesses: Vec::new(),
        };
        table.reserve(1, frames).then_some(())?;
        table.root = table.take_node();
        Some(table)
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of node levels, at least 1.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Returns the most ranges of a table with `levels` levels of nodes: 4, 24, 124, …
    pub fn capacity(levels: u32) -> usize {
        5usize.saturating_pow(levels) - 1
    }

    /// Returns the physical memory that the table takes, in bytes.
    pub fn bytes(&self) -> u64 {
        self.pages.iter().flatten().count() as u64 * self.page_bytes
    }

    /// Returns the physical address of the root (CR-RT).
    pub fn root(&self) -> PhysAddr {
        self.at(self.root)
    }

    /// Walks the table for `vpn` as the hardware does. Returns the range that contains it, or `None`. Calls `read` with
    /// the address of each node that the walker reads, root first.
    pub fn walk(&self, vpn: Vpn, mut read: impl FnMut(PhysAddr)) -> Option<RangeTranslation> {
        let mut number = self.root;
        loop {
            read(self.at(number));
            let node = &self.nodes[number as usize];
            let next = node.ranges.partition_point(|range| range.end() <= vpn);
            if let Some(range) = node.ranges.get(next).filter(|range| range.contains(vpn)) {
                return Some(*range);
            }
            number = *node.children.get(next)?;
        }
    }

    /// Returns the first range that ends after `vpn`: the one that contains it, or else the next one. `None` when there
    /// is neither.
    pub fn first_ending_after(&mut self, vpn: Vpn) -> Option<RangeTranslation> {
        self.nearest(|range| range.end() <= vpn, |node, at| node.ranges.get(at))
    }

    /// Returns the last range that starts before `vpn`, or `None`.
    pub fn last_starting_before(&mut self, vpn: Vpn) -> Option<RangeTranslation> {
        self.nearest(|range| range.vpn < vpn, |node, at| node.ranges[..at].last())
    }

    /// Descends towards the first range for which `passed` is false. At each node, `choose` picks a range near that
    /// position. Returns the pick of the lowest node that has one.
    fn nearest(
        &mut self,
        passed: impl Fn(&RangeTranslation) -> bool,
        choose: impl for<'n> Fn(&'n Node, usize) -> Option<&'n RangeTranslation>,
    ) -> Option<RangeTranslation> {
        let (mut number, mut found) = (self.root, None);
        loop {
            self.record_access(number, false);
            let node = &self.nodes[number as usize];
            let at = node.ranges.partition_point(&passed);
            found = choose(node, at).copied().or(found);
            match node.children.get(at) {
                Some(&next) => number = next,
                None => return found,
            }
        }
    }

    /// Returns all ranges that overlap `[vpn, vpn + pages)`, in order.
    pub fn overlapping(&mut self, vpn: Vpn, pages: u64) -> Vec<RangeTranslation> {
        let end = vpn.0.saturating_add(pages);
        let (mut found, mut at) = (Vec::new(), vpn);
        while let Some(range) = self.first_ending_after(at).filter(|range| range.vpn.0 < end) {
            at = range.end();
            found.push(range);
        }
        found
    }

    /// Returns all ranges in order, without recording accesses.
    pub fn ranges(&self) -> Vec<RangeTranslation> {
        let mut all = Vec::with_capacity(self.len);
        self.collect(self.root, &mut all);
        all
    }

    fn collect(&self, number: u32, all: &mut Vec<RangeTranslation>) {
        let node = &self.nodes[number as usize];
        for (at, range) in node.ranges.iter().enumerate() {
            if let Some(&child) = node.children.get(at) {
                self.collect(child, all);
            }
            all.push(*range);
        }
        if let Some(&last) = node.children.last() {
            self.collect(last, all);
        }
    }

    /// Returns the operating system's node accesses since the last call.
    pub fn take_accesses(&mut self) -> Vec<NodeAccess> {
        std::mem::take(&mut self.accesses)
    }

    /// Frees all memory. The table must not be used afterwards.
    pub fn release(&mut self, frames: &mut impl FrameSource) {
        for page in std::mem::take(&mut self.pages).into_iter().flatten() {
            frames.free_table(page.at, self.page_bytes);
        }
        (self.nodes, self.free, self.len) = (Vec::new(), BTreeSet::new(), 0);
    }

    /// Checks the invariants: order, disjointness, fill, balance, use counts. For tests and debug builds.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check(&self) {
        let mut used = vec![0; self.pages.len()];
        self.check_node(self.root, self.height, &mut used);
        for (number, (page, used)) in self.pages.iter().zip(used).enumerate() {
            assert_eq!(page.map_or(0, |page| page.used), used, "nodes of page {number} in use");
        }
        let all = self.ranges();
        assert_eq!(all.len(), self.len, "ranges");
        assert!(all.iter().all(|range| range.pages > 0), "empty ranges: {all:?}");
        assert!(all.is_sorted_by(|a, b| a.end() <= b.vpn), "out of order: {all:?}");
    }

    fn check_node(&self, number: u32, level: u32, used: &mut [u32]) {
        let node = &self.nodes[number as usize];
        used[number as usize / self.per_page()] += 1;
        assert!(!self.free.contains(&number), "node {number} is free and in use");
        assert!(
            node.ranges.len() <= MAX_RANGES && (number == self.root || node.ranges.len() >= MIN_RANGES),
            "{node:?}"
        );
        assert_eq!(node.children.len(), if level == 1 { 0 } else { node.ranges.len() + 1 }, "{node:?}");
        node.children.iter().for_each(|&child| self.check_node(child, level - 1, used));
    }

    // Allocation of nodes.

    fn per_page(&self) -> usize {
        (self.page_bytes / RangeTable::NODE_BYTES) as usize
    }

    fn at(&self, number: u32) -> PhysAddr {
        let page = self.pages[number as usize / self.per_page()].expect("nodes in use have a page");
        page.at + (number as u64 * RangeTable::NODE_BYTES) % self.page_bytes
    }

    fn record_access(&mut self, number: u32, written: bool) {
        let at = self.at(number);
        self.accesses.push(NodeAccess { at, written });
    }

    /// Ensures that `nodes` nodes can be taken. Returns `false` when there is no memory for them.
    fn reserve(&mut self, nodes: usize, frames: &mut impl FrameSource) -> bool {
        while self.free.len() < nodes {
            let Some(at) = frames.allocate_table(self.page_bytes) else { return false };
            let page = self.pages.iter().position(Option::is_none).unwrap_or(self.pages.len());
            if page == self.pages.len() {
                self.pages.push(None);
                self.nodes.resize_with(self.pages.len() * self.per_page(), Node::default);
            }
            self.pages[page] = Some(Page { at, used: 0 });
            let first = page * self.per_page();
            self.free.extend((first..first + self.per_page()).map(|number| number as u32));
        }
        true
    }

    /// Takes an unused node. The caller has reserved it.
    fn take_node(&mut self) -> u32 {
        let number = self.free.pop_first().expect("reserved before");
        self.page_of(number).used += 1;
        number
    }

    fn free_node(&mut self, number: u32) {
        self.nodes[number as usize] = Node::default();
        self.page_of(number).used -= 1;
        self.free.insert(number);
    }

    fn page_of(&mut self, number: u32) -> &mut Page {
        let page = number as usize / self.per_page();
        self.pages[page].as_mut().expect("nodes in use have a page")
    }

    /// Frees pages without used nodes, except `spare` of them.
    fn trim(&mut self, spare: usize, frames: &mut impl FrameSource) {
        while self.free.len() >= (spare + 1) * self.per_page() {
            let Some(number) = self.pages.iter().rposition(|page| page.is_some_and(|page| page.used == 0)) else {
                return;
            };
            let page = self.pages[number].take().expect("just found");
            frames.free_table(page.at, self.page_bytes);
            let first = (number * self.per_page()) as u32;
            let nodes = first..first + self.per_page() as u32;
            self.free.retain(|node| !nodes.contains(node));
        }
    }
}
