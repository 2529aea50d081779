//! Asking this computer's memory for the page-table entries of walks to come.
//!
//! The references of a chunk are known beforehand, and where some walk, those that follow will too. Their entries are asked
//! for by the group: what this computer translates for one request holds up what stands behind it, but not the other
//! requests of the group (group prefetching: Chen, Ailamaki, Gibbons and Mowry, ACM TODS 32, 2007). And in two stages,
//! since where a leaf entry stands is read from the entry above it.

use reach_core::fold::PageRef;
use reach_core::{PageTable, PrefetchHint, Vpn};

/// Folded references in a group.
const GROUP: usize = 32;
/// So many of them at least must have walked.
const DENSE: usize = GROUP / 4;
/// Bytes of page tables that this computer's caches are likely to hold.
const NEAR: u64 = 8 << 20;
/// How many references before the first of a group is run its entries are asked for.
const LEAD: usize = 16;

/// What has been asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ahead {
    /// The group of which leaf entries are asked for next: what points to them has been.
    next: usize,
    /// Where the present count of walks began, and how many there have been.
    since: usize,
    walks: usize,
    hint: PrefetchHint,
}

impl Ahead {
    /// The reference before number `at` of `entries` has walked.
    #[inline(always)]
    pub fn walked(&mut self, entries: &[PageRef], at: usize, table: &PageTable, to_vpn: u32) {
        if table.bytes() <= NEAR {
            if let Some(entry) = entries.get(at + LEAD) {
                table.prefetch(&[table.leaf_entry_offset(Vpn(entry.page() >> to_vpn), &mut self.hint)]);
            }
            return;
        }
        self.walks += 1;
        if self.walks >= DENSE && at + LEAD >= self.next {
            self.ask(entries, at, table, to_vpn);
        }
    }

    #[inline(never)]
    fn ask(&mut self, entries: &[PageRef], at: usize, table: &PageTable, to_vpn: u32) {
        let dense = at - self.since < 2 * GROUP;
        (self.since, self.walks) = (at, 0);
        if !dense {
            return;
        }
        let near = self.next.max(at + LEAD / 2);
        self.next = near + GROUP;
        let hint = &mut self.hint;
        let leaves = pages(entries, near).map(|page| Some(table.leaf_entry_offset(Vpn(page >> to_vpn), hint)));
        table.prefetch(gather(leaves, &mut [0; GROUP]));
        // Where one stays with a node at level 1, the lines of its entries are near anyhow.
        let above = pages(entries, self.next).map(|page| table.new_parent_entry_offset(Vpn(page >> to_vpn), hint));
        table.prefetch(gather(above, &mut [0; GROUP]));
    }
}

/// The pages of the group that begins at `from`. A load and a store to one page come one after the other.
fn pages(entries: &[PageRef], from: usize) -> impl Iterator<Item = u64> {
    let group = &entries[from.min(entries.len())..(from + GROUP).min(entries.len())];
    let mut last = u64::MAX;
    group.iter().map(|entry| entry.page()).filter(move |&page| std::mem::replace(&mut last, page) != page)
}

/// Requests are to follow one another closely, so that all that they need is computed before.
fn gather(found: impl Iterator<Item = Option<usize>>, places: &mut [usize; GROUP]) -> &[usize] {
    let mut count = 0;
    for found in found.take(GROUP) {
        places[count] = found.unwrap_or_default();
        count += usize::from(found.is_some());
    }
    &places[..count]
}
