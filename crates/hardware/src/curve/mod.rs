//! One pass, many geometries: what a TLB array of every size and number of ways would have missed, exactly.
//!
//! Under LRU a set of w ways holds the w pages of it that were used last, whatever w is (Mattson et al. 1970); and with
//! sets chosen by the low bits of the page number, each number of sets needs but one such order a set (Hill and Smith
//! 1989). So the array under study is shadowed by the orders of last uses for each number of sets, and each look-up that
//! reaches it is counted at the depth at which its page stands in each of them.
//!
//! That is what separate simulations would count because nothing else depends on the array's geometry: what the levels
//! before it hold follows from the references and the page table alone, a look-up that ends in a fault fills nothing in
//! any of them, and a shootdown removes an entry from all. Where that is not so, [`Curve::new`] refuses, or
//! [`Curve::counts`] does afterwards, because only some page sizes have that effect.

mod exact;
mod sets;
mod stack;

use crate::config::{Machine, Tlb};
use exact::{kinds_of, meets, refuse, together};
use reach_core::{Kind, PageShift};
use sets::Sets;
use stack::Stack;
use std::collections::BTreeSet;

/// The form of a TLB array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Geometry {
    /// How many translations.
    pub entries: u32,
    /// Ways; `entries` when fully associative. `entries / ways` is a power of two.
    pub ways: u32,
}

impl Geometry {
    /// How many sets, if there can be so many.
    fn sets(self) -> Option<u32> {
        let whole = self.ways > 0 && self.entries.is_multiple_of(self.ways);
        whole.then(|| self.entries / self.ways).filter(|sets| sets.is_power_of_two())
    }
}

/// What was counted for all geometries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveCounts {
    /// Look-ups that reached the array's level, of the kinds that it serves. `None`: all references do.
    pub lookups: Option<u64>,
    /// For each geometry, how many of them no array of the level would have answered.
    pub misses: Vec<(Geometry, u64)>,
}

/// What shadows an array.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// The array under study.
    pub array: usize,
    /// Its level.
    pub level: u8,
    /// The kinds of reference that it serves.
    pub serves: [bool; 3],
    /// The kinds on which its look-ups depend: those that share an array up to its level with one that it serves, and so on.
    together: [bool; 3],
    /// As bits by their shifts: the page sizes whose entries depend on which array answered, and those that walks for
    /// the kinds above have found.
    unsteady: u64,
    walked: u64,
    geometries: Vec<Geometry>,
    /// Nothing stands before its level.
    asked_first: bool,
    capacities: Vec<u32>,
    /// The order in which all pages were used last, and how often something was found at each depth.
    stack: Stack,
    at_depth: Vec<u64>,
    /// The same set by set, for each number of sets, ascending.
    sets: Vec<(Sets, Vec<u64>)>,
    /// Look-ups that found their page at the top of all pages.
    at_top: u64,
    /// Look-ups that the level's other arrays answered, and those that none can.
    elsewhere: u64,
    never: u64,
    /// Contexts that may have entries.
    contexts: BTreeSet<u64>,
    /// One that surely stands there.
    last_context: Option<u64>,
    /// A page whose look-up ended in a fault: it has to leave before anything else is looked up.
    faulted: Option<(u64, u64)>,
    stayed: bool,
}

impl Curve {
    /// Of array number `array` of `machine`. The error completes "no curve of NAME: ".
    pub fn new(machine: &Machine, array: usize, geometries: &[Geometry]) -> Result<Curve, String> {
        let tlb = &machine.tlbs[array];
        refuse(machine, tlb)?;
        let mut wanted: Vec<Geometry> = geometries.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let odd = wanted.iter().find(|geometry| geometry.sets().is_none());
        if let Some(Geometry { entries, ways }) = odd {
            return Err(format!("{entries} entries in {ways} ways do not make a power of two of sets"));
        }
        let capacities: Vec<u32> = wanted.iter().filter(|g| g.ways == g.entries).map(|g| g.entries).collect();
        let counts: BTreeSet<u32> =
            wanted.iter().filter(|g| g.ways < g.entries).filter_map(|geometry| geometry.sets()).collect();
        let of = |&count: &u32| {
            let ways = wanted.iter().filter(|g| g.sets() == Some(count)).map(|g| g.ways).max().unwrap_or(1);
            (Sets::new(count as usize, ways as usize), vec![0; ways as usize + 1])
        };
        let sets: Vec<_> = counts.iter().map(of).collect();
        let before = |other: &Tlb| other.level < tlb.level && meets(&other.serves, &tlb.serves);
        Ok(Curve {
            array,
            level: tlb.level,
            serves: kinds_of(&tlb.serves),
            together: together(machine, tlb),
            unsteady: 0,
            walked: 0,
            asked_first: !machine.tlbs.iter().any(before),
            stack: Stack::new(&capacities),
            at_depth: vec![0; capacities.len() + 1],
            capacities,
            at_top: 0,
            sets,
            geometries: wanted,
            elsewhere: 0,
            never: 0,
            contexts: BTreeSet::new(),
            last_context: None,
            faulted: None,
            stayed: false,
        })
    }

    /// The kinds of reference on which look-ups of the array depend.
    pub fn depends_on(&self) -> [bool; 3] {
        self.together
    }

