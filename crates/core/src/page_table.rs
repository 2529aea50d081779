//! Radix page tables whose nodes lie in simulated frames. Every entry therefore has a physical address, which walks,
//! walk caches and data caches use.
//!
//! Levels are counted from the leaf: level 0 holds base pages. A page is stored at the highest level whose entries span
//! no more than the page, in as many equal entries as it spans there. That is one entry for 2 MB on x86, and 512
//! replicated entries for 4 MB on Alpha (Navarro §5).

use crate::organization::{Entries, LARGEST_CHUNK, Organization, PageTableKind};
use crate::{PageShift, PhysAddr, Pte, RangeTable, RangeTranslation, Vpn};
use words::Words;

mod edit;
mod prefetch;
mod shadowed;
#[cfg(test)]
mod tests;
mod words;

pub use edit::EditablePageTable;
pub use prefetch::{PrefetchHint, prefetch};
pub use shadowed::{ShadowTraps, Shadowed};

/// The shape of a page table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of a base page.
    pub base: PageShift,
    /// Index bits of each level, leaf level first; at most [`Layout::MAX_LEVELS`] levels. An entry takes eight bytes.
    pub bits: Vec<u8>,
    /// The organization of the entries that hardware reads.
    pub kind: PageTableKind,
}

impl Layout {
    /// The most levels of a table.
    pub const MAX_LEVELS: usize = 8;

    /// Returns the layout of a radix tree over base pages of size `base`.
    pub fn radix(base: PageShift, bits: Vec<u8>) -> Layout {
        Layout { base, bits, kind: PageTableKind::Radix }
    }

    /// Returns the layout of x86-64: four levels of nine bits over 4 KB pages.
    pub fn x86_64() -> Layout {
        Layout::radix(PageShift(12), vec![9, 9, 9, 9])
    }

    /// Returns the number of levels.
    pub fn levels(&self) -> usize {
        self.bits.len()
    }

    /// Returns the size of the memory that one entry at `level` spans.
    #[inline]
    pub fn span(&self, level: usize) -> PageShift {
        PageShift(self.base.0 + self.bits[..level].iter().sum::<u8>())
    }

    /// Returns how many bits of a virtual address the table translates.
    pub fn address_bits(&self) -> u8 {
        self.span(self.levels()).0
    }

    /// Returns the level at which pages of size `shift` are stored, and the number of equal entries of each.
    #[inline]
    pub fn placement(&self, shift: PageShift) -> (usize, u64) {
        let mut level = self.levels() - 1;
        while self.span(level) > shift {
            level -= 1;
        }
        (level, 1 << (shift.0 - self.span(level).0))
    }

    /// Returns the most bytes of consecutive memory that mapping a page can take.
    pub fn largest_node(&self) -> u64 {
        match self.kind {
            PageTableKind::Radix | PageTableKind::Flattened => {
                (0..self.levels() - 1).map(|level| self.node_bytes(level)).max().unwrap_or(0)
            }
            _ => LARGEST_CHUNK,
        }
    }

    /// Returns the entries of the page of size `shift` at `vpn`.
    pub(crate) fn entries(&self, vpn: Vpn, shift: PageShift) -> Entries {
        let (level, count) = self.placement(shift);
        Entries { level, first: vpn.0 >> self.span(level).order(self.base), count }
    }

    /// Returns the first base page of each of `entries`.
    pub(crate) fn pages_of(&self, entries: Entries) -> impl Iterator<Item = Vpn> + use<> {
        let order = self.span(entries.level).order(self.base);
        (entries.first..entries.first + entries.count).map(move |number| Vpn(number << order))
    }

    /// Returns the size of a node at `level`, in bytes.
    pub fn node_bytes(&self, level: usize) -> u64 {
        8 << self.bits[level]
    }
}

/// A node of one page table. Identifiers of freed nodes are reused.
///
/// Bits 0–30 hold the node's offset in the table's array, in pairs of words. Bits 31–62 hold its frame, so that a walk
/// that comes from the entry above need not read the node to know its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u64);

const FRAME_AT: u32 = 31;

impl NodeId {
    fn new(offset: usize, at: PhysAddr, base: PageShift) -> NodeId {
        let frame = u32::try_from(at.pfn(base).0).expect("page tables lie in the first 2^32 frames");
        NodeId(u64::from(frame) << FRAME_AT | offset as u64 >> 1)
    }

    /// Returns the node's offset in the table's array, for [`PageTable::node_at`]. Walk caches store it; a shootdown
    /// invalidates their entries before the node is freed.
    #[inline(always)]
    pub fn offset(self) -> u32 {
        (self.0 as u32) << 1
    }

