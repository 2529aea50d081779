//! Laws of single properties, such as LRU inclusion.

use crate::cases;
use crate::lockstep::{Cuts, Lockstep, Setup};
use crate::random_machine::{machine, plain_machine, plain_tlb};
use crate::random_os::{Edit, Memory};
use crate::random_program::program;
use proptest::collection::vec;
use proptest::prelude::*;
use reach_core::{
    Asid, AuxLookup, AuxTlbOptions, Chunk, PageShift, Pfn, Pte, Random, RangeTlbOptions, Ref, ReuseSignature,
    Shootdown, StopReason, TlbEvent, VirtAddr, Vpn,
};
use reach_hardware::config::{Machine, Replacement, Serves, Tlb, Walker};
use reach_hardware::{Caches, Mmu, StepRefs};
use std::collections::BTreeSet;

/// Returns the memory of one process that has its first `pages` base pages mapped.
fn mapped(machine: &Machine, pages: u64) -> Memory {
    let mut memory = Memory::new(&machine.layout, 1);
    for n in 0..pages {
        memory.edit(Edit::Set(Asid(0), Vpn(n), Pte::new(Pfn(n), PageShift(12)).with_writable(true)));
    }
    memory
}

/// Gives the walk caches of a machine arrays of their own and lets no array coalesce, so that a walk changes the TLB only by
/// its translation.
fn with_plain_walks(mut machine: Machine) -> Machine {
    machine.nested = None;
    machine.tlbs.iter_mut().for_each(|tlb| tlb.coalesce = None);
    if let Walker::Hardware { caches, .. } = &mut machine.walker {
        for cache in caches.iter_mut().filter(|cache| cache.within.is_some()) {
            (cache.entries, cache.ways, cache.within) = (1, 1, None);
        }
    }
    machine
}

fn load(mmu: &mut Mmu, page: u64, memory: &mut Memory) {
    let chunk = Chunk::from(vec![Ref::load(VirtAddr(page << 12))]);
    let step = StepRefs::whole(&chunk);
    assert_eq!(mmu.run(step, &mut step.begin(), memory.table(Asid(0)), None), StopReason::End);
}

proptest! {
    #![proptest_config(cases(60))]

    /// One pass counts the hits of range TLBs of every size (Karakostas, Figure 7), also under shootdowns and changed
    /// mappings.
    #[test]
    fn one_pass_counts_the_hits_of_range_tlbs_of_all_sizes(
        machine in machine(),
        cached: bool,
        seed: u64,
        program in program(300),
    ) {
        let machine = with_plain_walks(machine);
        prop_assert_eq!(reach_hardware::cannot_sweep(&machine), None);
        let aux_tlb = |entries, sweep_entries| {
            let lookup = AuxLookup::AfterMiss;
            AuxTlbOptions::Ranges(RangeTlbOptions { entries, sweep_entries, mru: false, lookup, latency: 7 })
        };
        let run = |aux_tlb: AuxTlbOptions| {
            let setup = Setup { machine: machine.clone(), perfect: false, cached, aux_tlb: Some(aux_tlb), assist: false, monitor: None, seed };
            let mut lockstep = Lockstep::new(&setup);
            lockstep.run(&setup.machine, &program, Cuts::Heed);
            (lockstep.counted().0, lockstep.range_hits_by_entries())
        };
        let (_, one_pass) = run(aux_tlb(3, 6));
        let alone: Vec<u64> = (1..=6).map(|entries| run(aux_tlb(entries, 0)).0.aux_tlb_hits).collect();
        prop_assert_eq!(one_pass, alone);
    }
}

