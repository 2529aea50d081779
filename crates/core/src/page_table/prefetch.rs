//! Asking this computer's memory for entries that walks will read.

use super::{HEAD, PageTable, Slot, decode};
use crate::Vpn;

/// Tells this computer's own caches that `all[at]` will be needed soon; nothing where there is none.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn prefetch<T>(all: &[T], at: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing and faults nowhere, whatever the address.
    unsafe { _mm_prefetch(all.as_ptr().wrapping_add(at).cast(), _MM_HINT_T0) }
}

/// Tells this computer's own caches that `all[at]` will be needed soon; here they are not told.
#[cfg(not(target_arch = "x86_64"))]
pub fn prefetch<T>(_: &[T], _: usize) {}

/// What one node at level 1 spans, and where its entries begin: where [`PageTable::leaf_entry_offset`] looked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchHint {
    region: u64,
    entries: u32,
}

impl Default for PrefetchHint {
    fn default() -> PrefetchHint {
        PrefetchHint { region: !0, entries: 0 }
    }
}

impl PageTable {
    /// Tells this computer's own caches that what stands at these places will be read soon.
    #[inline(always)]
    pub fn prefetch(&self, places: &[usize]) {
        places.iter().for_each(|&place| prefetch(&self.words, place));
    }

    /// The place, for [`PageTable::prefetch`], of the leaf entry for `vpn`; another where there is none. This reads the
    /// entry above it, and nothing depends on it, so that `hint` may be out of date.
    #[inline(always)]
    pub fn leaf_entry_offset(&self, vpn: Vpn, hint: &mut PrefetchHint) -> usize {
        match self.words.get(self.parent_entry_offset(vpn, hint)).map(|&word| decode(word)) {
            Some(Slot::Table(leaf)) => leaf.offset() as usize + HEAD + self.index(0, vpn),
            _ => 0,
        }
    }

    /// The place of the entry at level 1 for `vpn` (another where there is none), unless its node is that of `hint`.
    #[inline(always)]
    pub fn new_parent_entry_offset(&self, vpn: Vpn, hint: &mut PrefetchHint) -> Option<usize> {
        let last = hint.region;
        let place = self.parent_entry_offset(vpn, hint);
        (hint.region != last).then_some(place)
    }

    #[inline(always)]
    fn parent_entry_offset(&self, vpn: Vpn, hint: &mut PrefetchHint) -> usize {
        let region = vpn.0 >> self.levels[2.min(self.layout.levels() - 1)].0;
        if hint.region != region {
            *hint = PrefetchHint { region, entries: self.level_one_entries(vpn) };
        }
        hint.entries as usize + self.index(1, vpn)
    }

    /// Where the entries begin of the node at level 1 for `vpn`; somewhere where there is none.
    #[inline(never)]
    fn level_one_entries(&self, vpn: Vpn) -> u32 {
        let mut node = self.root();
        for level in (2..self.layout.levels()).rev() {
            match self.slot(node, self.index(level, vpn)) {
                Slot::Table(next) => node = next,
                Slot::Empty | Slot::Leaf(_) => break,
            }
        }
        node.offset() + HEAD as u32
    }
}
