//! The curve of an LRU array, counted by LRU stacks.

use super::exact::{UnsteadySizes, has_earlier_level, kinds_of};
use super::lru_stacks::LruStacks;
use super::{CurveCounts, Geometry};
use crate::config::Machine;
use crate::tlb::{Context, Lookup, TlbObserver, Tlbs, number_of};
use crate::walk::within_host_page;
use reach_core::fold::{PAGE_SHIFT, PageRef};
use reach_core::{Asid, Kind, PageTable, Pte, StopReason, Vpn};
use std::collections::BTreeSet;

/// The arrays of the level that may answer the look-up of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Another array than the one under study.
    Other,
    /// No array of the level can hold the page.
    Unheld,
    /// The array under study, under this number and tag of the page.
    Studied(u64, u64),
}

impl Owner {
    fn of(entry: Option<(u64, u64)>) -> Owner {
        entry.map_or(Owner::Unheld, |(number, tag)| Owner::Studied(number, tag))
    }
}

/// Number of pages, for each kind of reference, whose owner is cached.
const CACHED_OWNERS: usize = 256;

/// LRU stacks that shadow one array.
#[derive(Clone, Debug)]
pub(crate) struct StackCurve {
    /// The array under study.
    array: usize,
    level: u8,
    /// The kinds of reference that it serves.
    serves: [bool; 3],
    unsteady: UnsteadySizes,
    geometries: Vec<Geometry>,
    /// No level comes before that of the array.
    in_first_level: bool,
    stacks: LruStacks,
    /// Look-ups that other arrays of the level answered.
    elsewhere: u64,
    /// Look-ups that no array of the level can answer.
    unanswerable: u64,
    /// The kinds of reference for which the array is in the first level.
    first_level_kinds: [bool; 3],
    /// Direct-mapped cache of owners, by page and kind of reference; empty if the array is in no first level.
    owners: Vec<(u64, Owner)>,
    /// Numbers of the contexts that may have entries.
    contexts: BTreeSet<u64>,
    /// A context that is in `contexts`, to skip the search.
    last_context: Option<u64>,
    /// A page whose look-up ended in a fault. The curve is exact if it is removed before the next look-up.
    faulted: Option<(u64, u64)>,
    /// Such a page was not removed.
    faulted_stayed: bool,
}

impl StackCurve {
    /// Creates the curve of array number `array` of `machine`, whose arrays are `tlbs`. The array is stackable.
    pub fn new(machine: &Machine, tlbs: &Tlbs, array: usize, geometries: &[Geometry]) -> StackCurve {
        let tlb = &machine.tlbs[array];
        let mut geometries: Vec<Geometry> = geometries.to_vec();
        geometries.sort_unstable();
        geometries.dedup();
        let first_level_kinds = tlbs.first_level_kinds(array);
        let owners = if first_level_kinds == [false; 3] { 0 } else { 3 * CACHED_OWNERS };
        StackCurve {
            array,
            level: tlb.level,
            serves: kinds_of(&tlb.serves),
            unsteady: UnsteadySizes::new(machine, tlbs, array),
            in_first_level: !has_earlier_level(machine, tlb),
            stacks: LruStacks::new(&geometries, tlb.level <= 1),
            geometries,
            elsewhere: 0,
            unanswerable: 0,
            first_level_kinds,
            owners: vec![(0, Owner::Unheld); owners],
            contexts: BTreeSet::new(),
            last_context: None,
            faulted: None,
            faulted_stayed: false,
        }
    }