    #[inline(always)]
    fn at(self, base: PageShift) -> PhysAddr {
        PhysAddr(self.0 >> FRAME_AT << base.0)
    }
}

/// The contents of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The entry is empty.
    Empty,
    /// The entry points to a node of the next lower level.
    Table(NodeId),
    /// The entry translates a page, or part of a replicated one.
    Leaf(Pte),
}

/// One step of a walk: the entry that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkStep {
    /// Level of the entry.
    pub level: usize,
    /// Physical address of the entry.
    pub at: PhysAddr,
    /// Contents of the entry.
    pub slot: Slot,
}

/// A page as [`PageTable::pages`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPage {
    /// First base page.
    pub vpn: Vpn,
    /// Its entry. Accessed and dirty are set when they are set in any replicated entry.
    pub pte: Pte,
}

/// The writes that a change of the table made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PteWrites {
    /// The first entry written.
    pub at: PhysAddr,
    /// Number of consecutive entries of eight bytes.
    pub entries: u64,
    /// Number of nodes added.
    pub nodes: u32,
}

const TABLE: u64 = 1 << 63;

fn decode(word: u64) -> Slot {
    if word == 0 {
        Slot::Empty
    } else if word & TABLE != 0 {
        Slot::Table(NodeId(word & !TABLE))
    } else {
        Slot::Leaf(Pte(word))
    }
}

/// The page table of one address space, as a processor uses it. A processor reads entries and sets accessed and dirty
/// bits ([`PageTable::mark`]), but changes no translation. The operating system changes it as an [`EditablePageTable`].
///
/// All nodes lie in one array, so reading an entry is one load. A node is its physical address, the number of its used
/// entries, then the entries.
#[derive(Debug)]
pub struct PageTable {
    layout: Layout,
    /// For each level, the order of an entry's span and the mask of an index.
    levels: [(u8, u64); Layout::MAX_LEVELS],
    words: Words,
    root: NodeId,
    /// Offsets of freed nodes, by level.
    free: Vec<Vec<u32>>,
    bytes: u64,
    ranges: Option<Box<RangeTable>>,
    segments: Vec<RangeTranslation>,
    /// What hardware reads instead of the tree; `None` if it reads the tree.
    organization: Option<Box<dyn Organization>>,
    /// In a guest whose host has an operating system of its own: the host's table for the guest's memory, while the processor runs.
    host: Option<Box<PageTable>>,
    /// In a guest whose tables a virtual machine monitor shadows: the modes of the nodes.
    shadowed: Option<Box<Shadowed>>,
}

/// Number of words of a node before its entries.
const HEAD: usize = 2;

impl PageTable {
    /// Returns a table without nodes, which stands in for one that is lent.
    pub fn stand_in(layout: Layout) -> PageTable {
        PageTable {
            layout,
            levels: [(0, 0); Layout::MAX_LEVELS],
            words: Words::default(),
            root: NodeId(0),
            free: Vec::new(),
            bytes: 0,
            ranges: None,
            segments: Vec::new(),
            organization: None,
            host: None,
            shadowed: None,
        }
    }

    /// Returns the modes of the nodes; `None` unless a virtual machine monitor shadows the table.
    #[inline]
    pub fn shadowed(&self) -> Option<&Shadowed> {
        self.shadowed.as_deref()
    }

    /// Returns whether a virtual machine monitor shadows the entry for `vpn`, or where there is none, the lowest node that would
    /// lead to it.
    pub fn is_shadowed_at(&self, vpn: Vpn) -> bool {
        let Some(shadowed) = &self.shadowed else { return false };
        let mut node = self.root();
        for level in (0..self.layout.levels()).rev() {
            match self.slot(node, self.index(level, vpn)) {
                Slot::Table(next) => node = next,
                Slot::Leaf(_) | Slot::Empty => break,
            }
        }
        !shadowed.is_nested(node)
    }

    /// Returns the host's table for the guest's memory; `None` unless one was lent.
    #[inline]
    pub fn host(&self) -> Option<&PageTable> {
        self.host.as_deref()
    }

    /// Returns the same table, for the processor to set accessed bits.
    #[inline]
    pub fn host_mut(&mut self) -> Option<&mut PageTable> {
        self.host.as_deref_mut()
    }

    /// Lends the host's table to this one, which a processor is about to walk; `None` takes it back. Returns the one that was
    /// lent.
    pub fn lend_host(&mut self, host: Option<Box<PageTable>>) -> Option<Box<PageTable>> {
        std::mem::replace(&mut self.host, host)
    }

