//! Queries over all entries, for event logs and checks.

use super::{Context, Tlbs};
use reach_core::{Kind, Pte, Vpn};

impl Tlbs {
    /// Returns, by array, whether it is in the last level of some kind of reference, with only the walker behind it.
    pub fn in_last_level(&self) -> Vec<bool> {
        let mut last = vec![false; self.arrays.len()];
        for path in &self.paths {
            let depth = path.placements.len().saturating_sub(1);
            path.arrays.iter().filter(|&&(_, d)| d == depth).for_each(|&(array, _)| last[array] = true);
        }
        last
    }

    /// Returns, by array, whether it is in the first level for references of `kind`.
    pub fn in_first_level(&self, kind: Kind) -> Vec<bool> {
        let mut first = vec![false; self.arrays.len()];
        self.paths[kind as usize].first_level().for_each(|array| first[array] = true);
        first
    }

    /// Returns every page held of `context`: array, first base page, entry. A coalesced entry is several pages.
    pub fn pages(&self, context: Context) -> Vec<(usize, Vpn, Pte)> {
        let coalesced = self.coalesced.map(|index| self.sizes.size(index));
        let singles = |(array, vpn, pte): (usize, Vpn, Pte)| {
            let (pages, shift) = match coalesced == Some(pte.shift()) {
                true => (pte.shift().base_pages(self.sizes.base), self.sizes.base),
                false => (1, pte.shift()),
            };
            (0..pages).map(move |page| (array, vpn + page, pte.with_pfn(pte.pfn() + page).with_shift(shift)))
        };
        self.translations(context).into_iter().flat_map(singles).collect()
    }

    /// Returns every translation held of `context`: array, first base page, entry.
    pub fn translations(&self, context: Context) -> Vec<(usize, Vpn, Pte)> {
        let mut found = Vec::new();
        for (index, a) in self.arrays.iter().enumerate() {
            for (tag, word) in a.array.entries().into_iter().filter(|&(tag, _)| context.owns(tag)) {
                found.extend(self.sizes.page_of(tag).map(|(_, vpn, _)| (index, vpn, Pte(word))));
            }
        }
        found
    }
}
