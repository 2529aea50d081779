//! `reach explain` and `--metric`.

use crate::common::{failure, reach, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeSet;

const COMPARE: [&str; 9] =
    ["compare", "-m", "skylake-e3-1240v5", "-s", "base", "-s", "ideal", "-p", "gups:bytes=16M,updates=20K"];

/// Returns the metrics of rows in `jsonl`.
fn metrics(jsonl: &str) -> BTreeSet<String> {
    let rows = jsonl.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| row["metric"].as_str().unwrap().to_owned()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| name.to_string()).collect()
}

#[test]
fn explain_defines_every_metric_of_a_run() {
    let rows = stdout(&[&COMPARE[..], &["-f", "jsonl", "--timing", "inorder"]].concat());
    let metrics = metrics(&rows);
    assert!(metrics.len() > 100);
    let names: Vec<&str> = metrics.iter().map(String::as_str).collect();
    let explained = stdout(&[&["explain"], &names[..]].concat());
    for part in ["wcpi\n", "walks\n", "superpages.<size>\n", "cache.<cache>.hit_ratio\n", "speedup\n", "  unit "] {
        assert!(explained.contains(part), "{part}");
    }
}

#[test]
fn explain_gives_meaning_unit_source_and_runs() {
    let text = stdout(&["explain", "wcpi"]);
    assert!(text.starts_with("wcpi\n  Walk cycles per instruction: "), "{text}");
    for part in ["cycles/instruction", "walk_cycles / instructions; Lindsay and Bhattacharjee 2024", "reach stat"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('`'), "{text}");
    assert_eq!(stdout(&["explain", "superpages.2M"]), stdout(&["explain", "superpages.<size>"]));
}

#[test]
fn explain_without_a_metric_lists_all_by_group() {
    let text = stdout(&["explain"]);
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    for name in ["instructions", "wcpi", "walks.aborted", "eager.requests", "finding.incomplete", "walk_cycles.share"] {
        assert!(names.contains(&name), "{name}: {text}");
    }
    assert!(text.contains("\nPage walks\n") && text.contains("\nReservations\n"), "{text}");
}

#[test]
fn an_unknown_metric_is_a_usage_error_with_near_names_before_anything_runs() {
    for (args, near) in [
        (&["explain", "wpci"][..], "did you mean wcpi"),
        (&["explain", "page_fault"], "page_faults"),
        (&["compare", "--metric", "walk_cycle", "-t", "/no/such/trace"], "walk_cycles"),
        (&["run", "--metric", "wcpi,nonsense*", "-t", "/no/such/trace"], "`reach explain` lists all metrics"),
    ] {
        let (status, text) = failure(args);
        assert_eq!(status, 2, "{text}");
        assert!(text.contains("there is no metric") && text.contains(near), "{args:?}: {text}");
    }
}

#[test]
fn metric_selects_rows() {
    let selected = |metric: &str, format: &str| stdout(&[&COMPARE[..], &["--metric", metric, "-f", format]].concat());
    assert_eq!(metrics(&selected("wcpi,speedup", "jsonl")), set(&["wcpi", "speedup"]));
    let walks = metrics(&selected("walks*", "jsonl"));
    assert!(walks.contains("walks.data") && walks.iter().all(|metric| metric.starts_with("walks")), "{walks:?}");
    assert_eq!(metrics(&selected("superpages.2M", "jsonl")), set(&["superpages.2M"]));
    assert_eq!(selected("page_faults", "csv").lines().count(), 1 + 2);
    // The header is that of a run with all metrics, so that hashes agree.
    let all = stdout(&[&COMPARE[..], &["-f", "jsonl"]].concat());
    assert_eq!(selected("wcpi", "jsonl").lines().next(), all.lines().next());
}

