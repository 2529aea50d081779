//! Addresses for what a program maps and unmaps as it runs: the first gap that is large enough, as BSD's `mmap` looks for it.

use super::process::GRAIN;
use reach_core::Span;
use std::collections::BTreeMap;

/// Mappings that could hold a page of this size begin at a multiple of it.
const MOST_ALIGNED: u64 = 4 << 20;

/// Addresses from `start` to `end`, some of them taken.
pub(super) struct FirstFit {
    /// Gaps: where each begins, and how long it is. No two touch.
    gaps: BTreeMap<u64, u64>,
}

impl FirstFit {
    /// All is free.
    pub fn new(area: Span) -> FirstFit {
        FirstFit { gaps: BTreeMap::from([(area.start.0, area.len)]) }
    }

    /// What `bytes` take, and what they are aligned to: the largest superpage of any machine that fits into them can be
    /// made (Navarro et al. 2002 §5.3).
    fn shape(bytes: u64) -> (u64, u64) {
        (bytes.next_multiple_of(GRAIN), (1 << bytes.max(1).ilog2()).clamp(GRAIN, MOST_ALIGNED))
    }

    /// The first place for `bytes`; `None` when there is none.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let (len, align) = FirstFit::shape(bytes);
        let fits = |&(&gap, &room): &(&u64, &u64)| gap.next_multiple_of(align) + len <= gap + room;
        let (&gap, &room) = self.gaps.iter().find(fits)?;
        let start = gap.next_multiple_of(align);
        self.gaps.remove(&gap);
        self.add(gap, start - gap);
        self.add(start + len, gap + room - (start + len));
        Some(start)
    }

    /// What was taken for `bytes` at `start` is free again.
    pub fn give(&mut self, start: u64, bytes: u64) {
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
    fn the_first_gap_that_fits_is_taken_and_gaps_grow_together() {
        let base = 8 << 20;
        let mut area = FirstFit::new(Span { start: VirtAddr(base), len: 1 << 20 });
        assert_eq!(area.take(1), Some(base));
        assert_eq!(area.take(200 * K), Some(base + 128 * K), "aligned to 128 KB");
        assert_eq!(area.take(64 * K), Some(base + 64 * K), "into the gap before it");
        assert_eq!(area.take(512 * K), Some(base + 512 * K));
        assert_eq!(area.take(512 * K), None);
        area.give(base + 128 * K, 200 * K);
        area.give(base, 1);
        area.give(base + 64 * K, 64 * K);
        assert_eq!(area.take(512 * K), Some(base));
        area.give(base + 512 * K, 512 * K);
        area.give(base, 512 * K);
        assert_eq!(area.gaps, BTreeMap::from([(base, 1 << 20)]));
    }
}
