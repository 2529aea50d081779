//! `reach advise`: remedies that help are found, those that cannot are named with the reason, and `reach try` shows what was
//! predicted.

use crate::common::{can_capture, compile, failure, folder, reach, stderr};
use reach_live::settings::Setting;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Touches 24 MB that malloc gives, in random order.
const RANDOM: &str = "\
#include <stdint.h>
#include <stdlib.h>
int main(void) {
    size_t size = 24 << 20;
    char *memory = malloc(size);
    for (size_t i = 0; i < size; i += 4096) memory[i] = 1;
    uint64_t x = 1;
    for (int i = 0; i < 300000; i++) { x = x * 6364136223846793005u + 1442695040888963407u; memory[(x >> 33) % size]++; }
    return memory[5] == 77;
}
";

/// Computes, and touches nothing.
const COMPUTE: &str = "\
int main(void) { unsigned x = 1; for (int i = 0; i < 40000000; i++) x = x * 1664525u + 1013904223u; return x == 5; }
";

const MACHINE: &str = "--machine=skylake-e3-1240v5";

/// Returns the rows of the advice for a program on a simulated machine. The history is in `state`.
fn rows(state: &Path, args: &[&str]) -> Vec<Value> {
    rows_here(state, &[&[MACHINE], args].concat())
}