    /// Returns the shape of the table.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the root node.
    #[inline(always)]
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// Returns the range table of the same address space, which is redundant to this table. `None` when the system
    /// keeps no ranges.
    #[inline(always)]
    pub fn ranges(&self) -> Option<&RangeTable> {
        self.ranges.as_deref()
    }

    /// Returns the segments of the same address space, ascending by address and redundant to this table (Basu et al.
    /// 2013).
    #[inline(always)]
    pub fn segments(&self) -> &[RangeTranslation] {
        &self.segments
    }

    /// Returns the node with this [`NodeId::offset`].
    #[inline(always)]
    pub fn node_at(&self, offset: u32) -> NodeId {
        NodeId(self.words[offset as usize] >> self.layout.base.0 << FRAME_AT | u64::from(offset) >> 1)
    }

    /// Returns the organization that hardware reads instead of this tree; `None` if it reads the tree.
    #[inline(always)]
    pub fn organization(&self) -> Option<&dyn Organization> {
        self.organization.as_deref()
    }

    /// Returns the physical memory of what hardware reads, in bytes: all nodes, or the organization.
    pub fn bytes(&self) -> u64 {
        self.organization.as_ref().map_or(self.bytes, |organization| organization.bytes())
    }

    /// Returns the physical address of the entry that translates `vpn`, entry `index` of `node` in the tree, where hardware
    /// reads and writes it.
    pub fn entry_addr_of(&self, vpn: Vpn, node: NodeId, index: usize) -> PhysAddr {
        let Some(organization) = &self.organization else { return self.entry_addr(node, index) };
        let Slot::Leaf(pte) = self.slot(node, index) else { return self.entry_addr(node, index) };
        let (level, _) = self.layout.placement(pte.shift());
        organization.find(level, vpn).expect("the organization has every entry of the tree")
    }

    /// Returns the index of `vpn` in nodes of `level`.
    #[inline(always)]
    pub fn index(&self, level: usize, vpn: Vpn) -> usize {
        let (order, mask) = self.levels[level];
        (vpn.0 >> order & mask) as usize
    }

    /// Returns the physical address of entry `index` of `node`.
    #[inline(always)]
    pub fn entry_addr(&self, node: NodeId, index: usize) -> PhysAddr {
        PhysAddr(node.at(self.layout.base).0 + 8 * index as u64)
    }

    /// Returns the contents of entry `index` of `node`.
    #[inline(always)]
    pub fn slot(&self, node: NodeId, index: usize) -> Slot {
        decode(self.words[node.offset() as usize + HEAD + index])
    }

    /// Sets [`Pte::ACCESSED`] or [`Pte::DIRTY`] in a leaf entry, as a hardware walker does; ignores all other `bits`.
    /// Returns whether that changed the entry.
    #[inline(always)]
    pub fn mark(&mut self, node: NodeId, index: usize, bits: u64) -> bool {
        let bits = bits & (Pte::ACCESSED | Pte::DIRTY);
        let word = &mut self.words[node.offset() as usize + HEAD + index];
        debug_assert!(matches!(decode(*word), Slot::Leaf(_)));
        let changes = *word & bits != bits;
        if changes {
            // An unconditional write would make the host write the cache line back.
            *word |= bits;
            if let Some(shadowed) = &mut self.shadowed {
                shadowed.mark(node);
            }
        }
        changes
    }

    /// Returns the entries that a walk without walk caches reads for `vpn`, root first.
    pub fn walk(&self, vpn: Vpn) -> Vec<WalkStep> {
        let mut steps = Vec::with_capacity(self.layout.levels());
        let mut node = self.root();
        for level in (0..self.layout.levels()).rev() {
            let index = self.index(level, vpn);
            let slot = self.slot(node, index);
            steps.push(WalkStep { level, at: self.entry_addr(node, index), slot });
            match slot {
                Slot::Table(next) => node = next,
                Slot::Empty | Slot::Leaf(_) => break,
            }
        }
        steps
    }

    /// Returns node and index of the leaf entry for `vpn`; `None` when `vpn` is not mapped.
    pub fn find(&self, vpn: Vpn) -> Option<(NodeId, usize)> {
        let mut node = self.root();
        for level in (0..self.layout.levels()).rev() {
            let index = self.index(level, vpn);
            match self.slot(node, index) {
                Slot::Empty => return None,
                Slot::Leaf(_) => return Some((node, index)),
                Slot::Table(next) => node = next,
            }
        }
        None
    }

    /// Returns the entry that translates `vpn`: for a replicated page, the one that a walk for `vpn` reads. `None` when
    /// `vpn` is not mapped.
    pub fn lookup(&self, vpn: Vpn) -> Option<Pte> {
        let (node, index) = self.find(vpn)?;
        Some(Pte(self.words[node.offset() as usize + HEAD + index]))
    }

