//! Folding: a run of references that stay on their page is looked up once.
//!
//! Fetches and data run side by side, each on a page of its own. A reference may be left out when its side is still on
//! the same page and that page has already been looked up by a reference of the same kind in this run: whatever the
//! TLBs, it would hit the most recently used entry of its set and change nothing. That holds as long as nothing is
//! invalidated in the run and fetches share no first-level array with data (the memory-management unit sees to both);
//! it holds for every page size from 4 KB up, so one folding serves all machines.

use crate::{Kind, Ref};

/// The smallest page of any machine, and so the unit of folding, as a shift.
pub const PAGE_SHIFT: u32 = 12;

/// One reference that folding keeps: bits 0–35 the number of its 4 KB page, 36–37 the kind, 38–63 where in its chunk it
/// stands. Page and kind stand as in a [`Ref`], but lower. In an outline, where there is nothing to stand in, bit 38 is
/// set for the second page of a reference that crosses into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct PageRef(u64);

const KIND_AT: u32 = 36;
const AT: u32 = 38;
const PAGE_MASK: u64 = (1 << KIND_AT) - 1;
/// In the state of the code side: its page was fetched from.
const FETCHED: u64 = 1 << AT;

impl PageRef {
    /// The most references that entries can tell apart.
    pub const MAX_REFS: usize = 1 << (64 - AT);

    /// The bits of an entry of an outline.
    pub const OUTLINE_BITS: u32 = AT + 1;

    /// The entry of an outline with these bits, if there is one: none beyond [`PageRef::OUTLINE_BITS`], and a kind.
    pub const fn from_outline_bits(bits: u64) -> Option<PageRef> {
        if bits >> PageRef::OUTLINE_BITS != 0 || bits >> KIND_AT & 3 == 3 { None } else { Some(PageRef(bits)) }
    }

    /// This entry as it stands in an outline. `first` is the page in which its reference begins.
    const fn outlined(self, first: u64) -> PageRef {
        PageRef(self.page_and_kind() | if self.page() == first { 0 } else { 1 << AT })
    }

    /// In an outline: whether this is the second page of a reference that crosses into it.
    pub const fn is_second_page(self) -> bool {
        self.0 >> AT & 1 != 0
    }

    /// In an outline: all that it is.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The page before this one.
    pub const fn previous_page(self) -> u64 {
        self.page().wrapping_sub(1) & PAGE_MASK
    }

    /// The 4 KB page.
    #[inline(always)]
    pub const fn page(self) -> u64 {
        self.0 & PAGE_MASK
    }

    /// Fetch, load or store.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        match self.0 >> KIND_AT & 3 {
            0 => Kind::Fetch,
            1 => Kind::Load,
            _ => Kind::Store,
        }
    }

    /// Page and kind together, without the place: bits 0–37.
    #[inline(always)]
    pub const fn page_and_kind(self) -> u64 {
        self.0 & ((1 << AT) - 1)
    }

    /// The reference's index in its chunk.
    #[inline(always)]
    pub const fn index(self) -> usize {
        (self.0 >> AT) as usize
    }
}

/// Page and kind of `r`, as in an entry.
#[inline(always)]
fn page_and_kind(r: Ref) -> u64 {
    r.0 >> PAGE_SHIFT & ((1 << AT) - 1)
}

/// The same for the page behind it.
#[inline(always)]
fn next_page(page_and_kind: u64) -> u64 {
    page_and_kind & !PAGE_MASK | (page_and_kind + 1) & PAGE_MASK
}

/// Decides what is kept.
///
/// The state of the data side is the page it is on, and where an entry has its kind, a bit for having been loaded and
/// one for having been stored to in this run. The code side's is its page, and above the kind a bit for having been
/// fetched from. Without such bits the last page there is stands for none.
#[derive(Clone, Copy, Debug)]
pub struct PageFilter {
    code: u64,
    data: u64,
}

impl Default for PageFilter {
    /// Nothing is known: the first reference of each side is kept.
    fn default() -> PageFilter {
        PageFilter { code: PAGE_MASK, data: PAGE_MASK }
    }
}

impl PageFilter {
    /// A fetch, number `at` of its chunk (< [`PageRef::MAX_REFS`]), from the 4 KB page number `page` (< 2^36).
    #[inline(always)]
    pub fn fetch(&mut self, at: usize, page: u64, kept: &mut Sink) {
        let fresh = page | FETCHED;
        kept.push(page, at, self.code != fresh);
        self.code = fresh;
    }

    /// A load or store, number `at` of its chunk (< [`PageRef::MAX_REFS`]); `crosses`: into the next page of 4 KB.
    #[inline(always)]
    pub fn data(&mut self, at: usize, r: Ref, crosses: bool, kept: &mut Sink) {
        self.data_page(at, page_and_kind(r), kept);
        if crosses {
            self.data_page(at, next_page(page_and_kind(r)), kept);
        }
    }