/// The same on this computer.
fn rows_here(state: &Path, args: &[&str]) -> Vec<Value> {
    let output = reach(&[&["advise", "-q", "-f", "jsonl"], args].concat());
    let output = { output }.env("XDG_STATE_HOME", state).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(rows: &'a [Value], remedy: &str) -> &'a Value {
    let found = rows.iter().find(|row| row["remedy"].as_str().is_some_and(|name| name.starts_with(remedy)));
    found.unwrap_or_else(|| panic!("no {remedy} in {rows:?}"))
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

#[test]
fn huge_pages_help_a_program_that_walks_and_each_remedy_says_what_to_do() {
    let folder = folder();
    let (true, Some(program)) = (can_capture(), compile(&folder, "random", RANDOM, &["-g"])) else { return };
    let program = program.to_str().unwrap();
    if Setting::Thp.read().ok().as_deref() != Some("madvise") {
        eprintln!("skipped: {} is not madvise, so that the program has huge pages already", Setting::Thp.path());
        return;
    }
    let rows = rows(folder.path(), &["--", program]);
    let plain = of(&rows, "none");
    assert!(number(plain, "translation") > 0.0 && number(plain, "kernel") > 0.05, "{plain}");
    assert!((6144.0..6400.0).contains(&number(plain, "page_faults")), "{plain}");
    for remedy in ["thp-always", "glibc-thp", "glibc-hugetlb", "madvise [anonymous] main (random.c:5)"] {
        let row = of(&rows, remedy);
        assert_eq!(row["answer"], "faster", "{row}");
        assert!(number(row, "speedup_low") > 1.2 && number(row, "speedup") < 20.0, "{row}");
        assert!(number(row, "page_faults") < 1200.0 && number(row, "huge_bytes") >= f64::from(20 << 20), "{row}");
        // Zeroing a huge page takes longer than zeroing a base page.
        assert!(number(row, "stop_longest_microseconds") > 5.0 * number(plain, "stop_longest_microseconds"), "{row}");
    }
    assert!(of(&rows, "glibc-hugetlb")["note"].as_str().unwrap().contains("GLIBC_TUNABLES=glibc.malloc.hugetlb=2"));
    assert!(of(&rows, "madvise")["note"].as_str().unwrap().contains("MADV_HUGEPAGE"));
    for (remedy, why) in [
        ("jemalloc-thp", "the program does not map libjemalloc"),
        ("no-thp", "the program has no huge pages without it"),
        ("redis-jemalloc-thp", "it is for redis-server"),
        ("code", "no file of the program has 2 MB of code"),
    ] {
        let row = of(&rows, remedy);
        assert!(row["answer"] == "not predicted" && row["note"].as_str().unwrap().starts_with(why), "{row}");
    }
    // What was predicted stands beside what is measured, and is scored from then on.
    let args = ["try", "-q", "-f", "jsonl", "--rounds=6", "--seconds=1", "--remedy=glibc-thp", "--", program];
    let tried = { reach(&args) }.env("XDG_STATE_HOME", folder.path()).output().unwrap();
    let text = String::from_utf8(tried.stdout).unwrap();
    let tried: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = of(&tried, "glibc-thp");
    assert_eq!(row["predicted"], of(&rows, "glibc-thp")["speedup"], "{row}");
    let history = fs::read_to_string(folder.path().join("reach/history.jsonl")).unwrap();
    let measured = history.lines().filter(|line| line.contains("\"measured\":{")).count();
    assert_eq!(measured, usize::from(row["speedup"].is_number()), "{history}");
}

/// Most of what it does in the kernel are system calls, which huge pages do not help.
const CALLS: &str = "\
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    size_t size = 8 << 20;
    char *memory = malloc(size);
    memset(memory, 1, size);
    for (int i = 0; i < 300000; i++) if (getppid() == 1) memory[i]++;
    return memory[5] == 77;
}
";

#[test]
fn predictions_are_relative_to_the_time_that_the_program_takes_here() {
    let folder = folder();
    let (true, Some(program)) = (can_capture(), compile(&folder, "calls", CALLS, &[])) else { return };
    let args = ["--remedy=mthp-64k", "--no-history", "--", program.to_str().unwrap()];
    let (simulated, here) = (rows(folder.path(), &args), rows_here(folder.path(), &args));
    let (plain, simulated_plain) = (of(&here, "none"), of(&simulated, "none"));
    assert!(simulated_plain["native_seconds"].is_null() && simulated_plain["native_kernel"].is_null());
    let (seconds, kernel) = (number(plain, "native_seconds"), number(plain, "native_kernel"));
    assert!(seconds > 0.01 && seconds < 5.0 && kernel > 0.3 && kernel < 1.0, "{plain}");
    // The simulation has page faults only.
    assert!(number(plain, "kernel") < kernel && number(simulated_plain, "kernel") > 0.5, "{plain} {simulated_plain}");
    let gain = |rows: &[Value]| number(of(rows, "mthp-64k"), "speedup") - 1.0;
    assert!(gain(&here) < gain(&simulated) / 2.0, "{here:?} {simulated:?}");
}

#[test]
fn nothing_helps_a_program_that_computes() {
    let folder = folder();
    let (true, Some(program)) = (can_capture(), compile(&folder, "compute", COMPUTE, &[])) else { return };
    let rows = rows(folder.path(), &["--", program.to_str().unwrap()]);
    assert_eq!((rows.len(), &rows[0]["answer"]), (1, &"nothing will help".into()), "{rows:?}");
    assert!(number(&rows[0], "translation") + number(&rows[0], "kernel") < 0.01, "{rows:?}");
}

#[test]
fn a_server_is_captured_with_its_client_and_ends_after_it() {
    let folder = folder();
    let wait = RANDOM.replace("return memory", "if (memory[5] != 77) for (;;) pause(); return memory");
    let wait = format!("#include <unistd.h>\n{wait}");
    let (true, Some(server)) = (can_capture(), compile(&folder, "server", &wait, &[])) else { return };
    let server = server.to_str().unwrap();
    let client = ["--ready=true", "--load=sleep 1", "--remedy=mthp-64k", "--no-history", "--", server];
    let rows = rows(folder.path(), &client);
    assert!(number(of(&rows, "none"), "page_faults") > 50.0, "{rows:?}");
    let load = ["advise", "-q", MACHINE, "--load=exit 3", "--no-history", "--", server];
    let (status, text) = failure(&load);
    assert!(status == 1 && text.contains("exit 3: failed while the server was captured"), "{text}");
    let server = ["--", "sh", "-c", "echo no port; exit 3"];
    let (status, text) = failure(&[&["advise", "-q", MACHINE, "--ready=false", "--load=true"][..], &server].concat());
    let why = "the server ended before its client did: exit status: 3; its last lines are \"no port\"";
    assert!(status == 1 && text.contains(why), "{text}");
}

#[test]
fn wrong_words_and_programs_that_fail_get_a_sentence() {
    for (args, status, why) in [
        (&["advise", "--remedy", "magic", "--", "true"][..], 2, "there is no remedy \"magic\"; there are glibc-thp"),
        (&["advise", "--ready", "true", "--", "true"], 2, "--load"),
        (&["advise"], 2, "PROG"),
        (&["advise", "-q", MACHINE, "--", "no-such-program"], 1, "no-such-program"),
        (&["advise", "-q", MACHINE, "--", "false"], 1, "exit status: 1 while it was captured"),
    ] {
        let (found, text) = failure(args);
        assert!(found == status && text.contains(why), "{args:?}: {found} {text}");
    }
}
