//! Folding: the same-page filter, which merges consecutive references to one page into one TLB look-up.
//!
//! Fetches and data are filtered apart, each against the page it used last. Folding drops a reference when its side is
//! still on that page and an earlier reference of the same kind has already looked it up. In any TLB such a reference
//! hits the most recently used entry of its set and changes nothing.
//!
//! Two conditions must hold; the memory-management unit checks both. Nothing is invalidated within the run, and fetches
//! share no first-level array with data. The filter works on 4 KB, so one folding serves every page size from 4 KB up.

use crate::{Kind, Ref};

/// The page size of the filter, as a shift: the smallest page of any machine.
pub const PAGE_SHIFT: u32 = 12;

/// A page reference: one of the TLB look-ups that folding keeps.
///
/// Bits 0–35 hold the number of the 4 KB page, 36–37 the kind, 38–63 the index of the reference in its chunk. Page and
/// kind lie as in a [`Ref`], shifted right. In an outline, which has no references to index, bit 38 instead marks the
/// second page of a reference that crosses a page boundary, and higher bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct PageRef(u64);

const KIND_AT: u32 = 36;
const INDEX_AT: u32 = 38;
const PAGE_MASK: u64 = (1 << KIND_AT) - 1;
/// Set in the code side's state once its page has been fetched from.
const FETCHED: u64 = 1 << INDEX_AT;

impl PageRef {
    /// The most references of a chunk: the index has 26 bits.
    pub const MAX_REFS: usize = 1 << (64 - INDEX_AT);

    /// Number of bits that a page reference uses in an outline.
    pub const OUTLINE_BITS: u32 = INDEX_AT + 1;

    /// Returns the page reference of an outline with these bits. `None` when bits from [`PageRef::OUTLINE_BITS`] on are
    /// set, or the kind is 3.
    pub const fn from_outline_bits(bits: u64) -> Option<PageRef> {
        if bits >> PageRef::OUTLINE_BITS != 0 || bits >> KIND_AT & 3 == 3 { None } else { Some(PageRef(bits)) }
    }

    /// Converts to the form of an outline. `first` is the page in which the reference begins.
    const fn to_outline(self, first: u64) -> PageRef {
        PageRef(self.page_and_kind() | if self.page() == first { 0 } else { 1 << INDEX_AT })
    }

    /// Returns whether this is the second page of a reference that crosses a page boundary. For outlines only.
    pub const fn is_second_page(self) -> bool {
        self.0 >> INDEX_AT & 1 != 0
    }

    /// Returns all bits, for [`PageRef::from_outline_bits`]. For outlines only.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the number of the page before this one, modulo 2^36.
    pub const fn previous_page(self) -> u64 {
        self.page().wrapping_sub(1) & PAGE_MASK
    }

    /// Returns the number of the 4 KB page.
    #[inline(always)]
    pub const fn page(self) -> u64 {
        self.0 & PAGE_MASK
    }

    /// Returns whether this is a fetch, a load or a store.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        match self.0 >> KIND_AT & 3 {
            0 => Kind::Fetch,
            1 => Kind::Load,
            _ => Kind::Store,
        }
    }

    /// Returns page and kind as one word, bits 0–37, without the index.
    #[inline(always)]
    pub const fn page_and_kind(self) -> u64 {
        self.0 & ((1 << INDEX_AT) - 1)
    }

    /// Returns the index of the reference in its chunk. Not for outlines.
    #[inline(always)]
    pub const fn index(self) -> usize {
        (self.0 >> INDEX_AT) as usize
    }
}

/// Returns page and kind of `r`, in the bits of a [`PageRef`].
#[inline(always)]
fn page_and_kind(r: Ref) -> u64 {
    r.0 >> PAGE_SHIFT & ((1 << INDEX_AT) - 1)
}

/// Returns `page_and_kind` with the number of the next page.
#[inline(always)]
fn next_page(page_and_kind: u64) -> u64 {
    page_and_kind & !PAGE_MASK | (page_and_kind + 1) & PAGE_MASK
}

/// The same-page filter.
///
/// The data side's state is its page, and in the bits of the kind one flag for loaded and one for stored in this run.
/// The code side's is its page, and the flag `FETCHED`. A state without flags stands for no page.
#[derive(Clone, Copy, Debug)]
pub struct PageFilter {
    code: u64,
    data: u64,
}

impl Default for PageFilter {
    /// Makes a filter that keeps the first reference of each side.
    fn default() -> PageFilter {
        PageFilter { code: PAGE_MASK, data: PAGE_MASK }
    }
}

impl PageFilter {
    /// Filters a fetch from the 4 KB page number `page` (< 2^36). `index` (< [`PageRef::MAX_REFS`]) is its index in the
    /// chunk.
    #[inline(always)]
    pub fn fetch(&mut self, index: usize, page: u64, sink: &mut Sink) {
        let state = page | FETCHED;
        sink.push(page, index, self.code != state);
        self.code = state;
    }

    /// Filters a load or store. `index` (< [`PageRef::MAX_REFS`]) is its index in the chunk; `crosses` says whether it
    /// extends into the next 4 KB page.
    #[inline(always)]
    pub fn data(&mut self, index: usize, r: Ref, crosses: bool, sink: &mut Sink) {
        self.data_page(index, page_and_kind(r), sink);
        if crosses {
            self.data_page(index, next_page(page_and_kind(r)), sink);
        }
    }

    #[inline(always)]
    fn data_page(&mut self, index: usize, page_and_kind: u64, sink: &mut Sink) {
        let same = on_same_page(self.data, page_and_kind);
        let next = std::hint::select_unpredictable(same, self.data | page_and_kind, page_and_kind);
        sink.push(page_and_kind, index, next != self.data);
        self.data = next;
    }

