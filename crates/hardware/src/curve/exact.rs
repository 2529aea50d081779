//! When one pass cannot count what other geometries would miss.

use super::Geometry;
use crate::config::{Machine, Replacement, Serves, Tlb, Walker};
use reach_core::{Kind, PageShift};

/// Whether `tlb` could have these forms.
pub(crate) fn check(tlb: &Tlb, geometries: &[Geometry]) -> Result<(), String> {
    if let Some(Geometry { entries, ways }) = geometries.iter().find(|geometry| geometry.sets().is_none()) {
        return Err(format!("{entries} entries in {ways} ways do not make a power of two of sets"));
    }
    match geometries.iter().find(|geometry| !tlb.replacement.takes(geometry.ways)) {
        Some(Geometry { ways, .. }) => {
            Err(format!("under tree-PLRU, ways are a power of two, at most 64, and {ways} are not; give ways=LIST"))
        }
        None => Ok(()),
    }
}

/// Page sizes of which what an array gets depends on which array answered, as long as no walk finds any.
#[derive(Clone, Debug)]
pub(crate) struct Unsteady {
    /// The kinds on which look-ups of the array under study depend: those that share an array up to its level with one that
    /// it serves, and so on.
    pub kinds: [bool; 3],
    /// The sizes, as bits by their shifts, and those that walks for these kinds have found.
    sizes: u64,
    walked: u64,
}

impl Unsteady {
    /// Where `tlb` of `machine` is under study; no sizes so far.
    pub fn new(machine: &Machine, tlb: &Tlb) -> Unsteady {
        Unsteady { kinds: together(machine, tlb), sizes: 0, walked: 0 }
    }

    /// These are the sizes.
    pub fn set(&mut self, sizes: impl Iterator<Item = PageShift>) {
        self.sizes = sizes.fold(0, |all, size| all | 1 << size.0);
    }

    /// A walk for a reference of `kind` has found a page of this size, which was entered into the arrays.
    #[inline(always)]
    pub fn walked(&mut self, kind: Kind, size: PageShift) {
        if self.kinds[kind as usize] {
            self.walked |= 1 << size.0;
        }
    }

    /// Whether none was found.
    pub fn check(&self) -> Result<(), String> {
        match self.sizes & self.walked {
            0 => Ok(()),
            found => Err(format!(
                "pages of {} stand in the TLB in different pieces, or in some arrays only at times, so that what an array \
                 gets of them depends on which one answered",
                PageShift(found.trailing_zeros() as u8)
            )),
        }
    }
}

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

/// Whether some array is asked before `tlb` for a kind of reference that it serves.
pub(super) fn has_before(machine: &Machine, tlb: &Tlb) -> bool {
    machine.tlbs.iter().any(|other| other.level < tlb.level && meets(&other.serves, &tlb.serves))
}

/// Says why there can be no copies of the level of `tlb` that hear of nothing but what the levels before do not answer,
/// if so.
pub(super) fn stands_behind(machine: &Machine, tlb: &Tlb) -> Result<(), String> {
    // The hot loop answers for arrays of the first level that are asked first, of all kinds of reference.
    if tlb.level <= 1 || !has_before(machine, tlb) {
        refuse(machine, tlb)?;
        return Err("it is asked first".into());
    }
    lent_to_walks(machine, tlb, tlb.level - 1).map_or(Ok(()), Err)
}

/// Says which array up to `level` has entries of walk caches, of those on which look-ups of `tlb` depend.
fn lent_to_walks(machine: &Machine, tlb: &Tlb, level: u8) -> Option<String> {
    let Walker::Hardware { caches, .. } = &machine.walker else { return None };
    let together = together(machine, tlb);
    caches.iter().find_map(|cache| {
        let lender = machine.tlbs.iter().find(|other| Some(&other.name) == cache.within.as_ref())?;
        (lender.level <= level && any_of(kinds_of(&lender.serves), together)).then(|| {
            format!(
                "walk cache {} has its entries in {}, so that each miss changes what it holds",
                cache.name, lender.name
            )
        })
    })
}

/// Says why the array's misses at other geometries do not follow from the order of last uses, if so.
pub(super) fn refuse(machine: &Machine, tlb: &Tlb) -> Result<(), String> {
    if tlb.replacement != Replacement::Lru {
        return Err("one pass for many geometries takes LRU, and it replaces entries otherwise".into());
    }
    if let Some(what) = lent_to_walks(machine, tlb, tlb.level) {
        return Err(what);
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
