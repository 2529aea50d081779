//! `reach try`: each remedy takes effect by the kernel's own word, settings of the kernel are as before whatever happens, and
//! errors say what to do.

#[allow(dead_code)]
mod common;
#[path = "../../live/tests/common/mod.rs"]
mod programs;
#[path = "trying/runtimes.rs"]
mod runtimes;

use common::{compile, failure, folder, path, raw, reach, stderr};
use programs::{Linked, program};
use reach_live::fragmented::whole_share;
use reach_live::settings::{Setting, are_writable};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Touches 64 MB that malloc gives, or with an argument memory that it advises, in random order for some tenths of a second. With
/// two arguments it waits, as a server does.
const RANDOM: &str = "\
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    size_t size = 64 << 20;
    char *memory = malloc(size);
    if (argc > 1) {
        memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, size, MADV_HUGEPAGE);
    }
    for (size_t i = 0; i < size; i += 4096) memory[i] = 1;
    uint64_t x = 1;
    if (argc > 2) for (;;) pause();
    for (int i = 0; i < 4000000; i++) { x = x * 6364136223846793005u + 1442695040888963407u; memory[x >> 38]++; }
    return memory[5] == 77;
}
";

/// Held while settings of the kernel are changed: they are one for all tests.
static SETTINGS: Mutex<()> = Mutex::new(());

/// Options for the fewest rounds that give an interval, and no more.
const FEW: [&str; 2] = ["--rounds=6", "--seconds=1"];
const TRY: [&str; 4] = ["try", "-q", "-f", "jsonl"];

fn settings() -> Vec<Option<String>> {
    Setting::ALL.map(|setting| setting.read().ok()).into()
}

/// Returns whether this user may change settings, and prints if not.
fn are_changeable() -> bool {
    if !are_writable() {
        eprintln!("skipped: settings of the kernel are root's");
    }
    are_writable()
}

/// A setting that is restored when it is dropped. No other test changes settings meanwhile.
struct Set {
    old: String,
    _held: MutexGuard<'static, ()>,
}

impl Drop for Set {
    fn drop(&mut self) {
        if Setting::Thp.read().ok().as_ref() != Some(&self.old) {
            fs::write(Setting::Thp.path(), &self.old).unwrap();
        }
    }
}

/// Has the kernel give huge pages to the memory that `word` says. `None`, and the reason is printed, where it does not and this
/// user may not change that.
fn huge_pages(word: &str) -> Option<Set> {
    let held = SETTINGS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let old = Setting::Thp.read().unwrap_or_default();
    if old != word && fs::write(Setting::Thp.path(), word).is_err() {
        eprintln!("skipped: {} is {old}, and this user cannot make it {word}", Setting::Thp.path());
        return None;
    }
    Some(Set { old, _held: held })
}

