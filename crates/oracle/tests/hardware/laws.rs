//! Laws that need no twin, or no more than one.

use crate::cases;
use crate::lockstep::{Lockstep, Setup};
use crate::random_machine::{machine, plain_machine, plain_tlb};
use crate::random_os::{Edit, Memory};
use crate::random_program::steps;
use proptest::collection::vec;
use proptest::prelude::*;
use reach_core::{
    Asid, AuxLookup, AuxTlbOptions, Chunk, PageShift, Pfn, Pte, Random, RangeTlbOptions, Ref, Shootdown, StopReason,
    TlbEvent, VirtAddr, Vpn,
};
use reach_hardware::config::{Machine, Replacement, Serves, Tlb, Walker};
use reach_hardware::{Caches, Mmu, StepRefs};
use std::collections::BTreeSet;

/// Memory whose first process has the first `pages` base pages mapped.
fn mapped(machine: &Machine, pages: u64) -> Memory {
    let mut memory = Memory::new(&machine.layout, 1);
    for n in 0..pages {
        memory.edit(Edit::Set(Asid(0), Vpn(n), Pte::new(Pfn(n), PageShift(12)).with_writable(true)));
    }
    memory
}

/// The same machine, whose walk caches have arrays of their own: a walk changes nothing in the TLB but by its translation.
fn without_guests(mut machine: Machine) -> Machine {
    if let Walker::Hardware { caches, .. } = &mut machine.walker {
        for cache in caches.iter_mut().filter(|cache| cache.within.is_some()) {
            (cache.entries, cache.ways, cache.within) = (1, 1, None);
        }
    }
    machine
}

fn load(mmu: &mut Mmu, page: u64, memory: &mut Memory) {
    let chunk = Chunk::from(vec![Ref::load(VirtAddr(page << 12))]);
    let segment = StepRefs::whole(&chunk);
    assert_eq!(mmu.run(segment, &mut segment.begin(), memory.table(Asid(0)), None), StopReason::End);
}

proptest! {
    #![proptest_config(cases(60))]

    /// One pass counts for range TLBs of every size what each would have hit by itself (Karakostas, Figure 7), also where
    /// entries are shot down and operating systems change what they map.
    #[test]
    fn one_pass_counts_range_tlbs_of_all_sizes(machine in machine(), cached: bool, seed: u64, steps in steps(300)) {
        let machine = without_guests(machine);
        let aux_tlb = |entries, sweep| {
            AuxTlbOptions::Ranges(RangeTlbOptions { entries, sweep_entries: sweep, mru: false, lookup: AuxLookup::AfterMiss, latency: 7 })
        };
        let run = |aux_tlb: AuxTlbOptions| {
            let setup = Setup { machine: machine.clone(), perfect: false, cached, aux_tlb: Some(aux_tlb), seed };
            let mut both = Lockstep::new(&setup);
            both.run(&setup.machine, &steps, true);
            (both.counted().0, both.range_hits_by_entries())
        };
        let (_, together) = run(aux_tlb(3, 6));
        let alone: Vec<u64> = (1..=6).map(|entries| run(aux_tlb(entries, 0)).0.aux_tlb_hits).collect();
        prop_assert_eq!(together, alone);
    }
}

proptest! {
    #![proptest_config(cases(500))]

    /// Where a program is cut into segments changes nothing, though folding goes on across the cuts.
    #[test]
    fn cuts_never_change_a_result(machine in machine(), cached: bool, seed: u64, steps in steps(300)) {
        let setup = Setup { machine, perfect: false, cached, aux_tlb: None, seed };
        let counted = [true, false].map(|cuts| {
            let mut both = Lockstep::new(&setup);
            both.run(&setup.machine, &steps, cuts);
            both.counted()
        });
        prop_assert_eq!(&counted[0], &counted[1]);
    }

    /// What a fully associative LRU array holds, a larger one holds too; so it never misses more.
    #[test]
    fn a_larger_lru_array_includes_a_smaller(
        small in 1..12u32,
        more in 1..12u32,
        refs in vec((0..24u64, prop::bool::weighted(0.05)), 1..300),
    ) {
        let lru = |entries| plain_machine(vec![plain_tlb(1, entries, entries, Replacement::Lru)]);
        let mut memory = mapped(&lru(small), 24);
        let mut mmus = [small, small + more].map(|entries| Mmu::new(&lru(entries), false, 0));
        for (page, shoot) in refs {
            for mmu in &mut mmus {
                if shoot {
                    mmu.invalidate(&Shootdown { asid: Asid(0), vpn: Vpn(page), pages: 1 });
                } else {
                    load(mmu, page, &mut memory);
                }
            }
            let [held, more] = mmus.each_ref().map(Mmu::contents);
            prop_assert!(held.iter().all(|entry| more.contains(entry)), "{:?} but {:?}", held, more);
            prop_assert!(mmus[0].counters.walks() >= mmus[1].counters.walks());
        }
    }
}

