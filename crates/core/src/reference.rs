//! References and the chunks they travel in.

use crate::fold::{PageRef, fold};
use crate::{Event, Step, VirtAddr};

/// What a reference does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A fetch of one block of instructions.
    Fetch = 0,
    /// A load.
    Load = 1,
    /// A store.
    Store = 2,
}

/// One reference in one word: a block fetch, a load or a store.
///
/// Bits 0–47 hold the address, 48–49 the [`Kind`], 50–52 the binary logarithm of the size in bytes (data only), 53–61
/// the index in its block of the instruction that made it (data only; 511 stands for 511 and above). 62–63 are zero.
/// Of a fetch, bits 50–61 hold the length in bytes; the chunk lists its block beside the references.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Ref(pub u64);

const ADDR_BITS: u32 = 48;
const ADDR_MASK: u64 = (1 << ADDR_BITS) - 1;

#[allow(clippy::len_without_is_empty)]
impl Ref {
    /// A fetch of `len` bytes from `pc`; what exceeds 4095 bytes is cut off.
    #[inline(always)]
    pub const fn fetch(pc: VirtAddr, len: u16) -> Ref {
        Ref((pc.0 & ADDR_MASK) | (if len > 4095 { 4095 } else { len } as u64) << 50)
    }

    /// The length in bytes, for fetches.
    #[inline(always)]
    pub const fn len(self) -> u64 {
        self.0 >> 50 & 4095
    }

    /// A load or store of `1 << size_log2` bytes (`size_log2` <= 7) by the block's instruction number `index`.
    #[inline(always)]
    pub const fn data(kind: Kind, addr: VirtAddr, size_log2: u8, index: u16) -> Ref {
        let index = if index > 511 { 511 } else { index };
        Ref((addr.0 & ADDR_MASK) | (kind as u64) << 48 | ((size_log2 & 7) as u64) << 50 | (index as u64) << 53)
    }

    /// A load of eight bytes, where nothing more is known.
    pub const fn load(addr: VirtAddr) -> Ref {
        Ref::data(Kind::Load, addr, 3, 0)
    }

    /// A store of eight bytes, where nothing more is known.
    pub const fn store(addr: VirtAddr) -> Ref {
        Ref::data(Kind::Store, addr, 3, 0)
    }

    /// The first byte referred to.
    #[inline(always)]
    pub const fn addr(self) -> VirtAddr {
        VirtAddr(self.0 & ADDR_MASK)
    }

    /// The same `by` bytes further on, modulo 2⁴⁸.
    #[inline(always)]
    pub const fn offset_by(self, by: u64) -> Ref {
        Ref(self.0 & !ADDR_MASK | self.0.wrapping_add(by) & ADDR_MASK)
    }

    /// Fetch, load or store.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        match (self.0 >> 48) & 3 {
            0 => Kind::Fetch,
            1 => Kind::Load,
            _ => Kind::Store,
        }
    }

    /// The binary logarithm of the size in bytes, for data.
    #[inline(always)]
    pub const fn size_log2(self) -> u8 {
        (self.0 >> 50 & 7) as u8
    }

    /// The size in bytes, for data.
    #[inline(always)]
    pub const fn size(self) -> u64 {
        1 << self.size_log2()
    }

    /// The last byte referred to. Addresses have 48 bits: behind the highest comes 0.
    #[inline(always)]
    pub const fn last(self) -> VirtAddr {
        let beyond = match self.kind() {
            Kind::Fetch => self.len().saturating_sub(1),
            _ => self.size() - 1,
        };
        VirtAddr((self.0 + beyond) & ADDR_MASK)
    }

    /// Whether first and last byte lie in different pages of 4 KB.
    #[inline(always)]
    pub const fn crosses(self) -> bool {
        (self.addr().0 ^ self.last().0) >> 12 != 0
    }

    /// The index in its block of the instruction that made this reference, for data; saturates at 511.
    #[inline(always)]
    pub const fn index(self) -> u16 {
        (self.0 >> 53 & 511) as u16
    }
}

impl std::fmt::Debug for Ref {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind() {
            Kind::Fetch => write!(f, "fetch {:#x}", self.addr().0),
            kind => write!(f, "{kind:?} {:#x}+{} @{}", self.addr().0, self.size(), self.index()),
        }
    }
}