/// Tries a program, and returns the rows. The exit status may be 1: this computer may be too busy to tell.
fn rows(args: &[&str], program: &[&str]) -> Vec<Value> {
    let few = if args.iter().any(|arg| arg.starts_with("--rounds")) { &[][..] } else { &FEW };
    let output = reach(&[&TRY[..], few, args, &["--"], program].concat()).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(!text.is_empty(), "{}", stderr(&output));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(rows: &'a [Value], remedy: &str) -> &'a Value {
    rows.iter().find(|row| row["remedy"] == remedy).unwrap_or_else(|| panic!("no {remedy} in {rows:?}"))
}

/// Asserts that a remedy was measured, and returns its number relative to that of the program as it is.
fn relative(rows: &[Value], remedy: &str, number: &str) -> f64 {
    let row = of(rows, remedy);
    assert!(row["rounds"].as_u64().unwrap() >= 6, "{row}");
    assert!(row["speedup_low"].as_f64() <= row["speedup"].as_f64(), "{row}");
    row[number].as_f64().unwrap() / of(rows, "none")[number].as_f64().unwrap().max(1.0)
}

#[test]
fn remedies_of_one_program_take_effect() {
    let folder = folder();
    let (Some(random), Some(_set)) = (compile(&folder, "random", RANDOM, &[]), huge_pages("madvise")) else { return };
    let random = random.to_str().unwrap();
    let asked = rows(&["--remedy=glibc-thp", "--remedy=no-thp"], &[random]);
    assert!(relative(&asked, "glibc-thp", "page_faults") < 0.2, "{asked:?}");
    assert!(of(&asked, "glibc-thp")["huge_bytes"].as_u64().unwrap() >= 60 << 20, "{asked:?}");
    assert!(of(&asked, "glibc-thp")["note"].as_str().unwrap().contains("GLIBC_TUNABLES=glibc.malloc.hugetlb=1"));
    assert_eq!(of(&asked, "no-thp")["note"], "the program has no huge pages without it");
    let advised = rows(&["--remedy=no-thp", "--remedy=advised-thp", "--remedy=java-thp"], &[random, "advised"]);
    assert!(relative(&advised, "no-thp", "page_faults") > 5.0, "{advised:?}");
    assert_eq!(of(&advised, "no-thp")["huge_bytes"], 0);
    // What is advised keeps its huge pages, or this kernel does not know the remedy.
    let note = of(&advised, "advised-thp")["note"].as_str().unwrap();
    assert!(note == "the program kept its huge pages" || note.contains("Invalid argument"), "{note}");
    assert_eq!(of(&advised, "java-thp")["answer"], "not measured");
}

#[test]
#[ignore = "breaks up all free memory of this computer, for up to a minute"]
fn no_huge_pages_are_left_in_memory_that_is_broken_up() {
    let folder = folder();
    let (Some(random), Some(_set)) = (compile(&folder, "random", RANDOM, &[]), huge_pages("madvise")) else { return };
    let rows = rows(&["--fragmented", "--remedy=glibc-thp"], &[random.to_str().unwrap()]);
    let is = |row: &Value, state| row["memory"] == state && row["remedy"] == "glibc-thp";
    let in_memory = |state| rows.iter().find(|row| is(row, state)).unwrap();
    let (whole, broken) = (in_memory("as it is"), in_memory("broken up"));
    assert!(whole["huge_bytes"].as_u64().unwrap() >= 60 << 20, "{whole}");
    // Compaction makes a few huge pages even so, of the page cache.
    assert!(broken["huge_bytes"].as_u64().unwrap() <= 16 << 20, "{broken}");
    assert!(broken["free_huge_share"].as_f64().unwrap() < 0.1, "{broken}");
    // The helper has ended, and the kernel has made memory whole again, or does so soon.
    let end = Instant::now() + Duration::from_secs(60);
    while whole_share().is_some_and(|share| share < 0.3) {
        assert!(Instant::now() < end, "memory is still broken up");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn memory_is_not_broken_up_without_huge_pages() {
    let Some(_set) = huge_pages("never") else { return };
    let (status, message) = failure(&["try", "--fragmented", "--remedy=no-thp", "--", "true"]);
    assert!(status == 2 && message.contains("--fragmented is not possible"), "{message}");
    assert!(message.contains("enabled is never"), "{message}");
}

#[test]
fn the_code_of_a_large_program_moves_to_huge_pages() {
    let folder = folder();
    let large = program(folder.path(), "large", 8, Linked::Aligned);
    let (Some(large), Some(_set)) = (large, huge_pages("madvise")) else { return };
    let rows = rows(&["--remedy=code"], &[large.to_str().unwrap(), "3000000"]);
    assert!(of(&rows, "code")["huge_bytes"].as_u64().unwrap() >= 4 << 20, "{rows:?}");
}

#[test]
fn settings_of_the_kernel_take_effect_and_are_restored() {
    let folder = folder();
    let (Some(random), true) = (compile(&folder, "random", RANDOM, &[]), are_changeable()) else { return };
    let Some(_set) = huge_pages("madvise") else { return };
    let before = settings();
    let remedies = ["--change-system", "--remedy=thp-always", "--remedy=mthp-64k", "--remedy=glibc-hugetlb"];
    let rows = rows(&remedies, &[random.to_str().unwrap()]);
    assert_eq!(settings(), before);
    assert!(relative(&rows, "thp-always", "page_faults") < 0.2, "{rows:?}");
    if before[1].as_deref() == Some("never") {
        assert!(relative(&rows, "mthp-64k", "page_faults") < 0.2, "{rows:?}");
    }
    assert!(relative(&rows, "glibc-hugetlb", "page_faults") < 0.2, "{rows:?}");
    assert!(of(&rows, "glibc-hugetlb")["huge_bytes"].as_u64().unwrap() >= 60 << 20, "{rows:?}");
}

/// With the kernel's setting `always`, a program keeps only what it asks for.
#[test]
fn only_advised_memory_is_huge_where_the_kernel_can_say_so() {
    let folder = folder();
    let (Some(random), Some(_set)) = (compile(&folder, "random", RANDOM, &[]), huge_pages("always")) else { return };
    let rows = rows(&["--remedy=advised-thp"], &[random.to_str().unwrap()]);
    match of(&rows, "advised-thp")["note"].as_str() {
        Some(note) if note.contains("Invalid argument") => eprintln!("skipped: this is from Linux 6.18 on"),
        _ => assert!(relative(&rows, "advised-thp", "page_faults") > 5.0, "{rows:?}"),
    }
}

#[test]
fn a_server_is_judged_by_its_client() {
    let folder = folder();
    let (Some(random), Some(_set)) = (compile(&folder, "random", RANDOM, &[]), huge_pages("madvise")) else { return };
    // A server whose huge pages a remedy takes, and a client whose figures know nothing of that.
    let server = [random.to_str().unwrap(), "advised", "and waits"];
    let client = ["--ready=true", "--load=echo 'rate: 12.5 a second'", "--rate=rate:"];
    let rows = rows(&[&client[..], &["--remedy=no-thp"]].concat(), &server);
    let row = of(&rows, "no-thp");
    assert_eq!((row["score"].as_f64(), row["speedup"].as_f64()), (Some(12.5), Some(1.0)), "{rows:?}");
    assert_eq!((&row["answer"], &row["huge_bytes"]), (&"no effect".into(), &0.into()), "{rows:?}");
    let (status, text) = failure(&[&TRY[..], &FEW, &client[..2], &["--rate=nothing", "--"], &server].concat());
    assert!(status == 1 && text.contains("has no number after \"nothing\""), "{text}");
    let (status, text) =
        failure(&["try", "-q", "--ready=false", "--load=true", "--", "sh", "-c", "echo no port; exit 3"]);
    assert!(
        status == 1 && text.contains("the server ended before its client did") && text.contains("no port"),
        "{text}"
    );
}

#[test]
fn time_and_signals_end_it() {
    let folder = folder();
    if let (Some(random), Some(_set)) = (compile(&folder, "random", RANDOM, &[]), huge_pages("madvise")) {
        // A precision that no computer reaches: only the time ends it.
        let args = ["--rounds=1000", "--seconds=1", "--precision=0.01"];
        let rows = rows(&[&args[..], &["--remedy=no-thp"]].concat(), &[random.to_str().unwrap(), "advised"]);
        assert!((6..100).contains(&of(&rows, "no-thp")["rounds"].as_u64().unwrap()), "{rows:?}");
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        for args in [
            &["try", "-q", "--", "sleep", "100"][..],
            &["try", "-q", "--ready=false", "--load=true", "--", "sleep", "100"],
        ] {
            let mut child = raw(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(300));
            // SAFETY: the call takes numbers only, and the process is a child that was not waited for.
            unsafe { libc::kill(child.id() as i32, signal) };
            let told = Instant::now();
            assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?}");
            assert!(told.elapsed() < Duration::from_secs(5), "{args:?}");
        }
    }
}

/// Fails at its third run with the tunable, which it counts in a file; otherwise it waits a while, with memory.
const THIRD_FAILS: &str = "\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *memory = malloc(16 << 20);
    memset(memory, 1, 16 << 20);
    if (!getenv(\"GLIBC_TUNABLES\")) { usleep(20000); return 0; }
    FILE *file = fopen(argv[1], \"a+\");
    fputc('x', file);
    long runs = ftell(file);
    usleep(20000);
    return runs == 3 ? 3 : 0;
}
";

#[test]
fn a_remedy_that_fails_in_some_round_is_left_out_and_the_others_are_measured() {
    let folder = folder();
    let (Some(program), Some(_set)) = (compile(&folder, "third", THIRD_FAILS, &[]), huge_pages("madvise")) else {
        return;
    };
    let counter = path(&folder, "runs");
    let rows = rows(&["--remedy=glibc-thp", "--remedy=no-thp"], &[program.to_str().unwrap(), &counter]);
    let row = of(&rows, "glibc-thp");
    assert!(row["answer"] == "not measured" && row["note"].as_str().unwrap().starts_with("in round 2, "), "{row}");
    assert!(row["note"].as_str().unwrap().contains("exit status: 3"), "{row}");
}

#[test]
fn errors_say_what_to_do() {
    for (args, status, words) in [
        (&["try", "--remedy", "magic", "--", "true"][..], 2, "there is no remedy \"magic\"; there are glibc-thp"),
        (&["try"], 2, "required"),
        (&["try", "--rate", "x", "--", "true"], 2, "--load"),
        (&["try", "--rounds", "5", "--", "true"], 2, "6..=1000"),
        (&["try", "--", "/no/such/program"], 1, "/no/such/program: No such file"),
        (&["try", "-q", "--", "sh", "-c", "exit 7"], 7, "sh failed: exit status: 7"),
        (&["try", "-q", "--", "sh", "-c", "kill -9 $$"], 1, "signal: 9"),
        (&["try", "--ready", "true", "--load", "exit 3", "--", "sleep", "100"], 3, "exit 3 failed: exit status: 3"),
    ] {
        let (code, text) = failure(args);
        assert!(code == status && text.contains(words), "{args:?}: {code} {text}");
    }
    // A program that has nothing to gain: all remedies have a reason.
    let output = reach(&["try", "-q", "--remedy=java-thp", "--", "sleep", "0.1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("java-thp  not measured: the program does not map libjvm"),
        "{text}"
    );
}

#[test]
fn only_root_changes_settings() {
    let refused = |output: std::process::Output| {
        let text = stderr(&output);
        assert!(output.status.code() == Some(2) && text.contains("needs root"), "{text}");
    };
    if !are_writable() {
        return refused(reach(&["try", "--change-system", "--", "true"]).output().unwrap());
    }
    // Another user runs copies that lie outside the project's folders.
    let place = tempfile::tempdir().unwrap();
    let readable = |path: &Path| fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    readable(place.path());
    let copy = |from: &Path, name: &str| {
        let to = place.path().join(name);
        fs::copy(from, &to).unwrap();
        readable(&to);
        to
    };
    let binary = copy(&assert_cmd::cargo::cargo_bin("reach"), "reach");
    let run = |args: &[&str]| Command::new(&binary).args(args).uid(65534).gid(65534).output().unwrap();
    refused(run(&["try", "--change-system", "--", "true"]));
    let folder = folder();
    let (Some(random), Some(_set)) = (compile(&folder, "random", RANDOM, &[]), huge_pages("madvise")) else { return };
    let random = copy(&random, "random");
    let args =
        [&TRY[..], &FEW, &["--remedy=glibc-thp", "--remedy=thp-always", "--", random.to_str().unwrap()]].concat();
    let text = String::from_utf8(run(&args).stdout).unwrap();
    assert!(text.contains("--change-system allows that") && text.contains("\"remedy\":\"glibc-thp\""), "{text}");
}

/// Kills the command, without a chance to restore anything, at `moments` spread over its run.
fn kill_at(moments: u32) {
    let folder = folder();
    let (Some(random), true) = (compile(&folder, "random", RANDOM, &[]), are_changeable()) else { return };
    let Some(_set) = huge_pages("madvise") else { return };
    let random = random.canonicalize().unwrap();
    let random = random.to_str().unwrap();
    let before = settings();
    let remedies = ["--change-system", "--remedy=thp-always", "--remedy=mthp-64k", "--remedy=glibc-hugetlb"];
    let args = [&TRY[..], &FEW, &remedies, &["--", random]].concat();
    let begun = Instant::now();
    assert!(raw(&args).stdout(Stdio::null()).status().is_ok());
    let whole = begun.elapsed();
    let mut changed = 0;
    for moment in 0..moments {
        let mut child = raw(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * moment / moments);
        // Every other moment is one at which a setting is changed, if one comes.
        while moment % 2 == 1 && settings() == before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        changed += u32::from(settings() != before);
        let _ = child.kill();
        child.wait().unwrap();
        let killed = Instant::now();
        let runs = || {
            fs::read_dir("/proc")
                .unwrap()
                .flatten()
                .any(|process| fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe.to_str() == Some(random)))
        };
        while (settings() != before || runs()) && killed.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(settings(), before, "killed at moment {moment} of {moments}");
        assert!(!runs(), "the program still runs after moment {moment} of {moments}");
    }
    assert!(changed > 0, "no moment came while a setting was changed");
}

#[test]
fn settings_are_restored_when_it_is_killed() {
    kill_at(8);
}

#[test]
#[ignore = "takes some minutes"]
fn settings_are_restored_when_it_is_killed_at_any_moment() {
    kill_at(50);
}
