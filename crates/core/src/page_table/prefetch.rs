//! Host prefetches of page-table entries that simulated walks are about to read.

use super::{HEAD, PageTable, Slot, decode};
use crate::Vpn;

/// Prefetches `all[at]` into the caches of the host. Does nothing when `at` is out of range.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn prefetch<T>(all: &[T], at: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint: it never faults and changes no memory, whatever the address.
    unsafe { _mm_prefetch(all.as_ptr().wrapping_add(at).cast(), _MM_HINT_T0) }
}

/// Does nothing: only x86-64 hosts prefetch.
#[cfg(not(target_arch = "x86_64"))]
pub fn prefetch<T>(_: &[T], _: usize) {}

/// The level-1 node that [`PageTable::leaf_entry_offset`] used last. Most look-ups use the same one again, and need not
/// walk to it from the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchHint {
    /// Number of the region that the node spans.
    region: u64,
    /// Offset of the node's entries in the table's array.
    entries: u32,
}

impl Default for PrefetchHint {
    /// Makes a hint without a node.
    fn default() -> PrefetchHint {
        PrefetchHint { region: !0, entries: 0 }
    }
}

impl PageTable {
    /// Prefetches the entries at these offsets into the caches of the host.
    #[inline(always)]
    pub fn prefetch(&self, offsets: &[usize]) {
        offsets.iter().for_each(|&offset| prefetch(&self.words, offset));
    }

    /// Returns the offset, for [`PageTable::prefetch`], of the leaf entry for `vpn`. Without such an entry it returns
    /// any offset. `hint` may be out of date: no result depends on a prefetch. The call reads the level-1 entry.
    #[inline(always)]
    pub fn leaf_entry_offset(&self, vpn: Vpn, hint: &mut PrefetchHint) -> usize {
        match self.words.get(self.parent_entry_offset(vpn, hint)).map(|&word| decode(word)) {
            Some(Slot::Table(leaf)) => leaf.offset() as usize + HEAD + self.index(0, vpn),
            _ => 0,
        }
    }

    /// Returns the offset of the level-1 entry for `vpn` (any offset without one); `None` when `hint` already has its
    /// node.
    #[inline(always)]
    pub fn new_parent_entry_offset(&self, vpn: Vpn, hint: &mut PrefetchHint) -> Option<usize> {
        let last = hint.region;
        let offset = self.parent_entry_offset(vpn, hint);
        (hint.region != last).then_some(offset)
    }

    /// Returns the offset of the level-1 entry for `vpn`, and updates `hint`.
    #[inline(always)]
    fn parent_entry_offset(&self, vpn: Vpn, hint: &mut PrefetchHint) -> usize {
        let region = vpn.0 >> self.levels[2.min(self.layout.levels() - 1)].0;
        if hint.region != region {
            *hint = PrefetchHint { region, entries: self.level_one_entries(vpn) };
        }
        hint.entries as usize + self.index(1, vpn)
    }

    /// Returns the offset of the entries of the level-1 node for `vpn`; of a higher node when there is none.
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
