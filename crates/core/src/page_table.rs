//! Radix page tables whose nodes live in simulated frames, so that every entry has a physical address that walks,
//! walk caches and data caches can see.
//!
//! Levels are counted from the leaf: level 0 holds base pages. A page of any size is stored at the highest level whose
//! entries are not larger than it, in as many equal entries as it spans there: one entry for 2 MB on x86, 512
//! replicated ones for 4 MB on Alpha (Navarro §5).

use crate::{PageShift, PhysAddr, Pte, RangeTable, RangeTranslation, Vpn};
use words::Words;

mod edit;
mod prefetch;
#[cfg(test)]
mod tests;
mod words;

pub use edit::EditablePageTable;
pub use prefetch::{PrefetchHint, prefetch};

/// The shape of a page table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of a base page.
    pub base: PageShift,
    /// Index bits of each level, leaf level first; at most [`Layout::MOST_LEVELS`]. An entry takes eight bytes.
    pub bits: Vec<u8>,
}

impl Layout {
    /// The deepest table there may be.
    pub const MOST_LEVELS: usize = 8;

    /// Four levels of nine bits over 4 KB pages: x86-64.
    pub fn x86_64() -> Layout {
        Layout { base: PageShift(12), bits: vec![9, 9, 9, 9] }
    }

    /// How many levels.
    pub fn levels(&self) -> usize {
        self.bits.len()
    }

    /// What one entry at `level` spans.
    #[inline]
    pub fn span(&self, level: usize) -> PageShift {
        PageShift(self.base.0 + self.bits[..level].iter().sum::<u8>())
    }

    /// How many bits of a virtual address are translated.
    pub fn address_bits(&self) -> u8 {
        self.span(self.levels()).0
    }

    /// At which level pages of size `shift` are stored, and in how many equal entries.
    #[inline]
    pub fn placement(&self, shift: PageShift) -> (usize, u64) {
        let mut level = self.levels() - 1;
        while self.span(level) > shift {
            level -= 1;
        }
        (level, 1 << (shift.0 - self.span(level).0))
    }

    /// Bytes of a node at `level`.
    pub fn node_bytes(&self, level: usize) -> u64 {
        8 << self.bits[level]
    }
}

/// A node of one page table: where it stands among the table's words (bits 0–30, in pairs of words), and the frame that
/// it lies in (bits 31–62), so that whoever comes from the entry above need not read the node to learn that. Reused
/// after a node is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u64);

const FRAME_AT: u32 = 31;

impl NodeId {
    fn new(place: usize, at: PhysAddr, base: PageShift) -> NodeId {
        let frame = u32::try_from(at.pfn(base).0).expect("page tables among the first 2^32 frames");
        NodeId(u64::from(frame) << FRAME_AT | place as u64 >> 1)
    }

    /// Where it stands among the table's words: what walk caches keep, for [`PageTable::node_at`]. They are told by a
    /// shootdown when it is freed.
    #[inline(always)]
    pub fn offset(self) -> u32 {
        (self.0 as u32) << 1
    }

    #[inline(always)]
    fn at(self, base: PageShift) -> PhysAddr {
        PhysAddr(self.0 >> FRAME_AT << base.0)
    }
}

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nothing.
    Empty,
    /// A node of the next lower level.
    Table(NodeId),
    /// A translation.
    Leaf(Pte),
}

/// One step of a walk: an entry read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkStep {
    /// Level of the entry.
    pub level: usize,
    /// Where it lies in physical memory.
    pub at: PhysAddr,
    /// What it holds.
    pub slot: Slot,
}

/// A page as [`PageTable::pages`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPage {
    /// First base page.
    pub vpn: Vpn,
    /// Its entry; accessed and dirty are the union over replicated entries.
    pub pte: Pte,
}

/// What a change of the table wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PteWrites {
    /// The first entry written.
    pub at: PhysAddr,
    /// How many entries of eight bytes, one after the other.
    pub entries: u64,
    /// How many nodes were added on the way.
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

/// A page table of one address space, as a processor uses it: it reads entries and sets accessed and dirty bits
/// ([`PageTable::mark`]), but changes no translation. The operating system changes it as an [`EditablePageTable`].
///
/// All nodes stand in one array, so that reading an entry is one load: first the node's physical address, then how
/// many of its entries are in use, then the entries.
#[derive(Debug)]
pub struct PageTable {
    layout: Layout,
    /// For each level the order of what an entry spans, and the mask of an index.
    levels: [(u8, u64); Layout::MOST_LEVELS],
    words: Words,
    root: NodeId,
    /// Places of freed nodes, by level.
    free: Vec<Vec<u32>>,
    bytes: u64,
    ranges: Option<Box<RangeTable>>,
    segments: Vec<RangeTranslation>,
}

