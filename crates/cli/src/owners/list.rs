//! Sums costs by owner.

use super::names::Named;
use crate::args::owners::By;
use reach_hardware::TranslationSpent;
use std::collections::HashMap;

/// All costs with the names of their owners.
pub struct Owners {
    costs: Vec<Named>,
    /// Whether time is simulated: lists are in the order of cycles, or else of walks.
    timed: bool,
}

impl Owners {
    /// Returns these costs.
    pub fn new(costs: Vec<Named>, timed: bool) -> Owners {
        Owners { costs, timed }
    }

    /// What costs are sorted by, and what stacks count.
    fn weight(&self, spent: &TranslationSpent) -> u64 {
        if self.timed { spent.cycles } else { spent.walks }
    }
}

/// An owner and its cost.
pub struct Entry {
    /// Its name.
    pub owner: String,
    /// Its cost.
    pub spent: TranslationSpent,
}

impl Entry {
    /// Returns the sum of `entries`, under a name.
    pub fn sum(owner: String, entries: &[Entry]) -> Entry {
        let mut spent = TranslationSpent::default();
        entries.iter().for_each(|entry| spent.absorb(&entry.spent));
        Entry { owner, spent }
    }
}

/// Returns the lists that `by` names, each with all its owners: those that cost most first.
pub fn lists(owners: &Owners, by: &[By]) -> Vec<(By, Vec<Entry>)> {
    let wanted = By::ALL.into_iter().filter(|one| by.contains(one));
    wanted.map(|by| (by, list(owners, by))).collect()
}

fn list(owners: &Owners, by: By) -> Vec<Entry> {
    let mut sums: HashMap<&str, TranslationSpent> = HashMap::new();
    for cost in &owners.costs {
        let name = match by {
            By::Mapping => &cost.mapping,
            By::Function => &cost.function,
            By::Line => &cost.line,
            By::Extent => &cost.extent,
        };
        sums.entry(name).or_default().absorb(&cost.spent);
    }
    let mut entries: Vec<_> = sums.into_iter().map(|(owner, spent)| Entry { owner: owner.to_owned(), spent }).collect();
    entries.sort_by(|a, b| {
        let order = |entry: &Entry| (owners.weight(&entry.spent), entry.spent.walks, entry.spent.misses);
        order(b).cmp(&order(a)).then_with(|| a.owner.cmp(&b.owner))
    });
    entries
}

/// Returns stacks for flame graphs, one a line with its weight.
pub fn folded(owners: &Owners) -> String {
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for cost in &owners.costs {
        *sums.entry(&cost.stack).or_default() += owners.weight(&cost.spent);
    }
    let mut lines: Vec<_> = sums.into_iter().filter(|(_, weight)| *weight > 0).collect();
    lines.sort();
    lines.into_iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect()
}
