//! Samples: error bars, programs that are too short, and samples that cannot be unbiased.

use crate::common::{reach, stderr, stdout};
use serde_json::Value;

const GUPS: [&str; 2] = ["--program", "gups:bytes=64M,updates=300000"];

#[test]
fn sampled_rates_have_error_bars_and_counts_have_none() {
    let sample = ["--sample", "every=4k,measure=200,warm=400", "-m", "skylake-e3-1240v5", "--timing", "inorder"];
    let run = |verb: &[&str], more: &[&str]| stdout(&[verb, &sample, more, &GUPS].concat());
    for table in [run(&["run"], &[]), run(&["compare", "-s", "base", "-s", "linux-thp"], &[])] {
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        assert!(
            table.contains(" ±") && table.contains("95 % confidence interval") && table.contains("\nsampled: "),
            "{table}"
        );
    }
    let rows = run(&["compare", "-s", "base", "-s", "linux-thp"], &["-f", "jsonl"]);
    let mut rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(rows.next().unwrap()["sample"]["every"], 4_000);
    let rows: Vec<Value> = rows.collect();
    let errors = |metric: &str| rows.iter().filter(|row| row["metric"] == metric && row["error"].is_f64()).count();
    for metric in ["wcpi", "wcpi.misses_per_access", "sample.translation", "speedup", "cache.l1d.hit_ratio"] {
        assert!(errors(metric) > 0, "{metric}");
    }
    assert_eq!((errors("walks"), errors("contiguity")), (0, 0));
    let csv = run(&["run"], &["-f", "csv"]);
    let columns = |line: &str| line.matches(',').count();
    assert!(csv.lines().next().unwrap().ends_with(",value,error"), "{csv}");
    let plain = stdout(&[&["run", "-m", "skylake-e3-1240v5", "-f", "csv"][..], &GUPS].concat());
    assert_eq!(columns(plain.lines().next().unwrap()) + 1, columns(csv.lines().next().unwrap()));
}

/// The default of `--sample` takes programs of millions of references.
#[test]
fn a_program_too_short_for_a_sample_is_simulated_as_a_whole_and_says_so() {
    let compare = ["compare", "-s", "base", "-s", "linux-thp:enabled=always", "-m", "zen4", "-q", "--timing", "ooo"];
    let whole = stdout(&[&compare[..], &GUPS].concat());
    for sample in ["--sample", "--sample=every=100k,between=fast-forward,warm=0"] {
        let program = if sample == "--sample" { GUPS } else { ["--program", "gups:bytes=1M,updates=100"] };
        let output = reach(&[&compare[..], &program, &[sample]].concat()).output().unwrap();
        let (table, message) = (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
        assert_eq!(output.status.code(), Some(0), "{message}");
        assert!(message.contains("too short for a sample") && message.contains("all of it was simulated"), "{message}");
        assert!(table.split_whitespace().collect::<Vec<_>>().join(" ").contains("too short for a sample"), "{table}");
        assert!(!table.contains('±'), "{table}");
        if sample == "--sample" {
            let numbers = |table: &str, system: &str| {
                let line = table.lines().find(|line| line.starts_with(system)).unwrap_or_else(|| panic!("{table}"));
                line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(numbers(&table, "base"), numbers(&whole, "base"));
        }
    }
}

#[test]
fn samples_that_cannot_be_unbiased_give_no_interval_and_exit_with_1() {
    let sample =
        ["--sample", "every=4k,measure=100,warm=0,between=fast-forward", "-q", "-m", "zen4", "--timing", "ooo"];
    for format in ["table", "jsonl", "csv"] {
        let output = reach(&[&["run", "-f", format][..], &sample, &GUPS].concat()).output().unwrap();
        let (text, message) = (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(message.contains("no interval can be given"), "{message}");
        match format {
            "table" => assert!(text.contains("no interval can be given") && !text.contains('±'), "{text}"),
            "jsonl" => assert!(text.lines().next().unwrap().contains("no interval can be given"), "{text}"),
            _ => assert!(text.contains("finding.no_interval"), "{text}"),
        }
    }
}

/// What the operating system does between intervals is known exactly: freshly touched memory is nearly all faults.
#[test]
fn the_speedup_of_a_sample_counts_all_faults() {
    let speedup = |sample: &[&str]| {
        let compare =
            ["compare", "-s", "base", "-s", "linux-thp:enabled=always", "-m", "zen4", "-q", "--timing", "ooo"];
        let program = ["--program", "touch:bytes=128M,page=4K", "-f", "jsonl"];
        let rows = stdout(&[&compare[..], &program, sample].concat());
        let rows = rows.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_thp = |row: &Value| row["metric"] == "speedup" && row["system"] != "base";
        let row = rows.into_iter().find(of_thp).unwrap();
        (row["value"].as_f64().unwrap(), row["error"].as_f64())
    };
    let ((whole, _), (sampled, error)) = (speedup(&[]), speedup(&["--sample", "every=1k,measure=50,warm=100"]));
    let error = error.expect("there are more than thirty intervals");
    assert!(whole > 1.2 && (sampled - whole).abs() <= error.max(0.01), "{sampled} ±{error} for {whole}");
}