#[test]
fn metric_chooses_the_columns_of_the_table() {
    let table = stdout(&[&COMPARE[..], &["--metric", "page_faults,walks,peak_resident_bytes"]].concat());
    let header = table.lines().find(|line| line.starts_with("skylake-e3-1240v5")).unwrap();
    let columns: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(columns, ["skylake-e3-1240v5", "walks", "page_faults", "peak_resident_bytes"]);
    assert!(table.contains("\nbase ") && table.contains("\nideal ") && !table.contains("WCPI"), "{table}");
    let report = stdout(&["run", "-m", "zen4", "-p", "touch:bytes=1M", "--metric", "page_faults,cycles"]);
    assert!(report.contains("\npage_faults ") && report.contains("\ncycles "), "{report}");
    assert!(!report.contains("TLB array"), "{report}");
}

#[test]
fn a_metric_that_no_row_has_is_remarked_on() {
    for (timing, missing, timings) in
        [("inorder", "itlb_stall", "--timing ooo"), ("counts", "wcpi", "--timing inorder and ooo")]
    {
        let selected = ["--timing", timing, "--metric", "itlb_stall,wcpi,walks"];
        let output = reach(&[&COMPARE[..], &selected].concat()).output().unwrap();
        assert!(output.status.success());
        let remark = stderr(&output);
        assert!(remark.contains(&format!("no row has the metric {missing}")) && remark.contains(timings), "{remark}");
        assert!(!remark.contains("walks"), "{remark}");
    }
}

#[test]
fn counts_give_neither_cycles_nor_speedups() {
    let run = |more: &[&str]| stdout(&[&COMPARE[..], &["-s", "hugetlb-2m", "-s", "linux-thp"], more].concat());
    let rows = run(&["--timing", "counts", "-f", "csv"]);
    assert!(rows.contains(",walk_accesses,") && rows.contains(",page_faults,"), "{rows}");
    for time in [",cycles", ",wcpi,", ",speedup,", ",relative_overhead,", ",model.overhead,", ",walk_cycles"] {
        assert!(!rows.contains(time), "{time}: {rows}");
        assert!(run(&["-f", "csv"]).contains(time), "{time}");
    }
    let table = run(&["--timing", "counts"]);
    assert!(table.contains("entries read") && table.contains("counts only: "), "{table}");
    assert!(!table.contains("speedup:") && !table.contains("overhead") && !table.contains("WCPI"), "{table}");
    let report = stdout(&["run", "-m", "zen4", "-p", "touch:bytes=1M", "--timing", "counts"]);
    assert!(!report.contains("walk cycles") && !report.contains("\ncycles\n"), "{report}");
}

#[test]
fn the_default_is_a_sample_of_the_out_of_order_core() {
    let header = |more: &[&str]| {
        let text = stdout(&[&COMPARE[..], &["-f", "jsonl"], more].concat());
        serde_json::from_str::<serde_json::Value>(text.lines().next().unwrap()).unwrap()
    };
    let default = header(&[]);
    assert_eq!((default["timing"].as_str(), default["precision"].as_f64()), (Some("ooo"), Some(0.01)));
    assert_eq!(default["sample"]["every"], 400_000);
    assert_eq!(header(&["--precision", "0.5%"])["precision"], 0.005);
    let whole = header(&["--whole"]);
    assert!(whole["precision"].is_null() && whole["sample"].is_null(), "{whole}");
    let refused: [(&[&str], &str); 4] = [
        (&["--precision", "0"], "from 0.01 to 50"),
        (&["--precision", "1%", "--whole"], "cannot be used with"),
        (&["--precision", "1%", "--timing", "counts"], "--precision is for samples"),
        (&["--precision", "1%", "--cores", "2"], "--precision is for samples"),
    ];
    for (more, text) in refused {
        let output = reach(&[&COMPARE[..], more].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(stderr(&output).contains(text), "{more:?}: {}", stderr(&output));
    }
}

#[test]
fn tables_say_what_speedups_are_relative_to() {
    let table = stdout(&COMPARE);
    assert!(table.contains("\nspeedup: relative to base\n"), "{table}");
    assert!(table.contains("\nideal: the bound for translation alone; "), "{table}");
    let other = stdout(&["compare", "-m", "zen4", "-s", "hugetlb-2m", "-s", "base", "-p", "touch:bytes=4M"]);
    assert!(other.contains("\nspeedup: relative to hugetlb-2m\n") && !other.contains("bound"), "{other}");
}
