//! When one pass cannot count what other geometries would miss, as far as the machine alone says.

use crate::config::{Machine, Replacement, Serves, Tlb, Walker};

/// Which kinds of reference these are, by [`reach_core::Kind`].
pub(super) fn kinds_of(serves: &Serves) -> [bool; 3] {
    [serves.fetch, serves.load, serves.store]
}

/// Whether some kind of reference asks both.
pub(super) fn meets(one: &Serves, other: &Serves) -> bool {
    any_of(kinds_of(one), kinds_of(other))
}

fn any_of(one: [bool; 3], other: [bool; 3]) -> bool {
    one.iter().zip(other).any(|(&one, other)| one && other)
}

/// The kinds of reference on which look-ups of `tlb` depend: those that it serves, those that share an array of its level or
/// an earlier one with them, and so on.
pub(super) fn together(machine: &Machine, tlb: &Tlb) -> [bool; 3] {
    let mut kinds = kinds_of(&tlb.serves);
    // Each round but the last adds a kind.
    for _ in kinds {
        for other in machine.tlbs.iter().filter(|other| other.level <= tlb.level) {
            let served = kinds_of(&other.serves);
            if any_of(kinds, served) {
                kinds.iter_mut().zip(served).for_each(|(kind, served)| *kind |= served);
            }
        }
    }
    kinds
}

/// Says why the array's misses at other geometries cannot be had from one pass, if so.
pub(super) fn refuse(machine: &Machine, tlb: &Tlb) -> Result<(), String> {
    if tlb.replacement != Replacement::Lru {
        return Err("one pass for many geometries takes LRU, and it replaces entries otherwise".into());
    }
    let together = together(machine, tlb);
    if let Walker::Hardware { caches, .. } = &machine.walker {
        for cache in caches {
            let lender = machine.tlbs.iter().find(|other| Some(&other.name) == cache.within.as_ref());
            if let Some(lender) = lender.filter(|l| l.level <= tlb.level && any_of(kinds_of(&l.serves), together)) {
                return Err(format!(
                    "walk cache {} has its entries in {}, so that each miss changes what it holds",
                    cache.name, lender.name
                ));
            }
        }
    }
    let same = |other: &&Tlb| {
        let sizes = other.sizes.iter().any(|size| tlb.sizes.contains(size));
        other.name != tlb.name && other.level == tlb.level && sizes && meets(&other.serves, &tlb.serves)
    };
    match machine.tlbs.iter().find(same) {
        Some(other) => Err(format!("it shares its pages with {}, by bits that depend on its sets", other.name)),
        None => Ok(()),
    }
}
