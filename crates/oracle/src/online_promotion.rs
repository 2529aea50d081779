//! Online promotion (Romer et al. 1995; Fang et al. 1999, section 3.1) without counters of entries: on every miss the whole
//! TLB is looked through.

use std::collections::{BTreeMap, BTreeSet};

/// An aligned extent of `2^order` base pages: first page and order.
pub type Extent = (u64, u32);

fn around(page: u64, order: u32) -> Extent {
    (page >> order << order, order)
}

fn contains(outer: Extent, inner: Extent) -> bool {
    outer.1 >= inner.1 && around(inner.0, outer.1) == outer
}

/// One address space under approx-online or asap, with pages of 2^0 to 2^`top` base pages.
pub struct NaiveOnline {
    /// The largest order.
    pub top: u32,
    /// Misses charged to each candidate.
    pub prefetch: BTreeMap<Extent, u64>,
    touched: BTreeSet<u64>,
}

impl NaiveOnline {
    /// Nothing has happened yet.
    pub fn new(top: u32) -> NaiveOnline {
        NaiveOnline { top, prefetch: BTreeMap::new(), touched: BTreeSet::new() }
    }

    /// approx-online: a miss on `page`, which a page of `order` maps, while `tlb` holds these pages. Returns what has
    /// reached its threshold, the largest first.
    pub fn missed(&mut self, page: u64, order: u32, tlb: &[Extent], threshold: u64) -> Vec<Extent> {
        let mut due = Vec::new();
        for larger in (order + 1..=self.top).rev() {
            let candidate = around(page, larger);
            if tlb.iter().any(|&entry| contains(candidate, entry) && entry.1 < larger) {
                *self.prefetch.entry(candidate).or_default() += 1;
            }
            if self.prefetch.get(&candidate).copied().unwrap_or(0) >= threshold << (larger - 1) {
                due.push(candidate);
            }
        }
        due
    }

    /// A candidate became one page.
    pub fn promoted(&mut self, candidate: Extent) {
        let charge = self.prefetch.insert(candidate, 0).unwrap_or(0);
        for larger in candidate.1 + 1..=self.top {
            let counter = self.prefetch.entry(around(candidate.0, larger)).or_default();
            *counter = counter.saturating_sub(charge);
        }
    }

    /// asap: the same for a policy that promotes what has been touched everywhere; the smallest first.
    pub fn touched(&mut self, page: u64, order: u32) -> Vec<Extent> {
        self.touched.insert(page);
        let whole = |&(first, order): &Extent| (first..first + (1 << order)).all(|page| self.touched.contains(&page));
        (order + 1..=self.top).map(|larger| around(page, larger)).filter(whole).collect()
    }

    /// These pages are unmapped.
    pub fn unmapped(&mut self, first: u64, pages: u64) {
        self.touched.retain(|&page| page < first || page >= first + pages);
    }
}

/// The least that misses and promotions can cost, by trying everything: references to base pages, a TLB of `entries`
/// entries with replacement at will, a miss that costs `miss`, and pages that may at any time, for `cost` of its order,
/// become one page for good. Small worlds only.
pub fn cheapest(references: &[u64], entries: usize, top: u32, miss: u64, cost: impl Fn(u32) -> u64) -> u64 {
    // States: what is one page, and what the TLB holds; the least cost of each.
    type State = (BTreeSet<Extent>, BTreeSet<Extent>);
    let mut states: BTreeMap<State, u64> = BTreeMap::from([(State::default(), 0)]);
    let better = |states: &mut BTreeMap<State, u64>, state: State, cost: u64| {
        let best = states.entry(state).or_insert(u64::MAX);
        let improved = cost < *best;
        *best = cost.min(*best);
        improved
    };
    let pages: BTreeSet<u64> = references.iter().copied().collect();
    for &page in references {
        // Promotions first: any candidate that holds a page in use.
        let mut open: Vec<(State, u64)> = states.iter().map(|(state, &cost)| (state.clone(), cost)).collect();
        while let Some(((built, tlb), paid)) = open.pop() {
            if states.get(&(built.clone(), tlb.clone())).is_some_and(|&best| best < paid) {
                continue;
            }
            let candidates = pages.iter().flat_map(|&page| (1..=top).map(move |order| around(page, order)));
            for candidate in candidates.collect::<BTreeSet<_>>() {
                if built.iter().any(|&other| contains(other, candidate)) {
                    continue;
                }
                let apart = |extent: &&Extent| !contains(candidate, **extent);
                let mut built: BTreeSet<Extent> = built.iter().filter(apart).copied().collect();
                let mut tlb_after: BTreeSet<Extent> = tlb.iter().filter(apart).copied().collect();
                built.insert(candidate);
                // As in the policy, a page that is built takes its parts' place, if any of them was there.
                if tlb_after.len() < tlb.len() {
                    tlb_after.insert(candidate);
                }
                let total = paid + cost(candidate.1);
                if better(&mut states, (built.clone(), tlb_after.clone()), total) {
                    open.push(((built, tlb_after), total));
                }
            }
        }
        let mut next: BTreeMap<State, u64> = BTreeMap::new();
        for ((built, tlb), paid) in states {
            let entry = built.iter().copied().find(|&extent| contains(extent, (page, 0))).unwrap_or((page, 0));
            if tlb.contains(&entry) {
                better(&mut next, (built, tlb), paid);
                continue;
            }
            let mut room = tlb.clone();
            room.insert(entry);
            if tlb.len() < entries {
                better(&mut next, (built, room), paid + miss);
                continue;
            }
            for &victim in &tlb {
                let mut after = room.clone();
                after.remove(&victim);
                better(&mut next, (built.clone(), after), paid + miss);
            }
        }
        states = next;
    }
    states.into_values().min().unwrap_or(0)
}
