//! Simulations that execute the kernel's own code.

use crate::common;
use crate::common::{Pieces, conditions, count, run, script};
use reach_core::{Asid, Event, Label, Random, ThreadId};
use reach_lab::{ALL, Conditions, Experiment, FindingKind, KernelCode, Outcome, Placement, Timing};
use reach_trace::{FastForward, synthetic};

const SKYLAKE: &str = "skylake-e3-1240v5";

fn experiment(system: &str, timing: Timing, kernel: bool) -> Experiment {
    let conditions = Conditions { memory: 256 << 20, kernel, ..conditions(timing) };
    Experiment { conditions, ..common::experiment(&[SKYLAKE], &[system], timing) }
}

fn outcome(experiment: &Experiment, program: &mut Pieces) -> Outcome {
    run(experiment, program).outcomes.remove(0)
}

/// Returns the instructions of the passages of a kind, each.
fn lengths(kind: &str) -> Vec<u64> {
    let length = |steps: &[reach_core::Step]| steps.iter().map(|step| step.counts.instructions).sum();
    KernelCode::recorded().passages(kind).map(length).collect()
}

/// A program of one process that calls the kernel `calls` times, once in ten references.
fn caller(calls: usize, number: u32) -> Pieces {
    let mut source = synthetic::parse("touch:bytes=256K,page=4K,passes=10").unwrap();
    let whole = Pieces::of(&mut *source);
    whole.with((0..calls).map(|n| (10 * n, Event::SystemCall(number))))
}

#[test]
fn counts_of_the_program_are_its_own_and_cycles_are_all() {
    for timing in Timing::ALL {
        for seed in 1..4 {
            let run = |kernel| outcome(&experiment("base", timing, kernel), &mut script::program(seed, 60));
            let (without, with) = (run(false), run(true));
            assert_eq!(without.total.counts, with.total.counts);
            assert_eq!(without.os.page_faults, with.os.page_faults);
            assert_eq!((without.total.kernel, without.total.ledger.charged(Label::Kernel).0), Default::default());
            let kernel = &with.total.kernel;
            assert!(kernel.instructions > 100_000, "{kernel:?}");
            assert_eq!(kernel.faults, with.os.page_faults);
            // Each instruction takes a cycle at least, but out of order.
            let cycles = with.total.ledger.charged(Label::Kernel).0;
            assert!(cycles > kernel.instructions / 4, "{timing:?}: {cycles}");
            assert!(with.total.cycles() > cycles);
            let processes = with.processes.values().fold((0, 0), |(instructions, cycles), tally| {
                (instructions + tally.kernel.instructions, cycles + tally.cycles())
            });
            assert_eq!(processes, (kernel.instructions, with.total.cycles()), "each process has its share");
        }
    }
}

#[test]
fn each_event_takes_its_own_path() {
    let program = script::program(5, 80);
    let events = |is: fn(&Event) -> bool| program.events().filter(|event| is(event)).count() as u64;
    let calls = events(|event| matches!(event, Event::SystemCall(_)));
    let processes = events(|event| matches!(event, Event::Fork { .. } | Event::Exit));
    let kernel = outcome(&experiment("base", Timing::Counts, true), &mut program.cut(vec![1000])).total.kernel;
    assert_eq!((kernel.system_calls, kernel.processes), (calls, processes));

    let calls = |number| outcome(&experiment("base", Timing::Counts, true), &mut caller(5, number)).total.kernel;
    // 400 is no number of Linux.
    assert_eq!([400, 39].map(|number| (calls(number).system_calls, calls(number).unrecorded)), [(5, 5), (5, 0)]);
    let [getppid, read] = [39, 0].map(|number| {
        let with = |calls| outcome(&experiment("base", Timing::Counts, true), &mut caller(calls, number)).total.kernel;
        with(30).instructions - with(0).instructions
    });
    assert_eq!(getppid, 10 * lengths("getppid").iter().sum::<u64>(), "passages of a kind take turns");
    assert_eq!(read, 10 * lengths("read").iter().sum::<u64>());
}

#[test]
fn a_switch_is_the_kernels_if_the_thread_has_called_it() {
    let switch = |thread| Event::Switch { asid: Asid(0), thread: ThreadId(thread) };
    let turns = (1..12).flat_map(|n| {
        let blocked = [(100 * n, Event::SystemCall(202)), (100 * n, switch(1))];
        blocked.into_iter().chain([(100 * n + 50, switch(0))])
    });
    let mut program = caller(0, 0).with(turns);
    assert_eq!(outcome(&experiment("base", Timing::Counts, true), &mut program).total.kernel.switches, 11);
}

#[test]
fn the_kernel_evicts_what_the_program_uses() {
    // Alone, the program fills the nearest cache. It stores to all of its memory first, so that it has pages of its own.
    let mut source = synthetic::parse("gups:bytes=32K,updates=20K").unwrap();
    let whole = Pieces::of(&mut *source);
    let calls = |number| (0..200).map(move |n| (1000 + 100 * n, Event::SystemCall(number)));
    let waits = |number, kernel| {
        let program = Pieces::of(&mut whole.cut(vec![usize::MAX]));
        let total = outcome(&experiment("base", Timing::InOrder, kernel), &mut program.with(calls(number))).total;
        total.ledger.charged(Label::Cache).0
    };
    assert_eq!(waits(0, false), waits(39, false), "system calls do nothing without the kernel");
    assert!(waits(39, true) >= waits(39, false));
    assert!(waits(0, true) > waits(39, true) + 1000, "a read touches more than a call that does nothing");
}