    /// There is no curve if walks find pages of these sizes: what the array, or one on which it depends, gets of them
    /// depends on which array answered.
    pub fn set_unsteady(&mut self, sizes: impl Iterator<Item = PageShift>) {
        self.unsteady = sizes.fold(0, |all, size| all | 1 << size.0);
    }

    /// A walk for a reference of `kind` has found a page of this size, which was entered into the arrays.
    #[inline(always)]
    pub fn walked(&mut self, kind: Kind, size: PageShift) {
        if self.together[kind as usize] {
            self.walked |= 1 << size.0;
        }
    }

    /// Whether it has to see every reference.
    pub fn is_first_level(&self) -> bool {
        self.level <= 1
    }

    /// A look-up that another array of the level answers, whatever this one is.
    pub fn found_elsewhere(&mut self) {
        self.elsewhere += 1;
    }

    /// A look-up that no array of the level can answer, whatever this one is.
    pub fn never_found(&mut self) {
        self.never += 1;
    }

    /// A look-up of page `number` of its size, whose tag is `tag`, after which the array holds it.
    #[inline]
    pub fn found(&mut self, context: u64, number: u64, tag: u64) {
        self.check_faulted();
        if self.stack.is_first(tag) {
            self.at_top += 1;
            return;
        }
        if self.last_context != Some(context) {
            self.last_context = Some(context);
            self.contexts.insert(context);
        }
        let depth = self.stack.use_tag(tag);
        self.at_depth[depth] += 1;
        for (sets, at_depth) in &mut self.sets {
            let depth = sets.use_tag(number, tag);
            if depth == 0 {
                // More sets have fewer pages in each: it stands at the top there too.
                return;
            }
            at_depth[depth] += 1;
        }
    }

    /// A look-up of page `number` that ends in a fault: where the page is held, that is a hit, but nothing is entered.
    #[cold]
    pub fn faulted(&mut self, number: u64, tag: u64) {
        self.check_faulted();
        self.at_depth[self.stack.depth(tag)] += 1;
        for (sets, at_depth) in &mut self.sets {
            at_depth[sets.depth(number, tag)] += 1;
        }
        self.faulted = Some((number, tag));
    }

    /// Some arrays have noted a use of the page that faulted and others, which lack it, have not. That is the same
    /// only if all forget it.
    #[inline(always)]
    fn check_faulted(&mut self) {
        if let Some((number, tag)) = self.faulted.take() {
            let in_stack = self.stack.depth(tag) < self.capacities.len();
            self.stayed |= in_stack || self.sets.iter().any(|(sets, at)| sets.depth(number, tag) < at.len() - 1);
        }
    }

    /// Forgets one page.
    pub fn remove(&mut self, number: u64, tag: u64) {
        self.stack.remove(tag);
        self.sets.iter_mut().for_each(|(sets, _)| sets.remove(number, tag));
    }

    /// Forgets every tag for which `doomed` says so, all of `context`; `whole`: that is all of them.
    pub fn remove_all(&mut self, context: u64, whole: bool, doomed: impl Fn(u64) -> bool) {
        let there = if whole { self.contexts.remove(&context) } else { self.contexts.contains(&context) };
        self.last_context = self.last_context.filter(|_| !whole);
        if there {
            self.stack.remove_all(&doomed);
            self.sets.iter_mut().for_each(|(sets, _)| sets.remove_all(&doomed));
        }
    }

    /// Counts from now on; what is held stays.
    pub fn restart(&mut self) {
        self.at_depth.fill(0);
        self.at_top = 0;
        self.sets.iter_mut().for_each(|(_, at_depth)| at_depth.fill(0));
        (self.elsewhere, self.never) = (0, 0);
    }

    /// What was counted, unless something has happened that this does not count exactly.
    pub fn counts(&self) -> Result<CurveCounts, String> {
        let unsteady = self.unsteady & self.walked;
        if unsteady != 0 {
            let size = PageShift(unsteady.trailing_zeros() as u8);
            return Err(format!(
                "pages of {size} stand in the TLB in different pieces, or in some arrays only at times, so that what an \
                 array gets of them depends on which one answered"
            ));
        }
        if self.stayed {
            return Err(
                "a page whose look-up had ended in a fault stayed in the TLB, so that its last use depends on \
                        the geometry"
                    .into(),
            );
        }
        let found = self.at_top + self.at_depth.iter().sum::<u64>();
        let lookups = found + self.elsewhere + self.never;
        let of = |geometry: &Geometry| {
            let beyond = if geometry.ways == geometry.entries {
                let at = self.capacities.partition_point(|&capacity| capacity < geometry.entries);
                self.at_depth[at + 1..].iter().sum::<u64>()
            } else {
                let count = u64::from(geometry.entries / geometry.ways);
                let at = self.sets.partition_point(|(sets, _)| sets.count() < count);
                self.sets[at].1[geometry.ways as usize..].iter().sum()
            };
            (*geometry, beyond + self.never)
        };
        Ok(CurveCounts {
            lookups: Some(lookups).filter(|_| !self.asked_first),
            misses: self.geometries.iter().map(of).collect(),
        })
    }
}
