//! Sampling: a sample of all references equals a full run, and error bars contain the true rates.

use crate::common;
use crate::common::{Pieces, conditions, run};
use reach_core::{Chunk, Cycles, Event, Label, Mark};
use reach_lab::{ALL, Conditions, Experiment, FindingKind, Interval, Report, Row, Timing};
use reach_trace::file::{Metadata, Reader, Writer};
use reach_trace::{Between, Ending, FastForward, FastForwarded, Sampled, Sampling, Source, synthetic};
use std::collections::BTreeMap;
use std::io::Cursor;

const MACHINE: &str = "skylake-e3-1240v5";

fn experiment(systems: &[&str], timing: Timing) -> Experiment {
    let conditions = Conditions { memory: 64 << 20, ..conditions(timing) };
    Experiment { conditions, ..common::experiment(&[MACHINE], systems, timing) }
}

fn sampling(text: &str) -> Option<Sampling> {
    Some(text.parse().unwrap())
}

/// Rows by system, process and metric.
fn rows(report: &Report) -> BTreeMap<(String, String, String), Row> {
    let key = |row: &Row| (row.system.clone(), row.process.clone(), row.metric.clone());
    report.rows().into_iter().map(|row| (key(&row), row)).collect()
}

/// Returns the row of a metric of all processes.
fn row(report: &Report, metric: &str) -> Row {
    let all = report.rows();
    all.into_iter().find(|row| row.process == ALL && row.metric == metric).unwrap_or_else(|| panic!("no {metric}"))
}

#[test]
fn sampling_all_references_equals_a_full_run() {
    for timing in Timing::ALL {
        for program in ["web:requests=100", "tree:nodes=500,operations=1000", "gups:bytes=4M,updates=30K"] {
            let program = Pieces::of(&mut *synthetic::parse(program).unwrap());
            let every = program.len() / 80;
            let plain = experiment(&["base", "navarro-2002", "linux-thp"], timing);
            let sample = sampling(&format!("every={every},measure={every},warm=0"));
            let sampled = Experiment { sample, ..experiment(&["base", "navarro-2002", "linux-thp"], timing) };
            let full = rows(&run(&plain, &mut program.cut(vec![1009])));
            let all = rows(&run(&sampled, &mut program.cut(vec![997])));
            for (key, row) in &full {
                let other = all.get(key).unwrap_or_else(|| panic!("{key:?} is missing"));
                assert_eq!(other.value, row.value, "{} {key:?}", timing.name());
                // All references were measured, so errors are 0.
                assert!(other.error.is_none_or(|error| error == 0.0), "{key:?}: {:?}", other.error);
            }
            let more: Vec<_> = all.keys().filter(|key| !full.contains_key(key)).collect();
            assert!(more.iter().all(|(.., metric)| metric.starts_with("sample.")), "{more:?}");
        }
    }
}

