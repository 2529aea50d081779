//! Results on standard output: tables, reports and rows, and that equal inputs give equal results.

use crate::common::{folder, path, raw, reach, stderr, stdout};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

const GUPS: [&str; 2] = ["--program", "gups:bytes=64M,updates=300000"];

/// Returns the results without the time they took.
fn timeless(text: &str) -> String {
    let (rest, last) = text.trim_end().rsplit_once('\n').unwrap();
    assert!(last.starts_with("read in ") && last.contains(" references/s"), "{last}");
    format!("{rest}\nread in …\n")
}

#[test]
fn compare_prints_a_table_for_each_machine() {
    let table = stdout(&[
        "compare",
        "-m",
        "paint-parisc",
        "-m",
        "alpha-21264:tlb.dtlb.entries=64",
        "-s",
        "base",
        "-s",
        "ideal",
        "-p",
        "fang-micro:iterations=20",
        "--timing",
        "inorder",
    ]);
    insta::assert_snapshot!(timeless(&table));
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn long_names_are_broken_to_fit_80_columns() {
    let machine = "skylake-e3-1240v5:tlb.l2.entries=3072,caches.l3.bytes=16M,core.mhz=4000";
    let system = "linux-thp:defrag=always,enabled=always";
    let table = stdout(&["compare", "-m", machine, "-s", "base", "-s", system, "-p", "touch:bytes=8M"]);
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.contains("\nlinux-thp:   "), "{table}");
    assert!(table.contains("\n  enabled=always\n"), "{table}");
}

#[test]
fn a_report_fits_80_columns_and_has_every_group() {
    for timing in ["ooo", "inorder"] {
        let report = stdout(&[&["run", "-m", "zen4", "--timing", timing], &GUPS[..]].concat());
        assert!(report.lines().all(|line| line.chars().count() <= 80), "{report}");
        for group in
            ["cycles", "translation", "WCPI: walk cycles per instruction, of all page walks", "page faults", "memory"]
        {
            assert!(report.contains(&format!("\n{group}\n")), "{group}: {report}");
        }
        assert!(report.contains("TLB array"));
        assert!(report.contains("write-backs"));
    }
}

/// Parses the header and the rows of `jsonl`.
fn rows(text: &str) -> (Value, Vec<Value>) {
    let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (lines.next().unwrap(), lines.collect())
}

/// Like [`rows`], for tests with a variable of that name.
fn parsed(text: &str) -> (Value, Vec<Value>) {
    rows(text)
}

fn jsonl(more: &[&str]) -> String {
    stdout(&[&["compare", "--format", "jsonl"], more].concat())
}

#[test]
fn jsonl_has_a_header_and_rows_with_the_same_keys() {
    let more = ["-m", "zen4", "-s", "base", "-s", "hugetlb-2m", "--fragment", "scattered=0.5", "--memory", "1G"];
    let (header, rows) = rows(&jsonl(&[&more, &GUPS[..]].concat()));
    for (key, value) in [
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("seed", 1.into()),
        ("timing", "ooo".into()),
        ("memory", (1u64 << 30).into()),
        ("warm", true.into()),
        ("limit", Value::Null),
        ("fragmentation", serde_json::json!({ "order": 9, "scattered": 0.5, "hold": 0.1, "grain": 0, "seed": 1 })),
    ] {
        assert_eq!(header[key], value, "{key}");
    }
    assert_eq!(header["hash"].as_str().unwrap().len(), 64);
    assert_eq!(header["machines"][0]["name"], "zen4");
    assert!(header["machines"][0]["configuration"]["tlb"].is_array());
    assert_eq!(header["systems"][1]["settings"]["fallback"], "next");

    let mut metrics: BTreeMap<(String, String), f64> = BTreeMap::new();
    for row in &rows {
        let keys: Vec<_> =
            row.as_object().unwrap().keys().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
        assert_eq!(keys, ["machine", "metric", "process", "program", "system", "unit", "value"]);
        assert_eq!((row["machine"].as_str(), row["process"].as_str()), (Some("zen4"), Some("all")));
        assert_eq!(row["program"], "gups:bytes=64M,updates=300000");
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        let before = metrics.insert((text("system"), text("metric")), row["value"].as_f64().unwrap());
        assert_eq!(before, None, "{row}");
    }
    let metric = |system: &str, name: &str| metrics[&(system.to_owned(), name.to_owned())];
    for name in "instructions fetches loads stores l1i_tlb_misses l1d_tlb_misses l2_tlb_hits walks walk_accesses \
                 walk_cycles wcpi page_faults promotions demotions reservations preemptions superpages.2M bytes_copied \
                 bytes_zeroed peak_resident_bytes page_table_bytes cycles cycles.compute cycles.cache cycles.l2_tlb_hit \
                 cycles.walk cycles.handler cycles.copy cycles.remap cycles.fault cycles.daemon cycles.itlb_stall \
                 speedup"
        .split_whitespace()
    {
        metric("base", name);
        metric("hugetlb-2m", name);
    }
    assert_eq!(metric("base", "loads"), 300_000.0);
    assert_eq!(metric("base", "speedup"), 1.0);
    assert!(metric("hugetlb-2m", "speedup") > 1.0);
    assert!(metric("base", "relative_overhead") > 0.0);
    for system in ["base", "hugetlb-2m"] {
        let labels = metrics.iter().filter(|((s, m), _)| s == system && m.starts_with("cycles."));
        assert_eq!(labels.map(|(_, value)| value).sum::<f64>(), metric(system, "cycles"));
        let factors = metrics.iter().filter(|((s, m), _)| s == system && m.starts_with("wcpi."));
        let product: f64 = factors.map(|(_, value)| value).product();
        assert!((product - metric(system, "wcpi")).abs() < 1e-9, "{product}");
    }
}

