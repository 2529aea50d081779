//! Several cores and hardware threads: placement, sharing, and accounting.

use crate::common;
use crate::common::{Pieces, conditions, count, run, script};
use reach_core::Chunk;
use reach_lab::{Batch, Conditions, Experiment, Outcome, Placement, Preparer, Row, Simulation, Timing, machine};
use reach_trace::{Member, Multiprogram, synthetic};
use std::sync::Arc;

const SKYLAKE: &str = "skylake-e3-1240v5";

/// Returns programs that take turns of `quantum` instructions.
fn multiprogram(programs: &[&str], quantum: u64) -> Multiprogram {
    let member = |spec: &&str| {
        let spec = spec.to_string();
        Member::new(spec.clone(), Box::new(move || synthetic::parse(&spec)))
    };
    Multiprogram::new("multiprogram".into(), programs.iter().map(member).collect(), Some(quantum))
}

fn experiment(machine: &str, timing: Timing, placement: Placement) -> Experiment {
    let conditions = Conditions { placement, ..conditions(timing) };
    Experiment { conditions, ..common::experiment(&[machine], &["base"], timing) }
}

/// Returns the rows and the outcome of programs on a machine.
fn simulate(machine: &str, timing: Timing, placement: Placement, programs: &[&str]) -> (Vec<Row>, Outcome) {
    let mut report = run(&experiment(machine, timing, placement), &mut multiprogram(programs, 20_000));
    (report.rows(), report.outcomes.remove(0))
}

/// Returns the rows that a run on one hardware thread has too.
fn without_core_rows(rows: &[Row]) -> Vec<&Row> {
    rows.iter().filter(|row| !row.metric.starts_with("core.") && row.metric != "elapsed_cycles").collect()
}

#[test]
fn idle_cores_change_no_result() {
    for timing in Timing::ALL {
        for program in ["tree:nodes=3K,operations=3K", "code:regions=3,visits=4K", "gups:bytes=4M,updates=20K"] {
            let alone = simulate(SKYLAKE, timing, Placement::ONE, &[program]).0;
            let many = simulate(SKYLAKE, timing, Placement::of(3, 1), &[program]).0;
            for (one, other) in alone.iter().zip(without_core_rows(&many)) {
                assert_eq!((one, program, timing.name()), (other, program, timing.name()));
            }
            assert_eq!(count(&many, "all", "elapsed_cycles"), count(&alone, "all", "cycles"));
        }
    }
}

#[test]
fn a_program_with_a_core_of_its_own_misses_as_it_does_alone() {
    let programs = ["gups:bytes=8M,updates=40K", "tree:nodes=20K,operations=5K", "code:regions=2,visits=8K"];
    let (rows, outcome) = simulate(SKYLAKE, Timing::Counts, Placement::of(3, 1), &programs);
    let on_one = simulate(SKYLAKE, Timing::Counts, Placement::ONE, &programs).1;
    assert_eq!(outcome.processes.len(), 3);
    for (at, program) in programs.iter().enumerate() {
        let alone = simulate(SKYLAKE, Timing::Counts, Placement::ONE, &[program]).1;
        let (asid, here) = outcome.processes.iter().nth(at).unwrap();
        let (alone, shared) = (alone.total.hardware, on_one.processes[asid].hardware);
        assert_eq!((here.hardware.walks(), here.hardware.l1d_tlb_misses), (alone.walks(), alone.l1d_tlb_misses));
        assert!(shared.walks() > alone.walks(), "{program} shares a TLB on one core");
        assert_eq!(count(&rows, "all", &format!("core.{at}.walk_cycles")), here.hardware.walk_cycles);
    }
}

#[test]
fn cycles_of_threads_cores_and_processes_add_up() {
    let programs = ["gups:bytes=2M,updates=30K", "tree:nodes=5K,operations=4K", "matrix:n=80"];
    for machine in [SKYLAKE, "zenplus-2700x"] {
        for timing in Timing::ALL {
            for placement in [Placement::of(1, 2), Placement::of(2, 1), Placement::of(2, 2)] {
                let (rows, outcome) = simulate(machine, timing, placement, &programs);
                let total = outcome.total.ledger.total().0;
                let hardware_threads = outcome.hardware_threads.iter().map(|hw| hw.tally.ledger.total().0);
                assert_eq!(outcome.hardware_threads.len(), placement.hardware_threads() as usize);
                assert_eq!(hardware_threads.clone().sum::<u64>(), total);
                let processes = outcome.processes.values().map(|tally| tally.ledger.total().0);
                assert_eq!(processes.sum::<u64>(), total);
                let elapsed = count(&rows, "all", "elapsed_cycles");
                assert!(hardware_threads.clone().all(|hw| hw <= elapsed) && elapsed < total);
                assert!(outcome.hardware_threads.iter().all(|hw| hw.clock == elapsed));
                let cores = (0..placement.cores).map(|core| count(&rows, "all", &format!("core.{core}.cycles")));
                assert_eq!(cores.sum::<u64>(), total);
                let instructions = outcome.processes.values().map(|tally| tally.counts.instructions);
                assert_eq!(instructions.sum::<u64>(), outcome.total.counts.instructions);
            }
        }
    }
}

#[test]
fn results_depend_neither_on_cuts_nor_on_simulating_threads() {
    let programs = ["gups:bytes=2M,updates=30K", "tree:nodes=5K,operations=4K", "matrix:n=60"];
    let pieces = Pieces::of(&mut multiprogram(&programs, 10_000));
    for timing in [Timing::Counts, Timing::InOrder] {
        let experiment = experiment(SKYLAKE, timing, Placement::of(2, 2));
        let whole = run(&experiment, &mut pieces.cut(vec![usize::MAX])).rows();
        for lengths in [vec![777], vec![1, 5000, 40_000]] {
            assert!(run(&experiment, &mut pieces.cut(lengths)).rows() == whole);
        }
        let experiment = Experiment { threads: 3, ..experiment };
        assert!(run(&experiment, &mut pieces.cut(vec![10_000])).rows() == whole);
    }
}