#[test]
fn the_four_factors_multiply_out_to_wcpi_in_samples() {
    for timing in Timing::ALL {
        let program = Pieces::of(&mut *synthetic::parse("web:requests=100").unwrap());
        let sample = sampling("every=500,measure=50,warm=100");
        let report =
            run(&Experiment { sample, ..experiment(&["base", "linux-thp"], timing) }, &mut program.cut(vec![997]));
        let all = rows(&report);
        let mut checked = 0;
        for ((system, process, metric), row) in &all {
            if metric != "wcpi" {
                continue;
            }
            let factor = |name: &str| {
                let key = (system.clone(), process.clone(), format!("wcpi.{name}"));
                all[&key].value.as_f64()
            };
            let names =
                ["accesses_per_instruction", "misses_per_access", "walk_accesses_per_miss", "cycles_per_walk_access"];
            let (product, wcpi): (f64, f64) = (names.into_iter().map(factor).product(), row.value.as_f64());
            assert!((product - wcpi).abs() <= 1e-12 * wcpi, "{system} {process}: {product} for {wcpi}");
            checked += 1;
        }
        assert!(checked >= 2);
        for outcome in &report.outcomes {
            let sample = outcome.sample.as_ref().unwrap();
            let measured =
                |of: fn(&reach_lab::Tally) -> u64| -> u64 { sample.intervals.iter().map(|i| of(&i.tally)).sum() };
            let (walks, instructions) = (measured(|t| t.hardware.walks_data), measured(|t| t.counts.instructions));
            let first_run =
                |of: fn(&reach_lab::Tally) -> u64| -> u64 { sample.first_run.iter().map(|i| of(&i.tally)).sum() };
            let (new_walks, new) = (first_run(|t| t.hardware.walks_data), first_run(|t| t.counts.instructions));
            let all_new = new + sample.first_run_unmeasured.tally.counts.instructions;
            let in_full = &sample.first_run_in_full.tally;
            let stood_for = outcome.total.counts.instructions - in_full.counts.instructions - all_new;
            let ratio = |part: u64, of: u64, all: u64| if of == 0 { 0.0 } else { part as f64 * all as f64 / of as f64 };
            let scaled = ratio(walks, instructions, stood_for)
                + ratio(new_walks, new, all_new)
                + in_full.hardware.walks_data as f64;
            assert!(
                (scaled - outcome.total.hardware.walks_data as f64).abs() <= 1.0,
                "estimates are of the whole program"
            );
            let labels: u64 = reach_core::Label::ALL.iter().map(|&label| outcome.total.ledger.charged(label).0).sum();
            assert_eq!(labels, outcome.total.cycles());
            let exact = |tally: &reach_lab::Tally| (tally.counts.instructions, tally.ledger.charged(Label::Fault).0);
            let processes = outcome.processes.values().map(exact).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            assert_eq!(processes, exact(&outcome.total), "what is exact of processes sums to that of all");
        }
    }
}

/// A recording holds a small part of the program and gives the results of sampling the program itself.
#[test]
fn a_recorded_sample_equals_sampling_the_program() {
    const TEXT: &str = "every=1k,measure=50,warm=100,between=fast-forward";
    let program = Pieces::of(&mut *synthetic::parse("web:requests=500").unwrap());
    let systems = ["base", "navarro-2002", "zhou-2023"];
    let (mut cut, mut chunk) = (program.cut(vec![1013]), Chunk::default());
    let mut sampled =
        FastForwarded::between_intervals(Sampled::new(&mut cut, TEXT.parse().unwrap(), FastForward::default(), 1));
    let mut writer = Writer::new(Cursor::new(Vec::new()), &Metadata::default()).unwrap();
    while sampled.fill(&mut chunk).unwrap() {
        writer.write(&chunk, sampled.blocks()).unwrap();
    }
    let file = writer.finish(&Ending::default()).unwrap().into_inner();
    for timing in Timing::ALL {
        let sample = sampling(TEXT);
        let own = run(&Experiment { sample, ..experiment(&systems, timing) }, &mut program.cut(vec![997]));
        let mut reader = Reader::new(Cursor::new(file.clone()), "sample").unwrap();
        let replayed = run(&experiment(&systems, timing), &mut reader);
        let (own, replayed) = (rows(&own), rows(&replayed));
        assert!(own.keys().eq(replayed.keys()), "{}", timing.name());
        for (key, row) in &own {
            let other = &replayed[key];
            assert_eq!((&row.value, row.error), (&other.value, other.error), "{} {key:?}", timing.name());
        }
        let key = |metric: &str| ("base".to_owned(), ALL.to_owned(), metric.to_owned());
        assert!(own[&key("sample.intervals")].value.as_f64() >= 30.0);
        let (estimate, whole) = (own[&key("sample.program_references")].value.as_f64(), program.len() as f64);
        assert!((estimate - whole).abs() < 2000.0, "{estimate} of {whole}");
    }
    let placement = reach_lab::Placement::of(2, 1);
    let two = Conditions { placement, ..experiment(&["base"], Timing::Counts).conditions };
    let two = Experiment { conditions: two, ..experiment(&["base"], Timing::Counts) };
    let error = two.run(&mut Reader::new(Cursor::new(file.clone()), "sample").unwrap(), |_| true).err().unwrap();
    assert!(error.to_string().contains("one core with one hardware thread"), "{error}");
    let mut reader = Reader::new(Cursor::new(file.clone()), "sample").unwrap();
    let again = Experiment { sample: sampling(TEXT), ..experiment(&["base"], Timing::Counts) };
    let error = again.run(&mut reader, |_| true).err().unwrap().to_string();
    assert!(error.contains("a sample already"), "{error}");
}

