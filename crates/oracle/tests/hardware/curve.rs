//! A miss curve, which one pass counts for many geometries of a TLB array, against a simulation of each geometry.

use crate::cases;
use crate::lockstep::{Cuts, Lockstep, Setup};
use crate::random_machine::{machine, plain_machine, plain_tlb};
use crate::random_program::{ProgramStep, program};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use reach_core::{Layout, PageShift};
use reach_hardware::config::{Machine, Replacement, Serves, Tlb, WalkCache, Walker};
use reach_hardware::{Counters, Geometry, Mmu};
use std::cell::Cell;

/// Entries and ways, smaller and larger than those of any random machine, with one set and several.
const FORMS: [(u32, u32); 16] = [
    (1, 1),
    (2, 1),
    (4, 1),
    (2, 2),
    (4, 2),
    (8, 2),
    (3, 3),
    (6, 3),
    (24, 3),
    (4, 4),
    (8, 4),
    (10, 5),
    (9, 9),
    (13, 13),
    (18, 18),
    (40, 40),
];

/// Returns the misses of the array's level, by fetches, data or both. `None` where no counter has exactly these:
/// counters exist for the first level and for the last one before the walker.
fn level_misses(machine: &Machine, array: &Tlb, counters: &Counters) -> Option<u64> {
    let Serves { fetch, load, store } = array.serves;
    let meets = |tlb: &&Tlb| fetch && tlb.serves.fetch || load && tlb.serves.load || store && tlb.serves.store;
    let others = || machine.tlbs.iter().filter(meets);
    let c = counters;
    let (of_fetches, of_data) = if array.level <= 1 {
        // A hit in either of the first two is a first-level hit.
        let last = others().all(|tlb| tlb.level <= array.level || tlb.level >= 2);
        last.then_some((c.l1i_tlb_misses, c.l1d_tlb_misses))?
    } else {
        others().all(|tlb| tlb.level <= array.level).then_some((c.walks_fetch, c.walks_data))?
    };
    match (fetch, load, store) {
        (true, true, true) => Some(of_fetches + of_data),
        (true, false, false) => Some(of_fetches),
        (false, true, true) => Some(of_data),
        _ => None,
    }
}

/// Returns whether the array lends entries to a walk cache.
fn lends(machine: &Machine, name: &str) -> bool {
    match &machine.walker {
        Walker::Hardware { caches, .. } => caches.iter().any(|cache| cache.within.as_deref() == Some(name)),
        Walker::Software { .. } => false,
    }
}

/// Returns the machine with another geometry of one array.
fn with(machine: &Machine, array: usize, geometry: Geometry) -> Machine {
    let mut machine = machine.clone();
    (machine.tlbs[array].entries, machine.tlbs[array].ways) = (geometry.entries, geometry.ways);
    machine
}

