//! Out-of-order timing against known behaviour of out-of-order cores.

use crate::common;
use crate::common::{Pieces, experiment, run, simulate};
use reach_core::{Asid, Block, BlockTable, Chunk, Event, Label, Map, Protection, Random, Ref, ThreadId, VirtAddr};
use reach_lab::{Outcome, Timing};

const SKYLAKE: &str = "skylake-e3-1240v5";
const ZEN: &str = "zenplus-2700x";

/// Returns the cycles of the program itself, without the operating system's.
fn user_cycles(outcome: &Outcome) -> f64 {
    let ledger = &outcome.total.ledger;
    let system = [Label::Fault, Label::Remap, Label::Copy, Label::Daemon].map(|label| ledger.charged(label).0);
    (ledger.total().0 - system.iter().sum::<u64>()) as f64
}

/// Returns the program's own cycles per repetition, beyond the first `less` repetitions.
fn cycles_each(machine: &str, system: &str, program: &str, [less, more]: [u64; 2], timing: Timing) -> f64 {
    let run = |times: u64| user_cycles(&simulate(machine, system, &program.replace('#', &times.to_string()), timing));
    (run(more) - run(less)) / (more - less) as f64
}

#[test]
fn a_dependent_chase_takes_its_in_order_time() {
    dependent_chases_take_their_in_order_time(&[SKYLAKE]);
}

#[test]
#[ignore = "takes 20 seconds"]
fn a_dependent_chase_takes_its_in_order_time_on_other_machines() {
    dependent_chases_take_their_in_order_time(&[ZEN, "sapphire-rapids"]);
}

fn dependent_chases_take_their_in_order_time(machines: &[&str]) {
    // In the last cache and in memory, with and without walks that miss the caches.
    for (bytes, system) in [("16M", "base"), ("64M", "base"), ("64M", "hugetlb-2m"), ("256M", "hugetlb-2m")] {
        for machine in machines {
            let each = |timing| {
                let program = format!("chase:bytes={bytes},unit=128,steps=#");
                cycles_each(machine, &format!("{system}{}", pages(system)), &program, [700_000, 1_000_000], timing)
            };
            let (in_order, ooo) = (each(Timing::InOrder), each(Timing::Ooo));
            assert!((ooo / in_order - 1.0).abs() < 0.1, "{machine} {bytes} {system}: {ooo:.1}, {in_order:.1}");
        }
    }
}

/// Returns options that give a program that only reads frames of its own.
fn pages(system: &str) -> &'static str {
    if system == "base" { ":zero_page=off" } else { "" }
}

#[test]
fn independent_misses_overlap_up_to_the_bound() {
    // Random updates with independent addresses: each misses once.
    let each = |mshrs: u32| {
        let machine = format!("{SKYLAKE}:ooo.l1_mshrs={mshrs}");
        cycles_each(&machine, "hugetlb-2m", "gups:bytes=256M,updates=#", [300_000, 600_000], Timing::Ooo)
    };
    let alone = each(1);
    // Memory takes 42 cycles and 51 ns at 3.5 GHz.
    assert!(alone > 200.0, "{alone}");
    for mshrs in [2, 4, 8] {
        let overlapped = alone / each(mshrs);
        assert!(overlapped <= f64::from(mshrs) * 1.001 && overlapped > f64::from(mshrs) * 0.9, "{mshrs}: {overlapped}");
    }
    // 224 instructions hold twenty updates, so at most twenty misses are in flight.
    let most = alone / each(64);
    assert!(most > 8.0 && most < 224.0 / 11.0 * 1.1, "{most}");
}

#[test]
fn misses_overlap_up_to_the_bandwidth_of_memory() {
    // Each update's load fetches its line and its store hits; hardly any line is cached before.
    let each = |bandwidth: u32| {
        let machine = format!(
            "haswell-e5-2680v3:memory.bandwidth={bandwidth},caches.l3.bytes=1.25M,ooo.prefetch.adjacent_line=false"
        );
        cycles_each(&machine, "hugetlb-2m", "gups:bytes=256M,updates=#", [300_000, 400_000], Timing::Ooo)
    };
    for bandwidth in [4000, 500] {
        // Cycles of 64 bytes at 2.5 GHz.
        let line = 64.0 * 2500.0 / f64::from(bandwidth);
        let lines = each(bandwidth) / line;
        assert!((lines - 1.0).abs() < 0.05, "{bandwidth}: {lines:.2} lines an update");
    }
}

/// Each update loads a line that is not in the first level, which holds an eighth of them, but in the second.
#[test]
fn lines_from_the_second_level_arrive_as_fast_as_the_first_level_fills() {
    let each = |fill: u32| {
        let machine = format!("zen4:ooo.l1_fill={fill}");
        cycles_each(&machine, "hugetlb-2m", "gups:bytes=256K,updates=#", [100_000, 200_000], Timing::Ooo)
    };
    for fill in [20, 40] {
        let lines = each(fill) / f64::from(fill);
        assert!((lines - 0.875).abs() < 0.03, "{fill}: {lines:.3} lines an update");
    }
}

/// With one MSHR, a walk's reads that miss the first level delay misses, unless the walker begins at the second level.
#[test]
fn reads_of_walks_take_mshrs_where_they_miss_the_first_level() {
    let delay = |level: u32| {
        let machine = format!("{SKYLAKE}:ooo.l1_mshrs=1,walker.hardware.cache_level={level}");
        let each = |system: &str| {
            let system = format!("{system}{}", pages(system));
            cycles_each(&machine, &system, "gups:bytes=1G,updates=#", [900_000, 1_200_000], Timing::Ooo)
        };
        each("base") - each("hugetlb-2m")
    };
    let (first, second) = (delay(1), delay(2));
    // Where walks take no MSHR, they overlap with the misses before them, and hardly delay anything.
    assert!(first - second > 20.0, "{first} {second}");
}

