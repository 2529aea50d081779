//! The twin of the cluster TLB, clustered or coalesced: each entry is a list of pages.

use reach_core::{Asid, ClusterFrames, ClusterTlbOptions, PageTable, PageTableKind, Pfn, Pte, Vpn};

/// The pages of an entry, with their translations.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    asid: Asid,
    pages: Vec<(Vpn, Pte)>,
}

/// A cluster TLB. Entries of all sets are in one list, the most recently used first.
#[derive(Clone, Debug)]
pub struct ClusterTlb {
    options: ClusterTlbOptions,
    entries: Vec<Entry>,
}

impl ClusterTlb {
    /// Creates an empty cluster TLB.
    pub fn new(options: ClusterTlbOptions) -> ClusterTlb {
        ClusterTlb { options, entries: Vec::new() }
    }

    fn group(&self, vpn: Vpn) -> u64 {
        vpn.0 / u64::from(self.options.pages)
    }

    fn set(&self, vpn: Vpn) -> usize {
        (self.group(vpn) % u64::from(self.options.entries / self.options.ways)) as usize
    }

    /// Returns the translation of `vpn`, and whether its entry was the most recently used of its set. Counts as a use.
    pub fn search(&mut self, asid: Asid, vpn: Vpn) -> Option<(Pte, bool)> {
        let holds = |entry: &Entry| entry.asid == asid && entry.pages.iter().any(|&(page, _)| page == vpn);
        let at = self.entries.iter().position(holds)?;
        let was_newest = !self.entries[..at].iter().any(|other| self.set(other.pages[0].0) == self.set(vpn));
        let entry = self.entries.remove(at);
        let pte = entry.pages.iter().find(|&&(page, _)| page == vpn)?.1;
        self.entries.insert(0, entry);
        Some((pte, was_newest))
    }

    /// Inserts the pages of the group of `vpn` that one entry can hold with it, after a walk found `pte`. Returns how many;
    /// 0 if they are too few. `memory` says which frame of memory is behind one of the page table.
    pub fn learn(&mut self, asid: Asid, vpn: Vpn, pte: Pte, table: &PageTable, memory: impl Fn(Pfn) -> Pfn) -> usize {
        let layout = table.layout();
        let (count, node) = (u64::from(self.options.pages), 1 << layout.bits[0]);
        let first = self.group(vpn) * count;
        // Without clusters a walk reads one entry at a time.
        let alone = layout.kind == PageTableKind::Chained;
        let same_node = |page: u64| page / node == vpn.0 / node && (!alone || page == vpn.0);
        let like = |page: u64| {
            let found = table.page(Vpn(page)).filter(|entry| same_node(page) && entry.pte.shift() == layout.base)?;
            (found.pte.with_pfn(Pfn(0)) == pte.with_pfn(Pfn(0))).then_some(found.pte)
        };
        let own = memory(pte.pfn()).0;
        let frame = |page: u64| like(page).map(|other| memory(other.pfn()).0);
        let is_contiguous = |page: u64| frame(page).is_some_and(|frame| frame + vpn.0 == own + page);
        let mut pages = Vec::new();
        for page in first..first + count {
            let fits = match self.options.frames {
                ClusterFrames::Consecutive => (page.min(vpn.0)..=page.max(vpn.0)).all(is_contiguous),
                ClusterFrames::SameGroup => frame(page).is_some_and(|frame| frame / count == own / count),
                ClusterFrames::Anywhere => true,
            };
            if let Some(other) = like(page).filter(|_| fits) {
                pages.push((Vpn(page), other));
            }
        }
        if pages.len() < self.options.min_pages as usize {
            return 0;
        }
        let count = pages.len();
        self.entries.retain(|old| {
            old.asid != asid || !old.pages.iter().any(|&(old, _)| pages.iter().any(|&(new, _)| new == old))
        });
        self.entries.insert(0, Entry { asid, pages });
        let set = self.set(vpn);
        let of_set: Vec<usize> =
            (0..self.entries.len()).filter(|&at| self.set(self.entries[at].pages[0].0) == set).collect();
        if let Some(&oldest) = of_set.get(self.options.ways as usize) {
            self.entries.remove(oldest);
        }
        count
    }

    /// Drops every entry of `asid` that holds one of the `pages` from `vpn` on.
    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let end = u128::from(vpn.0) + u128::from(pages);
        let is_dropped = |page: Vpn| page >= vpn && u128::from(page.0) < end;
        self.entries.retain(|entry| entry.asid != asid || !entry.pages.iter().any(|&(page, _)| is_dropped(page)));
    }

    /// Returns every page of every entry, the most recently used entry first.
    pub fn contents(&self) -> Vec<(Asid, Vpn, Pte)> {
        let pages = |entry: &Entry| entry.pages.iter().map(|&(vpn, pte)| (entry.asid, vpn, pte)).collect::<Vec<_>>();
        self.entries.iter().flat_map(pages).collect()
    }
}
