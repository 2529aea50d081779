//! Page faults and huge pages that `linux-thp` simulates against those that this kernel counts, with transparent huge pages
//! for all memory, for advised memory, with glibc's tunable, in blocks of 64 KB, and for shared memory and files. The program
//! `reach-faults` measures both, and fails where they differ by more than 2 %.

use reach_trace::live::emulator;
use std::fs;
use std::process::Command;
use std::sync::Mutex;

const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Held while the kernel's setting is changed: it is one for all tests.
static SETTING: Mutex<()> = Mutex::new(());

/// Returns whether this computer can measure, and prints why not.
fn can_measure() -> bool {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = kernel.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let missing = match (emulator(None), fs::File::options().write(true).open(ENABLED)) {
        (Err(why), _) => why.to_string(),
        (_, Err(why)) => format!("{ENABLED}: {why}; this needs root"),
        _ if version < (6, 13) => format!("Linux {} aligns other mappings than Linux 6.18", kernel.trim()),
        _ => return true,
    };
    eprintln!("skipped: {missing}");
    false
}

/// Measures `programs`, all if there is none, and checks that they give `rows` rows, all of which match.
fn assert_counts_match(programs: &[&str], rows: usize) {
    if !can_measure() {
        return;
    }
    // A test that failed has restored the setting.
    let setting = SETTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let output = Command::new(env!("CARGO_BIN_EXE_reach-faults")).args(programs).output().unwrap();
    drop(setting);
    let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{table}");
    assert!(output.status.success(), "{table}\n{errors}");
    assert_eq!(table.lines().count(), 2 + rows, "a row for each program and setting");
}

#[test]
fn faults_and_huge_pages_of_three_programs_match_this_kernel() {
    assert_counts_match(&["shm", "vectors", "malloc"], 12);
}

#[test]
fn faults_and_huge_pages_of_shared_memory_match_this_kernel() {
    assert_counts_match(&["shared", "collapse", "preload"], 9);
}

#[test]
#[ignore = "takes two minutes"]
fn faults_and_huge_pages_of_all_programs_match_this_kernel() {
    assert_counts_match(&[], 55);
}

#[test]
fn an_unknown_program_is_an_error_that_lists_the_others() {
    let output = Command::new(env!("CARGO_BIN_EXE_reach-faults")).arg("emacs").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("emacs: expected one of gcc, python-list"), "{message}");
}
