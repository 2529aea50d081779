//! Verdicts on the papers' numbers.

use crate::common::{failure, folder, path, reach, stderr, stdout};
use serde_json::Value;
use std::path::Path;

/// Programs of these papers take hours to capture, so they are simulated only if they have been recorded.
const RECORDED: [&str; 2] = ["lindsay-2024", "zhou-2023"];

/// A computed null is what such a simulator gives. So this tests nulls that files state, those over rows and points, and those
/// that do not exist.
#[test]
#[ignore = "simulates the baseline of every experiment of every paper, an hour"]
fn a_simulator_whose_systems_do_nothing_meets_no_published_number() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = folder();
    for paper in reach_lab::paper::list() {
        if RECORDED.contains(&paper) && !root.join("target/papers").join(paper).exists() {
            eprintln!("{paper}: skipped, because its programs are not recorded (reach paper record {paper})");
            continue;
        }
        let rows = path(&folder, &format!("{paper}.jsonl"));
        let run = reach(&["paper", "run", "-q", paper, "--no-effect", "-f", "jsonl", "-o", &rows]);
        let output = { run }.current_dir(&root).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let named = |verdict: &str| -> Vec<&Value> {
            rows.iter().filter(|row| row["verdict"] == verdict).map(|row| &row["item"]).collect()
        };
        assert_eq!(named("met"), Vec::<&Value>::new(), "{paper}");
        assert!(!named("missed").is_empty(), "{paper}: the simulations gave no number");
        assert_eq!(output.status.code(), Some(0), "{paper}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn saved_results_of_a_paper_are_judged_again_and_must_be_complete() {
    let folder = folder();
    let (results, rows) = (path(&folder, "results"), path(&folder, "rows.jsonl"));
    let paper = ["paper", "run", "-q", "navarro-2002"];
    let tail = ["-f", "jsonl", "--force", "-o", &rows];
    let run = stdout(&[&paper[..], &["preemption", "--save-results", &results], &tail].concat());
    assert_eq!(stdout(&[&paper[..], &["preemption", "--from-results", &results], &tail].concat()), run);
    let (_, error) = failure(&[&paper[..], &["preemption", "dirty", "--from-results", &results], &tail].concat());
    assert!(error.contains("no results of the experiment dirty; name those to judge"), "{error}");
    std::fs::write(&results, &std::fs::read(&results).unwrap()[..100]).unwrap();
    let (_, error) = failure(&[&paper[..], &["preemption", "--from-results", &results], &tail].concat());
    assert!(error.contains("line 1: EOF") && error.contains("--save-results"), "{error}");
}

#[test]
fn an_experiment_whose_program_is_not_installed_says_what_to_install() {
    let folder = folder();
    let rows = path(&folder, "rows.jsonl");
    let mut run = reach(&["paper", "run", "gandhi-2016-agile", "gcc", "-o", &rows]);
    let output = run.env("PATH", folder.path()).output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("experiment gcc gave no results: install gcc (there is no gcc)"), "{message}");
    assert!(message.contains("no experiment gave results"), "{message}");
}
