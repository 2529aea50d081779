//! TLBs whose entries translate a few neighbouring pages: clustered (Pham et al., HPCA 2014), where the frames are in one
//! aligned group in any order, and coalesced (CoLT, Pham et al., MICRO 2012), where consecutive pages have consecutive
//! frames; or, in Mosaic (Gosakan et al., ASPLOS 2023), frames are anywhere. All learn from the line of page-table entries that a walk has fetched.

use crate::tlb::Context;
use crate::walk::Backing;
use reach_core::{ClusterFrames, ClusterTlbOptions, PageTable, Pfn, Pte, Slot, Vpn};

/// Maximum number of pages of an entry.
const MAX_PAGES: usize = 8;

/// An aligned group of pages, some of which are translated.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    /// The entry that the pages have in common, with frame 0.
    rights: Pte,
    /// By page of the group: its frame; `None` if it is not translated.
    frames: [Option<Pfn>; MAX_PAGES],
}

/// A set. Keys are in order of recency, clusters in any order.
#[derive(Clone, Debug, Default)]
struct ClusterSet {
    /// Keys of the groups: numbers with contexts.
    keys: Vec<u64>,
    /// By position of the key: the index of its cluster.
    at: Vec<u16>,
    clusters: Vec<Cluster>,
}

impl ClusterSet {
    fn cluster(&self, place: usize) -> &Cluster {
        &self.clusters[usize::from(self.at[place])]
    }

    /// Drops the clusters that do not satisfy `keep`.
    fn retain(&mut self, keep: impl Fn(u64, &Cluster) -> bool) {
        for place in (0..self.keys.len()).rev() {
            if !keep(self.keys[place], self.cluster(place)) {
                self.keys.remove(place);
                let at = self.at.remove(place);
                // The last cluster moves into the gap.
                self.clusters.swap_remove(usize::from(at));
                let moved = self.clusters.len() as u16;
                self.at.iter_mut().filter(|other| **other == moved).for_each(|other| *other = at);
            }
        }
    }
}

/// A clustered or coalesced TLB.
#[derive(Clone, Debug)]
pub(crate) struct ClusterTlb {
    sets: Vec<ClusterSet>,
    /// Binary logarithm of the pages in a group.
    order: u32,
    options: ClusterTlbOptions,
}

impl ClusterTlb {
    /// Creates an empty TLB.
    pub fn new(options: ClusterTlbOptions) -> ClusterTlb {
        let sets = (options.entries / options.ways) as usize;
        ClusterTlb { sets: vec![ClusterSet::default(); sets], order: options.pages.ilog2(), options }
    }

    /// Returns the key of the group of `vpn`, its set, and the index of the page in the group.
    fn place(&self, context: Context, vpn: Vpn) -> (u64, usize, usize) {
        let number = vpn.0 >> self.order;
        (context.key(Vpn(number)), number as usize & (self.sets.len() - 1), (vpn.0 - (number << self.order)) as usize)
    }

    /// Returns the entry of `vpn`, and whether its cluster was used last in its set. Records the use.
    pub fn search(&mut self, context: Context, vpn: Vpn) -> Option<(Pte, bool)> {
        let (key, set, page) = self.place(context, vpn);
        let set = &mut self.sets[set];
        let mut same = set.keys.iter().enumerate().filter(|&(_, &other)| other == key).map(|(place, _)| place);
        let place = same.find(|&place| set.cluster(place).frames[page].is_some())?;
        set.keys[..=place].rotate_right(1);
        set.at[..=place].rotate_right(1);
        let found = set.cluster(0);
        Some((found.rights.with_pfn(found.frames[page]?), place == 0))
    }