/// A block's number within one program: dense from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// A straight run of instructions that is fetched as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Address of the first instruction.
    pub pc: VirtAddr,
    /// Length in bytes, > 0.
    pub len: u16,
    /// How many instructions, > 0.
    pub instructions: u16,
    /// The instructions themselves: `len` bytes, or none where the source does not know them.
    pub bytes: Box<[u8]>,
}

impl Block {
    /// The fetch of this block.
    #[inline(always)]
    pub const fn fetch(&self) -> Ref {
        Ref::fetch(self.pc, self.len)
    }
}

/// All blocks of a program that have been seen so far; it only grows.
#[derive(Clone, Debug, Default)]
pub struct BlockTable {
    blocks: Vec<Block>,
}

impl BlockTable {
    /// Adds a block and gives it its number.
    pub fn push(&mut self, block: Block) -> BlockId {
        debug_assert!(block.len > 0 && block.instructions > 0);
        self.blocks.push(block);
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// The block with this number, which this table gave out.
    #[inline(always)]
    pub fn get(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// All blocks, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }
}

/// A piece of a program: references, the blocks that its fetches fetch, and the events between them.
///
/// Chunks may be of any length; where the cuts fall never changes a result.
///
/// An *outline* is a chunk for machines that only count: events, and in place of the references what folding keeps of
/// them, in steps of which each was folded by itself.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// The references in order.
    pub refs: Vec<Ref>,
    /// One block for each fetch among `refs`, in the same order.
    pub fetched: Vec<BlockId>,
    /// Events, each before the reference with that index (`refs.len()` for events after the last), in order.
    pub events: Vec<(u32, Event)>,
    /// What folding keeps of the first `folded` references ([`crate::fold`]).
    pub page_refs: Vec<PageRef>,
    /// How many references have been folded.
    pub folded: usize,
    /// The steps of an outline; of any other chunk none.
    pub outline: Vec<Step>,
}

impl Chunk {
    /// Empties the chunk and keeps its memory.
    pub fn clear(&mut self) {
        self.refs.clear();
        self.fetched.clear();
        self.events.clear();
        self.page_refs.clear();
        self.folded = 0;
        self.outline.clear();
    }

    /// Whether this is an outline.
    pub fn is_outline(&self) -> bool {
        !self.outline.is_empty()
    }

    /// Folds the references that have not been folded yet.
    pub fn fold(&mut self) {
        let Chunk { refs, page_refs, folded, .. } = self;
        assert!(refs.len() <= PageRef::MAX_REFS, "a chunk of {} references", refs.len());
        fold(&refs[*folded..], *folded, page_refs);
        *folded = refs.len();
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty() && self.events.is_empty() && self.outline.is_empty()
    }

    /// Appends an event at the present end.
    pub fn push_event(&mut self, event: Event) {
        self.events.push((self.refs.len() as u32, event));
    }

    /// Appends the references and events of `next`, which comes behind this chunk and is no outline.
    pub fn append(&mut self, next: &Chunk) {
        let start = self.refs.len() as u32;
        self.refs.extend(&next.refs);
        self.fetched.extend(&next.fetched);
        self.events.extend(next.events.iter().map(|(at, event)| (at + start, event.clone())));
    }

    /// Appends a fetch of `block`, which is number `id`.
    #[inline(always)]
    pub fn push_fetch(&mut self, id: BlockId, block: &Block) {
        self.refs.push(block.fetch());
        self.fetched.push(id);
    }
}

impl From<Vec<Ref>> for Chunk {
    /// These references alone, folded.
    fn from(refs: Vec<Ref>) -> Chunk {
        let mut chunk = Chunk { refs, ..Chunk::default() };
        chunk.fold();
        chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_keeps_its_fields() {
        let r = Ref::data(Kind::Store, VirtAddr(0x7fff_1234_5678), 6, 300);
        assert_eq!((r.addr().0, r.kind(), r.size(), r.index()), (0x7fff_1234_5678, Kind::Store, 64, 300));
        assert_eq!(Ref::data(Kind::Load, VirtAddr(1), 0, 9999).index(), 511);
        let f = Ref::fetch(VirtAddr(0x40_0000), 4000);
        assert_eq!((f.addr().0, f.kind(), f.len()), (0x40_0000, Kind::Fetch, 4000));
        assert_eq!(Ref::fetch(VirtAddr(0), 5000).len(), 4095);
    }
}
