//! Prefetches the page-table entries of walks to come into the caches of the host computer.
//!
//! It changes no result. The references of a chunk are known beforehand, and where some of them walk, the next ones will too.
//! Their entries are prefetched in groups: a page walk of the host for one prefetch delays later instructions, but not the
//! other prefetches of the group (group prefetching: Chen, Ailamaki, Gibbons and Mowry, ACM TODS 32, 2007). There are two
//! stages, because the place of a leaf entry is read from the entry above it.

use reach_core::fold::PageRef;
use reach_core::{PageTable, PrefetchHint, Vpn};

/// Folded references in a group.
const GROUP: usize = 32;
/// A group is prefetched if at least this many references of the last two groups have walked.
const DENSE: usize = GROUP / 4;
/// Bytes of page tables that the host's caches are likely to hold.
const NEAR: u64 = 8 << 20;
/// How many references before the first of a group its entries are prefetched.
const LEAD: usize = 16;

/// The state of prefetching in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PtePrefetcher {
    /// Start of the group whose leaf entries are prefetched next; the entries above them have been.
    next: usize,
    /// Where the present count of walks began.
    since: usize,
    /// Walks since then.
    walks: usize,
    hint: PrefetchHint,
}

impl PtePrefetcher {
    /// Prefetches after the reference before number `at` of `refs` has walked.
    #[inline(always)]
    pub fn walked(&mut self, refs: &[PageRef], at: usize, table: &PageTable, to_vpn: u32) {
        if table.bytes() <= NEAR {
            if let Some(page_ref) = refs.get(at + LEAD) {
                table.prefetch(&[table.leaf_entry_offset(Vpn(page_ref.page() >> to_vpn), &mut self.hint)]);
            }
            return;
        }
        self.walks += 1;
        if self.walks >= DENSE && at + LEAD >= self.next {
            self.prefetch_group(refs, at, table, to_vpn);
        }
    }

    #[inline(never)]
    fn prefetch_group(&mut self, refs: &[PageRef], at: usize, table: &PageTable, to_vpn: u32) {
        let dense = at - self.since < 2 * GROUP;
        (self.since, self.walks) = (at, 0);
        if !dense {
            return;
        }
        let near = self.next.max(at + LEAD / 2);
        self.next = near + GROUP;
        let hint = &mut self.hint;
        let leaves = pages(refs, near).map(|page| Some(table.leaf_entry_offset(Vpn(page >> to_vpn), hint)));
        table.prefetch(gather(leaves, &mut [0; GROUP]));
        // While references stay within a node of level 1, the lines of its entries are cached anyway.
        let above = pages(refs, self.next).map(|page| table.new_parent_entry_offset(Vpn(page >> to_vpn), hint));
        table.prefetch(gather(above, &mut [0; GROUP]));
    }
}

/// Returns the pages of the group that begins at `from`. A load and a store to one page are adjacent.
fn pages(refs: &[PageRef], from: usize) -> impl Iterator<Item = u64> {
    let group = &refs[from.min(refs.len())..(from + GROUP).min(refs.len())];
    let mut last = u64::MAX;
    group.iter().map(|page_ref| page_ref.page()).filter(move |&page| std::mem::replace(&mut last, page) != page)
}

/// Collects the offsets before the first prefetch, so that prefetches follow one another closely.
fn gather(found: impl Iterator<Item = Option<usize>>, places: &mut [usize; GROUP]) -> &[usize] {
    let mut count = 0;
    for found in found.take(GROUP) {
        places[count] = found.unwrap_or_default();
        count += usize::from(found.is_some());
    }
    &places[..count]
}