#[test]
fn csv_has_the_same_rows_as_jsonl() {
    let args = [&["-m", "zen4", "-s", "base"], &GUPS[..]].concat();
    let (_, rows) = rows(&jsonl(&args));
    let text = stdout(&[&["compare", "--format", "csv"], &args[..]].concat());
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let names = ["machine", "system", "program", "process", "metric", "unit", "value"];
    assert_eq!(csv.headers().unwrap(), &names[..]);
    let records: Vec<_> = csv.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), rows.len());
    for (record, row) in records.iter().zip(&rows) {
        for (field, name) in record.iter().zip(names) {
            match &row[name] {
                Value::String(text) => assert_eq!(field, text),
                // The JSON reader of this test may be off by the last bit.
                number => {
                    let (field, number) = (field.parse::<f64>().unwrap(), number.as_f64().unwrap());
                    assert!((field - number).abs() <= 1e-15 * number.abs(), "{field} {number}");
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_threads_or_repetition() {
    let args = ["-m", "zen4", "-m", "haswell-e5-2680v3", "-s", "base", "-s", "linux-thp", "--timing", "inorder"];
    let one = jsonl(&[&args, &GUPS[..], &["--threads", "1"]].concat());
    for threads in ["1", "2", "5"] {
        assert_eq!(jsonl(&[&args, &GUPS[..], &["--threads", threads]].concat()), one, "{threads} threads");
    }
}

#[test]
fn every_condition_changes_the_hash_and_threads_do_not() {
    let hash = |more: &[&str]| {
        let text = jsonl(&[&["-m", "zen4", "-s", "base", "-p", "touch:bytes=1M"], more].concat());
        rows(&text).0["hash"].as_str().unwrap().to_owned()
    };
    let changes: [&[&str]; 9] = [
        &[],
        &["--seed", "2"],
        &["--memory", "8G"],
        &["--cold"],
        &["--timing", "inorder"],
        &["--fragment", "scattered=0.5"],
        &["--fragment", "scattered=0.5,hold=0.2"],
        &["--limit", "10"],
        &["-s", "ideal"],
    ];
    let hashes: BTreeSet<_> = changes.iter().map(|change| hash(change)).collect();
    assert_eq!(hashes.len(), changes.len());
    assert_eq!(hash(&["--threads", "2"]), hash(&[]));
}

#[test]
fn limit_ends_the_program_after_n_references() {
    let text = jsonl(&[&["-m", "zen4", "-s", "base", "--limit", "30k"], &GUPS[..]].concat());
    let value = |metric| rows(&text).1.iter().find(|row| row["metric"] == metric).unwrap()["value"].as_u64().unwrap();
    assert_eq!(value("fetches") + value("loads") + value("stores"), 30_000);
}

#[test]
fn a_recording_gives_the_same_results_as_its_program() {
    let folder = folder();
    let (trace, results, again) = (path(&folder, "t.reach"), path(&folder, "a.jsonl"), path(&folder, "b.jsonl"));
    let args = ["compare", "-m", "zen4", "-s", "base", "-s", "linux-thp", "-f", "jsonl", "--whole"];
    for program in ["gups:bytes=8M,updates=800K", "phases:sizes=64K/1M,dwell=20K,rounds=3", "tree:nodes=2000"] {
        let output =
            reach(&args).args(["-p", program, "--record", &trace, "--force", "-o", &results]).output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
        assert!(stderr(&output).contains("recorded "), "{}", stderr(&output));
        assert_eq!(stdout(&[&args[..], &["--trace", &trace, "--force", "-o", &again]].concat()), "");
        let (first, second) = (std::fs::read_to_string(&results).unwrap(), std::fs::read_to_string(&again).unwrap());
        assert!(first == second && first.lines().count() > 60, "{program}");
        assert!(stdout(&["trace", "check", &trace]).contains("valid"));
        assert!(stdout(&["trace", "info", &trace]).contains(program), "{program}");
    }
}

#[test]
fn programs_on_one_machine_are_separate_processes_and_record_as_one_trace() {
    let folder = folder();
    let (scenario, trace) = (path(&folder, "s.toml"), path(&folder, "t.reach"));
    let text = "quantum = 1000\n[[program]]\nname = 'first'\nrun = 'touch:bytes=1M'\n\
        [[program]]\nrun = 'matrix:n=50'\nrepeat = 2\n";
    std::fs::write(&scenario, text).unwrap();
    let args = ["-m", "zen4", "-s", "base", "-s", "linux-thp", "--whole"];
    let whole = jsonl(&[&args[..], &["--scenario", &scenario, "--record", &trace]].concat());
    let (_, rows) = parsed(&whole);
    let stores = |process: &str| {
        let row = rows.iter().find(|row| row["process"] == process && row["metric"] == "stores");
        row.map(|row| row["value"].as_u64().unwrap())
    };
    assert_eq!((stores("0 first"), stores("1 matrix"), stores("2 matrix")), (Some(256), Some(2500), Some(2500)));
    assert_eq!(stores("all"), Some(5256));
    let replayed = jsonl(&[&args[..], &["--trace", &trace]].concat());
    assert_eq!(replayed, whole, "a recording gives the same results");
    // The same programs by options: one after the other, and in turns, which costs switches.
    let spec = ["-p", "touch:bytes=1M", "-p", "matrix:n=50", "-p", "matrix:n=50"];
    let cycles = |more: &[&str]| {
        let text = jsonl(&[&args[..], &spec, more].concat());
        let (_, rows) = parsed(&text);
        rows.iter().find(|row| row["metric"] == "cycles").unwrap()["value"].as_u64().unwrap()
    };
    assert!(cycles(&["--quantum", "100"]) >= cycles(&[]));
}

#[test]
fn paper_run_saves_rows_and_prints_a_table() {
    let folder = folder();
    let saved = path(&folder, "deep/rows.jsonl");
    let run = |format: &str| {
        stdout(&["paper", "run", "-q", "navarro-2002", "preemption", "-f", format, "--force", "-o", &saved])
    };
    let lines = run("jsonl");
    assert_eq!(std::fs::read_to_string(&saved).unwrap(), lines);
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        for key in ["paper", "item", "published", "ours", "tolerance", "verdict", "reason", "section"] {
            assert!(!row[key].is_null(), "{key}: {row}");
        }
        assert!(["met", "missed"].contains(&row["verdict"].as_str().unwrap()), "{row}");
        assert!(row.get("null").is_some(), "{row}");
    }
    assert_eq!(run("csv").lines().count(), 4);
    let table = run("table");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.contains("\ndecisive: "), "{table}");
}

/// Programs are recorded once and read by each run. A run refuses a recording of changed commands.
#[test]
fn recorded_paper_programs_are_reused_until_their_commands_change() {
    let folder = folder();
    let paper = |limit: u64| {
        let text = format!(
            "citation = 'c'\n[base]\nmachine = 'zen4'\nmemory_mb = 256\ntiming = 'counts'\nseed = 1\nwarm = true\n\
             systems = {{ base = 'base' }}\n[[experiment]]\nname = 'sums'\nabout = 'a'\nfast_forward = 20_000\nlimit = {limit}\n\
             command = {{ run = ['sh', '-c', 'i=0; while :; do i=$((i + 1)); done'] }}\n[[experiment.item]]\nitem = 'i'\n\
             section = 's'\npublished = 1.0\nunit = 'x'\ntolerance = {{ above = 999.0 }}\nreason = 'claim: r'\nnull = 0.0\n\
             ours = {{ metric = 'instructions', system = 'base' }}\n"
        );
        std::fs::create_dir_all(folder.path().join("p")).unwrap();
        std::fs::write(folder.path().join("p/paper.toml"), text).unwrap();
    };
    let paper_verb = |args: &[&str]| {
        let output = reach(&[&["paper"], args].concat()).current_dir(folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout.clone()).unwrap() + &stderr(&output))
    };
    paper(100_000);
    let (status, message) = paper_verb(&["record", "-q", "./p"]);
    assert!(status == Some(0) && message.contains("references in target/papers/p/sums.reach"), "{message}");
    assert!(paper_verb(&["record", "-q", "./p"]).1.contains("exists already"));
    // The program never ends: its recording does.
    let first = paper_verb(&["run", "-q", "./p", "-f", "jsonl"]);
    assert!(first.0 == Some(0) && first.1.contains("\"verdict\":\"met\""), "{}", first.1);
    assert_eq!(paper_verb(&["run", "-q", "./p", "-f", "jsonl"]), first);
    paper(200_000);
    let (_, message) = paper_verb(&["run", "-q", "./p", "-f", "jsonl"]);
    assert!(message.contains("record it again with `reach paper record ./p sums`"), "{message}");
    assert_eq!(paper_verb(&["record", "-q", "./p", "sums"]).0, Some(0));
    assert!(paper_verb(&["run", "-q", "./p", "-f", "jsonl"]).1.contains("\"verdict\":\"met\""));
    assert_eq!(paper_verb(&["record", "./p", "none"]).0, Some(2));
}

/// Inputs that programs share are made once. A sample of a synthetic program gives the same rows from its recording.
#[test]
fn shared_inputs_are_made_once_and_recorded_samples_give_the_same_rows() {
    let folder = folder();
    let sampled = |name: &str, program: &str, between: &str| {
        format!(
            "[[experiment]]\nname = '{name}'\nabout = 'a'\nlimit = 30_000\n\
             sample = 'every=2k,measure=100,warm=100,between={between}'\n{program}\n\
             [[experiment.item]]\nitem = '{name}: cycles'\n\
             section = 's'\npublished = 1.0\nunit = 'x'\ntolerance = {{ above = 999.0 }}\nreason = 'claim: r'\nnull = 0.0\n\
             ours = {{ metric = 'cycles', system = 'base' }}\n"
        )
    };
    let made = path(&folder, "made");
    let shell = |word: &str| {
        format!(
            "fast_forward = 10_000\n[experiment.command]\nrun = ['sh', '-c', 'while :; do : {word}; done']\n\
             prepare = [['sh', '-c', 'cat shared >> {made}']]\nshared.prepare = [['sh', '-c', 'echo $$ > shared']]"
        )
    };
    let write = |synthetic: &str| {
        let head = "citation = 'c'\n[base]\nmachine = 'zen4'\nmemory_mb = 256\ntiming = 'inorder'\nseed = 1\n\
                    warm = true\nsystems = { base = 'base' }\n";
        let (one, two) = (sampled("one", &shell("one"), "fast-forward"), sampled("two", &shell("two"), "fast-forward"));
        std::fs::create_dir_all(folder.path().join("p")).unwrap();
        std::fs::write(folder.path().join("p/paper.toml"), [head, &one, synthetic, &two].concat()).unwrap();
    };
    let paper_verb = |args: &[&str]| {
        let output = reach(&[&["paper"], args].concat()).current_dir(folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout.clone()).unwrap() + &stderr(&output))
    };
    write(&sampled("gups", "programs = ['gups:bytes=1M,updates=1M']", "tlbs"));
    let (_, message) = paper_verb(&["record", "-q", "./p"]);
    assert!(message.contains("experiment gups: ") && message.contains("write between=fast-forward"), "{message}");
    write(&sampled("gups", "programs = ['gups:bytes=1M,updates=1M']", "fast-forward"));
    let before = paper_verb(&["run", "-q", "./p", "gups", "-f", "jsonl"]);
    let (status, message) = paper_verb(&["record", "-q", "./p"]);
    assert!(status == Some(0) && message.matches("references in target/papers/p/").count() == 3, "{message}");
    assert_eq!(paper_verb(&["run", "-q", "./p", "gups", "-f", "jsonl"]), before);
    let made = std::fs::read_to_string(&made).unwrap();
    let made: Vec<_> = made.lines().collect();
    assert!(made.len() == 2 && made[0] == made[1], "one process made the input for both: {made:?}");
    let (status, message) = paper_verb(&["run", "-q", "./p", "-f", "jsonl"]);
    assert!(status == Some(0) && message.matches("\"verdict\":\"met\"").count() == 3, "{message}");
}