/// With processes that fork, map and unmap on several cores.
#[test]
fn every_tlb_entry_agrees_with_the_page_table_on_several_cores() {
    for seed in 1..=4 {
        let program = script::program(seed, 150);
        let machine = machine::resolve(["skylake-e3-1240v5", "zenplus-2700x"][seed as usize % 2]).unwrap();
        for system in ["base", "linux-thp", "navarro-2002", "karakostas-2015-rmm", "zhou-2023:share_tables=on"] {
            let system = reach_systems::resolve(system).unwrap();
            let placement = Placement { slice: 300, ..Placement::of(2, 2) };
            let conditions = Conditions { placement, memory: 64 << 20, ..conditions(Timing::InOrder) };
            let mut simulation = Simulation::new(&machine, &system, &conditions).unwrap();
            simulation.check_often();
            let mut preparer = Preparer::new(Timing::InOrder).sliced(placement.slices());
            let (mut source, mut chunk) = (program.cut(vec![10_000]), Chunk::default());
            while reach_trace::Source::fill(&mut source, &mut chunk).unwrap() {
                let batch = preparer.prepare(std::mem::take(&mut chunk), reach_trace::Source::blocks(&source));
                simulation.take(&Arc::new(batch)).unwrap();
            }
            simulation.take(&Arc::new(Batch::end())).unwrap();
            let outcome = simulation.finish();
            let busy = outcome.hardware_threads.iter().filter(|hw| hw.tally.counts.instructions > 0).count();
            assert!(busy > 2, "seed {seed}: {busy}");
        }
    }
}

/// With more cores, threads evict each other's lines from the last cache, so more accesses go to memory. The length of
/// slices changes this by less than 1 %.
#[test]
fn cores_compete_for_the_last_cache() {
    let program = "gups:bytes=3M,updates=300K";
    let missed = |cores: usize, slice: u64| {
        let placement = Placement { slice, ..Placement::of(cores as u32, 1) };
        // Superpages fill all sets of the cache evenly; the frames of base pages depend on the order of faults.
        let systems = vec![reach_systems::resolve("linux-thp").unwrap()];
        let experiment = Experiment { systems, ..experiment(SKYLAKE, Timing::InOrder, placement) };
        let rows = run(&experiment, &mut multiprogram(&vec![program; cores], 20_000)).rows();
        (count(&rows, "all", "memory.load.accesses") / cores as u64, count(&rows, "all", "cycles"))
    };
    let (one, four) = (missed(1, 1000).0, missed(4, 1000));
    assert!(four.0 > 2 * one, "{} for {one}", four.0);
    for slice in [250, 500, 2000, 4000, 8000] {
        let (accesses, cycles) = missed(4, slice);
        let off = |a: u64, b: u64| (a as f64 / b as f64 - 1.0).abs();
        assert!(
            off(accesses, four.0) < 0.01 && off(cycles, four.1) < 0.01,
            "slices of {slice}: {accesses}, {cycles}; {four:?}"
        );
    }
}

/// Siblings have half an out-of-order core each; a thread alone has a whole one.
#[test]
fn siblings_share_an_out_of_order_core() {
    let programs = ["gups:bytes=1M,updates=100K", "gups:bytes=1M,updates=100K,seed=2"];
    let elapsed = |placement: Placement, programs: &[&str]| {
        let (rows, _) = simulate(SKYLAKE, Timing::Ooo, placement, programs);
        count(&rows, "all", if placement.hardware_threads() > 1 { "elapsed_cycles" } else { "cycles" })
    };
    let (siblings, cores) = (elapsed(Placement::of(1, 2), &programs), elapsed(Placement::of(2, 1), &programs));
    let turns = elapsed(Placement::ONE, &programs);
    assert!(cores < siblings && siblings < turns * 21 / 20, "{cores}, {siblings}, {turns}");
}

#[test]
fn placements_that_a_machine_or_system_lacks_are_refused() {
    let refused = |machine: &str, system: &str, placement: Placement| {
        let (machine, system) = (machine::resolve(machine).unwrap(), reach_systems::resolve(system).unwrap());
        let conditions = Conditions { placement, memory: 64 << 20, ..conditions(Timing::Counts) };
        Simulation::new(&machine, &system, &conditions).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused("zen4", "base", Placement::of(1, 3)).contains("2 hardware threads, and --smt asks for 3"));
    assert!(refused("apple-m1", "base", Placement::of(1, 2)).contains("1 hardware thread, and"));
    assert_eq!(
        refused("zen4", "base", Placement::of(64, 1)),
        "machine zen4 has 8 cores, and --cores asks for 64; zen4:processor.cores=64 would have as many"
    );
    assert_eq!(refused("zen4:processor.cores=64", "base", Placement::of(64, 1)), "");
    assert!(refused("alpha-21264", "base", Placement::of(2, 1)).contains("has 1 core, and"));
    let two = "alpha-21264:processor.cores=2";
    assert!(
        refused(two, "base", Placement::of(3, 1)).contains("alpha-21264:processor.cores=2,processor.cores=3 would")
    );
    assert!(refused(two, "romer-1995", Placement::of(2, 1)).contains("contents of one TLB"));
    assert_eq!(refused(two, "navarro-2002", Placement::of(2, 1)), "");
}
