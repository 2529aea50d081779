//! Captured programs: live results equal those of recordings, and the programs are not disturbed.

#[allow(dead_code)]
mod common;

use common::{can_capture, compile, failure, folder, path, raw, reach, stderr, stdout};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

const ARGS: [&str; 9] = ["compare", "-q", "-m", "skylake-e3-1240v5", "-s", "base", "-s", "linux-thp", "--whole"];

/// Asserts that a comparison while recording equals replays of the recording on one and on two threads.
fn assert_replay_equals_live(program: &[&str]) {
    let folder = folder();
    let (trace, results) = (path(&folder, "t.reach"), path(&folder, "live.jsonl"));
    let live = ["-f", "jsonl", "--record", &trace, "-o", &results, "--"];
    let output = reach(&[&ARGS[..], &live, program].concat()).output().unwrap();
    assert!(output.status.success(), "{program:?}: {}", stderr(&output));
    let live = std::fs::read_to_string(&results).unwrap();
    assert!(live.lines().count() > 80, "{live}");
    for threads in ["1", "2"] {
        let replayed = stdout(&[&ARGS[..], &["-f", "jsonl", "--threads", threads, "--trace", &trace]].concat());
        for (replayed, live) in replayed.lines().zip(live.lines()) {
            assert_eq!(replayed, live, "{program:?} on {threads} threads");
        }
        assert_eq!(replayed.len(), live.len());
    }
    assert!(stdout(&["trace", "check", &trace]).contains("valid"));
}

#[test]
fn replay_equals_live_for_a_single_process() {
    if can_capture() {
        assert_replay_equals_live(&["ls", "-l", "/usr"]);
    }
}

#[test]
fn replay_equals_live_for_threads() {
    let source = "#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n
        static void *work(void *n) { char *p = 0; for (int i = 1; i < 50; i++) { p = realloc(p, i << 12);
        memset(p, (long)n, i << 12); } return p; }
        int main(void) { pthread_t t[4]; for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)i);
        for (int i = 0; i < 4; i++) pthread_join(t[i], 0); return 0; }";
    let folder = folder();
    if can_capture()
        && let Some(program) = compile(&folder, "threads", source, &["-pthread"])
    {
        assert_replay_equals_live(&[program.to_str().unwrap()]);
    }
}

#[test]
fn replay_equals_live_for_a_process_with_children() {
    let folder = folder();
    let (source, object) = (path(&folder, "f.c"), path(&folder, "f.o"));
    std::fs::write(&source, "int f(int n) { int s = 0; while (n) s += n--; return s; }\n").unwrap();
    if can_capture() && std::process::Command::new("gcc").arg("--version").output().is_ok() {
        assert_replay_equals_live(&["gcc", "-O2", "-c", &source, "-o", &object]);
        assert!(std::fs::metadata(&object).is_ok());
    }
}

#[test]
fn capture_keeps_standard_streams_and_exit_status() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let results = path(&folder, "results");
    let script = "read line; echo \"got $line\"; echo trouble >&2; exit 7";
    let mut child = raw(&[&ARGS[..], &["-o", &results, "--", "sh", "-c", script]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"something\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "got something\n");
    assert_eq!(stderr(&output), "trouble\n");
    assert_eq!(output.status.code(), Some(7));
    assert!(std::fs::read_to_string(&results).unwrap().contains("\nbase "), "results are printed nevertheless");
}

#[test]
fn results_come_after_the_output_of_the_program() {
    if can_capture() {
        let text = stdout(&[&ARGS[..], &["--", "echo", "hello"]].concat());
        // In a pipe, an empty line is between them: nobody can see whether the program ended its line.
        let (first, rest) = text.split_once("\n\n").unwrap();
        assert_eq!(first, "hello");
        assert!(rest.starts_with("echo hello\n") && rest.contains("captured in "), "{rest}");
    }
}

#[test]
fn a_program_killed_by_signal_n_gives_exit_status_128_plus_n() {
    if can_capture() {
        let output = reach(&[&ARGS[..], &["--", "sh", "-c", "kill -KILL $$"]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(128 + 9));
        assert!(String::from_utf8_lossy(&output.stdout).contains("\nbase "));
    }
}

#[test]
fn an_interrupt_reaches_the_program_and_results_are_printed() {
    if !can_capture() {
        return;
    }
    // The shell executes no program after that line: the emulator loses signals that arrive during an exec.
    let mut command = raw(&[&ARGS[..], &["--", "sh", "-c", "echo ready; read line"]].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    let input = child.stdin.take();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    // SAFETY: a signal to the group of the child just started.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGINT) };
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.starts_with("base ")), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
    drop(input);
}

#[test]
fn recording_keeps_standard_output_and_exit_status() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let trace = path(&folder, "t.reach");
    let output = reach(&["record", "-o", &trace, "--", "sh", "-c", "echo out; exit 3"]).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"out\n"[..]));
    assert!(stderr(&output).contains("recorded "), "{}", stderr(&output));
    assert!(stdout(&["trace", "info", &trace]).contains("echo out"));
    // A program that cannot be recorded is not started.
    let output = reach(&["record", "-o", "/dev/full", "--", "echo", "out"]).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
    assert!(stderr(&output).contains("the disk is full"), "{}", stderr(&output));
}

#[test]
fn a_limited_recording_stops_before_the_program_ends() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let trace = path(&folder, "t.reach");
    let args = ["record", "-q", "--limit", "10k", "-o", &trace, "--", "ls", "/"];
    assert!(stdout(&args).contains("usr"));
    let rows = stdout(&["compare", "-m", "zen4", "-s", "base", "-f", "csv", "-t", &trace]);
    assert!(rows.contains(",instructions,"), "{rows}");
    assert_eq!(failure(&args).0, 2);
}
