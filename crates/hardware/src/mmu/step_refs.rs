//! The references of a step, and a position in them.

use super::pte_prefetch::PtePrefetcher;
use crate::ooo::{BranchKind, Code, Following, RightPath};
use reach_core::fold::{PAGE_SHIFT, PageRef};
use reach_core::{BlockId, Chunk, Event, Kind, Ref, Step};

/// The references of one step of a chunk, which run without an event in between: all of them, and those that folding keeps.
#[derive(Clone, Copy, Debug)]
pub struct StepRefs<'a> {
    /// The references of the chunk, up to the end of the step.
    pub(crate) refs: &'a [Ref],
    /// The blocks that the step's fetches fetch.
    pub(crate) fetched: &'a [BlockId],
    /// The references that folding keeps, of those in the step.
    pub(crate) page_refs: &'a [PageRef],
    /// The indices of the references that caches must see where they are only warmed; empty if that is all.
    pub(crate) last_lines: &'a [u32],
    /// The page references that TLBs must see there.
    last_pages: &'a [PageRef],
    /// Index of the step's first reference.
    pub(super) start: usize,
    /// The references of the chunk up to the next event behind the step, and the blocks of the step and all that follow.
    until_event: &'a [Ref],
    fetched_from_here: &'a [BlockId],
    /// No event comes before the end of the chunk.
    reaches_end: bool,
    /// The references behind the chunk, unless an event comes before them.
    following: Option<&'a Following>,
    /// The instructions of the blocks; `None` where nobody needs them.
    code: Option<&'a Code>,
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
        let last_lines = &chunk.last_lines[step.last_lines.clone()];
        let last_pages = &chunk.last_pages[step.last_pages.clone()];
        let (start, outlined) = (step.refs.start, chunk.is_outline());
        // Marks of a sample are no events of the program.
        let next_event = chunk.events[step.events.end..].iter().find(|(_, event)| !matches!(event, Event::Mark(_)));
        // An outline has events, and no references.
        let end = next_event.map_or(chunk.refs.len(), |(at, _)| chunk.refs.len().min(*at as usize));
        let until_event = &chunk.refs[..end];
        let fetched_from_here = chunk.fetched.get(step.fetched.start..).unwrap_or_default();
        let reaches_end = next_event.is_none();
        StepRefs {
            refs,
            fetched,
            page_refs,
            last_lines,
            last_pages,
            start,
            until_event,
            fetched_from_here,
            reaches_end,
            following: None,
            code: None,
            outlined,
        }
    }

    /// Returns all references of `chunk`, which has been folded.
    pub fn whole(chunk: &'a Chunk) -> StepRefs<'a> {
        debug_assert_eq!(chunk.folded, chunk.refs.len());
        let (refs, fetched, page_refs) = (&chunk.refs, &chunk.fetched, &chunk.page_refs);
        StepRefs {
            refs,
            fetched,
            page_refs,
            last_lines: &[],
            last_pages: &[],
            start: 0,
            until_event: refs,
            fetched_from_here: fetched,
            reaches_end: true,
            following: None,
            code: None,
            outlined: false,
        }
    }

    /// Adds the references that follow the chunk.
    pub fn followed_by(self, following: &'a Following) -> StepRefs<'a> {
        StepRefs { following: self.reaches_end.then_some(following), ..self }
    }

    /// Adds the instructions of the blocks, unless none are known.
    pub fn with_code(self, code: &'a Code) -> StepRefs<'a> {
        StepRefs { code: (code.blocks() > 0).then_some(code), ..self }
    }

    /// Returns the branch at the end of the block of fetch number `number` of the step; a conditional one if it is not known.
    pub(super) fn branch_of_fetch(&self, number: usize) -> BranchKind {
        let known = self.code.zip(self.fetched.get(number));
        known.and_then(|(code, &block)| code.branch(block)).unwrap_or(BranchKind::Conditional)
    }

    /// Returns the references from the cursor on, up to the next event, beyond the step too.
    pub(crate) fn right_path(&self, cursor: &Cursor) -> RightPath<'a> {
        self.right_path_from(cursor.next_ref, cursor)
    }

    /// Returns the references behind the one at the cursor.
    pub(crate) fn right_path_behind(&self, cursor: &Cursor) -> RightPath<'a> {
        self.right_path_from(cursor.next_ref + 1, cursor)
    }

    fn right_path_from(&self, reference: usize, cursor: &Cursor) -> RightPath<'a> {
        let refs = self.until_event.get(reference..).unwrap_or_default();
        RightPath::new(refs, self.fetched_from_here.get(cursor.next_block..).unwrap_or_default(), self.following)
    }

    /// Returns the references of which warming sees every page: for a policy that counts look-ups, and so must not miss one.
    pub fn with_every_page(self) -> StepRefs<'a> {
        StepRefs { last_pages: &[], ..self }
    }

    /// Returns the references with only the first and last uses of pages, if these are known.
    pub(crate) fn last_pages_only(self) -> StepRefs<'a> {
        if self.last_pages.is_empty() { self } else { StepRefs { page_refs: self.last_pages, ..self } }
    }

    /// Returns the last uses of lines from the next reference on.
    pub(crate) fn last_lines_from(&self, cursor: &Cursor) -> &'a [u32] {
        &self.last_lines[self.last_lines.partition_point(|&at| (at as usize) < cursor.next_ref)..]
    }

    /// Moves the cursor to the first page reference at or after its next reference.
    pub(crate) fn skip_page_refs(&self, cursor: &mut Cursor) {
        let ahead = &self.page_refs[cursor.next_page_ref..];
        cursor.next_page_ref += ahead.partition_point(|page_ref| page_ref.index() < cursor.next_ref);
    }

    /// Returns whether the next reference is one that folding keeps, or the end.
    pub(crate) fn looks_up(&self, cursor: &mut Cursor) -> bool {
        self.skip_page_refs(cursor);
        self.page_refs.get(cursor.next_page_ref).is_none_or(|page_ref| page_ref.index() == cursor.next_ref)
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
    pub(crate) next_page_ref: usize,
    /// In an outline: the next page reference is the second page of a reference, whose first page has to be looked up again.
    pub(super) repeat_first_page: bool,
    pub(super) prefetcher: PtePrefetcher,
}

/// Which sides have looked up again, since an invalidation, all that folding might skip.
///
/// The code side is confirmed by any fetch; the data side once it has turned to another page, or has both loaded and stored
/// on its page.
#[derive(Debug, Default)]
pub(crate) struct Confirmation {
    code: bool,
    data: bool,
    /// The page of the last load or store.
    page: Option<u64>,
    /// The kinds of data references, as bits.
    kinds: u8,
}

impl Confirmation {
    pub(crate) fn is_complete(&self) -> bool {
        self.code && self.data
    }

    /// Notes that `r` was looked up.
    pub(crate) fn add(&mut self, r: Ref) {
        if r.kind() == Kind::Fetch {
            self.code = true;
            return;
        }
        let last = Some(r.last().0 >> PAGE_SHIFT);
        self.kinds |= r.kind() as u8;
        self.data |= self.kinds == 3 || self.page.is_some_and(|page| Some(page) != last);
        self.page = last;
    }
}
