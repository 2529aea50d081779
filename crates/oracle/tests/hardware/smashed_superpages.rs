//! Superpages that arrays hold as pieces of more than one size (smashed). Which piece an array gets then depends on the
//! array that hit.

use crate::random_machine::{plain_machine, plain_tlb};
use crate::random_os::{Edit, Memory};
use reach_core::{Asid, Chunk, Kind, Layout, PageShift, Pfn, Pte, Random, Ref, StopReason, VirtAddr, Vpn};
use reach_hardware::config::{Machine, Nested, Replacement, Serves, Tlb};
use reach_hardware::{Geometry, Mmu, StepRefs};

const BASE: PageShift = PageShift(12);
const LARGE: PageShift = PageShift(21);
const HUGE: PageShift = PageShift(30);
const FETCHES: Serves = Serves { fetch: true, load: false, store: false };
const DATA: Serves = Serves { fetch: false, load: true, store: true };
const ALL: Serves = Serves { fetch: true, load: true, store: true };
const GEOMETRIES: [(u32, u32); 6] = [(1, 1), (2, 1), (2, 2), (3, 3), (8, 4), (9, 9)];

fn tlb(name: &str, level: u8, serves: Serves, sizes: &[PageShift], smash: bool, entries: u32) -> Tlb {
    let plain = plain_tlb(level, entries, entries, Replacement::Lru);
    Tlb { name: name.into(), serves, sizes: sizes.to_vec(), smash, ..plain }
}

fn machine(tlbs: Vec<Tlb>, host: Option<PageShift>) -> Machine {
    let nested = host.map(|host| Nested { host_page: host, tlb_entries: 2, walk_cache_entries: vec![2; 3] });
    let layout = Layout::radix(BASE, vec![9; 4]);
    Machine { layout, sizes: vec![BASE, LARGE, HUGE], nested, ..plain_machine(tlbs) }
}

/// Draws fetches and loads of a few base pages within two gigabytes.
fn references(seed: u64) -> Vec<Ref> {
    let mut random = Random::new(seed);
    let reference = |_| {
        let (huge, large, base) = (random.below(2), random.below(2), random.below(3));
        let at = VirtAddr(huge << HUGE.0 | large << LARGE.0 | base << BASE.0);
        if random.below(2) == 0 { Ref::fetch(at, 4) } else { Ref::data(Kind::Load, at, 3, 0) }
    };
    (0..300).map(reference).collect()
}

/// Returns memory in which the referenced addresses are mapped as pages of `size`.
fn memory(machine: &Machine, size: PageShift) -> Memory {
    let mut memory = Memory::new(&machine.layout, 1);
    for at in [0, 1 << 21, 1 << 30, 1 << 30 | 1 << 21].map(|at: u64| at >> 12) {
        for vpn in (at..at + 3).map(|vpn| Vpn(vpn).align_down(size, BASE)) {
            let pte = Pte::new(Pfn(vpn.0), size).0 | Pte::EXECUTABLE;
            memory.edit(Edit::Set(Asid(0), vpn, Pte(pte)));
        }
    }
    memory
}

fn run(mmu: &mut Mmu, machine: &Machine, size: PageShift, refs: &[Ref]) {
    let (mut memory, chunk) = (memory(machine, size), Chunk::from(refs.to_vec()));
    let step = StepRefs::whole(&chunk);
    assert_eq!(mmu.run(step, &mut step.begin(), memory.table(Asid(0)), None), StopReason::End);
}