#[test]
fn verbose_says_where_the_time_went_and_changes_no_result() {
    let program = ["run", "--program", "gups:bytes=32M,updates=200K", "-m", "skylake-e3-1240v5", "-f", "csv"];
    for threads in ["1", "2"] {
        let plain = reach(&[&program[..], &["--threads", threads]].concat()).output().unwrap();
        let verbose = reach(&[&program[..], &["--threads", threads, "--verbose"]].concat()).output().unwrap();
        assert_eq!(plain.stdout, verbose.stdout);
        let text = stderr(&verbose);
        assert!(text.contains("waiting for simulations") && text.contains("of their time"), "{text}");
        assert!(!stderr(&plain).contains("waiting for simulations"));
    }
}

#[test]
fn quiet_prints_nothing_on_standard_error() {
    let args = [&["compare", "-q", "-s", "base", "-p", "touch:bytes=1M"][..]].concat();
    let output = reach(&args).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty());
    assert_eq!(stderr(&output), "");
    let output = reach(&args).arg("-v").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn converting_a_trace_keeps_its_text() {
    let folder = folder();
    let (lackey, trace) = (path(&folder, "lackey.txt"), path(&folder, "t.reach"));
    std::fs::write(&lackey, "==1== Lackey\nI  04001090,3\n L 1ffeffe7e0,8\nI  04001093,5\n S 1ffeffe7d8,8\n").unwrap();
    reach(&["trace", "convert", &lackey, "-o", &trace]).assert().success();
    let text = stdout(&["trace", "dump", &trace]);
    insta::assert_snapshot!(text);
    assert_eq!(text, stdout(&["trace", "dump", &lackey]));
    let two = stdout(&["trace", "dump", "--from", "1", "--count", "2", &trace]);
    assert!(text.contains(&two) && two.lines().count() == 2, "{two}");
}