/// Draws a machine and the index of an array: any machine, or one of which LRU stacks give the whole curve. There, walk
/// caches have arrays of their own, and most arrays replace by LRU.
fn studied() -> impl Strategy<Value = (Machine, usize)> {
    let drawn = (machine(), any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    drawn.prop_map(|(mut machine, index, others, of_any_kind)| {
        let array = if machine.tlbs.is_empty() { 0 } else { index.index(machine.tlbs.len()) };
        if of_any_kind {
            let lender = machine.tlbs.iter().position(|tlb| tlb.level >= 2 && lends(&machine, &tlb.name));
            return (machine, lender.filter(|_| others & 7 != 0).unwrap_or(array));
        }
        if let Walker::Hardware { caches, .. } = &mut machine.walker {
            for cache in caches.iter_mut().filter(|cache| cache.within.is_some()) {
                (cache.entries, cache.ways, cache.within) = (1, 1, None);
            }
        }
        for (at, tlb) in machine.tlbs.iter_mut().enumerate() {
            if at == array || others >> (at % 8) & 1 != 0 {
                tlb.replacement = Replacement::Lru;
            }
        }
        (machine, array)
    })
}

/// Runs a program after `prepare`. `None` if that refuses.
fn run(
    setup: &Setup,
    program: &[ProgramStep],
    prepare: impl FnOnce(&mut Lockstep) -> Result<(), String>,
) -> Option<Lockstep> {
    let mut lockstep = Lockstep::new(setup);
    prepare(&mut lockstep).ok()?;
    lockstep.run(&setup.machine, program, Cuts::Heed);
    Some(lockstep)
}

/// With mixed page sizes, promotions and demotions, shootdowns of pages and of ranges, first writes and faults, and
/// processes that take turns until contexts are exhausted and everything is flushed.
#[test]
fn one_pass_counts_the_misses_that_each_geometry_has_alone() {
    let compared = Cell::new([0u32; 4]);
    let drawn = (studied(), any::<bool>(), any::<u64>(), program(400));
    let compare = |((machine, array), cached, seed, program): ((Machine, usize), bool, u64, Vec<ProgramStep>)| {
        let setup =
            |machine| Setup { machine, perfect: false, cached, aux_tlb: None, assist: false, monitor: None, seed };
        let forms = FORMS.iter().map(|&(entries, ways)| Geometry { entries, ways });
        let replacement = machine.tlbs.get(array).map(|tlb| tlb.replacement);
        let geometries: Vec<_> = forms.filter(|g| replacement.is_some_and(|r| r.takes(g.ways))).collect();
        let known = machine.tlbs.get(array).and_then(|tlb| level_misses(&machine, tlb, &Counters::default()));
        if known.is_none() {
            return Ok(());
        }
        let first_level = machine.tlbs[array].level <= 1;
        let Some(whole) = run(&setup(machine.clone()), &program, |lockstep| {
            lockstep.enable_curve(&machine, array, &geometries, seed)
        }) else {
            return Ok(());
        };
        let Ok(counts) = whole.curve() else { return Ok(()) };
        prop_assert_eq!(counts.misses.len(), geometries.len());
        for (geometry, misses) in counts.misses {
            let other = with(&machine, array, geometry);
            let Some(alone) = run(&setup(other.clone()), &program, |_| Ok(())) else { unreachable!("nothing refuses") };
            let alone = level_misses(&other, &other.tlbs[array], &alone.counted().0);
            prop_assert_eq!(Some(misses), alone, "{:?} in the place of {:?}", geometry, &machine.tlbs[array]);
        }
        let mut seen = compared.get();
        seen[usize::from(!first_level)] += 1;
        // LRU stacks do not give these.
        let own = &machine.tlbs[array];
        seen[2] += u32::from(own.replacement != Replacement::Lru);
        seen[3] += u32::from(lends(&machine, &own.name));
        compared.set(seen);
        Ok(())
    };
    // Few of the drawn machines have a curve. Enough of them must: of arrays in first and in later levels, without LRU,
    // and lending entries.
    let wanted = [20, 20, 50, 500].map(|part| cases(500).cases / part);
    let enough = || compared.get().iter().zip(wanted).all(|(&n, wanted)| n >= wanted);
    for _ in 0..8 {
        match TestRunner::new(cases(500)).run(&drawn, compare) {
            Ok(()) => {}
            Err(TestError::Fail(why, case)) => panic!("{why}\n{case:#?}"),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
        if enough() {
            return;
        }
    }
    panic!("compared only {:?}, wanted {wanted:?}", compared.get());
}

/// Walks for data insert table entries into an array for fetches, and evict translations. That affects the array for
/// data only if code and data share an array before it, or if walks for fetches insert table entries into it, too.
#[test]
fn a_lending_array_precludes_a_curve_only_where_code_and_data_share_an_array() {
    let lru = |level, name: &str, serves| Tlb { name: name.into(), serves, ..plain_tlb(level, 4, 4, Replacement::Lru) };
    let fetches = Serves { fetch: true, load: false, store: false };
    let data = Serves { fetch: false, load: true, store: true };
    let all = Serves { fetch: true, load: true, store: true };
    let refusal = |middle, lenders: &[&str]| {
        let tlbs = vec![lru(0, "lender", fetches), lru(1, "middle", middle), lru(2, "own", data)];
        let lent = |(at, &lender): (usize, &&str)| {
            let (name, levels, within) = (format!("w{at}"), vec![at as u8 + 1], Some(lender.into()));
            WalkCache { name, levels, entries: 0, ways: 0, within }
        };
        let caches = lenders.iter().enumerate().map(lent).collect();
        let walker = Walker::Hardware { walkers: 1, lookup: 0, cache_level: 1, caches };
        let layout = Layout::radix(PageShift(12), vec![4, 4, 4]);
        let machine = Machine { walker, layout, ..plain_machine(tlbs) };
        Mmu::new(&machine, false, 0).enable_curve(&machine, 2, &[], 0).err()
    };
    assert_eq!(refusal(data, &["lender"]), None);
    assert_eq!(refusal(data, &["own"]), None);
    for why in [refusal(all, &["lender"]), refusal(data, &["lender", "own"])] {
        assert!(why.is_some_and(|why| why.contains("has its entries in lender")));
    }
}
