//! `reach try`: each remedy takes effect by the kernel's own word, settings of the kernel are as before whatever happens, and
//! errors say what to do.

#[allow(dead_code)]
mod common;
#[path = "../../live/tests/common/mod.rs"]
mod programs;

use common::{compile, failure, folder, path, raw, reach, stderr};
use programs::{Linked, program};
use reach_live::settings::{Setting, are_writable};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Touches 64 MB that malloc gives, and with an argument memory that it advises, in random order for some tenths of a second.
const RANDOM: &str = "\
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
    size_t size = 64 << 20;
    char *memory = malloc(size);
    if (argc > 1) {
        memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, size, MADV_HUGEPAGE);
    }
    for (size_t i = 0; i < size; i += 4096) memory[i] = 1;
    uint64_t x = 1;
    for (int i = 0; i < 4000000; i++) { x = x * 6364136223846793005u + 1442695040888963407u; memory[x >> 38]++; }
    return memory[5] == 77;
}
";

/// Held while settings of the kernel are changed: they are one for all tests.
static SETTINGS: Mutex<()> = Mutex::new(());

/// The fewest rounds that give an interval, and no more.
const FEW: [&str; 7] = ["try", "-q", "-f", "jsonl", "--rounds", "6", "--seconds=1"];

fn settings() -> Vec<Option<String>> {
    Setting::ALL.map(|setting| setting.read().ok()).into()
}