/// Functional warming leaves the operating system in the state of a full run, however little was measured.
#[test]
fn functional_warming_keeps_the_state_of_the_operating_system() {
    let program = Pieces::of(&mut *synthetic::parse("web:requests=50").unwrap());
    let sample = sampling("every=400,measure=10,warm=10");
    let systems = ["base", "navarro-2002", "zhou-2023"];
    let plain = run(&experiment(&systems, Timing::Counts), &mut program.cut(vec![997]));
    let sampled = run(&Experiment { sample, ..experiment(&systems, Timing::Counts) }, &mut program.cut(vec![1009]));
    for (all, part) in plain.outcomes.iter().zip(&sampled.outcomes) {
        let state = |outcome: &reach_lab::Outcome| {
            let os = &outcome.os;
            (os.page_faults, os.bytes_zeroed, os.resident_bytes, os.page_table_bytes, os.promotions)
        };
        assert_eq!(state(all), state(part), "{}", all.system);
        let [share, _] = part.sample.as_ref().unwrap().shares();
        assert!((0.01..0.05).contains(&share), "{share}");
    }
}

/// With functional warming of caches, intervals count what they count in a full run, without any detailed warm-up.
#[test]
fn functional_warming_of_caches_keeps_their_contents() {
    let program = Pieces::of(&mut *synthetic::parse("web:requests=200").unwrap());
    let systems = ["base", "navarro-2002", "zhou-2023"];
    let intervals = |between: Between, whole: bool| {
        let sampling = Sampling { between, ..sampling("every=2k,measure=200,warm=0").unwrap() };
        let mut cut = program.cut(vec![997]);
        let mut source = Sampled::new(&mut cut, sampling, FastForward::default(), 1);
        let selects_detail = |event: &Event| matches!(event, Event::Mark(Mark::WarmCaches | Mark::Detailed));
        let pieces = Pieces::of(&mut source).without(|event| whole && selects_detail(event));
        let report = run(&experiment(&systems, Timing::InOrder), &mut pieces.cut(vec![997]));
        report.outcomes.into_iter().map(|outcome| outcome.sample.unwrap().intervals).collect::<Vec<_>>()
    };
    let (warmed, whole) = (intervals(Between::Caches, false), intervals(Between::Caches, true));
    assert!(whole.iter().all(|intervals| intervals.len() >= 30));
    let counted = |all: Vec<Vec<Interval>>| {
        let one = |Interval { mut tally, caches, .. }: Interval| {
            // Fractions of cycles are carried from step to step.
            tally.ledger.restore(Label::Compute, Cycles(0));
            (caches, tally)
        };
        all.into_iter().flatten().map(one).collect::<Vec<_>>()
    };
    let whole = counted(whole);
    assert_eq!(counted(warmed), whole);
    assert_ne!(counted(intervals(Between::Tlbs, false)), whole);
}