    /// Inserts a cluster of `pte`, which a walk of `table` found for `vpn`, and of those neighbours in its group that fit by the
    /// memory behind their frames. Returns the number of its pages; 0 if there are fewer than the least number.
    pub fn learn(&mut self, context: Context, vpn: Vpn, pte: Pte, (table, backing): (&PageTable, Backing)) -> usize {
        let rights = pte.with_pfn(Pfn(0));
        let (key, set, page) = self.place(context, vpn);
        let first = vpn.0 - page as u64;
        let mut frames = [None; MAX_PAGES];
        let frame_of = |pte: Pte| backing.frame(pte.pfn());
        let Some(own) = frame_of(pte) else { return 0 };
        for (at, frame) in frames.iter_mut().enumerate().take(1 << self.order) {
            let of_page =
                |at: usize| entry(table, vpn, Vpn(first + at as u64)).filter(|pte| pte.with_pfn(Pfn(0)) == rights);
            let fits = match self.options.frames {
                // Every page in between has to continue the run.
                ClusterFrames::Consecutive => (at.min(page)..=at.max(page)).all(|at| {
                    of_page(at).and_then(frame_of).is_some_and(|other| other.0 + page as u64 == own.0 + at as u64)
                }),
                ClusterFrames::SameGroup => {
                    of_page(at).and_then(frame_of).is_some_and(|other| other.0 >> self.order == own.0 >> self.order)
                }
                ClusterFrames::Anywhere => of_page(at).is_some(),
            };
            if fits {
                *frame = of_page(at).map(Pte::pfn);
            }
        }
        let pages = frames.iter().flatten().count();
        if pages < self.options.min_pages as usize {
            return 0;
        }
        let set = &mut self.sets[set];
        let disjoint = |old: &Cluster| old.frames.iter().zip(&frames).all(|(a, b)| a.is_none() || b.is_none());
        set.retain(|other, old| other != key || disjoint(old));
        let cluster = Cluster { rights, frames };
        if set.keys.len() < self.options.ways as usize {
            set.keys.insert(0, key);
            set.at.insert(0, set.clusters.len() as u16);
            set.clusters.push(cluster);
        } else {
            set.keys.rotate_right(1);
            set.at.rotate_right(1);
            set.keys[0] = key;
            set.clusters[usize::from(set.at[0])] = cluster;
        }
        pages
    }

    /// Drops every cluster of `context` with a page in `[vpn, vpn + pages)`.
    pub fn invalidate(&mut self, context: Context, vpn: Vpn, pages: u64) {
        let (first, end) = (vpn.0 >> self.order, (vpn.0.saturating_add(pages) - 1) >> self.order);
        for set in &mut self.sets {
            set.retain(|key, cluster| {
                let number = Context::vpn_of(key).0;
                let inside = |at: usize| {
                    let page = (number << self.order) + at as u64;
                    vpn.0 <= page && page - vpn.0 < pages
                };
                !context.owns(key)
                    || number < first
                    || number > end
                    || !(0..1 << self.order).any(|at| cluster.frames[at].is_some() && inside(at))
            });
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.sets.fill(ClusterSet::default());
    }

    /// Returns every page held of `context`.
    pub fn pages(&self, context: Context) -> Vec<(Vpn, Pte)> {
        let mut all = Vec::new();
        for set in &self.sets {
            for (place, &key) in set.keys.iter().enumerate().filter(|&(_, &key)| context.owns(key)) {
                let (first, cluster) = (Context::vpn_of(key).0 << self.order, set.cluster(place));
                let frames = cluster.frames.iter().enumerate();
                all.extend(
                    frames.filter_map(|(at, frame)| Some((Vpn(first + at as u64), cluster.rights.with_pfn((*frame)?)))),
                );
            }
        }
        all
    }
}

/// Returns the entry of the base page `vpn`; `None` unless it is in the same page-table node as that of `near`, and a walk
/// reads neighbouring entries in one line.
fn entry(table: &PageTable, near: Vpn, vpn: Vpn) -> Option<Pte> {
    let bits = table.layout().bits[0];
    if near.0 >> bits != vpn.0 >> bits || near != vpn && !table.layout().kind.clusters() {
        return None;
    }
    let (node, index) = table.find(vpn)?;
    match table.slot(node, index) {
        Slot::Leaf(pte) if pte.shift() == table.layout().base => Some(pte),
        _ => None,
    }
}