    #[inline(always)]
    fn data_page(&mut self, at: usize, fresh: u64, kept: &mut Sink) {
        let next = std::hint::select_unpredictable(on_one_page(self.data, fresh), self.data | fresh, fresh);
        kept.push(fresh, at, next != self.data);
        self.data = next;
    }

    /// Any reference.
    #[inline(always)]
    fn take(&mut self, at: usize, r: Ref, kept: &mut Sink) {
        // What comes is not to be guessed: both sides are computed and one is chosen.
        let what = page_and_kind(r);
        let fetch = what >> KIND_AT == 0;
        let fresh = what | u64::from(fetch) << AT;
        let here = std::hint::select_unpredictable(fetch, self.code, self.data);
        let next = std::hint::select_unpredictable(on_one_page(here, fresh), here | fresh, fresh);
        self.code = std::hint::select_unpredictable(fetch, next, self.code);
        self.data = std::hint::select_unpredictable(fetch, self.data, next);
        kept.push(what, at, next != here);
        // A bound for the length of either kind, in the place where fetches have theirs.
        let near_end = (r.0 & MOST_IN_PAGE) + r.len() + MOST_DATA > MOST_IN_PAGE;
        if near_end && r.crosses() {
            if fetch { self.fetch(at, next_page(what), kept) } else { self.data_page(at, next_page(what), kept) }
        }
    }
}

/// The last byte of a page.
const MOST_IN_PAGE: u64 = (1 << PAGE_SHIFT) - 1;
/// The longest load or store, in bytes.
const MOST_DATA: u64 = 128;

/// Whether two states are on the same page, whatever was done there.
#[inline(always)]
fn on_one_page(a: u64, b: u64) -> bool {
    (a ^ b) << (64 - KIND_AT) == 0
}

/// Room for what is kept: every entry is written, and only then is it decided whether it stays.
pub struct Sink<'a> {
    entries: &'a mut Vec<PageRef>,
    /// How many are kept in `entries`, whose own length lags behind.
    len: usize,
    /// Where the room begins.
    room: *mut PageRef,
    end: usize,
}

impl<'a> Sink<'a> {
    /// Goes on behind `entries`. At most `most` pages may be taken, kept or not; more are a panic.
    pub fn new(entries: &'a mut Vec<PageRef>, most: usize) -> Sink<'a> {
        entries.reserve(most);
        Sink { len: entries.len(), end: entries.capacity(), room: entries.as_mut_ptr(), entries }
    }

    #[inline(always)]
    fn push(&mut self, what: u64, at: usize, keep: bool) {
        let entry = PageRef(what | (at as u64) << AT);
        assert!(self.len < self.end, "more entries than announced");
        // SAFETY: `len` lies within the capacity of `entries`, which nobody else can change meanwhile.
        unsafe { self.room.add(self.len).write(entry) };
        self.len += usize::from(keep);
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        // SAFETY: as many entries have been written, within the capacity.
        unsafe { self.entries.set_len(self.len) };
    }
}

/// Appends what folding keeps of `refs` as it stands in an outline.
pub fn outline(refs: &[Ref], entries: &mut Vec<PageRef>) {
    let kept = entries.len();
    fold(refs, 0, entries);
    for entry in &mut entries[kept..] {
        *entry = entry.outlined(refs[entry.index()].addr().0 >> PAGE_SHIFT);
    }
}

/// Folds `refs`, which are numbered from `at` on, and appends what is kept.
pub(crate) fn fold(refs: &[Ref], at: usize, entries: &mut Vec<PageRef>) {
    let mut folder = PageFilter::default();
    // A block of references at a time, so that room is asked for seldom: two pages each.
    const BLOCK: usize = 1024;
    for (block, at) in refs.chunks(BLOCK).zip((at..).step_by(BLOCK)) {
        let mut kept = Sink::new(entries, 2 * BLOCK + 1);
        for (i, &r) in block.iter().enumerate() {
            folder.take(at + i, r, &mut kept);
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
        chunk.page_refs.iter().map(|e| (e.page(), e.kind(), e.index())).collect()
    }

    #[test]
    fn sides_fold_apart_and_kinds_are_kept() {
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
    fn crossing_references_are_kept_twice() {
        let refs = [Ref::fetch(VirtAddr(0x1ff8), 16), Ref::load(VirtAddr(0x2ffc))];
        assert_eq!(folded(&refs), [(1, Fetch, 0), (2, Fetch, 0), (2, Load, 1), (3, Load, 1)]);
        let mut entries = Vec::new();
        outline(&refs, &mut entries);
        assert_eq!(
            entries.iter().map(|e| (e.page(), e.is_second_page())).collect::<Vec<_>>(),
            [(1, false), (2, true), (2, false), (3, true)]
        );
    }
}