    /// Returns the page that contains `vpn`, or `None` when `vpn` is not mapped.
    pub fn page(&self, vpn: Vpn) -> Option<MappedPage> {
        let (node, index) = self.find(vpn)?;
        let words = &self.words[node.offset() as usize + HEAD..];
        let pte = Pte(words[index]);
        let (_, replicas) = self.layout.placement(pte.shift());
        let first = index & !(replicas as usize - 1);
        let merged = words[first..first + replicas as usize]
            .iter()
            .fold(pte.0, |bits, word| bits | word & (Pte::ACCESSED | Pte::DIRTY));
        Some(MappedPage { vpn: vpn.align_down(pte.shift(), self.layout.base), pte: Pte(merged) })
    }

    /// Returns all pages that overlap `[start, start + pages)`, in order, each once.
    pub fn pages(&self, start: Vpn, pages: u64) -> Vec<MappedPage> {
        self.iter_pages(start, pages).collect()
    }

    /// Iterates over [`PageTable::pages`], for spans that may contain too many to collect.
    pub fn iter_pages(&self, start: Vpn, pages: u64) -> impl Iterator<Item = MappedPage> + '_ {
        let end = start.0 + pages;
        let mut at = start.0;
        std::iter::from_fn(move || {
            while at < end {
                match self.page(Vpn(at)) {
                    Some(entry) => {
                        at = entry.vpn.0 + entry.pte.shift().base_pages(self.layout.base);
                        return Some(entry);
                    }
                    None => at = self.next_filled(Vpn(at)).map_or(end, |vpn| vpn.0),
                }
            }
            None
        })
    }

    /// Returns the first base page behind the empty entry that covers `vpn`; `None` at the end of the address space.
    fn next_filled(&self, vpn: Vpn) -> Option<Vpn> {
        let mut node = self.root();
        for level in (0..self.layout.levels()).rev() {
            match self.slot(node, self.index(level, vpn)) {
                Slot::Table(next) => node = next,
                Slot::Leaf(_) => return Some(vpn),
                Slot::Empty => {
                    let span = 1u64 << (self.layout.span(level).0 - self.layout.base.0);
                    let next = (vpn.0 & !(span - 1)) + span;
                    let limit = 1u64 << (self.layout.address_bits() - self.layout.base.0);
                    return (next < limit).then_some(Vpn(next));
                }
            }
        }
        None
    }

    /// Checks the invariants: use counts, levels, alignment, equal replicas. For tests and debug builds.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check(&self) {
        let mut words = 0;
        let mut todo = vec![(self.root(), self.layout.levels() - 1)];
        while let Some((id, level)) = todo.pop() {
            let entries = &self.words[id.offset() as usize + HEAD..][..1 << self.layout.bits[level]];
            words += HEAD + entries.len();
            let used = entries.iter().filter(|&&w| w != 0).count();
            assert_eq!(used as u64, self.words[id.offset() as usize + 1], "use count of {id:?}");
            assert_eq!(self.node_at(id.offset()), id, "{id:?}: the entry above has another address");
            for (i, &word) in entries.iter().enumerate() {
                match decode(word) {
                    Slot::Empty => {}
                    Slot::Table(next) => todo.push((next, level - 1)),
                    Slot::Leaf(pte) => {
                        let (expected, replicas) = self.layout.placement(pte.shift());
                        assert_eq!(level, expected, "{pte:?} at the wrong level");
                        assert!(pte.pfn().is_aligned(pte.shift(), self.layout.base), "{pte:?} unaligned");
                        let ignoring_use = |w: u64| w | Pte::ACCESSED | Pte::DIRTY;
                        let first = i & !(replicas as usize - 1);
                        assert_eq!(ignoring_use(entries[first]), ignoring_use(word), "unequal replicas in {id:?}");
                    }
                }
            }
        }
        for (level, free) in self.free.iter().enumerate() {
            words += free.len() * (HEAD + (1 << self.layout.bits[level]));
        }
        assert_eq!(words, self.words.len(), "nodes were lost");
        self.shadowed().into_iter().for_each(Shadowed::check);
        self.check_organization();
    }

    /// Checks that the organization has the entries of the tree.
    fn check_organization(&self) {
        let Some(organization) = &self.organization else { return };
        organization.check();
        for page in self.iter_pages(Vpn(0), 1 << (self.layout.address_bits() - self.layout.base.0)) {
            let entries = self.layout.entries(page.vpn, page.pte.shift());
            for vpn in self.layout.pages_of(entries) {
                assert!(organization.find(entries.level, vpn).is_some(), "the organization has no entry for {page:?}");
            }
        }
    }
}