proptest! {
    #![proptest_config(cases(500))]

    /// Folding goes on across cuts.
    #[test]
    fn cutting_a_program_into_steps_never_changes_a_result(
        machine in machine(),
        cached: bool,
        seed: u64,
        program in program(300),
    ) {
        let setup = Setup { machine, perfect: false, cached, aux_tlb: None, assist: false, monitor: None, seed };
        let counted = [Cuts::Heed, Cuts::Ignore].map(|cuts| {
            let mut lockstep = Lockstep::new(&setup);
            lockstep.run(&setup.machine, &program, cuts);
            lockstep.counted()
        });
        prop_assert_eq!(&counted[0], &counted[1]);
    }

    /// So it never misses more.
    #[test]
    fn a_larger_lru_array_holds_all_that_a_smaller_one_holds(
        small in 1..12u32,
        more in 1..12u32,
        refs in vec((0..24u64, prop::bool::weighted(0.05)), 1..300),
    ) {
        let lru = |entries| plain_machine(vec![plain_tlb(1, entries, entries, Replacement::Lru)]);
        let mut memory = mapped(&lru(small), 24);
        let mut mmus = [small, small + more].map(|entries| Mmu::new(&lru(entries), false, 0));
        for (page, is_shootdown) in refs {
            for mmu in &mut mmus {
                if is_shootdown {
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

/// Entries of the kernel are global: a switch of address spaces that flushes everything else leaves them.
#[test]
fn entries_of_the_kernel_survive_every_switch() {
    let mut machine = plain_machine(vec![plain_tlb(1, 8, 8, Replacement::Lru)]);
    machine.core.asids = 1;
    let mut memory = mapped(&machine, 4);
    memory.edit(Edit::Set(Asid::KERNEL, Vpn(3), Pte::new(Pfn(9), PageShift(12)).with_writable(true)));
    let mut mmu = Mmu::new(&machine, false, 0);
    // The kernel's entry and a program's at the same page; then a switch that flushes; then both again.
    let mut walks = |mmu: &mut Mmu, asid: Asid| {
        let chunk = Chunk::from(vec![Ref::load(VirtAddr(3 << 12))]);
        let step = StepRefs::whole(&chunk);
        mmu.switch(asid);
        assert_eq!(mmu.run(step, &mut step.begin(), memory.table(asid), None), StopReason::End);
        mmu.counters.walks()
    };
    let spaces = [Asid(0), Asid::KERNEL, Asid(0), Asid::KERNEL];
    assert_eq!(spaces.map(|asid| walks(&mut mmu, asid)), [1, 2, 2, 2]);
    mmu.switch(Asid(1));
    assert_eq!([Asid::KERNEL, Asid(0)].map(|asid| walks(&mut mmu, asid)), [2, 3]);
    mmu.invalidate(&Shootdown { asid: Asid::KERNEL, vpn: Vpn(3), pages: 1 });
    assert_eq!(mmu.contents().len(), 1);
}

/// The state of a wide set takes several words.
#[test]
fn wide_sets_equal_their_twins() {
    for (ways, replacement) in [
        (91, Replacement::Lru),
        (4, Replacement::TreePlru),
        (8, Replacement::TreePlru),
        (64, Replacement::TreePlru),
        (12, Replacement::RotatingPlru),
        (48, Replacement::RotatingPlru),
        (1, Replacement::QuadAgeLru),
        (32, Replacement::QuadAgeLru),
        (64, Replacement::Nru),
        (65, Replacement::Nru),
        (128, Replacement::Nru),
        (91, Replacement::Random),
        (12, Replacement::InstructionAware),
        (40, Replacement::InstructionAware),
        (5, Replacement::ReusePrediction(ReuseSignature::ControlFlow)),
        (40, Replacement::ReusePrediction(ReuseSignature::Instruction)),
    ] {
        let machine = plain_machine(vec![plain_tlb(1, ways, ways, replacement)]);
        let mut mmu = Mmu::new(&machine, false, 3);
        let mut twin = reach_oracle::Mmu::new(&machine, false, 3);
        let mut memory = mapped(&machine, 200);
        let mut random = Random::new(1);
        for n in 0..5000 {
            // Few pages and many pages take turns.
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

/// Contexts run out and are given to other processes.
#[test]
fn a_reused_context_never_hits_its_last_process_entries() {
    let machine = plain_machine(vec![plain_tlb(1, 32, 32, Replacement::Lru)]);
    let mut mmu = Mmu::new(&machine, false, 0);
    let mut twin = reach_oracle::Mmu::new(&machine, false, 0);
    let mut memory = mapped(&machine, 4);
    // Every process runs twice, the second time shortly after the first.
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
        let processes_of = |held: Vec<(usize, Asid, Vpn, Pte)>| {
            let mut processes: Vec<u32> = held.iter().map(|entry| entry.1.0).collect();
            processes.sort();
            processes
        };
        if n % 64 == 0 || (8180..8200).contains(&n) {
            assert_eq!(processes_of(mmu.contents()), processes_of(twin.contents()), "process {n}");
        }
    }
}

proptest! {
    #![proptest_config(cases(500))]

    /// After misses, replacements, shootdowns, switches, and switches that flush the TLB because its contexts are
    /// exhausted.
    #[test]
    fn the_event_log_adds_up_to_the_contents_of_the_tlb(
        (entries, asids) in (1..9u32, prop::sample::select(vec![1, 2, 3, 1 << 13])),
        steps in vec((0..8u32, 0..4u32, 0..24u64), 1..200),
    ) {
        let mut machine = plain_machine(vec![plain_tlb(1, entries, entries, Replacement::Nru)]);
        machine.core.asids = asids;
        let mut memory = mapped(&machine, 24);
        let mut mmu = Mmu::new(&machine, false, 0);
        mmu.enable_event_log();
        let (mut events, mut held) = (Vec::new(), BTreeSet::new());
        for (operation, process, page) in steps {
            match operation {
                0 | 1 => mmu.switch(Asid(process)),
                2 => mmu.invalidate(&Shootdown { asid: Asid(process), vpn: Vpn(page), pages: page }),
                _ => {
                    let chunk = Chunk::from(vec![Ref::load(VirtAddr(page << 12))]);
                    let (step, mut consulted) = (StepRefs::whole(&chunk), false);
                    let mut cursor = step.begin();
                    while mmu.run(step, &mut cursor, memory.table(Asid(0)), None) == StopReason::PolicyCallback {
                        prop_assert!(!std::mem::replace(&mut consulted, true), "two callbacks for one miss");
                    }
                }
            }
            mmu.take_events(&mut events);
            for event in &events {
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

#[test]
fn references_before_the_first_switch_belong_to_process_0() {
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

/// The operating system has cleared the bit of the page that a folded reference refers to.
#[test]
fn a_perfect_mmu_sets_a_cleared_accessed_bit_again() {
    let side =
        |fetch| Tlb { serves: Serves { fetch, load: !fetch, store: !fetch }, ..plain_tlb(1, 2, 2, Replacement::Lru) };
    let machine = plain_machine(vec![side(true), side(false)]);
    assert!(Mmu::new(&machine, true, 0).folds());
    let refs =
        vec![Ref::load(VirtAddr(0)), Ref::load(VirtAddr(8)), Ref::fetch(VirtAddr(0x1000), 1), Ref::load(VirtAddr(16))];
    let chunk = Chunk::from(refs);
    let step = StepRefs::whole(&chunk);
    for caches in [None, Some(Caches::new(&machine, 0))] {
        let mut caches = caches;
        let mut memory = mapped(&machine, 2);
        let mut mmu = Mmu::new(&machine, true, 0);
        let mut cursor = step.begin();
        let why = mmu.run(step, &mut cursor, memory.table(Asid(0)), caches.as_mut());
        assert!(matches!(why, StopReason::Fault(_)) && cursor.position() == 2);
        assert!(memory.table(Asid(0)).lookup(Vpn(0)).unwrap().accessed());
        memory.edit(Edit::Change { asid: Asid(0), vpn: Vpn(0), clear: Pte::ACCESSED, set: 0 });
        memory.edit(Edit::Change { asid: Asid(0), vpn: Vpn(1), clear: 0, set: Pte::EXECUTABLE });
        assert_eq!(mmu.run(step, &mut cursor, memory.table(Asid(0)), caches.as_mut()), StopReason::End);
        assert!(memory.table(Asid(0)).lookup(Vpn(0)).unwrap().accessed());
    }
}
