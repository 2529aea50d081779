//! Mappings for which MADV_HUGEPAGE may pay, and what the program would have to call.

use crate::owners::names::Names;
use reach_core::Span;
use reach_lab::Outcome;
use reach_lab::attribution::{Attribution, EXTENT_SHIFT, MappingId, MappingKind};
use std::collections::{BTreeMap, BTreeSet};

/// Mappings to try at most. Each is a simulation of its own.
const MOST: usize = 3;

/// Spans of one mapping's name that get the advice; the others are smaller.
const MOST_SPANS: usize = 64;

/// The cycles of a walk and of a page fault, for the order in which mappings are tried, and for nothing else.
const WALK: u64 = 40;
const FAULT: u64 = 1000;

/// A named mapping: all memory that one call has mapped.
pub struct Region {
    /// The name, as `reach where` gives it.
    pub name: String,
    /// Its addresses, as an option of the system.
    pub spans: String,
    is_heap: bool,
}

impl Region {
    /// Returns what to do for it.
    pub fn todo(&self) -> String {
        if self.is_heap {
            return "call madvise(start, length, MADV_HUGEPAGE) on the heap after it has grown, or use glibc-thp"
                .into();
        }
        "call madvise(start, length, MADV_HUGEPAGE) behind the allocation, before the memory is used; allocate it at a multiple of \
         2 MB (aligned_alloc), because only whole huge pages count"
            .into()
    }
}

/// What is known of a name.
#[derive(Default)]
struct Found {
    cost: u64,
    mappings: BTreeSet<MappingId>,
}

/// Returns the mappings that have walks and page faults, the dearest first: private memory in which a huge page fits.
pub fn dearest(counted: &Outcome) -> Vec<Region> {
    let Some(attribution) = &counted.attribution else { return Vec::new() };
    let names = Names::new(attribution, &counted.names, counted.processes.len() > 1, None);
    let mut found: BTreeMap<&str, Found> = BTreeMap::new();
    let mut add = |id: MappingId, cost: u64| {
        if fits(attribution, id) {
            let entry = found.entry(names.mapping_of(id)).or_default();
            entry.cost += cost;
            entry.mappings.insert(id);
        }
    };
    attribution.sites.iter().for_each(|(site, spent)| add(site.mapping, spent.walks * WALK));
    attribution.touched.iter().for_each(|((id, _), pages)| add(*id, pages.bytes() / 4096 * FAULT));
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by(|a, b| b.1.cost.cmp(&a.1.cost).then_with(|| a.0.cmp(b.0)));
    let region = |(name, found): (&str, Found)| Region {
        name: name.to_owned(),
        spans: spans(attribution, &found.mappings),
        is_heap: found.mappings.iter().any(|id| attribution.mapping(*id).kind == MappingKind::Heap),
    };
    found.into_iter().take(MOST).map(region).collect()
}

/// Returns whether a mapping is private memory that holds a whole huge page.
fn fits(attribution: &Attribution, id: MappingId) -> bool {
    let mapping = attribution.mapping(id);
    let Span { start, len } = mapping.span;
    let huge = 1u64 << EXTENT_SHIFT;
    let first = start.0.next_multiple_of(huge);
    matches!(mapping.kind, MappingKind::Heap | MappingKind::Anonymous) && first + huge <= start.0 + len
}

/// Returns the addresses of mappings as the system's option takes them, the longest ones.
fn spans(attribution: &Attribution, mappings: &BTreeSet<MappingId>) -> String {
    let mut spans: Vec<Span> = mappings.iter().map(|id| attribution.mapping(*id).span).collect();
    spans.sort_by_key(|span| std::cmp::Reverse(span.len));
    spans.truncate(MOST_SPANS);
    let spans: Vec<_> = spans.iter().map(|span| format!("{:x}-{:x}", span.start.0, span.end().0)).collect();
    spans.join("+")
}
