//! Chunks: the pieces in which a program travels from its source to the simulations.

use crate::fold::{PageRef, fold};
use crate::{Block, BlockId, Event, Ref, Step};

/// A piece of a program: references, the blocks that its fetches fetch, and the events between references.
///
/// Chunks may be of any length up to [`PageRef::MAX_REFS`] references; no result depends on where they are cut.
///
/// An *outline* is a chunk for simulations that only count. It has the events, and instead of references their page
/// references, divided into steps that were each folded separately.
///
/// ```
/// use reach_core::{Block, BlockTable, Chunk, Event, Ref, VirtAddr};
///
/// let mut blocks = BlockTable::default();
/// let id = blocks.push(Block { pc: VirtAddr(0x40_0000), len: 12, instructions: 3, bytes: Box::default() });
/// let mut chunk = Chunk::default();
/// chunk.push_event(Event::Phase("start".into()));
/// chunk.push_fetch(id, blocks.get(id));
/// chunk.refs.extend([Ref::load(VirtAddr(0x7000)), Ref::load(VirtAddr(0x7008))]);
/// chunk.fold();
/// // Both loads are to one page, so they need one look-up.
/// assert_eq!((chunk.refs.len(), chunk.page_refs.len()), (3, 2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// The references in program order.
    pub refs: Vec<Ref>,
    /// One block for each fetch among `refs`, in the same order.
    pub fetched: Vec<BlockId>,
    /// Events in order, each with the index of the reference that follows it; `refs.len()` after the last reference.
    pub events: Vec<(u32, Event)>,
    /// The page references of the first `folded` references ([`crate::fold`]).
    pub page_refs: Vec<PageRef>,
    /// Number of references that have been folded.
    pub folded: usize,
    /// The indices of the references that caches must see where they are only warmed, in steps that need them: the last uses
    /// of lines ([`crate::last_use`]).
    pub last_lines: Vec<u32>,
    /// The page references that TLBs must see there: first and last uses of pages.
    pub last_pages: Vec<PageRef>,
    /// The steps of an outline; empty in any other chunk.
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
        self.last_lines.clear();
        self.last_pages.clear();
        self.outline.clear();
    }

    /// Returns whether this is an outline.
    pub fn is_outline(&self) -> bool {
        !self.outline.is_empty()
    }

    /// Folds the references that have not been folded yet.
    ///
    /// # Panics
    /// When the chunk has more than [`PageRef::MAX_REFS`] references.
    pub fn fold(&mut self) {
        let Chunk { refs, page_refs, folded, .. } = self;
        let most = PageRef::MAX_REFS;
        assert!(refs.len() <= most, "a chunk of {} references; {most} are the most", refs.len());
        fold(&refs[*folded..], *folded, page_refs);
        *folded = refs.len();
    }

    /// Returns whether the chunk has neither references nor events.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty() && self.events.is_empty() && self.outline.is_empty()
    }

    /// Appends an event after the references so far.
    pub fn push_event(&mut self, event: Event) {
        self.events.push((self.refs.len() as u32, event));
    }

    /// Appends references and events of `next`, the piece of the program that follows. `next` must not be an outline.
    pub fn append(&mut self, next: &Chunk) {
        let start = self.refs.len() as u32;
        self.refs.extend(&next.refs);
        self.fetched.extend(&next.fetched);
        self.events.extend(next.events.iter().map(|(at, event)| (at + start, event.clone())));
    }

    /// Appends a fetch of `block`, whose number is `id`.
    #[inline(always)]
    pub fn push_fetch(&mut self, id: BlockId, block: &Block) {
        self.refs.push(block.fetch());
        self.fetched.push(id);
    }
}

impl From<Vec<Ref>> for Chunk {
    /// Makes a folded chunk of data references, without events.
    fn from(refs: Vec<Ref>) -> Chunk {
        let mut chunk = Chunk { refs, ..Chunk::default() };
        chunk.fold();
        chunk
    }
}
