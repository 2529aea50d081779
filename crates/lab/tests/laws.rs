//! Laws that hold for every machine, system and program: the same rows however the work is cut up, cycles that add up,
//! factors that multiply out, translations that the page table confirms.

use crate::common;
use crate::common::{Pieces, conditions, count, run, script};
use proptest::prelude::*;
use reach_core::{
    Asid, Backing, Block, BlockTable, Chunk, Event, FileId, Label, Map, Protection, Ref, ThreadId, VirtAddr,
};
use reach_lab::{ALL, Conditions, Experiment, Preparer, Row, Simulation, Status, Timing, Value, machine};
use reach_trace::file::{Metadata, Reader, Writer};
use reach_trace::{Alignment, Ending, FastForward, Source, synthetic};
use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::Arc;

const MACHINES: [&str; 3] = ["skylake-e3-1240v5", "zenplus-2700x", "paint-parisc"];
const TIMINGS: [Timing; 3] = Timing::ALL;

/// Returns those of `machines` that support `timing`: not every machine has an out-of-order core.
fn supporting<'a>(timing: Timing, machines: &[&'a str]) -> Vec<&'a str> {
    let can = |machine: &&&str| timing != Timing::Ooo || machine::resolve(machine).unwrap().ooo.is_some();
    machines.iter().filter(can).copied().collect()
}

/// Small programs of different kinds.
const PROGRAMS: [&str; 6] = [
    "tree:nodes=500,operations=100",
    "phases:sizes=64K/2M,dwell=1K,rounds=3",
    "matrix:n=60",
    "gups:bytes=8M,updates=1K",
    "touch:bytes=3M,passes=2",
    "mix:bytes=4M,refs=5K",
];

/// Returns conditions with little memory: these laws take hundreds of boots, and with debug assertions the operating system
/// checks itself after every operation.
fn small(timing: Timing) -> Conditions {
    Conditions { memory: 64 << 20, ..conditions(timing) }
}

fn experiment(machines: &[&str], systems: &[&str], timing: Timing) -> Experiment {
    Experiment { conditions: small(timing), ..common::experiment(machines, systems, timing) }
}

/// Variants of online promotion other than the default, Gemini that forms huge pages of base pages, and CBMM with profiles.
const ONLINE: [&str; 7] = [
    "fang-1999:policy=asap,mechanism=copy",
    "fang-1999:policy=aol,mechanism=copy,threshold=1",
    "fang-1999:policy=aol,mechanism=remap,threshold=1",
    "fang-1999:policy=online,mechanism=copy,threshold=1",
    "jia-2023-gemini:huge_faults=off,scan_millisecs=1,preallocate_above=1",
    "mansi-2022-cbmm:profile=huge:mmap:1+huge:heap:1+eager:mmap:50000",
    "mansi-2022-cbmm:profile=huge:mmap:300000,zeroed_at_boot=off,promotion=on,promotion_millisecs=1,idle_processor=off",
];

/// Systems on page tables that are not radix trees: superpages of several sizes, ranges and coalesced entries among them.
const PAGE_TABLES: [&str; 6] = [
    "linux-thp:page_table=cuckoo",
    "navarro-2002:page_table=hashed",
    "karakostas-2015-rmm:page_table=chained",
    "pham-2012-colt:page_table=cuckoo",
    "linux-thp:page_table=flattened",
    "linux-thp:page_table=learned",
];

/// Returns every system that runs on these machines.
fn systems(machines: &[&str]) -> Vec<&'static str> {
    let names = reach_systems::list().iter().map(|system| system.name).chain(ONLINE).chain(PAGE_TABLES);
    let boots = |system: &str, machine: &&str| {
        let (machine, system) = (machine::resolve(machine).unwrap(), reach_systems::resolve(system).unwrap());
        Simulation::new(&machine, &system, &small(Timing::Counts)).is_ok()
    };
    names.filter(|system| machines.iter().all(|machine| boots(system, machine))).collect()
}

fn machines() -> Vec<&'static str> {
    machine::list().map(|machine| machine.name).collect()
}

fn whole(program: &str) -> Pieces {
    Pieces::of(&mut *synthetic::parse(program).unwrap())
}

/// Returns programs that together have all kinds of references and events.
fn programs() -> Vec<Pieces> {
    PROGRAMS.map(whole).into_iter().chain((1..=2).map(|seed| script::program(seed, 60))).collect()
}