/// Checks that array number `array` has a curve with base pages, and none with pages of `size`. Then the contents of
/// the other arrays of its level, and of those before it, depend on its geometry.
fn assert_no_curve_with(machine: &Machine, array: usize, size: PageShift) {
    let own = &machine.tlbs[array];
    let geometries = GEOMETRIES.map(|(entries, ways)| Geometry { entries, ways });
    let alone = |geometry: Geometry, size, refs: &[Ref]| {
        let mut other = machine.clone();
        (other.tlbs[array].entries, other.tlbs[array].ways) = (geometry.entries, geometry.ways);
        let mut mmu = Mmu::new(&other, false, 0);
        run(&mut mmu, &other, size, refs);
        mmu
    };
    let mut differ = 0;
    for seed in 0..30 {
        let refs = references(seed);
        let observed = |size| {
            let mut mmu = Mmu::new(machine, false, 0);
            mmu.enable_curve(machine, array, &geometries, 0).unwrap();
            run(&mut mmu, machine, size, &refs);
            mmu.curve_counts().unwrap()
        };
        for (geometry, misses) in observed(BASE).unwrap().misses {
            let counters = alone(geometry, BASE, &refs).counters;
            let first_level = counters.l1i_tlb_misses + counters.l1d_tlb_misses;
            assert_eq!(misses, if own.level <= 1 { first_level } else { counters.walks() }, "{geometry:?}");
        }
        let reason = observed(size).unwrap_err();
        assert!(reason.starts_with("the TLB holds pages of ") && reason.contains("in different pieces"), "{reason}");
        let held = |geometry: &Geometry| {
            let mut held = alone(*geometry, size, &refs).contents();
            held.retain(|&(other, ..)| other != array && machine.tlbs[other].level <= own.level);
            held.sort_by_key(|&(array, _, vpn, pte)| (array, vpn, pte.0));
            held
        };
        differ += u32::from(held(&geometries[0]) != held(&geometries[5]));
    }
    assert!(differ > 5, "{differ} of 30");
}

/// A walk fills nothing into the array for fetches, which does not smash. A hit in the last level fills a piece. Host
/// pages are smaller than the guest's.
#[test]
fn there_is_no_curve_if_an_array_that_does_not_smash_gets_pieces_from_a_later_level() {
    let own = tlb("own", 3, ALL, &[BASE, HUGE], true, 1);
    let machine = machine(vec![tlb("code", 2, FETCHES, &[BASE], false, 1), own], Some(LARGE));
    assert_no_curve_with(&machine, 1, HUGE);
    assert_no_curve_with(&machine, 1, LARGE);
}

/// Loads insert a piece into the array. Fetches, which look up the same array, insert the whole page into another one.
#[test]
fn there_is_no_curve_if_loads_and_fetches_smash_differently_in_one_level() {
    let own = tlb("own", 1, ALL, &[BASE], false, 1);
    let code = [tlb("code", 1, FETCHES, &[LARGE], false, 1), tlb("later", 2, FETCHES, &[BASE], false, 1)];
    let machine = machine([vec![own], code.to_vec()].concat(), None);
    assert_no_curve_with(&machine, 0, LARGE);
}

/// Returns a machine in which no array holds a huge page whole. The first level holds larger pieces of it than the
/// second.
fn larger_pieces_first() -> Machine {
    let first = |name: &str, serves| tlb(name, 1, serves, &[BASE, LARGE], false, 3);
    let second = [tlb("own", 2, ALL, &[BASE], true, 4), tlb("large", 2, ALL, &[LARGE], false, 1)];
    machine([vec![first("code", FETCHES), first("data", DATA)], second.to_vec()].concat(), None)
}

#[test]
fn there_is_no_curve_if_two_levels_hold_pieces_of_different_sizes() {
    assert_no_curve_with(&larger_pieces_first(), 2, HUGE);
}

/// A base page may be in an array twice, in pieces of both sizes, and it matters which one hits.
#[test]
fn pieces_of_two_sizes_hit_in_the_twins_order() {
    let machine = larger_pieces_first();
    for seed in 0..200 {
        let refs = references(seed);
        let mut mmu = Mmu::new(&machine, false, 0);
        assert!(mmu.folds());
        run(&mut mmu, &machine, HUGE, &refs);
        let mut twin = reach_oracle::Mmu::new(&machine, false, 0);
        assert_eq!(twin.run(&refs, memory(&machine, HUGE).table(Asid(0)), None), (StopReason::End, refs.len()));
        assert_eq!(mmu.counters, twin.counters, "seed {seed}");
    }
}