/// Locks the settings. `None`, and the reason is printed, where this user may not change them.
fn changeable() -> Option<MutexGuard<'static, ()>> {
    if !are_writable() {
        eprintln!("skipped: settings of the kernel are root's");
        return None;
    }
    // A test that failed has restored them.
    Some(SETTINGS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Whether this kernel gives huge pages to memory that is advised.
fn has_huge_pages() -> bool {
    let has = Setting::Thp.read().is_ok_and(|word| word != "never");
    if !has {
        eprintln!("skipped: this kernel gives no transparent huge pages");
    }
    has
}

/// Tries a program, and returns the rows. The exit status may be 1: this computer may be too busy to tell.
fn rows(args: &[&str], program: &[&str]) -> Vec<Value> {
    let output = reach(&[&FEW[..], args, &["--"], program].concat()).output().unwrap();
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
    let Some(random) = compile(&folder, "random", RANDOM, &[]).filter(|_| has_huge_pages()) else { return };
    let random = random.to_str().unwrap();
    let _held = SETTINGS.lock();
    let asked = rows(&["--remedy=glibc-thp", "--remedy=no-thp"], &[random]);
    assert!(relative(&asked, "glibc-thp", "page_faults") < 0.2, "{asked:?}");
    assert!(of(&asked, "glibc-thp")["huge_bytes"].as_u64().unwrap() >= 60 << 20, "{asked:?}");
    assert!(of(&asked, "glibc-thp")["note"].as_str().unwrap().contains("GLIBC_TUNABLES=glibc.malloc.hugetlb=1"));
    if Setting::Thp.read().unwrap() == "madvise" {
        assert_eq!(of(&asked, "no-thp")["note"], "the program has no huge pages without it");
    }
    let advised = rows(&["--remedy=no-thp", "--remedy=advised-thp", "--remedy=java-thp"], &[random, "advised"]);
    assert!(relative(&advised, "no-thp", "page_faults") > 5.0, "{advised:?}");
    assert_eq!(of(&advised, "no-thp")["huge_bytes"], 0);
    // What is advised keeps its huge pages, or this kernel does not know the remedy.
    let note = of(&advised, "advised-thp")["note"].as_str().unwrap();
    assert!(note == "the program kept its huge pages" || note.contains("Invalid argument"), "{note}");
    assert_eq!(of(&advised, "java-thp")["answer"], "not measured");
}

#[test]
fn the_code_of_a_large_program_moves_to_huge_pages() {
    let folder = folder();
    let Some(large) = program(folder.path(), "large", 8, Linked::Aligned).filter(|_| has_huge_pages()) else { return };
    let _held = SETTINGS.lock();
    let rows = rows(&["--remedy=code"], &[large.to_str().unwrap(), "3000000"]);
    assert!(of(&rows, "code")["huge_bytes"].as_u64().unwrap() >= 4 << 20, "{rows:?}");
}

#[test]
fn settings_of_the_kernel_take_effect_and_are_restored() {
    let folder = folder();
    let (Some(random), Some(_held)) = (compile(&folder, "random", RANDOM, &[]), changeable()) else { return };
    let before = settings();
    let remedies = ["--change-system", "--remedy=thp-always", "--remedy=mthp-64k", "--remedy=glibc-hugetlb"];
    let rows = rows(&remedies, &[random.to_str().unwrap()]);
    assert_eq!(settings(), before);
    if before[0].as_deref() != Some("always") {
        assert!(relative(&rows, "thp-always", "page_faults") < 0.2, "{rows:?}");
    }
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
    let (Some(random), Some(_held)) = (compile(&folder, "random", RANDOM, &[]), changeable()) else { return };
    let before = Setting::Thp.read().unwrap();
    fs::write(Setting::Thp.path(), "always").unwrap();
    let rows = std::panic::catch_unwind(|| rows(&["--remedy=advised-thp"], &[random.to_str().unwrap()]));
    fs::write(Setting::Thp.path(), before).unwrap();
    let rows = rows.unwrap();
    match of(&rows, "advised-thp")["note"].as_str() {
        Some(note) if note.contains("Invalid argument") => eprintln!("skipped: this is from Linux 6.18 on"),
        _ => assert!(relative(&rows, "advised-thp", "page_faults") > 5.0, "{rows:?}"),
    }
}

#[test]
fn a_server_is_judged_by_its_client() {
    let server = ["sleep", "1000"];
    let client = ["--ready=true", "--load=echo 'rate: 12.5 a second'", "--rate=rate:", "--remedy=java-thp"];
    assert_eq!(of(&rows(&client, &server), "java-thp")["answer"], "not measured");
    let (status, text) = failure(&[&FEW[..], &client[..2], &["--rate=nothing", "--"], &server].concat());
    assert!(status == 1 && text.contains("has no number behind \"nothing\""), "{text}");
}

/// Debian's Redis allocates with jemalloc.
#[test]
fn redis_gets_huge_pages_from_jemalloc() {
    let found = |name: &str| Command::new("which").arg(name).output().is_ok_and(|which| which.status.success());
    if !found("redis-server") || !found("redis-cli") || !has_huge_pages() {
        eprintln!("skipped: needs redis-server and redis-tools");
        return;
    }
    let folder = folder();
    let socket = path(&folder, "socket");
    let ready = format!("redis-cli -s {socket} ping");
    let load = format!("redis-cli -s {socket} debug populate 200000 key 200");
    let server =
        ["redis-server", "--port", "0", "--unixsocket", &socket, "--save", "", "--enable-debug-command", "yes"];
    let _held = SETTINGS.lock();
    let rows = rows(&["--remedy=jemalloc-thp", "--ready", &ready, "--load", &load], &server);
    assert!(of(&rows, "jemalloc-thp")["huge_bytes"].as_u64() > of(&rows, "none")["huge_bytes"].as_u64(), "{rows:?}");
}

#[test]
fn errors_say_what_to_do() {
    for (args, status, words) in [
        (&["try", "--remedy", "magic", "--", "true"][..], 2, "there is no remedy \"magic\"; there are glibc-thp"),
        (&["try"], 2, "required"),
        (&["try", "--rate", "x", "--", "true"], 2, "--load"),
        (&["try", "--rounds", "5", "--", "true"], 2, "6..=1000"),
        (&["try", "--", "/no/such/program"], 1, "/no/such/program: No such file"),
        (&["try", "-q", "--", "sh", "-c", "exit 7"], 7, "sh: exit status: 7"),
        (&["try", "-q", "--", "sh", "-c", "kill -9 $$"], 1, "signal: 9"),
        (&["try", "--ready", "true", "--load", "exit 3", "--", "sleep", "100"], 3, "exit 3: exit status: 3"),
    ] {
        let (code, text) = failure(args);
        assert!(code == status && text.contains(words), "{args:?}: {code} {text}");
    }
    // A program that has nothing to gain: all remedies have a reason.
    let output = reach(&["try", "-q", "--remedy=java-thp", "--", "true"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("java-thp  not measured: the program does not map libjvm"),
        "{text}"
    );
}

#[test]
fn only_root_changes_settings() {
    if !are_writable() {
        return;
    }
    let copy = folder();
    // The binary lies where another user can run it, outside the project's folders.
    let place = tempfile::tempdir().unwrap();
    let binary = place.path().join("reach");
    fs::copy(assert_cmd::cargo::cargo_bin("reach"), &binary).unwrap();
    for (path, mode) in [(place.path(), 0o755), (&binary, 0o755)] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let run = |args: &[&str]| Command::new(&binary).args(args).uid(65534).gid(65534).output().unwrap();
    let output = run(&["try", "--change-system", "--", "true"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("needs root"), "{}", stderr(&output));
    if has_huge_pages() && compile(&copy, "random", RANDOM, &["-static-libgcc"]).is_some() {
        fs::copy(copy.path().join("random"), place.path().join("random")).unwrap();
        let random = place.path().join("random");
        fs::set_permissions(&random, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let _held = SETTINGS.lock();
        let args = [&FEW[..], &["--remedy=glibc-thp", "--remedy=thp-always", "--", random.to_str().unwrap()]].concat();
        let text = String::from_utf8(run(&args).stdout).unwrap();
        assert!(text.contains("--change-system allows that") && text.contains("\"remedy\":\"glibc-thp\""), "{text}");
    }
}

/// Kills the command, without a chance to restore anything, at `moments` spread over its run.
fn kill_at(moments: u32) {
    let folder = folder();
    let (Some(random), Some(_held)) = (compile(&folder, "random", RANDOM, &[]), changeable()) else { return };
    let random = random.to_str().unwrap();
    let before = settings();
    let remedies = ["--change-system", "--remedy=thp-always", "--remedy=mthp-64k", "--remedy=glibc-hugetlb"];
    let args = [&FEW[..], &remedies, &["--", random]].concat();
    let begun = Instant::now();
    assert!(raw(&args).stdout(Stdio::null()).status().is_ok());
    let whole = begun.elapsed();
    let mut changed = 0;
    for moment in 0..moments {
        let mut child = raw(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * moment / moments);
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
