//! One pass, many geometries: what a TLB array of every size and number of ways would have missed, exactly.
//!
//! Under LRU a set of w ways holds the w pages of it that were used last, whatever w is (Mattson et al. 1970); and with
//! sets chosen by the low bits of the page number, each number of sets needs but one such order a set (Hill and Smith
//! 1989). So the array under study is shadowed by the orders of last uses for each number of sets, and each look-up that
//! reaches it is counted at the depth at which its page stands in each of them.
//!
//! That is what separate simulations would count because nothing else depends on the array's geometry: what the levels
//! before it hold follows from the references and the page table alone, a look-up that ends in a fault fills nothing in
//! any of them, and a shootdown removes an entry from all. Where the array's own entries do not follow the order of last
//! uses, [`Copies`] of its level count the same. Where neither is so, there is a refusal, or one afterwards, because only
//! some page sizes have that effect.

mod exact;
mod full_stack;
mod lru_stacks;
mod recent_pages;
mod replicas;
mod set_stacks;

use crate::config::Machine;
pub(crate) use exact::{Unsteady, check};
use exact::{has_before, kinds_of, refuse};
use lru_stacks::Orders;
use reach_core::Kind;
pub(crate) use replicas::Copies;
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

/// Where the look-up of a page belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// To another array of the level.
    Elsewhere,
    /// To none of the level.
    Nowhere,
    /// To the array: number and tag of the page.
    Here(u64, u64),
}

/// For how many pages of each kind of reference it is noted where they belong.
const NOTED: usize = 256;

/// What shadows an array.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// The array under study.
    pub array: usize,
    /// Its level.
    pub level: u8,
    /// The kinds of reference that it serves.
    pub serves: [bool; 3],
    pub unsteady: Unsteady,
    geometries: Vec<Geometry>,
    /// Nothing stands before its level.
    asked_first: bool,
    orders: Orders,
    /// Look-ups that the level's other arrays answered, and those that none can.
    elsewhere: u64,
    never: u64,
    /// The kinds of reference for which its level is asked first.
    hears: [bool; 3],
    /// Where look-ups of the pages asked for last belong; empty where it hears nothing.
    belongs: Vec<(u64, Belongs)>,
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
        Ok(Curve {
            array,
            level: tlb.level,
            serves: kinds_of(&tlb.serves),
            unsteady: Unsteady::new(machine, tlb),
            asked_first: !has_before(machine, tlb),
            orders: Orders::new(&wanted, tlb.level <= 1),
            geometries: wanted,
            elsewhere: 0,
            never: 0,
            hears: [false; 3],
            belongs: Vec::new(),
            contexts: BTreeSet::new(),
            last_context: None,
            faulted: None,
            stayed: false,
        })
    }

    /// From now on it hears of the references of these kinds that the arrays asked first answer.
    pub fn set_hears(&mut self, kinds: [bool; 3]) {
        self.hears = kinds;
        self.belongs = if kinds == [false; 3] { Vec::new() } else { vec![(0, Belongs::Nowhere); 3 * NOTED] };
    }

    /// Whether it hears of any.
    pub fn hears_any(&self) -> bool {
        !self.belongs.is_empty()
    }

    /// Whether it hears of those of `kind`.
    #[inline(always)]
    pub fn hears(&self, kind: Kind) -> bool {
        self.hears[kind as usize]
    }

    /// Where a look-up for `kind` of the page `key` (of a context) belongs, as `find` says where that is not noted.
    #[inline(always)]
    pub fn belongs(&mut self, kind: Kind, key: u64, find: impl FnOnce(usize) -> Belongs) -> Belongs {
        let noted = &mut self.belongs[kind as usize * NOTED + key as usize % NOTED];
        if noted.0 != key {
            *noted = (key, find(self.array));
        }
        noted.1
    }

    /// Pages may be of another size from now on.
    pub fn forget_where(&mut self) {
        self.belongs.fill((0, Belongs::Nowhere));
    }

    /// A look-up, after which the page is held where it belongs.
    #[inline(always)]
    pub fn looked_up(&mut self, context: u64, belongs: Belongs) {
        match belongs {
            Belongs::Elsewhere => self.found_elsewhere(),
            Belongs::Nowhere => self.never_found(),
            Belongs::Here(number, tag) => self.found(context, number, tag),
        }
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
    #[inline(always)]
    pub fn found(&mut self, context: u64, number: u64, tag: u64) {
        self.check_faulted();
        if !self.orders.use_near(tag) {
            self.found_far(context, number, tag);
        }
    }

    #[inline(never)]
    fn found_far(&mut self, context: u64, number: u64, tag: u64) {
        if self.last_context != Some(context) {
            self.last_context = Some(context);
            self.contexts.insert(context);
        }
        self.orders.use_far(number, tag);
    }

    /// A look-up of page `number` that ends in a fault: where the page is held, that is a hit, but nothing is entered.
    #[cold]
    pub fn faulted(&mut self, number: u64, tag: u64) {
        self.check_faulted();
        self.orders.ask(number, tag);
        self.faulted = Some((number, tag));
    }

    /// Some arrays have noted a use of the page that faulted and others, which lack it, have not. That is the same
    /// only if all forget it.
    #[inline(always)]
    fn check_faulted(&mut self) {
        if let Some((number, tag)) = self.faulted.take() {
            self.stayed |= self.orders.hold(number, tag);
        }
    }

    /// Forgets one page.
    pub fn remove(&mut self, number: u64, tag: u64) {
        self.orders.remove(number, tag);
    }

    /// Forgets every tag for which `doomed` says so, all of `context`; `whole`: that is all of them.
    pub fn remove_all(&mut self, context: u64, whole: bool, doomed: impl Fn(u64) -> bool) {
        let there = if whole { self.contexts.remove(&context) } else { self.contexts.contains(&context) };
        self.last_context = self.last_context.filter(|_| !whole);
        if there {
            self.orders.remove_all(doomed);
        }
    }

    /// Counts from now on; what is held stays.
    pub fn restart(&mut self) {
        self.orders.restart();
        (self.elsewhere, self.never) = (0, 0);
    }

    /// What was counted, unless something has happened that this does not count exactly.
    pub fn counts(&self) -> Result<CurveCounts, String> {
        self.unsteady.check()?;
        if self.stayed {
            return Err(
                "a page whose look-up had ended in a fault stayed in the TLB, so that its last use depends on \
                        the geometry"
                    .into(),
            );
        }
        let lookups = self.orders.uses() + self.elsewhere + self.never;
        let of = |geometry: &Geometry| (*geometry, self.orders.misses(*geometry) + self.never);
        Ok(CurveCounts {
            lookups: Some(lookups).filter(|_| !self.asked_first),
            misses: self.geometries.iter().map(of).collect(),
        })
    }
}
