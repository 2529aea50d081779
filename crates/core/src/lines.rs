//! The same-line filter, for caches that see a program without timing it.
//!
//! A reference to the line that its cache set used last hits that line and changes nothing, except that a store makes the line
//! dirty. The filter drops such references. It knows no physical addresses, so it takes sets to be chosen by the 12 address
//! bits that translation keeps: sets of a larger cache are parts of these.

use crate::{Kind, Ref};

/// The line size of the filter, as a shift.
pub const LINE_SHIFT: u32 = 6;

/// The sets of the filter for fetches, and for data: as many as a page has lines.
pub const SETS: usize = 1 << (12 - LINE_SHIFT);

/// No line, in the form of a set's state.
const NOTHING: u64 = u64::MAX;

/// The line that each set used last, with a bit for a store to it: for fetches, and for data.
#[derive(Clone, Debug)]
pub struct LineFilter([[u64; SETS]; 2]);

impl Default for LineFilter {
    /// Makes a filter that keeps the first reference to each set.
    fn default() -> LineFilter {
        LineFilter([[NOTHING; SETS]; 2])
    }
}

impl LineFilter {
    /// Returns whether the caches must see `r`.
    #[inline(always)]
    pub fn keeps(&mut self, r: Ref) -> bool {
        let kind = r.kind();
        let side = usize::from(kind != Kind::Fetch);
        let bytes = if kind == Kind::Fetch { r.len().max(1) } else { r.size() };
        let stores = u64::from(kind == Kind::Store);
        let (first, last) = (r.addr().0 >> LINE_SHIFT, (r.addr().0 + bytes - 1) >> LINE_SHIFT);
        let mut keeps = self.keeps_line(side, first, stores);
        for line in first + 1..=last {
            keeps |= self.keeps_line(side, line, stores);
        }
        keeps
    }

    /// Returns whether the caches must see a reference to `line`. Which lines they must see is unpredictable, so no branch
    /// depends on it.
    #[inline(always)]
    fn keeps_line(&mut self, side: usize, line: u64, stores: u64) -> bool {
        let set = &mut self.0[side][line as usize % SETS];
        let before = *set;
        let now = std::hint::select_unpredictable(before >> 1 == line, before, line << 1) | stores;
        *set = now;
        now != before
    }

    /// Appends the indices of those references in `range` of `refs` that caches must see, if nothing precedes them.
    pub fn fold(refs: &[Ref], range: std::ops::Range<usize>, indices: &mut Vec<u32>) {
        let mut filter = LineFilter::default();
        let before = indices.len();
        indices.resize(before + range.len(), 0);
        let (places, mut kept) = (&mut indices[before..], 0);
        for (at, &r) in range.clone().zip(&refs[range]) {
            places[kept] = at as u32;
            kept += usize::from(filter.keeps(r));
        }
        indices.truncate(before + kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtAddr;

    fn kept(refs: &[Ref]) -> Vec<u32> {
        let mut indices = Vec::new();
        LineFilter::fold(refs, 0..refs.len(), &mut indices);
        indices
    }

    #[test]
    fn references_to_the_last_line_of_a_set_are_dropped() {
        let load = |at| Ref::load(VirtAddr(at));
        assert_eq!(kept(&[load(0x1000), load(0x1008), load(0x1040), load(0x1000)]), [0, 2]);
        // Another line of the same set.
        assert_eq!(kept(&[load(0x1000), load(0x2000), load(0x1000)]), [0, 1, 2]);
    }

    #[test]
    fn the_first_store_to_a_line_and_fetches_of_it_are_kept() {
        let (load, store) = (Ref::load(VirtAddr(0x1000)), Ref::store(VirtAddr(0x1000)));
        assert_eq!(kept(&[load, store, load, store]), [0, 1]);
        assert_eq!(kept(&[load, Ref::fetch(VirtAddr(0x1000), 8), load]), [0, 1]);
    }

    #[test]
    fn a_reference_is_kept_for_any_of_its_lines() {
        let fetch = |at, len| Ref::fetch(VirtAddr(at), len);
        assert_eq!(kept(&[fetch(0x1030, 100), fetch(0x1040, 4), fetch(0x1080, 4), fetch(0x10b0, 32)]), [0, 3]);
    }
}
