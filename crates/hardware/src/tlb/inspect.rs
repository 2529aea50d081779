//! What is needed to tell of entries, and to look at all of them.

use super::{CONTEXT_MASK, Context, Tlbs, WHAT_AT};
use reach_core::{PageShift, Pte, Vpn};

impl Tlbs {
    /// The base page.
    pub fn base(&self) -> PageShift {
        self.base
    }

    /// Context number, first base page and size of the page that `tag` stands for, unless that is a table entry.
    pub fn page_of(&self, tag: u64) -> Option<(usize, Vpn, PageShift)> {
        let size = *self.sizes.get((tag >> WHAT_AT & 31) as usize)?;
        let number = tag & ((1 << WHAT_AT) - 1);
        let context = Context(tag & CONTEXT_MASK).number();
        Some((context, Vpn(number << (size.0 - self.base.0)), size))
    }

    /// The arrays behind which there is only the walker: the last level of each kind of reference.
    pub fn last(&self) -> Vec<bool> {
        let mut last = vec![false; self.arrays.len()];
        for path in &self.paths {
            let depth = path.places.len().saturating_sub(1);
            path.arrays.iter().filter(|&&(_, d)| d == depth).for_each(|&(array, _)| last[array] = true);
        }
        last
    }

    /// Every translation held: array, kind-independent, with its first base page. For checks.
    pub fn translations(&self, context: Context) -> Vec<(usize, Vpn, Pte)> {
        let mut found = Vec::new();
        for (index, a) in self.arrays.iter().enumerate() {
            for (tag, word) in a.array.entries().into_iter().filter(|&(tag, _)| context.owns(tag)) {
                found.extend(self.page_of(tag).map(|(_, vpn, _)| (index, vpn, Pte(word))));
            }
        }
        found
    }
}
