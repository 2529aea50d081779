//! Conditions under which one pass counts the misses of other geometries exactly.

use super::Geometry;
use crate::config::{Index, Machine, Replacement, Serves, Tlb, WalkCache};
use crate::tlb::Tlbs;
use reach_core::{Kind, PageShift};

/// Checks that `tlb` could have these geometries.
pub(super) fn check_geometries(tlb: &Tlb, geometries: &[Geometry]) -> Result<(), String> {
    if let Some(Geometry { entries, ways }) = geometries.iter().find(|geometry| geometry.sets().is_none()) {
        return Err(format!("{entries} entries in {ways} ways: expected a number of sets that is a power of two"));
    }
    match geometries.iter().find(|geometry| !tlb.replacement.takes(geometry.ways)) {
        Some(Geometry { ways, .. }) => {
            let policy = tlb.replacement;
            Err(format!("{ways} ways under {policy}: expected {}; give ways=LIST", policy.expected_ways()))
        }
        None => Ok(()),
    }
}

/// Page sizes for which the contents of an array depend on which array answered. The curve is exact as long as no walk
/// finds a page of such a size.
#[derive(Clone, Debug)]
pub(super) struct UnsteadySizes {
    /// Kinds of reference on which look-ups of the array under study depend ([`related_kinds`]).
    kinds: [bool; 3],
    /// These sizes, as bits by their shifts.
    sizes: u64,
    /// Sizes that walks for these kinds have found, as bits.
    walked: u64,
}

impl UnsteadySizes {
    /// Determines the sizes for array number `array` of `machine`, whose arrays are `tlbs`.
    pub fn new(machine: &Machine, tlbs: &Tlbs, array: usize) -> UnsteadySizes {
        let kinds = related_kinds(machine, &machine.tlbs[array]);
        let sizes = tlbs.unsteady_sizes(array, kinds).fold(0, |all, size| all | 1 << size.0);
        UnsteadySizes { kinds, sizes, walked: 0 }
    }

    /// Records that a walk for a reference of `kind` found a page of this size, which was entered into the arrays.
    #[inline(always)]
    pub fn record_walk(&mut self, kind: Kind, size: PageShift) {
        if self.kinds[kind as usize] {
            self.walked |= 1 << size.0;
        }
    }

    /// Checks that no walk has found such a size.
    pub fn check(&self) -> Result<(), String> {
        match self.sizes & self.walked {
            0 => Ok(()),
            found => Err(format!(
                "the TLB holds pages of {} in different pieces, or in some arrays only at times, so that the contents of \
                 an array depend on which one answered",
                PageShift(found.trailing_zeros() as u8)
            )),
        }
    }
}

/// Returns which kinds of reference these are, by [`reach_core::Kind`].
pub(super) fn kinds_of(serves: &Serves) -> [bool; 3] {
    [serves.fetch, serves.load, serves.store]
}

/// Returns whether some kind of reference probes both.
fn share_a_kind(one: &Serves, other: &Serves) -> bool {
    intersect(kinds_of(one), kinds_of(other))
}

fn intersect(one: [bool; 3], other: [bool; 3]) -> bool {
    one.iter().zip(other).any(|(&one, other)| one && other)
}

/// Returns the kinds of reference on which look-ups of `tlb` depend: those that it serves, those that share an array of its
/// level or an earlier one with them, and so on.
fn related_kinds(machine: &Machine, tlb: &Tlb) -> [bool; 3] {
    let mut kinds = kinds_of(&tlb.serves);
    // Each round but the last adds a kind, so that three rounds reach the fixed point.
    for _ in kinds {
        for other in machine.tlbs.iter().filter(|other| other.level <= tlb.level) {
            let served = kinds_of(&other.serves);
            if intersect(kinds, served) {
                kinds.iter_mut().zip(served).for_each(|(kind, served)| *kind |= served);
            }
        }
    }
    kinds
}

/// Returns whether some kind of reference probes another array before `tlb`.
pub(super) fn has_earlier_level(machine: &Machine, tlb: &Tlb) -> bool {
    machine.tlbs.iter().any(|other| other.level < tlb.level && share_a_kind(&other.serves, &tlb.serves))
}

/// Checks that replicas of the level of `tlb` need no references but those that miss in the earlier levels.
pub(super) fn check_replicable(machine: &Machine, tlb: &Tlb) -> Result<(), String> {
    // The hot loop runs first-level hits of all kinds of reference without a look-up for each.
    if tlb.level <= 1 || !has_earlier_level(machine, tlb) {
        check_stackable(machine, tlb)?;
        return Err("it is in the first level".into());
    }
    let related = related_kinds(machine, tlb);
    let lent_behind =
        |(_, lender): (_, &Tlb)| lender.level >= tlb.level && intersect(kinds_of(&lender.serves), related);
    // Walks for references of all kinds enter what such an array lends, and each walk depends on all walk caches.
    let kinds = if lent_arrays(machine).any(lent_behind) { [true; 3] } else { related };
    lent_array(machine, tlb.level - 1, kinds).map_or(Ok(()), Err)
}

/// Returns the walk caches that have their entries in TLB arrays, each with its array.
fn lent_arrays(machine: &Machine) -> impl Iterator<Item = (&WalkCache, &Tlb)> {
    machine.walk_caches().iter().filter_map(|cache| {
        let lender = machine.tlbs.iter().find(|tlb| Some(&tlb.name) == cache.within.as_ref())?;
        Some((cache, lender))
    })
}

/// Names an array up to `level` that serves one of these kinds of reference and holds entries of walk caches; `None` if there
/// is none.
fn lent_array(machine: &Machine, level: u8, kinds: [bool; 3]) -> Option<String> {
    let matters = |(_, lender): &(_, &Tlb)| lender.level <= level && intersect(kinds_of(&lender.serves), kinds);
    lent_arrays(machine).find(matters).map(|(cache, lender)| {
        format!("walk cache {} has its entries in {}, so that each miss changes its contents", cache.name, lender.name)
    })
}

/// Checks that the misses of `tlb` at other geometries follow from the order of last uses.
pub(super) fn check_stackable(machine: &Machine, tlb: &Tlb) -> Result<(), String> {
    if tlb.replacement != Replacement::Lru {
        return Err(format!(
            "it does not replace entries by LRU, as one pass for many geometries requires; tlb.{}.replacement=lru would",
            tlb.name
        ));
    }
    if tlb.index != Index::Low {
        return Err("it hashes page numbers to sets, and larger arrays do not contain smaller ones".into());
    }
    if let Some(reason) = lent_array(machine, tlb.level, related_kinds(machine, tlb)) {
        return Err(reason);
    }
    let shares_pages = |other: &&Tlb| {
        let sizes = other.sizes.iter().any(|size| tlb.sizes.contains(size));
        other.name != tlb.name && other.level == tlb.level && sizes && share_a_kind(&other.serves, &tlb.serves)
    };
    match machine.tlbs.iter().find(shares_pages) {
        Some(other) => Err(format!("it shares its pages with {}, by bits that depend on its sets", other.name)),
        None => Ok(()),
    }
}
