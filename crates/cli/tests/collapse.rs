//! `reach pages collapse` on a running program, by the kernel's own account.

#[allow(dead_code)]
mod common;

use common::{compile, failure, folder, reach, stderr};
use reach_live::settings::are_writable;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Touches memory that may have no huge pages yet, all of 16 MB and every eighth page of 16 MB beyond, and waits. Before it ends it
/// checks what it has stored.
const WAITING: &str = "\
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
int main(int argc, char **argv) {
    size_t size = 32 << 20;
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    char *memory = mmap(0, size + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory += -(size_t)memory & ((2 << 20) - 1);
    for (size_t i = 0; i < size; i += i < size / 2 ? 4096 : 8 * 4096) memory[i] = i >> 12;
    if (argc == 1) prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    printf(\"%p\\n\", memory);
    fflush(stdout);
    getchar();
    for (size_t i = 0; i < size; i += 4096)
        if (memory[i] != (i < size / 2 || i % (8 * 4096) == 0 ? (char)(i >> 12) : 0)) return 1;
    return 0;
}
";

struct Waiting {
    child: Child,
    memory: String,
}

impl Waiting {
    fn start(program: &Path, args: &[&str]) -> Waiting {
        let mut child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut memory = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut memory).unwrap();
        Waiting { child, memory: memory.trim().to_owned() }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Returns the bytes in huge pages, as the kernel counts them.
    fn huge(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    /// Lets the program check its memory.
    fn finish(mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(self.child.wait().unwrap().success(), "its memory has changed");
    }
}

fn start(args: &[&str]) -> Option<Waiting> {
    let folder = folder();
    if !are_writable() {
        eprintln!("skipped: advising another process needs root");
        return None;
    }
    let program = compile(&folder, "waiting", WAITING, &[])?;
    Some(Waiting::start(&program, args))
}

#[test]
fn dense_memory_becomes_huge_and_is_split_again() {
    let Some(waiting) = start(&[]) else { return };
    let (pid, memory) = (waiting.pid(), waiting.memory.clone());
    let run = |args: &[&str]| {
        let output = reach(&[&["pages", "collapse", "-f", "jsonl"], args, &[&pid]].concat()).output().unwrap();
        let rows: Vec<Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|row: &Value| row["extents_tried"] != 0 || row["extents_sparse"] != 0)
            .collect();
        (output.status.code(), rows, stderr(&output))
    };
    assert_eq!(waiting.huge(), 0);
    let (status, rows, text) = run(&["--what", &memory]);
    if text.contains("Linux 6.1") {
        eprintln!("skipped: {text}");
        return waiting.finish();
    }
    assert!(status == Some(0) && rows.len() == 1, "{rows:?} {text}");
    assert_eq!((&rows[0]["extents_tried"], &rows[0]["extents_sparse"]), (&8.into(), &8.into()), "{rows:?}");
    assert_eq!(rows[0]["huge_after"].as_u64(), Some(waiting.huge()));
    assert_eq!((waiting.huge(), &rows[0]["resident_before"]), (16 << 20, &rows[0]["resident_after"]));
    // Sparse memory grows.
    let (status, rows, _) = run(&["--least", "64"]);
    assert!(status == Some(0) && waiting.huge() == 32 << 20, "{rows:?}");
    assert!(rows.iter().any(|row| row["resident_after"].as_u64() >= Some(30 << 20)), "{rows:?}");
    let (status, rows, text) = run(&["--undo"]);
    match text.contains("debugfs") {
        true => eprintln!("not split: {text}"),
        false => assert!(status == Some(0) && waiting.huge() == 0, "{rows:?} {text}"),
    }
    waiting.finish();
}

#[test]
fn refusals_say_why() {
    let Some(waiting) = start(&["disabled"]) else { return };
    let (status, text) = failure(&["pages", "collapse", &waiting.pid()]);
    assert!(status == 1 && text.contains("PR_SET_THP_DISABLE"), "{text}");
    let (status, text) = failure(&["pages", "collapse", "--what", "0x10", &waiting.pid()]);
    assert!(status == 1 && text.contains("has no such anonymous memory"), "{text}");
    waiting.finish();
    for (args, status, words) in [
        (&["pages", "collapse", "--what", "code", "1"][..], 2, "expected anon, heap or an address"),
        (&["pages", "collapse", "--least", "0", "1"], 2, "1..=512"),
        (&["pages", "collapse", "--undo", "--least", "5", "1"], 2, "cannot be used with"),
        (&["pages", "collapse", "4194304"], 1, "no such process"),
        (&["pages", "collapse"], 2, "PID"),
        (&["pages"], 2, "PID"),
    ] {
        let (code, text) = failure(args);
        assert!(code == status && text.contains(words), "{args:?}: {code} {text}");
    }
}