/// For stationary programs, at least nine of ten error bars contain the rate of the whole program.
#[test]
fn error_bars_contain_the_true_rate() {
    const SEEDS: u64 = 60;
    // The beginning touches pages for the first time and is not stationary.
    for (program, timing, between, beginning) in [
        ("gups:bytes=16M,updates=600K", Timing::Counts, "tlbs", 300_000),
        ("gups:bytes=8M,updates=400K", Timing::InOrder, "caches", 200_000),
        ("mix:bytes=8M,new_pages=20%,refs=1500K", Timing::Counts, "tlbs", 300_000),
    ] {
        let (program_name, fast_forward) = (program, || FastForward::References(beginning));
        // The end of a process is not stationary either.
        let program = Pieces::of(&mut *synthetic::parse(program).unwrap()).without_end();
        // Everything after the beginning; warming of caches covers the beginning.
        let all = Experiment {
            fast_forward: fast_forward(),
            sample: sampling("every=20k,measure=20k,warm=0"),
            ..experiment(&["base"], timing)
        };
        let full = run(&all, &mut program.cut(vec![100_000]));
        let instructions = |report: &Report| row(report, "instructions").value.as_f64();
        let true_rates = [
            ("wcpi", row(&full, "wcpi").value.as_f64()),
            ("wcpi.misses_per_access", row(&full, "wcpi.misses_per_access").value.as_f64()),
            ("sample.cycles_per_instruction", row(&full, "cycles").value.as_f64() / instructions(&full)),
        ];
        // Most seeds place their intervals where no other seed does.
        let mut held = [0u64; 3];
        for seed in 0..SEEDS {
            let sampled = Experiment {
                fast_forward: fast_forward(),
                sample: sampling(&format!("every=20k,measure=300,warm=700,between={between}")),
                ..experiment(&["base"], timing)
            };
            let conditions = Conditions { seed, ..sampled.conditions.clone() };
            let report = run(&Experiment { conditions, ..sampled }, &mut program.cut(vec![100_000]));
            for ((metric, truth), held) in true_rates.iter().zip(&mut held) {
                let row = row(&report, metric);
                let error = row.error.expect("there are at least 30 intervals");
                *held += u64::from((row.value.as_f64() - truth).abs() <= error);
                assert!(error < 0.2 * truth, "{program_name}: {metric} {truth} ±{error}");
            }
        }
        assert!(held.iter().all(|&held| 10 * held >= 9 * SEEDS), "{program_name}: {held:?} of {SEEDS}");
    }
}

/// Returns the kinds of findings about the program.
fn findings(report: &Report) -> Vec<FindingKind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_program_too_short_for_a_sample_is_simulated_as_a_whole() {
    let program = Pieces::of(&mut *synthetic::parse("gups:bytes=1M,updates=20K").unwrap());
    let short = Experiment { fast_forward: FastForward::References(1000), ..experiment(&["base"], Timing::Ooo) };
    let whole = run(&short, &mut program.cut(vec![997]));
    // Some intervals; none at all.
    for text in ["every=5k,measure=100,warm=100", "every=10M,measure=100k,warm=200k"] {
        let sampled = Experiment {
            sample: sampling(text),
            fast_forward: short.fast_forward.clone(),
            ..experiment(&["base"], Timing::Ooo)
        };
        let report = run(&sampled, &mut program.cut(vec![1009]));
        assert_eq!(findings(&report), [FindingKind::NotSampled], "{text}");
        let values = |report: &Report| {
            let rows = report.rows().into_iter().filter(|row| !row.metric.starts_with("finding."));
            rows.map(|row| (row.metric, row.value, row.error)).collect::<Vec<_>>()
        };
        assert_eq!(values(&report), values(&whole), "{text}");
    }
}

#[test]
fn samples_that_start_intervals_cold_have_no_error_bars_and_say_why() {
    let program = Pieces::of(&mut *synthetic::parse("web:requests=500").unwrap());
    let report = |timing, text: &str| {
        run(&Experiment { sample: sampling(text), ..experiment(&["base"], timing) }, &mut program.cut(vec![997]))
    };
    for (timing, text, cold) in [
        (Timing::Counts, "between=caches", None),
        (Timing::Counts, "between=tlbs", None),
        (Timing::Counts, "between=fast-forward", Some("cold TLBs")),
        (Timing::InOrder, "between=caches,warm=0", None),
        (Timing::InOrder, "between=tlbs", Some("cold caches")),
        (Timing::Ooo, "between=caches", None),
        (Timing::Ooo, "between=caches,warm=0", Some("empty pipeline")),
        (Timing::Ooo, "between=tlbs", Some("cold caches")),
        (Timing::Ooo, "between=fast-forward,warm=0", Some("cold TLBs")),
    ] {
        let report = report(timing, &format!("every=1k,measure=50,warm=50,{text}"));
        let found: Vec<_> = report.findings.iter().map(|finding| (finding.kind, finding.text.as_str())).collect();
        let bars = report.rows().iter().filter(|row| row.error.is_some()).count();
        match cold {
            None => assert!(found.is_empty() && bars > 5, "{} {text}: {found:?}, {bars} error bars", timing.name()),
            Some(part) => {
                assert!(matches!(found[..], [(FindingKind::NoInterval, text)] if text.contains(part)), "{found:?}");
                assert_eq!(bars, 0, "{} {text}", timing.name());
            }
        }
    }
}