#[test]
fn walks_overlap_up_to_the_number_of_walkers() {
    let each = |walkers: u32| {
        let machine = format!("sapphire-rapids:walker.hardware.walkers={walkers},ooo.l1_mshrs=64");
        cycles_each(&machine, "base", "gups:bytes=1G,updates=#", [900_000, 1_200_000], Timing::Ooo)
    };
    let (one, two, four) = (each(1), each(2), each(4));
    assert!(one / two > 1.5 && one / two < 2.05, "{one} {two}");
    assert!(one / four > 2.2 && one / four < 4.1, "{one} {four}");
}

/// Returns a program that jumps from one page of 2 MB to the next, again and again, with four instructions in each. If
/// `data` is not 0, one of them loads a random word of `data` bytes.
fn code(regions: u64, data: u64, visits: u64) -> Pieces {
    let (start, heap) = (VirtAddr(1 << 32), VirtAddr(1 << 33));
    let (mut blocks, mut program, mut random) = (BlockTable::default(), Chunk::default(), Random::new(5));
    program.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    let protection = Protection::READ_EXECUTE;
    program.push_event(Event::Map(Map { protection, ..Map::anonymous(start, regions << 21) }));
    program.push_event(Event::Map(Map::anonymous(heap, data.max(4096))));
    // mov rax, [rdx] or mov rdx, rsi; shl rsi, 1; xor rsi, rdi; jmp
    let first: &[u8] = if data > 0 { &[0x48, 0x8b, 2] } else { &[0x48, 0x89, 0xf2] };
    let bytes: Box<[u8]> = [first, &[0x48, 0xd1, 0xe6, 0x48, 0x31, 0xfe, 0xeb, 0]].concat().into();
    for region in 0..regions {
        // Each region uses another cache set.
        let pc = start + (region << 21 | region << 6);
        blocks.push(Block { pc, len: bytes.len() as u16, instructions: 4, bytes: bytes.clone() });
    }
    for visit in 0..visits {
        let id = reach_core::BlockId((visit % regions) as u32);
        program.push_fetch(id, blocks.get(id));
        if data > 0 {
            program.refs.push(Ref::load(heap + random.below(data / 8) * 8));
        }
    }
    Pieces::new("code", blocks, program)
}

/// Runs it on `machine` with pages of 2 MB.
fn run_code(machine: &str, regions: u64, data: u64, visits: u64) -> Outcome {
    let experiment = experiment(&[machine], &["hugetlb-2m"], Timing::Ooo);
    run(&experiment, &mut code(regions, data, visits).cut(vec![100_000])).outcomes.remove(0)
}

/// Zhou et al. 2023, section 7.1: more code superpages than the eight that the first-level ITLB of Skylake holds slow a
/// core down several times; on Zen+, whose entries hold either size, they do not.
#[test]
fn more_than_eight_code_superpages_slow_down_skylake_but_not_zen() {
    let slowdown = |machine| {
        let visit = |regions| {
            user_cycles(&run_code(machine, regions, 0, 200_000)) - user_cycles(&run_code(machine, regions, 0, 100_000))
        };
        visit(12) / visit(8)
    };
    let (skylake, zen) = (slowdown(SKYLAKE), slowdown(ZEN));
    assert!((4.5..6.0).contains(&skylake), "{skylake}");
    assert!((0.9..1.1).contains(&zen), "{zen}");
}

/// While instructions in flight wait for memory, the ITLB entry to evict is in use: fetch stalls beyond walk and hit.
#[test]
fn itlb_inclusion_has_a_stall_of_its_own() {
    let stalls = |machine: &str, regions| {
        let outcome = run_code(machine, regions, 256 << 20, 100_000);
        let h = outcome.total.hardware;
        let parts = [h.itlb_stall_walk, h.itlb_stall_l2_tlb_hit, h.itlb_stall_inclusion, h.itlb_stall_replay];
        assert_eq!(h.itlb_stall(), parts.iter().sum::<u64>());
        // Nine cycles a look-up: for hits, and for the one walk of each region that ends without a fault.
        assert_eq!(h.itlb_stall_l2_tlb_hit, 9 * (h.l2_tlb_hits_fetch + regions));
        (h.itlb_stall_inclusion, outcome.total.ledger.charged(Label::ItlbStall).0)
    };
    // Without repeated look-ups, which have the same label.
    let skylake = format!("{SKYLAKE}:ooo.itlb_replay=0");
    let (counted, charged) = stalls(&skylake, 9);
    assert!(counted > 100_000, "more than a cycle a visit: {counted}");
    assert!(charged <= counted, "{charged} of {counted}");
    // Eight entries suffice for eight regions.
    assert_eq!(stalls(&skylake, 8), (0, 0));
    assert_eq!(stalls(&format!("{skylake},ooo.itlb_inclusion=false"), 9), (0, 0));
}

#[test]
fn a_machine_without_an_out_of_order_core_is_refused() {
    let machine = reach_lab::machine::resolve("paint-parisc").unwrap();
    let system = reach_systems::resolve("base").unwrap();
    let error = reach_lab::Simulation::new(&machine, &system, &common::conditions(Timing::Ooo)).err().unwrap();
    assert!(error.to_string().contains("[ooo]"), "{error}");
}
