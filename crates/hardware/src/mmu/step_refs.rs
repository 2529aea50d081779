//! The references of a step, and a position in them.

use super::pte_prefetch::PtePrefetcher;
use reach_core::fold::PageRef;
use reach_core::{BlockId, Chunk, Ref, Step};

/// The references of one step of a chunk, which run without an event in between: all of them, and those that folding keeps.
#[derive(Clone, Copy, Debug)]
pub struct StepRefs<'a> {
    /// The references of the chunk, up to the end of the step.
    pub(crate) refs: &'a [Ref],
    /// The blocks that the step's fetches fetch.
    pub(crate) fetched: &'a [BlockId],
    /// The references that folding keeps, of those in the step.
    pub(super) page_refs: &'a [PageRef],
    /// Index of the step's first reference.
    start: usize,
    /// There are no references, only what folding keeps.
    pub(super) outlined: bool,
}

impl<'a> StepRefs<'a> {
    /// Returns the references of `step` of `chunk`, which has been folded or is an outline.
    pub fn new(chunk: &'a Chunk, step: &Step) -> StepRefs<'a> {
        debug_assert_eq!(chunk.folded, chunk.refs.len());
        let (refs, page_refs) = (&chunk.refs[..step.refs.end], &chunk.page_refs[step.page_refs.clone()]);
        // Chunks made of references alone have no blocks.
        let fetched = chunk.fetched.get(step.fetched.clone()).unwrap_or_default();
        StepRefs { refs, fetched, page_refs, start: step.refs.start, outlined: chunk.is_outline() }
    }

    /// Returns all references of `chunk`, which has been folded.
    pub fn whole(chunk: &'a Chunk) -> StepRefs<'a> {
        debug_assert_eq!(chunk.folded, chunk.refs.len());
        let (fetched, page_refs) = (&chunk.fetched, &chunk.page_refs);
        StepRefs { refs: &chunk.refs, fetched, page_refs, start: 0, outlined: false }
    }

    /// Returns the position of the first reference.
    pub fn begin(&self) -> Cursor {
        Cursor {
            next_ref: self.start,
            next_block: 0,
            next_page_ref: 0,
            repeat_first_page: false,
            prefetcher: PtePrefetcher::default(),
        }
    }
}

/// A position in the references of a step. [`StepRefs::begin`] returns the first; a run advances it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Index of the next reference.
    pub(crate) next_ref: usize,
    /// Index of the next fetch's block, of those of the step. Only runs that need blocks advance it.
    pub(crate) next_block: usize,
    /// Index of the first page reference at or after the next reference.
    pub(super) next_page_ref: usize,
    /// In an outline: the next page reference is the second page of a reference, whose first page has to be looked up again.
    pub(super) repeat_first_page: bool,
    pub(super) prefetcher: PtePrefetcher,
}
