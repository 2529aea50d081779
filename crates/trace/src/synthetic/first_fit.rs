//! Addresses for mappings that a program makes and removes at run time: the first gap that fits, as in BSD's `mmap`.

use super::process::GRAIN;
use reach_core::Span;
use std::collections::BTreeMap;

/// The largest alignment. A mapping that could hold a page of this size begins at a multiple of it.
const MAX_ALIGNMENT: u64 = 4 << 20;

/// An area of addresses, some of them allocated.
pub(super) struct FirstFit {
    /// Start and length of each gap. No two gaps are adjacent.
    gaps: BTreeMap<u64, u64>,
}

impl FirstFit {
    /// Makes an allocator for `area`, all free.
    pub fn new(area: Span) -> FirstFit {
        FirstFit { gaps: BTreeMap::from([(area.start.0, area.len)]) }
    }

    /// Returns length and alignment of an allocation of `bytes`. The alignment permits the largest superpage of any
    /// machine that fits (Navarro et al. 2002 §5.3).
    fn shape(bytes: u64) -> (u64, u64) {
        (bytes.next_multiple_of(GRAIN), (1 << bytes.max(1).ilog2()).clamp(GRAIN, MAX_ALIGNMENT))
    }

    /// Allocates `bytes` in the first gap that fits. Returns `None` when no gap does.
    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let (len, align) = FirstFit::shape(bytes);
        let fits = |&(&gap, &room): &(&u64, &u64)| gap.next_multiple_of(align) + len <= gap + room;
        let (&gap, &room) = self.gaps.iter().find(fits)?;
        let start = gap.next_multiple_of(align);
        self.gaps.remove(&gap);
        self.add(gap, start - gap);
        self.add(start + len, gap + room - (start + len));
        Some(start)
    }

    /// Frees the allocation of `bytes` at `start`.
    pub fn release(&mut self, start: u64, bytes: u64) {
        let (mut start, mut len) = (start, FirstFit::shape(bytes).0);
        if let Some((&below, &room)) = self.gaps.range(..start).next_back()
            && below + room == start
        {
            (start, len) = (below, len + room);
        }
        if let Some(room) = self.gaps.remove(&(start + len)) {
            len += room;
        }
        self.add(start, len);
    }

    fn add(&mut self, start: u64, len: u64) {
        if len > 0 {
            self.gaps.insert(start, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::VirtAddr;

    const K: u64 = 1 << 10;

    #[test]
    fn the_first_gap_that_fits_is_used_and_adjacent_gaps_merge() {
        let base = 8 << 20;
        let mut area = FirstFit::new(Span { start: VirtAddr(base), len: 1 << 20 });
        assert_eq!(area.allocate(1), Some(base));
        assert_eq!(area.allocate(200 * K), Some(base + 128 * K), "aligned to 128 KB");
        assert_eq!(area.allocate(64 * K), Some(base + 64 * K), "into the gap before it");
        assert_eq!(area.allocate(512 * K), Some(base + 512 * K));
        assert_eq!(area.allocate(512 * K), None);
        area.release(base + 128 * K, 200 * K);
        area.release(base, 1);
        area.release(base + 64 * K, 64 * K);
        assert_eq!(area.allocate(512 * K), Some(base));
        area.release(base + 512 * K, 512 * K);
        area.release(base, 512 * K);
        assert_eq!(area.gaps, BTreeMap::from([(base, 1 << 20)]));
    }
}