/// What happens between intervals counts: an area is touched there, and its faults are the program's main cost.
#[test]
fn the_operating_systems_work_between_intervals_is_part_of_the_speedup() {
    let program = Pieces::of(&mut *synthetic::parse("touch:bytes=24M,page=4K").unwrap());
    let systems = ["base", "linux-thp:enabled=always"];
    for timing in Timing::ALL {
        let whole = run(&experiment(&systems, timing), &mut program.cut(vec![997]));
        let sample = sampling("every=300,measure=5,warm=5");
        let sampled = run(&Experiment { sample, ..experiment(&systems, timing) }, &mut program.cut(vec![997]));
        let speedup = |report: &Report| {
            let rows = rows(report);
            let row = &rows[&(systems[1].into(), ALL.into(), "speedup".into())];
            (row.value.as_f64(), row.error)
        };
        let ((truth, _), (estimate, error)) = (speedup(&whole), speedup(&sampled));
        assert!(truth > 1.2, "{truth}");
        assert!(
            (estimate - truth).abs() <= error.unwrap().max(0.01 * truth),
            "{}: {estimate} ±{error:?} for {truth}",
            timing.name()
        );
    }
}

/// Page faults make steps long, and others go on using the last cache meanwhile.
#[test]
fn what_others_bring_into_the_last_cache_does_not_wait_for_the_end_of_a_step() {
    let program = Pieces::of(&mut *synthetic::parse("gups:bytes=32M,updates=40K").unwrap());
    let misses = |chunk: usize| {
        let mut experiment = common::experiment(&[MACHINE], &["base"], Timing::Ooo);
        experiment.machines[0].hardware.caches.last_mut().unwrap().others = 2048;
        let report = run(&experiment, &mut program.cut(vec![chunk]));
        row(&report, "cache.l3.misses").value.as_f64()
    };
    let (long, short) = (misses(100_000), misses(300));
    assert!((long / short - 1.0).abs() < 0.005, "{long} {short}");
}

#[test]
fn samples_on_several_hardware_threads_are_refused() {
    let sampled = Experiment { sample: sampling(""), ..experiment(&["base"], Timing::Counts) };
    let mut conditions = sampled.conditions.clone();
    conditions.placement = reach_lab::Placement::of(2, 1);
    let mut source = synthetic::parse("gups:bytes=1M,updates=20").unwrap();
    let error = Experiment { conditions, ..sampled }.run(&mut *source, |_| true).err().unwrap().to_string();
    assert!(error.contains("one core with one hardware thread"), "{error}");
}

/// Returns a program with a phase of each of these names, at equal distances.
fn program_with_phases(names: &[&str]) -> Pieces {
    let mut source = synthetic::parse("gups:bytes=4M,updates=20K").unwrap();
    let (mut whole, mut chunk) = (Chunk::default(), Chunk::default());
    while source.fill(&mut chunk).unwrap() {
        whole.append(&chunk);
    }
    for (n, name) in names.iter().enumerate() {
        let at = whole.refs.len() * (n + 1) / (names.len() + 1);
        whole.events.push((at as u32, Event::Phase((*name).into())));
    }
    whole.events.sort_by_key(|(at, _)| *at);
    Pieces::new("phases", source.blocks().clone(), whole)
}

#[test]
fn phases_change_no_result_whatever_their_names() {
    const PLAIN: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    // Version 2 of the trace format reserved these names for marks.
    const RESERVED: [&str; 8] = [
        "measured",
        "skimmed",
        "sampled every 5",
        "interval",
        "interval ends",
        "followed",
        "followed in caches",
        "simulated",
    ];
    for timing in Timing::ALL {
        for sample in [None, sampling("every=5k,measure=500,warm=500")] {
            let results = |names: &[&str]| {
                let experiment = Experiment { sample, ..experiment(&["base", "linux-thp"], timing) };
                let report = run(&experiment, &mut program_with_phases(names).cut(vec![997]));
                rows(&report).into_iter().map(|(key, row)| (key, row.value, row.error)).collect::<Vec<_>>()
            };
            assert_eq!(results(&PLAIN), results(&RESERVED), "{} {sample:?}", timing.name());
        }
    }
}
