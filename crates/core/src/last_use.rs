//! Last uses: the references of a run that decide what caches and TLBs hold after it.
//!
//! Under LRU, a set ends with the lines that were used last, in that order, however often each was used before. So caches
//! that see a run without timing it need the last use of each line, and TLBs that of each page, in the program's order (Barr,
//! Pan, Zhang and Asanović, Accelerating Multiprocessor Simulation with a Memory Timestamp Record, ISPASS 2005). A line also
//! needs a store, which makes it dirty; a page also needs its first reference of each kind, which may fault.
//!
//! The ends are exact for the nearest LRU arrays. Later levels see only what nearer ones miss, so there the order is an
//! approximation, as it is under other policies of replacement.

use crate::fold::PageRef;
use crate::lines::LINE_SHIFT;
use crate::{Kind, Ref};
use std::ops::Range;

/// Runs of fewer references are left as they are.
const SHORT: usize = 256;
/// The slots of each table.
const SLOTS: usize = 1 << 13;
/// No line or page.
const NOTHING: u64 = u64::MAX;

/// Finds last uses.
///
/// Each table is direct-mapped. A line or page that has lost its slot to another is taken for one that was not seen, so a use
/// too many is kept, never one too few.
#[derive(Clone, Debug)]
pub struct LastUses {
    /// Twice the line number, with a bit for fetches; and whether a store to it is kept.
    lines: Box<[(u64, bool)]>,
    /// Page and kind.
    first: Box<[u64]>,
    /// Page and side.
    last: Box<[u64]>,
}

impl Default for LastUses {
    fn default() -> LastUses {
        let table = || vec![NOTHING; SLOTS].into_boxed_slice();
        LastUses { lines: vec![(NOTHING, false); SLOTS].into(), first: table(), last: table() }
    }
}

impl LastUses {
    /// Removes from `indices`, in order, from place `start` on, all but the last use of each line, and the last store to it.
    pub fn of_lines(&mut self, refs: &[Ref], indices: &mut Vec<u32>, start: usize) {
        if indices.len() - start < SHORT {
            return;
        }
        self.lines.fill((NOTHING, false));
        let mut kept = indices.len();
        for at in (start..indices.len()).rev() {
            let index = indices[at];
            if self.is_last_use(refs[index as usize]) {
                kept -= 1;
                indices[kept] = index;
            }
        }
        indices.drain(start..kept);
    }

    /// Returns whether no use of one of the lines of `r` was seen, or no store to it if `r` is one. References come in
    /// reverse order.
    #[inline(always)]
    fn is_last_use(&mut self, r: Ref) -> bool {
        let kind = r.kind();
        let (fetches, bytes) = if kind == Kind::Fetch { (1, r.len().max(1)) } else { (0, r.size()) };
        let stores = kind == Kind::Store;
        let (first, last) = (r.addr().0 >> LINE_SHIFT, (r.addr().0 + bytes - 1) >> LINE_SHIFT);
        let mut keeps = false;
        for line in first..=last {
            let key = line << 1 | fetches;
            let slot = &mut self.lines[slot(key)];
            let seen = slot.0 == key;
            keeps |= !seen || stores && !slot.1;
            *slot = (key, stores || seen && slot.1);
        }
        keeps
    }

    /// Appends to `kept`, in order, those of `page_refs` that are the first of their kind to their page, and the last fetch
    /// and the last load or store of each page.
    pub fn of_pages(&mut self, page_refs: &[PageRef], kept: &mut Vec<PageRef>) {
        if page_refs.len() < SHORT {
            kept.extend_from_slice(page_refs);
            return;
        }
        let start = kept.len();
        self.last.fill(NOTHING);
        for &page_ref in page_refs.iter().rev() {
            let key = page_ref.page() << 1 | u64::from(page_ref.kind() == Kind::Fetch);
            let slot = &mut self.last[slot(key)];
            if *slot != key {
                *slot = key;
                kept.push(page_ref);
            }
        }
        kept[start..].reverse();
        self.first.fill(NOTHING);
        self.add_first_uses(page_refs, kept, start..kept.len());
    }