/// Wide sets, whose state takes several words.
#[test]
fn wide_sets_do_as_their_twins() {
    for (ways, replacement) in [
        (91, Replacement::Lru),
        (64, Replacement::TreePlru),
        (64, Replacement::Nru),
        (65, Replacement::Nru),
        (128, Replacement::Nru),
        (91, Replacement::Random),
    ] {
        let machine = plain_machine(vec![plain_tlb(1, ways, ways, replacement)]);
        let mut mmu = Mmu::new(&machine, false, 3);
        let mut twin = reach_oracle::Mmu::new(&machine, false, 3);
        let mut memory = mapped(&machine, 200);
        let mut random = Random::new(1);
        for n in 0..5000 {
            // Now few pages, now many.
            let page = random.below(if n % 500 < 250 { 200 } else { 70 });
            if random.below(50) == 0 {
                let shootdown = Shootdown { asid: Asid(0), vpn: Vpn(page), pages: 1 + random.below(12) };
                mmu.invalidate(&shootdown);
                twin.invalidate(&shootdown);
            }
            load(&mut mmu, page, &mut memory);
            twin.run(&[Ref::load(VirtAddr(page << 12))], memory.table(Asid(0)), None);
            assert_eq!(mmu.counters, twin.counters, "{ways} ways, {replacement:?}, reference {n}");
        }
        assert!(mmu.counters.walks() > 1000);
    }
}

/// Contexts run out, are given out again, and never show one process what another left.
#[test]
fn contexts_are_reused_without_harm() {
    let machine = plain_machine(vec![plain_tlb(1, 32, 32, Replacement::Lru)]);
    let mut mmu = Mmu::new(&machine, false, 0);
    let mut twin = reach_oracle::Mmu::new(&machine, false, 0);
    let mut memory = mapped(&machine, 4);
    // Every process comes back once, shortly after its first turn.
    for n in (0..9000u32).flat_map(|n| [n, n.saturating_sub(3)]) {
        mmu.switch(Asid(n));
        twin.switch(Asid(n));
        let page = u64::from(n % 4);
        load(&mut mmu, page, &mut memory);
        twin.run(&[Ref::load(VirtAddr(page << 12))], memory.table(Asid(0)), None);
        assert_eq!(mmu.counters, twin.counters, "process {n}");
        if n % 100 == 99 {
            let shootdown = Shootdown { asid: Asid(n - 5), vpn: Vpn(0), pages: u64::MAX };
            mmu.invalidate(&shootdown);
            twin.invalidate(&shootdown);
        }
        let known = |held: Vec<(usize, Asid, Vpn, Pte)>| {
            let mut processes: Vec<u32> = held.iter().map(|entry| entry.1.0).collect();
            processes.sort();
            processes
        };
        if n % 64 == 0 || (8180..8200).contains(&n) {
            assert_eq!(known(mmu.contents()), known(twin.contents()), "process {n}");
        }
    }
}