#[test]
fn an_interrupted_simulation_equals_a_run_with_that_limit() {
    let folder = folder();
    for (threads, source) in
        [("1", "gups:bytes=64K,updates=1T"), ("2", "gups:bytes=64K,updates=1T"), ("2", "phases:sizes=4K,rounds=1G")]
    {
        let results = path(&folder, "results.jsonl");
        let args = ["compare", "-q", "-m", "zen4", "-s", "base", "-s", "ideal", "--threads", threads, "-f", "jsonl"];
        let mut child = raw(&[&args[..], &["--force", "-o", &results, "-p", source]].concat())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let status = format!("/proc/{}/status", child.id());
        // It has begun once it handles the signal (bit 1 of the mask).
        while !std::fs::read_to_string(&status).is_ok_and(|status| {
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
            mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask >> 1 & 1 != 0)
        }) {
            assert_eq!(child.try_wait().unwrap(), None);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        // SAFETY: a signal to the child just started.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        let output = child.wait_with_output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(128 + 2), "{text}");
        assert!(text.starts_with("reach: interrupted: the results cover the program's first "), "{text}");
        // A run with that limit gives the same results.
        let results = std::fs::read_to_string(&results).unwrap();
        let (_, rest) = results.split_once("\"limit\":").unwrap();
        let limit: String = rest.chars().take_while(char::is_ascii_digit).collect();
        assert!(limit.parse::<u64>().unwrap() > 0, "{results}");
        assert_eq!(stdout(&[&args[..], &["--limit", &limit, "-p", source]].concat()), results);
    }
}

