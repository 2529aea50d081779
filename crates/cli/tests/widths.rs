//! Output for people fits terminals of 40 to 200 columns, and no word is cut.

use crate::common::{folder, path, reach, stderr, stdout};
use std::collections::BTreeSet;

const WIDTHS: [usize; 5] = [40, 60, 80, 120, 200];

/// Runs the command in a terminal of `width` columns, as `COLUMNS` says.
fn at_width(args: &[&str], width: usize) -> String {
    let output = reach(args).env("COLUMNS", width.to_string()).output().unwrap();
    assert!(output.status.code() == Some(0), "{args:?}: {}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    // The last lines of a simulation say how long it took.
    text.rfind("\nread in ").map_or(text.as_str(), |end| &text[..end]).to_owned()
}

/// Returns the words of a text: letters and digits, with the points and commas of numbers.
fn words(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == ','));
    words.map(|word| word.trim_matches(['.', ','])).filter(|word| !word.is_empty()).collect()
}

/// Asserts that the output has no line wider than the terminal, and no word that the widest output lacks.
fn assert_fits(args: &[&str]) {
    let widest = at_width(args, 200);
    let remark = "page faults and peak memory need a wider terminal (or COLUMNS)";
    let known: BTreeSet<&str> = words(&widest).into_iter().chain(words(remark)).collect();
    for width in WIDTHS {
        let text = at_width(args, width);
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{args:?} at {width}: {line:?}");
            assert_eq!(line.trim_end(), line, "{args:?} at {width} ends in spaces");
        }
        // Words longer than a line or a column, such as addresses of pages, are broken after punctuation.
        let long = |word: &&str| known.iter().any(|whole| whole.len() > 20.min(width - 6) && whole.contains(word));
        let cut: Vec<_> = words(&text).into_iter().filter(|word| !known.contains(word) && !long(word)).collect();
        assert!(cut.is_empty(), "{args:?} at {width} cuts {cut:?}:\n{text}");
    }
}

const TOUCH: [&str; 4] = ["-m", "skylake-e3-1240v5", "-p", "touch:bytes=4M,passes=2"];

#[test]
fn comparisons_fit() {
    assert_fits(&[&["compare", "-q"], &TOUCH[..]].concat());
    assert_fits(
        &[&["compare", "-m", "alpha-21264:tlb.dtlb.entries=64", "-s", "base", "-s", "ideal"], &TOUCH[..]].concat(),
    );
    let options = "linux-thp:defrag=always,enabled=always";
    assert_fits(&[&["compare", "-s", "base", "-s", options, "--timing", "inorder"], &TOUCH[..]].concat());
    let sample = ["compare", "-s", "base", "-s", "ideal", "--sample", "every=2k,measure=200,warm=200"];
    assert_fits(&[&sample[..], &["-m", "zen4", "-p", "gups:bytes=16M,updates=200K"]].concat());
    assert_fits(&[&["compare", "-s", "base", "-s", "ideal", "--metric", "wcpi*,walk*"], &TOUCH[..]].concat());
}

#[test]
fn reports_fit() {
    for timing in ["counts", "inorder", "ooo"] {
        assert_fits(&[&["run", "--timing", timing], &TOUCH[..]].concat());
    }
    assert_fits(&["run", "-m", "zen4", "-p", "touch:bytes=1M", "-p", "matrix:n=50"]);
    assert_fits(&[&["run", "--metric", "*"], &TOUCH[..]].concat());
    assert_fits(&[&["run", "--curve", "l2_tlb"], &TOUCH[..]].concat());
}

#[test]
fn lists_and_their_items_fit() {
    for what in ["machine", "system", "program"] {
        assert_fits(&[what, "list"]);
        let list = stdout(&[what, "list"]);
        for name in list.lines().filter(|line| !line.starts_with(' ')).map(|line| line.split(' ').next().unwrap()) {
            assert_fits(&[what, "show", name]);
        }
    }
    assert_fits(&["paper", "list"]);
    assert_fits(&["explain"]);
    assert_fits(&["explain", "*"]);
}

#[test]
fn verdicts_traces_and_counters_fit() {
    let folder = folder();
    let (saved, trace) = (path(&folder, "rows.jsonl"), path(&folder, "t.reach"));
    assert_fits(&["paper", "run", "-q", "navarro-2002", "preemption", "--force", "-o", &saved]);
    stdout(&["run", "-q", "-m", "zen4", "-p", "touch:bytes=1M", "--record", &trace]);
    assert_fits(&["trace", "info", &trace]);
    for recorded in ["haswell.csv", "skylake.jsonl", "zen-1.csv", "neoverse.csv"] {
        let file = format!("{}/../live/src/stat/recorded/{recorded}", env!("CARGO_MANIFEST_DIR"));
        assert_fits(&["stat", "--read", &file]);
    }
    assert_fits(&["text", "show", "/bin/sh"]);
}

#[test]
fn results_in_a_file_have_80_columns_unless_columns_is_set() {
    let folder = folder();
    let results = path(&folder, "results.txt");
    let args = [&["compare", "-s", "base", "-s", "ideal", "-o", &results][..], &TOUCH].concat();
    stdout(&args);
    let longest = |text: String| text.lines().map(|line| line.chars().count()).max().unwrap();
    let width = longest(std::fs::read_to_string(&results).unwrap());
    assert!((60..=80).contains(&width), "{width}");
}
