//! Where results go: files by their names, lines of their own on shared streams, and progress on standard error.

use crate::common::{can_capture, failure, folder, path, raw, reach, stderr, stdout};
use std::fs::{File, OpenOptions};
use std::process::Stdio;

const TOUCH: [&str; 7] = ["compare", "-m", "zen4", "-s", "base", "-p", "touch:bytes=1M"];

/// Returns the format of a text: the name that `--format` has for it.
fn format(text: &str) -> &'static str {
    match text {
        text if text.starts_with("{\"version\"") => "jsonl",
        text if text.starts_with("machine,system,") => "csv",
        _ => "table",
    }
}

#[test]
fn the_name_of_the_file_chooses_the_format_and_an_option_overrides_it() {
    let folder = folder();
    for (name, options, expected) in [
        ("a.jsonl", &[][..], "jsonl"),
        ("a.json", &[], "jsonl"),
        ("a.csv", &[], "csv"),
        ("a.CSV", &[], "csv"),
        ("a.txt", &[], "table"),
        ("a", &[], "table"),
        ("b.csv", &["--format", "jsonl"], "jsonl"),
        ("b.jsonl", &["--format", "table"], "table"),
        ("b.txt", &["-f", "csv"], "csv"),
    ] {
        let file = path(&folder, name);
        assert_eq!(stdout(&[&TOUCH[..], &["-o", &file], options].concat()), "");
        assert_eq!(format(&std::fs::read_to_string(&file).unwrap()), expected, "{name} {options:?}");
    }
    assert_eq!(format(&stdout(&TOUCH)), "table");
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let folder = folder();
    let file = path(&folder, "results.jsonl");
    std::fs::write(&file, "precious").unwrap();
    for verb in ["compare", "run"] {
        // The trace does not exist, so status 2 shows that nothing was tried.
        let (status, text) = failure(&[verb, "-m", "zen4", "-s", "base", "-t", "/no/such/trace", "-o", &file]);
        assert!(status == 2 && text.contains("exists already") && text.contains("--force"), "{text}");
    }
    let paper = ["paper", "run", "navarro-2002", "preemption", "-o", &file];
    assert_eq!(failure(&paper).0, 2);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    stdout(&[&TOUCH[..], &["-o", &file, "--force"]].concat());
    assert_eq!(format(&std::fs::read_to_string(&file).unwrap()), "jsonl");
    // Devices are no files to protect.
    stdout(&[&TOUCH[..], &["-o", "/dev/null"]].concat());
}

#[test]
fn a_failed_run_leaves_no_empty_file_and_keeps_an_existing_one() {
    let folder = folder();
    let (new, old) = (path(&folder, "new.csv"), path(&folder, "old.csv"));
    std::fs::write(&old, "before").unwrap();
    let args = ["compare", "-m", "zen4", "-s", "base", "-t", "/no/such/trace", "--force", "-o"];
    assert_eq!(failure(&[&args[..], &[&new]].concat()).0, 1);
    assert!(!std::path::Path::new(&new).exists());
    assert_eq!(failure(&[&args[..], &[&old]].concat()).0, 1);
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "before");
}

#[test]
fn force_without_a_file_and_one_file_for_two_purposes_are_usage_errors() {
    let folder = folder();
    let file = path(&folder, "both");
    for args in [&["--force"][..], &["-o", &file, "--record", &file]] {
        let (status, text) = failure(&[&TOUCH[..], args].concat());
        assert!(status == 2 && text.contains("--output") && text.contains("--record"), "{text}");
    }
}

/// Runs a captured shell script whose output is `script`'s, with standard output in the file `name`, opened with `append` or
/// not. Returns what the file has afterwards.
fn captured_to_file(script: &str, append: bool, more: &[&str]) -> String {
    let folder = folder();
    let name = path(&folder, "out");
    let file = if append {
        std::fs::write(&name, "earlier").unwrap();
        OpenOptions::new().append(true).open(&name).unwrap()
    } else {
        File::create(&name).unwrap()
    };
    let args = ["compare", "-q", "-m", "zen4", "-s", "base"];
    let output = raw(&[&args[..], more, &["--", "sh", "-c", script]].concat())
        .stdout(file)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    std::fs::read_to_string(&name).unwrap()
}

