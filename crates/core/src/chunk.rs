//! Chunks: the pieces in which a program travels.

use crate::fold::{PageRef, fold};
use crate::{Block, BlockId, Event, Ref, Step};

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