proptest! {
    #![proptest_config(cases(500))]

    /// What a miss handler is told of adds up to what the TLB holds: after misses, replacements, shootdowns, switches,
    /// and where switches empty it because its contexts are used up.
    #[test]
    fn what_handlers_are_told_is_what_the_tlb_holds(
        (entries, contexts) in (1..9u32, prop::sample::select(vec![1, 2, 3, 1 << 13])),
        steps in vec((0..8u32, 0..4u32, 0..24u64), 1..200),
    ) {
        let mut machine = plain_machine(vec![plain_tlb(1, entries, entries, Replacement::Nru)]);
        machine.core.asids = contexts;
        let mut memory = mapped(&machine, 24);
        let mut mmu = Mmu::new(&machine, false, 0);
        mmu.enable_event_log();
        let (mut told, mut held) = (Vec::new(), BTreeSet::new());
        for (what, process, page) in steps {
            match what {
                0 | 1 => mmu.switch(Asid(process)),
                2 => mmu.invalidate(&Shootdown { asid: Asid(process), vpn: Vpn(page), pages: page }),
                _ => {
                    let chunk = Chunk::from(vec![Ref::load(VirtAddr(page << 12))]);
                    let (segment, mut consulted) = (StepRefs::whole(&chunk), false);
                    let mut cursor = segment.begin();
                    while mmu.run(segment, &mut cursor, memory.table(Asid(0)), None) == StopReason::PolicyCallback {
                        prop_assert!(!std::mem::replace(&mut consulted, true), "told twice of one miss");
                    }
                }
            }
            mmu.take_events(&mut told);
            for event in &told {
                match *event {
                    TlbEvent::Miss { asid, vpn, .. } => prop_assert!(!held.contains(&(asid, vpn)), "{:?}", event),
                    TlbEvent::Inserted { asid, vpn, .. } => prop_assert!(held.insert((asid, vpn)), "{:?}", event),
                    TlbEvent::Removed { asid, vpn, .. } => prop_assert!(held.remove(&(asid, vpn)), "{:?}", event),
                }
            }
            let contents: BTreeSet<_> = mmu.contents().into_iter().map(|(_, asid, vpn, _)| (asid, vpn)).collect();
            prop_assert_eq!(&held, &contents);
        }
    }
}

/// What a program finds before its first switch belongs to process 0.
#[test]
fn the_first_process_needs_no_switch() {
    let machine = plain_machine(vec![plain_tlb(1, 4, 4, Replacement::Lru)]);
    let mut mmu = Mmu::new(&machine, false, 0);
    let mut memory = mapped(&machine, 1);
    load(&mut mmu, 0, &mut memory);
    assert_eq!(mmu.contents().len(), 1);
    mmu.invalidate(&Shootdown { asid: Asid(0), vpn: Vpn(0), pages: 0 });
    assert_eq!(mmu.contents().len(), 1);
    mmu.switch(Asid(5));
    load(&mut mmu, 0, &mut memory);
    assert_eq!(mmu.counters.walks(), 2);
    mmu.invalidate(&Shootdown { asid: Asid(0), vpn: Vpn(0), pages: 1 });
    assert_eq!(mmu.contents().iter().map(|entry| entry.1).collect::<Vec<_>>(), [Asid(5)]);
}

/// A perfect unit marks pages accessed that the operating system has aged, even where it would skip the look-up.
#[test]
fn perfect_units_see_ageing() {
    let side =
        |fetch| Tlb { serves: Serves { fetch, load: !fetch, store: !fetch }, ..plain_tlb(1, 2, 2, Replacement::Lru) };
    let machine = plain_machine(vec![side(true), side(false)]);
    assert!(Mmu::new(&machine, true, 0).folds());
    let refs =
        vec![Ref::load(VirtAddr(0)), Ref::load(VirtAddr(8)), Ref::fetch(VirtAddr(0x1000), 1), Ref::load(VirtAddr(16))];
    let chunk = Chunk::from(refs);
    let segment = StepRefs::whole(&chunk);
    for caches in [None, Some(Caches::new(&machine, 0))] {
        let mut caches = caches;
        let mut memory = mapped(&machine, 2);
        let mut mmu = Mmu::new(&machine, true, 0);
        let mut cursor = segment.begin();
        let why = mmu.run(segment, &mut cursor, memory.table(Asid(0)), caches.as_mut());
        assert!(matches!(why, StopReason::Fault(_)) && cursor.position() == 2);
        assert!(memory.table(Asid(0)).lookup(Vpn(0)).unwrap().accessed());
        memory.edit(Edit::Change(Asid(0), Vpn(0), Pte::ACCESSED, 0));
        memory.edit(Edit::Change(Asid(0), Vpn(1), 0, Pte::EXECUTABLE));
        assert_eq!(mmu.run(segment, &mut cursor, memory.table(Asid(0)), caches.as_mut()), StopReason::End);
        assert!(memory.table(Asid(0)).lookup(Vpn(0)).unwrap().accessed());
    }
}