#[test]
fn global_entries_survive_switches() {
    // Two processes take turns; nothing else touches the kernel's pages.
    let walks = |switches: usize| {
        let mut source = synthetic::parse("touch:bytes=64K,page=4K,passes=100").unwrap();
        let whole = Pieces::of(&mut *source);
        let switch = |n: usize| Event::Switch { asid: Asid(n as u32 % 2), thread: ThreadId(0) };
        let turns = (1..switches).flat_map(|n| [(n, Event::SystemCall(202)), (n, switch(n))]);
        let mut experiment = experiment("base", Timing::Counts, true);
        experiment.machines = vec![reach_lab::machine::resolve(&format!("{SKYLAKE}:core.asids=1")).unwrap()];
        let kernel = outcome(&experiment, &mut whole.with(turns)).total.kernel;
        assert_eq!(kernel.switches, switches as u64 - 1);
        kernel.hardware.walks()
    };
    assert!(0 < walks(20) && walks(400) < walks(20) + 100, "{} {}", walks(20), walks(400));
}

#[test]
fn results_do_not_depend_on_where_chunks_are_cut() {
    let mut random = Random::new(9);
    for timing in Timing::ALL {
        let program = script::program(7, 60);
        let rows = |program: &mut Pieces| {
            let rows = run(&experiment("linux-thp", timing, true), program).rows();
            rows.into_iter().map(|row| (row.process, row.metric, format!("{:?}", row.value))).collect::<Vec<_>>()
        };
        let whole = rows(&mut program.cut(vec![usize::MAX]));
        let lengths = (0..50).map(|_| 1 + random.below(400) as usize).collect();
        assert_eq!(whole, rows(&mut program.cut(lengths)), "{timing:?}");
    }
}

#[test]
fn a_sample_knows_the_kernel_exactly_and_times_it_alike() {
    let run = |sample: Option<&str>| {
        let mut experiment = experiment("base", Timing::Ooo, true);
        experiment.sample = sample.map(|sample| sample.parse().unwrap());
        let source = synthetic::parse("gups:bytes=8M,updates=200K").unwrap();
        let whole = Pieces::of(&mut { source });
        let calls = (0..300).map(|n| (2000 + 1000 * n, Event::SystemCall([0, 1, 202, 39][n % 4])));
        outcome(&experiment, &mut whole.with(calls)).total
    };
    let (whole, sampled) = (run(None), run(Some("every=20k,measure=1k,warm=1k")));
    let counts = |tally: &reach_lab::Tally| {
        let kernel = tally.kernel;
        (kernel.system_calls, kernel.faults, kernel.instructions)
    };
    assert_eq!([counts(&whole).0, counts(&sampled).0], [300, 300]);
    assert_eq!(counts(&whole).1, counts(&sampled).1);
    // The timer may interrupt once more or less.
    let instructions = [counts(&whole).2, counts(&sampled).2];
    assert!(instructions[0].abs_diff(instructions[1]) < 10_000, "{instructions:?}");
    let cycles = [&whole, &sampled].map(|tally| tally.ledger.charged(Label::Kernel).0 as f64);
    assert!((cycles[1] / cycles[0] - 1.0).abs() < 0.05, "{cycles:?}");
}

#[test]
fn nothing_is_executed_for_what_is_left_out() {
    let calls = |change: fn(&mut Experiment)| {
        let mut experiment = experiment("base", Timing::Counts, true);
        change(&mut experiment);
        outcome(&experiment, &mut caller(60, 39)).total.kernel.system_calls
    };
    assert_eq!(calls(|_| {}), 60);
    // A call precedes each tenth reference.
    assert_eq!(calls(|experiment| experiment.fast_forward = FastForward::References(295)), 30);
    // A sample that leaves calls out estimates them.
    let estimated = calls(|experiment| {
        experiment.sample = Some("every=100,measure=40,warm=10,between=fast-forward".parse().unwrap());
    });
    assert!((50..=70).contains(&estimated), "{estimated}");
}

#[test]
fn what_does_not_fit_is_refused_and_what_is_missing_is_said() {
    let refused = |experiment: &Experiment| {
        experiment.run(&mut script::program(1, 5), |_| true).err().expect("it is refused").to_string()
    };
    let mut cores = experiment("base", Timing::Counts, true);
    cores.conditions.placement = Placement::of(2, 1);
    assert!(refused(&cores).contains("one hardware thread"));
    let sweep = experiment("karakostas-2015-rmm:lookup=after-miss,sweep=4", Timing::Counts, true);
    assert!(refused(&sweep).contains("leave out --kernel"));
    let curve =
        Experiment { curve: Some("l2:entries=48".parse().unwrap()), ..experiment("base", Timing::Counts, true) };
    assert!(refused(&curve).contains("leave out --kernel"));
    let mut narrow = experiment("base", Timing::Counts, true);
    narrow.machines[0].hardware.layout.bits = vec![9, 9, 8];
    let narrow = refused(&narrow);
    assert!(narrow.contains("38 bits") && narrow.contains("leave out --kernel"), "{narrow}");
    let online = experiment("fang-1999", Timing::Counts, true);
    let machines = vec![reach_lab::machine::resolve("paint-parisc").unwrap()];
    assert!(refused(&Experiment { machines, ..online }).contains("leave out --kernel"));

    let mut source = synthetic::parse("touch:bytes=64K,page=4K").unwrap();
    let report = run(&experiment("base", Timing::Counts, true), &mut *source);
    assert!(report.outcomes[0].findings.iter().any(|finding| finding.kind == FindingKind::NoSystemCalls));
    let rows = report.rows();
    // 16 pages of data and one of code.
    assert_eq!((count(&rows, ALL, "kernel.system_calls"), count(&rows, ALL, "kernel.faults")), (0, 17));
}