    /// Merges the first uses of pages into `kept[last]`, which has the last ones.
    fn add_first_uses(&mut self, page_refs: &[PageRef], kept: &mut Vec<PageRef>, last: Range<usize>) {
        let mut next = last.start;
        for &page_ref in page_refs {
            let key = page_ref.page_and_kind();
            let slot = &mut self.first[slot(key)];
            let is_first = std::mem::replace(slot, key) != key;
            let is_last = next < last.end && kept[next] == page_ref;
            next += usize::from(is_last);
            if is_first || is_last {
                kept.push(page_ref);
            }
        }
        kept.drain(last);
    }
}

/// Returns the slot of a line or page.
#[inline(always)]
fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::LineFilter;
    use crate::{Chunk, Random, VirtAddr};
    use std::collections::{HashMap, HashSet};

    /// A long run over some lines of some pages.
    fn run() -> Vec<Ref> {
        let mut random = Random::new(5);
        let reference = |_| {
            let at = VirtAddr(0x10_0000 + random.below(40) * 4096 + random.below(64) * 64);
            match random.below(3) {
                0 => Ref::fetch(at, 12),
                1 => Ref::load(at),
                _ => Ref::store(at),
            }
        };
        (0..20_000).map(reference).collect()
    }

    /// Returns the lines in the order of their last uses, those fetched and those of data apart, each with whether a store
    /// to it is among the references.
    fn order(refs: impl Iterator<Item = Ref>) -> Vec<(bool, u64, bool)> {
        let (mut last, mut dirty) = (HashMap::new(), HashSet::new());
        for (at, r) in refs.enumerate() {
            let key = (r.kind() == Kind::Fetch, r.addr().0 >> LINE_SHIFT);
            last.insert(key, at);
            if r.kind() == Kind::Store {
                dirty.insert(key);
            }
        }
        let mut lines: Vec<_> = last.into_iter().collect();
        lines.sort_by_key(|(_, at)| *at);
        lines.into_iter().map(|((fetch, line), _)| (fetch, line, dirty.contains(&(fetch, line)))).collect()
    }

    #[test]
    fn lines_are_left_in_the_order_of_their_last_uses() {
        let refs = run();
        let mut indices: Vec<u32> = (0..refs.len() as u32).collect();
        LastUses::default().of_lines(&refs, &mut indices, 0);
        assert!(indices.is_sorted() && indices.len() < refs.len() / 2, "{}", indices.len());
        assert_eq!(order(indices.iter().map(|&at| refs[at as usize])), order(refs.iter().copied()));
    }

    #[test]
    fn what_precedes_the_run_stays() {
        let refs = run();
        let mut indices: Vec<u32> = vec![7, 8];
        LineFilter::fold(&refs, 0..refs.len(), &mut indices);
        LastUses::default().of_lines(&refs, &mut indices, 2);
        assert_eq!(indices[..2], [7, 8]);
    }

    #[test]
    fn pages_keep_their_first_use_of_each_kind_and_their_last_uses() {
        let mut chunk = Chunk { refs: run(), ..Chunk::default() };
        chunk.fold();
        let mut kept = Vec::new();
        LastUses::default().of_pages(&chunk.page_refs, &mut kept);
        assert!(
            kept.is_sorted_by_key(|page_ref| page_ref.index()) && kept.len() < chunk.page_refs.len() / 10,
            "{}",
            kept.len()
        );
        let firsts = |page_refs: &[PageRef]| {
            let mut seen = HashSet::new();
            page_refs.iter().copied().filter(|p| seen.insert(p.page_and_kind())).collect::<Vec<_>>()
        };
        let lasts = |page_refs: &[PageRef]| {
            let mut seen = HashSet::new();
            let key = |p: &PageRef| (p.page(), p.kind() == Kind::Fetch);
            page_refs.iter().rev().copied().filter(|p| seen.insert(key(p))).collect::<Vec<_>>()
        };
        assert_eq!(firsts(&kept), firsts(&chunk.page_refs));
        assert_eq!(lasts(&kept), lasts(&chunk.page_refs));
    }

    #[test]
    fn short_runs_are_left_as_they_are() {
        let refs = vec![Ref::load(VirtAddr(0x1000)); 100];
        let mut indices: Vec<u32> = (0..100).collect();
        LastUses::default().of_lines(&refs, &mut indices, 0);
        assert_eq!(indices.len(), 100);
    }
}
