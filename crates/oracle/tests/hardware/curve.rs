//! One pass for many geometries of a TLB array, against a simulation of each.

use crate::cases;
use crate::lockstep::{Lockstep, Setup};
use crate::random_machine::{machine, plain_machine, plain_tlb};
use crate::random_program::{Step, steps};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use reach_core::{Layout, PageShift};
use reach_hardware::config::{Machine, Replacement, Serves, Tlb, WalkCache, Walker};
use reach_hardware::{Counters, Geometry, Mmu};
use std::cell::Cell;

/// Forms that are smaller and larger than any of the machines have, with one set and several.
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

/// The misses of the array's level that separate counters tell apart: by fetches, data, or both; in the first level or
/// before the walker.
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

fn lends(machine: &Machine, name: &str) -> bool {
    match &machine.walker {
        Walker::Hardware { caches, .. } => caches.iter().any(|cache| cache.within.as_deref() == Some(name)),
        Walker::Software { .. } => false,
    }
}

fn with(machine: &Machine, array: usize, geometry: Geometry) -> Machine {
    let mut machine = machine.clone();
    (machine.tlbs[array].entries, machine.tlbs[array].ways) = (geometry.entries, geometry.ways);
    machine
}

/// Machines of any kind, and those of which orders of last uses say all: walk caches have arrays of their own, and most
/// arrays replace by LRU.
fn studied() -> impl Strategy<Value = (Machine, usize)> {
    let drawn = (machine(), any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    drawn.prop_map(|(mut machine, index, others, of_any_kind)| {
        let array = if machine.tlbs.is_empty() { 0 } else { index.index(machine.tlbs.len()) };
        if of_any_kind {
            let lender = machine.tlbs.iter().position(|tlb| tlb.level >= 2 && lends(&machine, &tlb.name));
            return (machine, lender.filter(|_| others & 1 != 0).unwrap_or(array));
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

fn run(setup: &Setup, steps: &[Step], observe: impl FnOnce(&mut Lockstep) -> Result<(), String>) -> Option<Lockstep> {
    let mut both = Lockstep::new(setup);
    observe(&mut both).ok()?;
    both.run(&setup.machine, steps, true);
    Some(both)
}

/// With page sizes mixed, superpages made and taken apart, shootdowns of pages and of ranges, first writes and faults, and
/// processes that take turns, until contexts are used up and everything is flushed.
#[test]
fn one_pass_counts_what_each_geometry_would() {
    let compared = Cell::new([0u32; 4]);
    let mut runner = TestRunner::new(cases(500));
    let drawn = (studied(), any::<bool>(), any::<u64>(), steps(400));
    let outcome = runner.run(&drawn, |((machine, array), cached, seed, steps)| {
        let setup = |machine| Setup { machine, perfect: false, cached, aux_tlb: None, seed };
        let forms = FORMS.iter().map(|&(entries, ways)| Geometry { entries, ways });
        let replacement = machine.tlbs.get(array).map(|tlb| tlb.replacement);
        let geometries: Vec<_> = forms.filter(|g| replacement.is_some_and(|r| r.takes(g.ways))).collect();
        let known = machine.tlbs.get(array).and_then(|tlb| level_misses(&machine, tlb, &Counters::default()));
        if known.is_none() {
            return Ok(());
        }
        let first_level = machine.tlbs[array].level <= 1;
        let Some(whole) = run(&setup(machine.clone()), &steps, |both| both.observe(&machine, array, &geometries, seed))
        else {
            return Ok(());
        };
        let Ok(counts) = whole.curve() else { return Ok(()) };
        prop_assert_eq!(counts.misses.len(), geometries.len());
        for (geometry, misses) in counts.misses {
            let other = with(&machine, array, geometry);
            let Some(alone) = run(&setup(other.clone()), &steps, |_| Ok(())) else { unreachable!("nothing refuses") };
            let alone = level_misses(&other, &other.tlbs[array], &alone.counted().0);
            prop_assert_eq!(Some(misses), alone, "{:?} in the place of {:?}", geometry, &machine.tlbs[array]);
        }
        let mut seen = compared.get();
        seen[usize::from(!first_level)] += 1;
        // Of which orders of last uses say nothing.
        let own = &machine.tlbs[array];
        seen[2] += u32::from(own.replacement != Replacement::Lru);
        seen[3] += u32::from(lends(&machine, &own.name));
        compared.set(seen);
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("{why}\n{case:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
    // Enough of what was drawn could be compared, in first and in later levels, and of the odd ones.
    let cases = cases(500).cases;
    assert!(
        compared.get().iter().zip([20, 20, 50, 250]).all(|(&n, part)| n >= cases / part),
        "{:?} of {cases}",
        compared.get()
    );
}

/// Walks of data push translations out of an array of fetches. That reaches the array of data only where both sides meet in
/// one before it.
#[test]
fn table_entries_among_translations_count_where_sides_meet() {
    let lru = |level, name: &str, serves| Tlb { name: name.into(), serves, ..plain_tlb(level, 4, 4, Replacement::Lru) };
    let fetches = Serves { fetch: true, load: false, store: false };
    let data = Serves { fetch: false, load: true, store: true };
    let all = Serves { fetch: true, load: true, store: true };
    let refusal = |middle| {
        let tlbs = vec![lru(0, "lender", fetches), lru(1, "middle", middle), lru(2, "own", data)];
        let within = Some("lender".into());
        let cache = WalkCache { name: "w0".into(), levels: vec![1], entries: 0, ways: 0, within };
        let walker = Walker::Hardware { walkers: 1, lookup: 0, caches: vec![cache] };
        let layout = Layout { base: PageShift(12), bits: vec![4, 4] };
        let machine = Machine { walker, layout, ..plain_machine(tlbs) };
        Mmu::new(&machine, false, 0).enable_curve(&machine, 2, &[], 0).err()
    };
    assert_eq!(refusal(data), None);
    assert!(refusal(all).is_some_and(|why| why.contains("has its entries in lender")));
}