#[test]
fn in_a_file_results_begin_a_line_and_add_no_empty_one() {
    if !can_capture() {
        return;
    }
    let jsonl = ["-f", "jsonl"];
    let unfinished = captured_to_file("printf unfinished", false, &jsonl);
    assert!(unfinished.starts_with("unfinished\n{\"version\""), "{unfinished}");
    let finished = captured_to_file("echo finished", false, &jsonl);
    assert!(finished.starts_with("finished\n{\"version\""), "{finished}");
    let silent = captured_to_file("true", false, &jsonl);
    assert!(silent.starts_with("{\"version\""), "{silent}");
    let appended = captured_to_file("printf unfinished", true, &[]);
    assert!(appended.starts_with("earlierunfinished\nsh -c "), "{appended}");
    let appended = captured_to_file("echo finished", true, &["-f", "csv"]);
    assert!(appended.starts_with("earlierfinished\nmachine,system,"), "{appended}");
}

#[test]
fn in_a_pipe_results_begin_a_line_whatever_the_program_wrote() {
    if !can_capture() {
        return;
    }
    let args = ["compare", "-q", "-m", "zen4", "-s", "base", "-f", "jsonl", "--", "sh", "-c"];
    for (script, before) in [("printf unfinished", "unfinished\n"), ("echo finished", "finished\n\n"), ("true", "\n")] {
        let text = stdout(&[&args[..], &[script]].concat());
        assert!(text.starts_with(&format!("{before}{{\"version\"")), "{script}: {text}");
        let rows = text.lines().filter(|line| line.starts_with('{'));
        assert!(rows.clone().count() > 60 && rows.into_iter().all(|line| line.ends_with('}')), "{script}: {text}");
    }
}

#[test]
fn remarks_begin_a_line_after_an_unfinished_one_of_the_program() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let (errors, trace) = (path(&folder, "errors"), path(&folder, "t.reach"));
    let output = raw(&["record", "-o", &trace, "--", "sh", "-c", "printf trouble >&2"])
        .stderr(File::create(&errors).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = std::fs::read_to_string(&errors).unwrap();
    assert!(text.starts_with("trouble\nreach: recorded "), "{text}");
}

#[test]
fn synthetic_programs_are_not_preceded_by_an_empty_line() {
    assert!(stdout(&TOUCH).starts_with("touch:"));
}

/// Runs the command with a line of progress every 30 ms, and returns standard error.
fn with_progress(args: &[&str]) -> String {
    let output = reach(args).env("REACH_PROGRESS_MS", "30").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn long_work_shows_percent_and_the_time_left_on_a_pipe() {
    let folder = folder();
    let (trace, copy) = (path(&folder, "t.reach"), path(&folder, "u.reach"));
    let gups = ["-m", "zen4", "-p", "gups:bytes=64M,updates=3M", "--timing", "inorder"];
    let text = with_progress(&[&["run", "--record", &trace], &gups[..]].concat());
    let is_estimate = |line: &str| {
        line.starts_with("reach: ") && line.contains(" %, ") && line.contains("/s, ") && line.ends_with(" left")
    };
    assert!(text.lines().filter(|line| is_estimate(line)).count() > 1, "{text}");
    assert!(with_progress(&["trace", "convert", &trace, "-o", &copy]).contains(" left\n"));
    assert!(
        with_progress(&["compare", "-m", "zen4", "-s", "base", "-t", &trace, "--timing", "inorder"])
            .contains(" left\n")
    );
    let quiet = with_progress(&[&["run", "--quiet"], &gups[..]].concat());
    assert_eq!(quiet, "");
}

#[test]
fn short_work_shows_no_progress() {
    let output = reach(&TOUCH).output().unwrap();
    assert_eq!(stderr(&output), "");
}

#[test]
fn live_programs_show_references_and_their_rate() {
    if !can_capture() {
        return;
    }
    let script = "i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done";
    let text = with_progress(&["compare", "-m", "zen4", "-s", "base", "--", "sh", "-c", script]);
    assert!(text.contains(" references so far, ") && text.contains("/s, after "), "{text}");
    let folder = folder();
    let text = with_progress(&["record", "-o", &path(&folder, "t.reach"), "--", "sleep", "0.5"]);
    let shown = text.contains(" references so far, ") || text.contains("waiting for the program's first references");
    assert!(shown, "a program that waits is reported too: {text}");
}
