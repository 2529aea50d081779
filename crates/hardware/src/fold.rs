//! Folding: a run of references that stay on their page is looked up once.
//!
//! Fetches and data run side by side, each on a page of its own. A reference may be left out when its side is still on
//! the same page and that page has already been looked up by a reference of the same kind in this run: whatever the
//! TLBs, it would hit the most recently used entry of its set and change nothing. That holds as long as nothing is
//! invalidated in the run and fetches share no first-level array with data ([`crate::Mmu`] sees to both); it holds for
//! every page size from 4 KB up, so one folding serves all machines.

use reach_core::{Kind, Ref};

/// References that a machine is to run without an event between them, with and without runs folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// All references; fetches know their length. At most [`Segment::MAX`] of them.
    pub refs: Vec<Ref>,
    /// Those that folding keeps.
    pub entries: Vec<Entry>,
}

impl Segment {
    /// The longest segment, in references, that entries can point into.
    pub const MAX: usize = 1 << AT_BITS;

    /// Folds `refs`.
    pub fn new(refs: Vec<Ref>) -> Segment {
        let mut segment = Segment { refs, entries: Vec::new() };
        segment.fold();
        segment
    }

    /// Folds again after `refs` has been filled anew.
    pub fn fold(&mut self) {
        let Segment { refs, entries } = self;
        assert!(refs.len() <= Segment::MAX, "a segment of {} references", refs.len());
        entries.clear();
        let mut folder = Folder::default();
        for (at, &r) in refs.iter().enumerate() {
            // Room for both pages of a reference that crosses; whether they are kept is decided without a branch.
            if entries.capacity() - entries.len() < 2 {
                entries.reserve(refs.len() - at + 2);
            }
            let bytes = if r.kind() == Kind::Fetch { r.len().max(1) } else { r.size() };
            let (first, last) = (r.addr().0 >> UNIT, (r.addr().0 + bytes - 1) >> UNIT);
            folder.take(at, first, r.kind(), entries);
            if last != first {
                folder.take(at, last, r.kind(), entries);
            }
        }
    }
}

/// One reference that folding keeps: bits 0–44 the number of its 4 KB page, 45–46 the kind, 47–63 where in the segment
/// it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(u64);

const KIND_AT: u32 = 45;
const AT_BITS: u32 = 17;
const PAGE_MASK: u64 = (1 << KIND_AT) - 1;
/// The smallest page of any machine, and so the unit of folding.
pub(crate) const UNIT: u32 = 12;

impl Entry {
    #[inline(always)]
    fn new(page: u64, kind: Kind, at: usize) -> Entry {
        Entry(page | (kind as u64) << KIND_AT | (at as u64) << (64 - AT_BITS))
    }

    /// The 4 KB page.
    #[inline(always)]
    pub fn page(self) -> u64 {
        self.0 & PAGE_MASK
    }

    /// Fetch, load or store.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        match self.0 >> KIND_AT & 3 {
            0 => Kind::Fetch,
            1 => Kind::Load,
            _ => Kind::Store,
        }
    }

    /// The reference's index in its segment.
    #[inline(always)]
    pub fn at(self) -> usize {
        (self.0 >> (64 - AT_BITS)) as usize
    }
}

/// Where both sides are: fetches and data, each a page shifted left by two; bits 0 and 1: fetched or loaded, stored in
/// this run.
struct Folder([u64; 2]);

impl Default for Folder {
    fn default() -> Folder {
        Folder([!0 << 2; 2])
    }
}

impl Folder {
    /// Keeps a reference to `page` unless it is known to change nothing.
    #[inline(always)]
    fn take(&mut self, at: usize, page: u64, kind: Kind, out: &mut Vec<Entry>) {
        let here = &mut self.0[usize::from(kind != Kind::Fetch)];
        let bit = (kind as u64).max(1);
        let known = if *here >> 2 == page { *here } else { page << 2 };
        let keep = known | bit != *here;
        *here = known | bit;
        // Written in any case, kept by its length: what comes is not to be guessed.
        let len = out.len();
        out.spare_capacity_mut()[0].write(Entry::new(page, kind, at));
        // SAFETY: the element at `len` has just been written, and there was room for it.
        unsafe { out.set_len(len + usize::from(keep)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::VirtAddr;

    fn folded(refs: &[Ref]) -> Vec<(u64, Kind, usize)> {
        Segment::new(refs.to_vec()).entries.iter().map(|e| (e.page(), e.kind(), e.at())).collect()
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
        use Kind::*;
        let kept = [(1, Fetch, 0), (5, Load, 1), (5, Store, 4), (6, Load, 7), (5, Load, 8)];
        assert_eq!(folded(&refs), kept);
    }

    #[test]
    fn crossing_references_are_kept_twice() {
        let refs = [Ref::fetch(VirtAddr(0x1ff8), 16), Ref::load(VirtAddr(0x2ffc))];
        use Kind::*;
        assert_eq!(folded(&refs), [(1, Fetch, 0), (2, Fetch, 0), (2, Load, 1), (3, Load, 1)]);
    }
}
