//! The twin of online promotion (Romer et al. 1995; Fang et al. 1999, section 3.1). It has no counters of entries: on
//! every miss it looks through the whole TLB.

use std::collections::{BTreeMap, BTreeSet};

/// An aligned extent of `2^order` base pages: first page, order.
pub type Extent = (u64, u32);

/// Returns the extent of `2^order` pages that contains `page`.
fn around(page: u64, order: u32) -> Extent {
    (page >> order << order, order)
}

fn contains(outer: Extent, inner: Extent) -> bool {
    outer.1 >= inner.1 && around(inner.0, outer.1) == outer
}

/// An address space under the policies `approx-online` or `asap`, with pages of up to `2^max_order` base pages.
pub struct NaiveOnlinePromotion {
    /// The order of the largest page.
    pub max_order: u32,
    /// The prefetch charge of each candidate (Romer et al.): the misses that it would have avoided.
    pub prefetch_charges: BTreeMap<Extent, u64>,
    touched: BTreeSet<u64>,
}

impl NaiveOnlinePromotion {
    /// Creates an address space without misses.
    pub fn new(max_order: u32) -> NaiveOnlinePromotion {
        NaiveOnlinePromotion { max_order, prefetch_charges: BTreeMap::new(), touched: BTreeSet::new() }
    }

    /// `approx-online`: records a miss on `page`, which is part of a page of `order`, while `tlb` holds these pages.
    /// Returns the candidates that have reached their thresholds, largest first. `threshold` is that of order 1, and
    /// doubles with each order.
    pub fn miss_approx_online(&mut self, page: u64, order: u32, tlb: &[Extent], threshold: u64) -> Vec<Extent> {
        let mut due = Vec::new();
        for larger in (order + 1..=self.max_order).rev() {
            let candidate = around(page, larger);
            if tlb.iter().any(|&entry| contains(candidate, entry) && entry.1 < larger) {
                *self.prefetch_charges.entry(candidate).or_default() += 1;
            }
            if self.prefetch_charges.get(&candidate).copied().unwrap_or(0) >= threshold << (larger - 1) {
                due.push(candidate);
            }
        }
        due
    }

    /// Records that a candidate was promoted.
    pub fn promote(&mut self, candidate: Extent) {
        let charge = self.prefetch_charges.insert(candidate, 0).unwrap_or(0);
        for larger in candidate.1 + 1..=self.max_order {
            let counter = self.prefetch_charges.entry(around(candidate.0, larger)).or_default();
            *counter = counter.saturating_sub(charge);
        }
    }

    /// `asap`: records a miss on `page`, which is part of a page of `order`. Returns the larger extents whose pages
    /// have all been touched, smallest first.
    pub fn miss_asap(&mut self, page: u64, order: u32) -> Vec<Extent> {
        self.touched.insert(page);
        let is_touched =
            |&(first, order): &Extent| (first..first + (1 << order)).all(|page| self.touched.contains(&page));
        (order + 1..=self.max_order).map(|larger| around(page, larger)).filter(is_touched).collect()
    }

    /// Records that the `pages` from `first` on were unmapped.
    pub fn unmap(&mut self, first: u64, pages: u64) {
        self.touched.retain(|&page| page < first || page >= first + pages);
    }
}

/// Returns the least cost of misses and promotions for a sequence of `references` to base pages, by trying everything.
///
/// The TLB has `entries` entries and any replacement. A miss costs `miss`. An extent may become one page at any time,
/// for good, at the `cost` of its order. Only for small worlds: the states grow exponentially.
pub fn minimal_cost(references: &[u64], entries: usize, max_order: u32, miss: u64, cost: impl Fn(u32) -> u64) -> u64 {
    // A state is the set of superpages and the contents of the TLB. Each has its least cost.
    type State = (BTreeSet<Extent>, BTreeSet<Extent>);
    let mut states: BTreeMap<State, u64> = BTreeMap::from([(State::default(), 0)]);
    let improve = |states: &mut BTreeMap<State, u64>, state: State, cost: u64| {
        let best = states.entry(state).or_insert(u64::MAX);
        let improved = cost < *best;
        *best = cost.min(*best);
        improved
    };
    let pages: BTreeSet<u64> = references.iter().copied().collect();
    for &page in references {
        // Before the reference, any candidates that contain a used page may be promoted.
        let mut open: Vec<(State, u64)> = states.iter().map(|(state, &cost)| (state.clone(), cost)).collect();
        while let Some(((superpages, tlb), paid)) = open.pop() {
            if states.get(&(superpages.clone(), tlb.clone())).is_some_and(|&best| best < paid) {
                continue;
            }
            let candidates = pages.iter().flat_map(|&page| (1..=max_order).map(move |order| around(page, order)));
            for candidate in candidates.collect::<BTreeSet<_>>() {
                if superpages.iter().any(|&other| contains(other, candidate)) {
                    continue;
                }
                let is_outside = |extent: &&Extent| !contains(candidate, **extent);
                let mut superpages: BTreeSet<Extent> = superpages.iter().filter(is_outside).copied().collect();
                let mut tlb_after: BTreeSet<Extent> = tlb.iter().filter(is_outside).copied().collect();
                superpages.insert(candidate);
                // As in the policies, the superpage replaces its parts in the TLB if any of them was there.
                if tlb_after.len() < tlb.len() {
                    tlb_after.insert(candidate);
                }
                let total = paid + cost(candidate.1);
                if improve(&mut states, (superpages.clone(), tlb_after.clone()), total) {
                    open.push(((superpages, tlb_after), total));
                }
            }
        }
        let mut next: BTreeMap<State, u64> = BTreeMap::new();
        for ((superpages, tlb), paid) in states {
            let entry = superpages.iter().copied().find(|&extent| contains(extent, (page, 0))).unwrap_or((page, 0));
            if tlb.contains(&entry) {
                improve(&mut next, (superpages, tlb), paid);
                continue;
            }
            let mut filled = tlb.clone();
            filled.insert(entry);
            if tlb.len() < entries {
                improve(&mut next, (superpages, filled), paid + miss);
                continue;
            }
            for &victim in &tlb {
                let mut after = filled.clone();
                after.remove(&victim);
                improve(&mut next, (superpages.clone(), after), paid + miss);
            }
        }
        states = next;
    }
    states.into_values().min().unwrap_or(0)
}
