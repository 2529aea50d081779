//! Sums costs by owner.

use super::names::{Named, Stack};
use crate::args::owners::By;
use reach_hardware::TranslationSpent;
use reach_lab::attribution::{MappingId, Pages};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// All costs with the names of their owners.
pub struct Owners<'a> {
    costs: Vec<Named>,
    /// The pages that were touched of each extent; `None` where they are not known.
    touched: Option<&'a FxHashMap<(MappingId, u64), Pages>>,
    /// Whether time is simulated: lists are in the order of cycles, or else of walks.
    timed: bool,
}

impl<'a> Owners<'a> {
    /// Returns these costs, with the pages that were touched of each extent if they are known.
    pub fn new(costs: Vec<Named>, touched: Option<&'a FxHashMap<(MappingId, u64), Pages>>, timed: bool) -> Owners<'a> {
        Owners { costs, touched, timed }
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
    /// The bytes of its pages that were touched, if it is an extent.
    pub touched: Option<u64>,
}

impl Entry {
    /// Returns the sum of `entries`, under a name.
    pub fn sum(owner: String, entries: &[Entry]) -> Entry {
        let mut spent = TranslationSpent::default();
        entries.iter().for_each(|entry| spent.absorb(&entry.spent));
        Entry { owner, spent, touched: entries.iter().map(|entry| entry.touched).sum() }
    }
}

/// Returns the lists that `by` names, each with all its owners: those that cost most first.
pub fn lists(owners: &Owners, by: &[By]) -> Vec<(By, Vec<Entry>)> {
    let wanted = By::ALL.into_iter().filter(|one| *one != By::Time && by.contains(one));
    wanted.map(|by| (by, list(owners, by))).collect()
}

/// What costs of one owner have in common.
#[derive(Default)]
struct Sum {
    spent: TranslationSpent,
    /// The extents of mappings that it has; of extents only.
    places: BTreeSet<(MappingId, u64)>,
}

fn list(owners: &Owners, by: By) -> Vec<Entry> {
    let mut sums: HashMap<&str, Sum> = HashMap::new();
    for cost in &owners.costs {
        let name = match by {
            By::Mapping => &cost.mapping,
            By::Function => &cost.function,
            By::Line => &cost.line,
            By::Script => &cost.script,
            By::Extent | By::Time => &cost.extent,
        };
        let sum = sums.entry(name).or_default();
        sum.spent.absorb(&cost.spent);
        sum.places.extend(cost.place.filter(|_| by == By::Extent));
    }
    let touched = owners.touched.filter(|_| by == By::Extent);
    let entry = |(owner, Sum { spent, places }): (&str, Sum)| {
        let touched = touched.map(|touched| {
            let mut pages = Pages::default();
            places.iter().filter_map(|place| touched.get(place)).for_each(|more| pages.absorb(more));
            pages.bytes()
        });
        Entry { owner: owner.to_owned(), spent, touched }
    };
    let mut entries: Vec<_> = sums.into_iter().map(entry).collect();
    entries.sort_by(|a, b| {
        let order = |entry: &Entry| (owners.weight(&entry.spent), entry.spent.walks, entry.spent.misses);
        order(b).cmp(&order(a)).then_with(|| a.owner.cmp(&b.owner))
    });
    entries
}

/// Returns the stacks that have a weight, each with the sum of its weights.
pub fn stacks<'a>(owners: &'a Owners) -> BTreeMap<&'a Stack, u64> {
    let mut sums: BTreeMap<&Stack, u64> = BTreeMap::new();
    for cost in &owners.costs {
        *sums.entry(&cost.stack).or_default() += owners.weight(&cost.spent);
    }
    sums.retain(|_, weight| *weight > 0);
    sums
}

/// Returns `stacks` for flame graphs, one a line with its weight. Lines of source code have no place there.
pub fn folded(stacks: &BTreeMap<&Stack, u64>) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, weight) in stacks {
        let functions = stack.frames.iter().map(|frame| &frame.function);
        let frames = [&stack.process].into_iter().chain(&stack.file).chain(functions);
        // Frames are separated by semicolons, and stacks end at a space and a number.
        let frames: Vec<_> = frames.map(|frame| frame.replace(';', ":")).collect();
        *sums.entry(frames.join(";")).or_default() += weight;
    }
    sums.into_iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect()
}