/// A paper with one short experiment and one that never ends: the rows of the first are printed and saved.
#[test]
fn an_interrupted_paper_gives_the_rows_of_finished_experiments() {
    let folder = folder();
    let experiment = |name: &str, program: &str| {
        format!(
            "[[experiment]]\nname = '{name}'\nabout = 'x'\nprograms = ['{program}']\n[[experiment.item]]\nitem = '{name}'\n\
             section = '1'\npublished = 1.0\nunit = 'x'\ntolerance = {{ above = 0.0 }}\nreason = 'claim: r'\nnull = 0.0\n\
             ours = {{ metric = 'stores', system = 'base' }}\n"
        )
    };
    let head = "citation = 'c'\n[base]\nmachine = 'zen4'\nmemory_mb = 64\ntiming = 'counts'\nseed = 1\nwarm = true\n\
                systems = { base = 'base' }\n";
    let text =
        [head, &experiment("short", "touch:bytes=64K"), &experiment("long", "gups:bytes=64K,updates=1T")].concat();
    let results = path(&folder, "rows.jsonl");
    std::fs::write(folder.path().join("paper.toml"), text).unwrap();
    let args = ["paper", "run", folder.path().to_str().unwrap(), "-o", &results];
    let mut child = raw(&args).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut remarks = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("2 of 2") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut remarks, &mut line).unwrap() > 0, "it ended by itself");
    }
    // SAFETY: a signal to the child just started.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 2));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("short") && !table.contains("long"), "{table}");
    let saved = std::fs::read_to_string(&results).unwrap();
    assert!(saved.lines().count() == 1 && saved.contains("\"item\":\"short\""), "{saved}");
}