    /// Returns whether the curve needs the references that hit in the first level.
    pub fn needs_front_hits(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Returns the owner of the page `key` (of a context) for `kind`, from the cache or else from `find`.
    #[inline(always)]
    fn owner(&mut self, kind: Kind, key: u64, find: impl FnOnce(usize) -> Owner) -> Owner {
        let cached = &mut self.owners[kind as usize * CACHED_OWNERS + key as usize % CACHED_OWNERS];
        if cached.0 != key {
            *cached = (key, find(self.array));
        }
        cached.1
    }

    /// Counts a look-up, after which the page is held by `owner`.
    #[inline(always)]
    fn count(&mut self, context: Context, owner: Owner) {
        match owner {
            Owner::Other => self.elsewhere += 1,
            Owner::Unheld => self.unanswerable += 1,
            Owner::Studied(number, tag) => {
                self.check_faulted();
                if !self.stacks.use_recent(tag) {
                    self.use_other(context.number() as u64, number, tag);
                }
            }
        }
    }

    #[inline(never)]
    fn use_other(&mut self, context: u64, number: u64, tag: u64) {
        if self.last_context != Some(context) {
            self.last_context = Some(context);
            self.contexts.insert(context);
        }
        self.stacks.use_other(number, tag);
    }

    /// Counts a look-up that ends in a fault: a hit if the page is held, but nothing is filled.
    #[cold]
    fn count_faulted(&mut self, number: u64, tag: u64) {
        self.check_faulted();
        self.stacks.count_only(number, tag);
        self.faulted = Some((number, tag));
    }

    /// Checks that the page of the last fault has been removed. Arrays that hold it have recorded a use, and arrays that
    /// lack it have not, so that their orders agree only if all of them drop it.
    #[inline(always)]
    fn check_faulted(&mut self) {
        if let Some((number, tag)) = self.faulted.take() {
            self.faulted_stayed |= self.stacks.contains(number, tag);
        }
    }

    /// Removes from the stacks every tag of `context` that satisfies `doomed`; `whole` if that is every tag of it.
    fn remove_if(&mut self, context: u64, whole: bool, doomed: impl Fn(u64) -> bool) {
        let present = if whole { self.contexts.remove(&context) } else { self.contexts.contains(&context) };
        self.last_context = self.last_context.filter(|_| !whole);
        if present {
            self.stacks.remove_if(doomed);
        }
    }

    /// Resets the counts; the stacks keep their contents.
    pub fn reset_counts(&mut self) {
        self.stacks.reset_counts();
        (self.elsewhere, self.unanswerable) = (0, 0);
    }

    /// Returns the counts, or what happened that the curve cannot count exactly.
    pub fn counts(&self) -> Result<CurveCounts, String> {
        self.unsteady.check()?;
        if self.faulted_stayed {
            return Err(
                "a page whose look-up had ended in a fault stayed in the TLB, so that its last use depends on \
                        the geometry"
                    .into(),
            );
        }
        let lookups = self.stacks.uses() + self.elsewhere + self.unanswerable;
        let of = |geometry: &Geometry| (*geometry, self.stacks.misses(*geometry) + self.unanswerable);
        Ok(CurveCounts {
            lookups: Some(lookups).filter(|_| !self.in_first_level),
            misses: self.geometries.iter().map(of).collect(),
        })
    }
}

impl TlbObserver for StackCurve {
    fn after_lookup(&mut self, lookup: &Lookup, outcome: &Result<Pte, StopReason>, tlbs: &Tlbs, table: &PageTable) {
        let &Lookup { kind, context, vpn, found, host_page } = lookup;
        if !self.serves[kind as usize] {
            return;
        }
        let answered = found.map(|(array, _)| (array, tlbs.arrays[array].level));
        if answered.is_some_and(|(_, level)| level < self.level) {
            return;
        }
        // An unmapped page belongs to no array; a mapped page belongs where a walk would enter it.
        let size = match (outcome, found) {
            (Ok(pte), _) => Some(pte.shift()),
            (Err(_), Some((_, size))) => Some(size),
            (Err(_), None) => {
                table.lookup(vpn).map(|pte| within_host_page(pte, vpn, tlbs.sizes.base, host_page).shift())
            }
        };
        let entry = size.and_then(|size| tlbs.entry_in(self.array, kind, context, vpn, size));
        let elsewhere = answered.is_some_and(|(array, level)| array != self.array && level == self.level);
        match (if elsewhere { Owner::Other } else { Owner::of(entry) }, outcome) {
            (Owner::Studied(number, tag), Err(_)) => self.count_faulted(number, tag),
            (owner, _) => self.count(context, owner),
        }
    }

    #[inline(never)]
    fn front_hits(&mut self, context: Context, refs: &[PageRef], tlbs: &Tlbs) {
        let to_vpn = u32::from(tlbs.sizes.base.0) - PAGE_SHIFT;
        let sole = [Kind::Fetch, Kind::Load, Kind::Store].map(|kind| tlbs.sole_first_probe(kind, self.array));
        for reference in refs {
            let (kind, vpn) = (reference.kind(), Vpn(reference.page() >> to_vpn));
            if !self.first_level_kinds[kind as usize] {
                continue;
            }
            let owner = match &sole[kind as usize] {
                Some(probe) => {
                    let (_, tag) = probe.place(context, vpn);
                    Owner::Studied(number_of(tag), tag)
                }
                None => self.owner(kind, context.key(vpn), |array| {
                    // The page is where the hot loop found it, because nothing has been filled since.
                    let found = tlbs.locate(kind, context, vpn);
                    let elsewhere = found.is_none_or(|(at, _)| at != array);
                    let entry = found.and_then(|(_, size)| tlbs.entry_in(array, kind, context, vpn, size));
                    if elsewhere { Owner::Other } else { Owner::of(entry) }
                }),
            };
            self.count(context, owner);
        }
    }

    fn walked(&mut self, _: Asid, kind: Kind, _: Vpn, pte: Pte) {
        self.unsteady.record_walk(kind, pte.shift());
    }

    fn before_invalidate(&mut self, tlbs: &Tlbs, context: Context, vpn: Vpn, pages: u64) {
        /// Up to this many pages are removed one by one rather than by a scan.
        const FEW: u64 = 64;
        // The pages may be of another size from now on.
        self.owners.fill((0, Owner::Unheld));
        if pages <= FEW {
            tlbs.for_each_entry_in(self.array, context, vpn, pages, |number, tag| self.stacks.remove(number, tag));
            return;
        }
        let whole = vpn.0 == 0 && pages == u64::MAX;
        let end = vpn.0.saturating_add(pages);
        self.remove_if(context.number() as u64, whole, |tag| context.owns(tag) && tlbs.sizes.overlaps(tag, vpn, end));
    }
}