#[test]
fn scripts_have_all_kinds_of_events() {
    let kinds: BTreeSet<&str> = (1..=3)
        .flat_map(|seed| {
            let program = script::program(seed, 150);
            program.events().map(kind).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(kinds.len(), 9, "{kinds:?}");
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::File { .. } => "file",
        Event::Map(_) => "map",
        Event::Unmap(_) => "unmap",
        Event::Protect(..) => "protect",
        Event::Remap(_) => "remap",
        Event::Advise(..) => "advise",
        Event::Fork { .. } => "fork",
        Event::Exec { .. } => "exec",
        Event::Exit => "exit",
        Event::Switch { .. } => "switch",
        Event::Phase(_) => "phase",
        Event::SystemCall(_) => "system call",
        Event::Mark(_) => "mark",
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for timing in TIMINGS {
        for program in [whole(PROGRAMS[0]), script::program(7, 40)] {
            let rows = |threads| {
                let mut experiment = experiment(&MACHINES[..2], &systems(&[])[..3], timing);
                experiment.threads = threads;
                run(&experiment, &mut program.cut(vec![997])).rows()
            };
            let alone = rows(0);
            assert!(alone.len() > 100);
            for threads in [1, 2, 4] {
                assert_eq!(rows(threads), alone, "{threads} threads, {}, {}", program.name(), timing.name());
            }
        }
    }
}

/// Records the program as a trace file.
fn recorded(program: &mut Pieces) -> Reader {
    let metadata = Metadata { program: program.name().to_owned(), ..Metadata::default() };
    let mut writer = Writer::new(Cursor::new(Vec::new()), &metadata).unwrap();
    let record = |chunk: &Chunk, source: &dyn Source| writer.write(chunk, source.blocks());
    experiment(&MACHINES[..1], &["base"], Timing::Counts).run_with_tee(record, program, |_| true).unwrap();
    Reader::new(writer.finish(&Ending::default()).unwrap(), "memory").unwrap()
}

/// Timings with caches read references, `counts` reads the outline.
#[test]
fn replaying_a_recording_equals_the_recorded_run() {
    for program in programs() {
        for (timing, machines) in
            [(Timing::Ooo, &MACHINES[..1]), (Timing::InOrder, &MACHINES[..1]), (Timing::Counts, &MACHINES)]
        {
            let experiment = experiment(machines, &systems(machines), timing);
            let live = run(&experiment, &mut program.cut(vec![usize::MAX])).rows();
            let mut recording = recorded(&mut program.cut(vec![usize::MAX]));
            assert_eq!(live, run(&experiment, &mut recording).rows(), "{}, {}", program.name(), timing.name());
        }
    }
}

/// A superpage replaces pages in the middle of a step while instructions are fetched from them. An outline does not say
/// which fetches come before.
#[test]
fn references_are_read_where_an_outline_is_not_enough() {
    let start = VirtAddr(0x4000_0000);
    let (mut blocks, mut program) = (BlockTable::default(), Chunk::default());
    let id = blocks.push(Block { pc: start, len: 16, instructions: 4, bytes: Box::default() });
    program.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    let all = Protection { execute: true, ..Protection::READ_WRITE };
    program.push_event(Event::Map(Map { protection: all, ..Map::anonymous(start, 64 << 10) }));
    for page in 0..8 {
        program.push_fetch(id, blocks.get(id));
        program.refs.push(Ref::store(start + page * 8192));
    }
    program.push_fetch(id, blocks.get(id));
    let program = Pieces::new("code among data", blocks, program);
    let experiment = experiment(&["alpha-21264"], &["base", "navarro-2002"], Timing::Counts);
    let mut passes = 0;
    let watch = |status: Status| {
        passes += u32::from(status.references == program.len() as u64);
        true
    };
    let replayed = experiment.run(&mut recorded(&mut program.cut(vec![usize::MAX])), watch).unwrap().rows();
    assert_eq!(passes, 2);
    assert_eq!(replayed, run(&experiment, &mut program.cut(vec![usize::MAX])).rows());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn results_do_not_depend_on_where_chunks_are_cut(
        seed in 0u64..1000,
        choice in 0usize..PROGRAMS.len() + 3,
        lengths in prop::collection::vec(1usize..6000, 1..20),
    ) {
        let program = PROGRAMS.get(choice).map_or_else(|| script::program(seed, 40), |program| whole(program));
        for timing in TIMINGS {
            let machines = supporting(timing, &MACHINES);
            let machine = [machines[seed as usize % machines.len()]];
            let experiment = experiment(&machine, &systems(&machine), timing);
            let uncut = run(&experiment, &mut program.cut(vec![usize::MAX])).rows();
            let cut = run(&experiment, &mut program.cut(lengths.clone())).rows();
            prop_assert_eq!(uncut, cut, "{}, {}", program.name(), timing.name());
        }
    }
}

#[test]
fn hardware_knows_an_instruction_whose_block_began_in_another_chunk() {
    let systems = ["alverti-2020-spot", "kandiraju-2002-prefetch", "vavouliotis-2021-atp", "mirbagher-2020-chirp"];
    // A program of several instructions that load: with only one, a wrong number is as good as the right one.
    let program = script::program(1, 60);
    let experiment = experiment(&MACHINES[..1], &systems, Timing::InOrder);
    let uncut = run(&experiment, &mut program.cut(vec![usize::MAX])).rows();
    assert_eq!(uncut, run(&experiment, &mut program.cut(vec![1])).rows());
}

/// Returns the value of a metric of all processes that is not a count.
fn ratio(rows: &[Row], metric: &str) -> f64 {
    match rows.iter().find(|row| row.process == ALL && row.metric == metric).unwrap().value {
        Value::Ratio(ratio) => ratio,
        value => panic!("{metric} is no ratio: {value:?}"),
    }
}

/// Returns the rows of each simulation, under every system that runs on each of `machines`.
fn all_rows(timing: Timing, machines: &[&str], program: Pieces) -> Vec<Vec<Row>> {
    let of_machine = |machine: &&str| {
        let report = run(&experiment(&[machine], &systems(&[machine]), timing), &mut program.cut(vec![usize::MAX]));
        let rows = report.rows();
        let of = |system: &str| rows.iter().filter(|r| r.system == system).cloned().collect();
        report.outcomes.iter().map(|outcome| of(&outcome.system)).collect::<Vec<_>>()
    };
    machines.iter().flat_map(of_machine).collect()
}

#[test]
fn labels_sum_to_cycles_and_processes_sum_to_all() {
    for timing in TIMINGS {
        for rows in all_rows(timing, &supporting(timing, &MACHINES), script::program(11, 40)) {
            let at = format!("{} {} {}", rows[0].machine, rows[0].system, timing.name());
            let processes: BTreeSet<&str> = rows.iter().map(|row| row.process.as_str()).collect();
            assert!(processes.len() > 2, "{at}");
            for process in &processes {
                let labels = Label::ALL.map(|label| count(&rows, process, &format!("cycles.{}", label.name())));
                assert_eq!(labels.iter().sum::<u64>(), count(&rows, process, "cycles"), "{at} {process}");
            }
            for metric in ["instructions", "loads", "l1d_tlb_misses", "walks", "walk_cycles", "cycles", "page_faults"] {
                // The faults of a vfork child that never execs count for its parent, and it has no rows.
                let parts = rows.iter().filter(|row| row.process != ALL && row.metric == metric);
                let sum: u64 = parts.map(|row| row.value.as_f64() as u64).sum();
                assert_eq!(sum, count(&rows, ALL, metric), "{at} {metric}");
            }
            if timing == Timing::Ooo {
                // Walks overlap, and only the cycles that nothing hides are charged.
                continue;
            }
            // The ledger is charged for the walk cycles that the hardware counts, except for those behind right predictions.
            let charged = count(&rows, ALL, "cycles.walk") + count(&rows, ALL, "cycles.handler");
            let hidden = rows.iter().find(|row| row.process == ALL && row.metric == "walk_assist.hidden_cycles");
            let walks = count(&rows, ALL, "walk_cycles") - hidden.map_or(0, |row| row.value.as_f64() as u64);
            let online = ["fang-1999", "romer-1995"].iter().any(|online| rows[0].system.starts_with(online));
            match online && rows[0].machine == "paint-parisc" {
                // A policy in the handler is charged as well.
                true => assert!(charged > walks, "{at}"),
                false => assert_eq!(charged, walks, "{at}"),
            }
        }
    }
}

#[test]
fn the_four_factors_multiply_out_to_wcpi() {
    for timing in TIMINGS {
        for rows in all_rows(timing, &supporting(timing, &machines()), whole("gups:bytes=8M,updates=300")) {
            let at = format!("{} {} {}", rows[0].machine, rows[0].system, timing.name());
            let count = |metric| count(&rows, ALL, metric);
            let references = count("fetches") + count("loads") + count("stores");
            // The numerator and denominator of each factor, as integers from rows.
            let factors = [
                ("wcpi.accesses_per_instruction", references, count("instructions")),
                ("wcpi.misses_per_access", count("walks"), references),
                ("wcpi.walk_accesses_per_miss", count("walk_accesses"), count("walks")),
                ("wcpi.cycles_per_walk_access", count("walk_cycles"), count("walk_accesses")),
            ];
            let (mut numerator, mut denominator) = (1u128, 1u128);
            for (name, over, under) in factors {
                let expected = if under == 0 { 0.0 } else { over as f64 / under as f64 };
                assert_eq!(ratio(&rows, name).to_bits(), expected.to_bits(), "{at} {name}");
                // A denominator of 0 requires a numerator of 0, so that WCPI is 0.
                assert!(under > 0 || over == 0, "{at} {name}: {over} / {under}");
                numerator *= u128::from(over);
                denominator *= u128::from(under.max(1));
            }
            let (cycles, instructions) = (u128::from(count("walk_cycles")), u128::from(count("instructions")));
            assert_eq!(numerator * instructions, cycles * denominator, "{at}");
            let wcpi = cycles as f64 / instructions as f64;
            assert_eq!(ratio(&rows, "wcpi").to_bits(), wcpi.to_bits(), "{at}");
            assert_eq!(count("walks") == 0, rows[0].system == "ideal", "{at}");
        }
    }
}

#[test]
fn ideal_spends_no_cycles_on_translation() {
    for timing in TIMINGS {
        for mut program in programs() {
            let report = run(&experiment(&supporting(timing, &machines()), &["ideal"], timing), &mut program);
            for outcome in report.outcomes {
                let (total, at) = (&outcome.total, format!("{} {}", outcome.machine, report.program));
                for label in [Label::L2TlbHit, Label::Walk, Label::Handler, Label::ItlbStall, Label::ItlbWalk] {
                    assert_eq!(total.ledger.charged(label).0, 0, "{at}: {}", label.name());
                }
                let h = &total.hardware;
                assert_eq!((h.l1i_tlb_misses, h.l1d_tlb_misses, h.walks(), h.walk_cycles), (0, 0, 0, 0), "{at}");
                assert!(outcome.os.page_faults > 0, "{at}: pages still fault");
            }
        }
    }
}

#[test]
fn every_tlb_entry_agrees_with_the_page_table_after_every_step() {
    for program in programs() {
        // Short pieces, so that TLBs are checked at least a hundred times. Batches for out-of-order timing serve all.
        let (mut source, mut chunk) = (program.cut(vec![program.len() / 100 + 1]), Chunk::default());
        let (mut preparer, mut batches) = (Preparer::new(Timing::Ooo), Vec::new());
        while source.fill(&mut chunk).unwrap() {
            let blocks: &BlockTable = source.blocks();
            batches.push(Arc::new(preparer.prepare(std::mem::take(&mut chunk), blocks)));
        }
        assert!(batches.iter().map(|batch| batch.steps.len()).sum::<usize>() >= 100);
        let ooo = (MACHINES[0], Timing::Ooo);
        let timings = [(MACHINES[0], TIMINGS[0]), (MACHINES[1], TIMINGS[1]), (MACHINES[2], TIMINGS[0]), ooo];
        for (machine, timing) in timings {
            for system in systems(&[machine]) {
                let (machine, system) = (machine::resolve(machine).unwrap(), reach_systems::resolve(system).unwrap());
                let mut simulation = Simulation::new(&machine, &system, &small(timing)).unwrap();
                for batch in &batches {
                    if timing == Timing::Ooo {
                        simulation.take(batch).unwrap();
                        simulation.check();
                        continue;
                    }
                    for step in &batch.steps {
                        simulation.step(batch, step).unwrap();
                        simulation.check();
                    }
                }
            }
        }
    }
}

/// Fast-forwarding leaves the operating system in the same state, and its references do not count.
#[test]
fn fast_forwarding_keeps_the_state_and_is_not_measured() {
    for timing in TIMINGS {
        let systems = ["base", "navarro-2002", "zhou-2023"];
        let machines = ["skylake-e3-1240v5"];
        for program in [PROGRAMS[0], PROGRAMS[3], "web:requests=50"] {
            let whole = Pieces::of(&mut *synthetic::parse(program).unwrap());
            let fast_forward = whole.len() as u64 / 2;
            let plain = experiment(&machines, &systems, timing);
            let fast_forwarding = Experiment {
                fast_forward: FastForward::References(fast_forward),
                ..experiment(&machines, &systems, timing)
            };
            let reports = [run(&plain, &mut whole.cut(vec![997])), run(&fast_forwarding, &mut whole.cut(vec![1009]))];
            for (all, rest) in reports[0].outcomes.iter().zip(&reports[1].outcomes) {
                let state = |outcome: &reach_lab::Outcome| {
                    let os = &outcome.os;
                    (os.page_faults, os.bytes_zeroed, os.resident_bytes, os.page_table_bytes, os.promotions)
                };
                assert_eq!(state(all), state(rest), "{program} {}", all.system);
                // The fetch of the first measured reference may be measured too.
                let more = rest.total.counts.references() - (whole.len() as u64 - fast_forward);
                assert!(more <= 1, "{program} {}: {more} more", all.system);
                let cycles = |outcome: &reach_lab::Outcome| outcome.total.ledger.total();
                assert!(cycles(rest) < cycles(all), "{program} {}", all.system);
            }
        }
    }
    let whole = Pieces::of(&mut *synthetic::parse(PROGRAMS[0]).unwrap());
    let fast_forwarding = Experiment {
        fast_forward: FastForward::References(u64::MAX),
        ..experiment(&MACHINES[..1], &["base"], Timing::Counts)
    };
    let error = fast_forwarding.run(&mut whole.cut(vec![100]), |_| true).err().unwrap().to_string();
    assert!(error.contains("to fast-forward; give fewer"), "{error}");
}

/// A library as loaders map it, with its data right after its code, can be padded once it is aligned. The same pages are
/// touched either way.
#[test]
fn aligned_code_can_be_padded() {
    const AT: u64 = 0x7f12_3451_7000;
    let (mut chunk, mut blocks) = (Chunk::default(), BlockTable::default());
    chunk.push_event(Event::Switch { asid: Asid(1), thread: ThreadId(1) });
    chunk.push_event(Event::File { file: FileId(1), path: "/lib/libc.so.6".into(), len: 0x1a_0000, in_memory: false });
    for (from, len, write, execute) in
        [(0, 0x1b_0000, false, false), (0, 0x17_0000, false, true), (0x17_0000, 0x4_0000, true, false)]
    {
        chunk.push_event(Event::Map(Map {
            protection: Protection { read: true, write, execute },
            backing: Backing::File { file: FileId(1), offset: from },
            ..Map::anonymous(VirtAddr(AT + from), len)
        }));
    }
    for page in (0..0x17_0000).step_by(4096) {
        let block = Block { pc: VirtAddr(AT + page), len: 16, instructions: 4, bytes: Box::new([]) };
        let id = blocks.push(block.clone());
        chunk.push_fetch(id, &block);
        chunk.refs.push(Ref::store(VirtAddr(AT + 0x17_0000 + page % 0x3_0000)));
    }
    let program = Pieces::new("library", blocks, chunk);
    for (align_code, superpages) in [(None, 0), (Some(Alignment::Programs), 0), (Some(Alignment::All), 1)] {
        let systems = ["base", "zhou-2023:threshold=1,padding=on"];
        let moved = Experiment { align_code, ..experiment(&["skylake-e3-1240v5"], &systems, Timing::Counts) };
        let outcomes = run(&moved, &mut program.cut(vec![101])).outcomes;
        let promoted = |outcome: &reach_lab::Outcome| outcome.code_superpages.iter().map(|(_, all)| *all).sum::<u64>();
        assert_eq!(outcomes.iter().map(promoted).collect::<Vec<_>>(), [0, superpages]);
        assert_eq!(outcomes[0].os.resident_bytes.current, 0x17_0000 + 0x3_0000, "every touched page is in memory once");
        assert_eq!(outcomes[0].total.counts.references(), program.len() as u64);
    }
}