    /// Filters a reference of any kind.
    #[inline(always)]
    fn filter(&mut self, index: usize, r: Ref, sink: &mut Sink) {
        // The kind of the next reference is unpredictable, so both sides are computed and one is selected.
        let page_and_kind = page_and_kind(r);
        let fetch = page_and_kind >> KIND_AT == 0;
        let state = page_and_kind | u64::from(fetch) << INDEX_AT;
        let before = std::hint::select_unpredictable(fetch, self.code, self.data);
        let same = on_same_page(before, state);
        let next = std::hint::select_unpredictable(same, before | state, state);
        self.code = std::hint::select_unpredictable(fetch, next, self.code);
        self.data = std::hint::select_unpredictable(fetch, self.data, next);
        sink.push(page_and_kind, index, next != before);
        // An upper bound for both kinds: `len` reads the bits that hold the length of a fetch.
        let near_end = (r.0 & LAST_BYTE) + r.len() + MAX_DATA_BYTES > LAST_BYTE;
        if near_end && r.crosses() {
            let next = next_page(page_and_kind);
            if fetch { self.fetch(index, next, sink) } else { self.data_page(index, next, sink) }
        }
    }
}

/// Offset of the last byte of a page.
const LAST_BYTE: u64 = (1 << PAGE_SHIFT) - 1;
/// Bytes of the longest load or store.
const MAX_DATA_BYTES: u64 = 128;

/// Returns whether two states are on the same page, whatever their flags.
#[inline(always)]
fn on_same_page(a: u64, b: u64) -> bool {
    (a ^ b) << (64 - KIND_AT) == 0
}

/// Appends page references without a branch: every one is written, and the length advances only past those to keep.
pub struct Sink<'a> {
    page_refs: &'a mut Vec<PageRef>,
    /// The number kept so far. The vector's own length is set when the sink is dropped.
    len: usize,
    /// The vector's memory.
    start: *mut PageRef,
    /// The vector's capacity.
    end: usize,
}

impl<'a> Sink<'a> {
    /// Makes a sink that appends to `page_refs`. It accepts `most` pages, kept or not; one more panics.
    pub fn new(page_refs: &'a mut Vec<PageRef>, most: usize) -> Sink<'a> {
        page_refs.reserve(most);
        Sink { len: page_refs.len(), end: page_refs.capacity(), start: page_refs.as_mut_ptr(), page_refs }
    }

    #[inline(always)]
    fn push(&mut self, page_and_kind: u64, index: usize, keep: bool) {
        let page_ref = PageRef(page_and_kind | (index as u64) << INDEX_AT);
        assert!(self.len < self.end, "more page references than announced");
        // SAFETY: `len` lies within the capacity of `page_refs`, which the sink borrows exclusively.
        unsafe { self.start.add(self.len).write(page_ref) };
        self.len += usize::from(keep);
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        // SAFETY: `push` has written the first `len` elements, within the capacity.
        unsafe { self.page_refs.set_len(self.len) };
    }
}

/// Folds `refs` by themselves, and appends the page references in the form of an outline.
pub fn outline(refs: &[Ref], page_refs: &mut Vec<PageRef>) {
    let before = page_refs.len();
    fold(refs, 0, page_refs);
    for page_ref in &mut page_refs[before..] {
        *page_ref = page_ref.to_outline(refs[page_ref.index()].addr().0 >> PAGE_SHIFT);
    }
}

/// Folds `refs` by themselves, and appends the page references. `first` is the index of `refs[0]` in its chunk.
pub(crate) fn fold(refs: &[Ref], first: usize, page_refs: &mut Vec<PageRef>) {
    let mut filter = PageFilter::default();
    // Reserving once for many references keeps the capacity check out of the loop. A reference has at most two pages.
    const BATCH: usize = 1024;
    for (batch, first) in refs.chunks(BATCH).zip((first..).step_by(BATCH)) {
        let mut sink = Sink::new(page_refs, 2 * BATCH + 1);
        for (i, &r) in batch.iter().enumerate() {
            filter.filter(first + i, r, &mut sink);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, VirtAddr};
    use Kind::*;

    fn folded(refs: &[Ref]) -> Vec<(u64, Kind, usize)> {
        let mut chunk = Chunk { refs: refs.to_vec(), ..Chunk::default() };
        chunk.fold();
        chunk.page_refs.iter().map(|p| (p.page(), p.kind(), p.index())).collect()
    }

    #[test]
    fn each_side_keeps_the_first_reference_of_each_kind_to_a_page() {
        let fetch = |a| Ref::fetch(VirtAddr(a), 16);
        let load = |a| Ref::load(VirtAddr(a));
        let store = |a| Ref::store(VirtAddr(a));
        let refs = [
            fetch(0x1000),
            load(0x5000),
            fetch(0x1010),
            load(0x5008),
            store(0x5010),
            load(0x5018),
            store(0x5020),
            load(0x6000),
            load(0x5000),
        ];
        let kept = [(1, Fetch, 0), (5, Load, 1), (5, Store, 4), (6, Load, 7), (5, Load, 8)];
        assert_eq!(folded(&refs), kept);
    }

    #[test]
    fn references_that_cross_a_page_boundary_give_two_page_references() {
        let refs = [Ref::fetch(VirtAddr(0x1ff8), 16), Ref::load(VirtAddr(0x2ffc))];
        assert_eq!(folded(&refs), [(1, Fetch, 0), (2, Fetch, 0), (2, Load, 1), (3, Load, 1)]);
        let mut page_refs = Vec::new();
        outline(&refs, &mut page_refs);
        assert_eq!(
            page_refs.iter().map(|p| (p.page(), p.is_second_page())).collect::<Vec<_>>(),
            [(1, false), (2, true), (2, false), (3, true)]
        );
    }
}