/// Words of a node before its entries.
const HEAD: usize = 2;

impl PageTable {
    /// The shape.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The root node.
    #[inline(always)]
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// The range table of the same address space, redundant to this one. `None` where the system keeps no ranges.
    #[inline(always)]
    pub fn ranges(&self) -> Option<&RangeTable> {
        self.ranges.as_deref()
    }

    /// The segments of the same address space, ascending by address, redundant to this table (Basu et al. 2013).
    #[inline(always)]
    pub fn segments(&self) -> &[RangeTranslation] {
        &self.segments
    }

    /// The node that stands at `place` ([`NodeId::offset`]).
    #[inline(always)]
    pub fn node_at(&self, place: u32) -> NodeId {
        NodeId(self.words[place as usize] >> self.layout.base.0 << FRAME_AT | u64::from(place) >> 1)
    }

    /// Physical memory that the nodes take, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The index of `vpn` in nodes of `level`.
    #[inline(always)]
    pub fn index(&self, level: usize, vpn: Vpn) -> usize {
        let (order, mask) = self.levels[level];
        (vpn.0 >> order & mask) as usize
    }

    /// Where entry `index` of `node` lies.
    #[inline(always)]
    pub fn entry_addr(&self, node: NodeId, index: usize) -> PhysAddr {
        PhysAddr(node.at(self.layout.base).0 + 8 * index as u64)
    }

    /// What entry `index` of `node` holds.
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
            // Otherwise this computer need not write the line back.
            *word |= bits;
        }
        changes
    }

    /// The entries that a walk without walk caches reads for `vpn`, root first.
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

    /// The node and index of the leaf entry for `vpn`, where there is one.
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

    /// The entry that translates `vpn`. Of a replicated page, the copy that belongs to `vpn`.
    pub fn lookup(&self, vpn: Vpn) -> Option<Pte> {
        let (node, index) = self.find(vpn)?;
        Some(Pte(self.words[node.offset() as usize + HEAD + index]))
    }

    /// The page that holds `vpn`, accessed and dirty united over replicated entries.
    pub fn page(&self, vpn: Vpn) -> Option<MappedPage> {
        let (node, index) = self.find(vpn)?;
        let words = &self.words[node.offset() as usize + HEAD..];
        let pte = Pte(words[index]);
        let (_, copies) = self.layout.placement(pte.shift());
        let first = index & !(copies as usize - 1);
        let united = words[first..first + copies as usize]
            .iter()
            .fold(pte.0, |bits, word| bits | word & (Pte::ACCESSED | Pte::DIRTY));
        Some(MappedPage { vpn: vpn.align_down(pte.shift(), self.layout.base), pte: Pte(united) })
    }

    /// All pages that overlap `[start, start + pages)`, in order, each once.
    pub fn pages(&self, start: Vpn, pages: u64) -> Vec<MappedPage> {
        self.iter_pages(start, pages).collect()
    }

    /// [`PageTable::pages`] one by one, for spans of which nobody knows how many they have.
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

    /// The first base page after `vpn` that might be mapped: past the empty entry that holds `vpn`.
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

    /// Checks what must always hold: use counts, levels, alignment, equal copies. For tests and debug builds.
    pub fn check(&self) {
        let mut words = 0;
        let mut todo = vec![(self.root(), self.layout.levels() - 1)];
        while let Some((id, level)) = todo.pop() {
            let entries = &self.words[id.offset() as usize + HEAD..][..1 << self.layout.bits[level]];
            words += HEAD + entries.len();
            let used = entries.iter().filter(|&&w| w != 0).count();
            assert_eq!(used as u64, self.words[id.offset() as usize + 1], "use count of {id:?}");
            assert_eq!(self.node_at(id.offset()), id, "the entry above says that it lies elsewhere");
            for (i, &word) in entries.iter().enumerate() {
                match decode(word) {
                    Slot::Empty => {}
                    Slot::Table(next) => todo.push((next, level - 1)),
                    Slot::Leaf(pte) => {
                        let (place, copies) = self.layout.placement(pte.shift());
                        assert_eq!(place, level, "{pte:?} at the wrong level");
                        assert!(pte.pfn().is_aligned(pte.shift(), self.layout.base), "{pte:?} unaligned");
                        let same = |w: u64| w | Pte::ACCESSED | Pte::DIRTY;
                        let first = i & !(copies as usize - 1);
                        assert_eq!(same(entries[first]), same(word), "unequal copies in {id:?}");
                    }
                }
            }
        }
        for (level, free) in self.free.iter().enumerate() {
            words += free.len() * (HEAD + (1 << self.layout.bits[level]));
        }
        assert_eq!(words, self.words.len(), "lost nodes");
    }
}