#[test]
fn curve_prints_two_tables_and_a_row_for_each_geometry() {
    let machine = "skylake-e3-1240v5:tlb.l2.replacement=lru,tlb.l2.index=low";
    let curve = ["run", "-m", machine, "--curve", "l2_tlb:entries=64..256/4096,ways=2..4/full"];
    let report = stdout(&[&curve[..], &GUPS].concat());
    assert!(report.lines().all(|line| line.chars().count() <= 80), "{report}");
    assert!(report.contains("\nl2: misses, in % of ") && report.contains("\nl2: number of misses\n"), "{report}");
    assert!(report.contains("* the geometry of the machine"), "{report}");
    let rows = stdout(&[&curve[..], &["-f", "jsonl"], &GUPS].concat());
    let rows: Vec<Value> = rows.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let value = |metric: &str| rows.iter().find(|row| row["metric"] == metric).map(|row| row["value"].clone());
    assert_eq!(value("curve.l2.misses@1536x12"), value("walks"));
    assert_eq!(value("curve.l2.lookups"), value("l2_tlb_lookups"));
    let named = |row: &&Value| row["metric"].as_str().unwrap().starts_with("curve.l2.miss_ratio@");
    // 64, 128, 256 and 4096 entries of 2 and 4 ways and full; 96 and 192 entries of 3 ways; and the machine's own.
    assert_eq!(rows.iter().filter(named).count(), 15);
}

/// Range TLBs of other sizes are counted from where measuring begins, like the one that the machine has.
#[test]
fn range_tlbs_of_other_sizes_are_not_counted_while_fast_forwarding() {
    let system = "karakostas-2015-rmm:lookup=after-miss,sweep=32,max_block=4";
    let program = ["--program", "gups:bytes=64M,init=pages,updates=20K", "--fast-forward", "updates"];
    let machine = ["run", "-q", "-m", "skylake-e3-1240v5", "--timing", "inorder", "-s", system, "-f", "jsonl"];
    let rows = stdout(&[&machine[..], &program[..]].concat());
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let value = |metric: &str| {
        let row = rows.iter().find(|row| row["metric"] == metric && row["process"] == "all");
        row.unwrap()["value"].as_u64().unwrap()
    };
    let (lookups, hits) = (value("range_tlb.lookups"), value("range_tlb.hits"));
    assert_eq!(value("range_tlb.misses@32"), lookups - hits);
    assert!(value("range_tlb.misses@1") > value("range_tlb.misses@32") && value("range_tlb.misses@1") <= lookups);
}
