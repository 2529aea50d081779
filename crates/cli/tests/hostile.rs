//! Programs, files and names of others: what they can do to the command, and to its user.

use crate::common::{can_capture, compile, failure, folder, path, raw, reach, stderr, stdout};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

/// The user of attacks.
const NOBODY: u32 = 65534;

/// A program that finds the memory of the capture among the descriptors of its parent, which every program of the same user can,
/// and overwrites it.
const HOSTILE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char link[64], name[256];
    int ring = -1;
    for (int fd = 3; fd < 256 && ring < 0; fd++) {
        snprintf(link, sizeof link, "/proc/%d/fd/%d", getppid(), fd);
        ssize_t len = readlink(link, name, sizeof name - 1);
        if (len > 0 && (name[len] = 0, strstr(name, "memfd:reach"))) ring = open(link, O_RDWR);
    }
    if (ring < 0) return 77;
    uint64_t bytes = 200 * 65536;
    char *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
    if (at == MAP_FAILED) return 78;
    if (!strcmp(argv[1], "truncate")) {
        if (ftruncate(ring, 0)) puts("refused");
        sleep(1);
    } else if (!strcmp(argv[1], "cycle")) {
        for (int i = 0; i < 64; i++) *(volatile uint32_t *)(at + (i + 1) * 65536 + 8) = i % 7 + 1;
        *(volatile uint32_t *)(at + 320) = 3;
        sleep(1);
    } else {
        /* Words that mean something, at random places of headers, buffers and their words. */
        uint64_t seed = 22;
        for (time_t end = time(0) + 2; time(0) < end;)
            for (int i = 0; i < 1000; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                uint64_t r = seed >> 20, buffer = r % 40, word = r >> 8;
                uint64_t value[] = { word, 2ull << 62 | (word % 13) << 16 | word % 9, 1ull << 62 | word % 5000, word % 100 };
                uint64_t offset = i % 3 ? (buffer + 1) * 65536 + 8 * (word % 64) : 256 + 8 * (word % 16);
                *(volatile uint64_t *)(at + offset) = value[r % 4];
            }
    }
    return 0;
}
"#;

/// Runs the command with limits of memory and time, which it must keep.
fn within_limits(args: &[&str]) -> Output {
    let mut child =
        raw(args).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let resident =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse::<u64>().ok());
        let too_much = resident.is_some_and(|kilobytes| kilobytes > 4 << 20);
        if too_much || begun.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("{args:?}: {resident:?} KB after {:?}", begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_program_that_overwrites_the_capture_spoils_its_own_recording_only() {
    let folder = folder();
    if !can_capture() {
        return;
    }
    let Some(program) = compile(&folder, "hostile", HOSTILE, &["-O1"]) else { return };
    for attack in ["truncate", "cycle", "noise"] {
        let recording = path(&folder, &format!("{attack}.reach"));
        let output = within_limits(&["--quiet", "record", "-o", &recording, "--", program.to_str().unwrap(), attack]);
        let text = stderr(&output);
        assert!(!text.contains("panicked"), "{attack}: {text}");
        let status = output.status.code().unwrap_or_else(|| panic!("{attack}: {}: {text}", output.status));
        assert!(status != 77 && status != 78, "{attack}: the program did not find the memory");
        match attack {
            "truncate" => {
                assert_eq!((status, String::from_utf8_lossy(&output.stdout).trim()), (0, "refused"), "{text}")
            }
            "cycle" => assert!(text.contains("overwritten the memory of the capture"), "{text}"),
            _ => {}
        }
    }
}

#[test]
fn recordings_are_for_their_owner_and_results_are_as_the_umask_says() {
    let folder = folder();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o7777;
    let (recording, copy, results) = (path(&folder, "a.reach"), path(&folder, "b.reach"), path(&folder, "r.csv"));
    let run = ["run", "--quiet", "--program", "stream:bytes=1M,passes=1", "--timing", "counts"];
    let with = |more: &[&str]| stdout(&[&run[..], more].concat());
    with(&["--record", &recording, "-o", &results]);
    assert_eq!(mode("a.reach"), 0o600);
    // The umask of the tests, at most readable for all.
    fs::write(folder.path().join("plain"), "").unwrap();
    assert_eq!(mode("r.csv"), mode("plain"));
    fs::write(folder.path().join("b.reach"), "before").unwrap();
    fs::set_permissions(folder.path().join("b.reach"), Permissions::from_mode(0o644)).unwrap();
    stdout(&["--quiet", "trace", "convert", &recording, "-o", &copy, "--force"]);
    assert_eq!(mode("b.reach"), 0o600);
}

/// Makes a file of nobody, in a folder of nobody.
fn plant(at: &Path, text: &str) {
    let folder = at.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    fs::write(at, text).unwrap();
    fs::set_permissions(at, Permissions::from_mode(0o755)).unwrap();
    chown(at, Some(NOBODY), Some(NOBODY)).unwrap();
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// Returns whether this is root, with the right to give files away.
fn is_root(folder: &tempfile::TempDir) -> bool {
    let probe = folder.path().join("probe");
    fs::write(&probe, "").unwrap();
    let is_root = chown(&probe, Some(NOBODY), None).is_ok();
    if !is_root {
        eprintln!("skipped: only root can be attacked by another user");
    }
    is_root
}

#[test]
fn root_executes_no_emulator_and_loads_no_plugin_of_others() {
    let folder = folder();
    if !is_root(&folder) || !can_capture() {
        return;
    }
    let (owned, executed) = (folder.path().join("owned"), folder.path().join("executed"));
    fs::create_dir(&owned).unwrap();
    let trap = format!("#!/bin/sh\ntouch {}\necho qemu-x86_64 version 9.9.9 -plugin\n", executed.display());
    let (tool, cached, library) =
        (owned.join("bin/qemu-x86_64"), owned.join("cache/reach/qemu/qemu-x86_64"), owned.join("lib/p.so"));
    let at_home = owned.join(".cache/reach/qemu/bin/qemu-x86_64");
    for file in [&tool, &cached, &at_home, &library] {
        plant(file, &trap);
    }
    // The emulator of this computer may be in the cache folder that two of the cases replace.
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    symlink(reach_trace::live::emulator(None).unwrap(), own.join("qemu-x86_64")).unwrap();
    let own_path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    let path_with_trap = format!("{}:{own_path}", tool.parent().unwrap().display());
    let recording = path(&folder, "a.reach");
    let cases = [
        ("REACH_QEMU", tool.to_str().unwrap(), Some("only root writes")),
        ("REACH_PLUGIN", library.to_str().unwrap(), Some("only root writes")),
        // Another emulator is found.
        ("PATH", &path_with_trap, None),
        ("XDG_CACHE_HOME", owned.join("cache").to_str().unwrap(), None),
        ("HOME", owned.to_str().unwrap(), None),
    ]
    .map(|(name, value, expected)| (name, value.to_owned(), expected));
    for (name, value, expected) in cases {
        let mut command = reach(&["--quiet", "record", "--force", "-o", &recording, "--", "/bin/true"]);
        command.env_remove("XDG_CACHE_HOME").env("PATH", &own_path).env(name, &value);
        let output = command.output().unwrap();
        let text = stderr(&output);
        assert!(!executed.exists(), "{name}: the planted program ran");
        match expected {
            Some(part) => {
                assert!(!output.status.success() && text.contains(part) && text.contains("65534"), "{name}: {text}")
            }
            None => assert!(output.status.success(), "{name}: {text}"),
        }
    }
}

/// A folder above that of the command may be anybody's.
#[test]
fn libraries_are_not_looked_for_above_the_folder_of_the_command() {
    let folder = folder();
    if !can_capture() {
        return;
    }
    let place = folder.path().join("place/bin");
    fs::create_dir_all(&place).unwrap();
    let (command, original) = (place.join("reach"), assert_cmd::cargo::cargo_bin("reach"));
    fs::hard_link(&original, &command).or_else(|_| fs::copy(&original, &command).map(drop)).unwrap();
    for library in ["libreach_plugin.so", "libreach_preload.so"] {
        fs::write(folder.path().join("place").join(library), "planted").unwrap();
    }
    let recording = path(&folder, "a.reach");
    for args in [&["record", "-o", &recording, "--", "/bin/true"][..], &["text", "run", "--", "/bin/true"]] {
        let output = std::process::Command::new(&command).args(args).output().unwrap();
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains("is not in "), "{args:?}: {text}");
    }
}

/// A name that clears the screen, sets the title of the terminal, turns text around and forges a line.
const NAME: &str = "\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\u{202e}fdp\nreach: all is well";

fn assert_harmless(what: &str, text: &str) {
    let obeyed =
        |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'));
    assert!(!text.contains(obeyed), "{what}: {text:?}");
    assert!(!text.lines().any(|line| line == "reach: all is well"), "{what}: {text:?}");
}

#[test]
fn names_of_others_do_not_reach_the_terminal_raw() {
    let folder = folder();
    let file = path(&folder, NAME);
    fs::write(&file, "no trace").unwrap();
    for args in [
        &["trace", "info", &file][..],
        &["trace", "check", &file],
        &["machine", "check", &file],
        &["run", "--machine", &file, "--program", "stream"],
        &["run", "--trace", &file],
        &["run", "--scenario", &file],
        &["paper", "run", &file],
        &["stat", "--read", &file],
        &["record", "-o", &file, "--", "/bin/true"],
        &["run", "--program", NAME],
        &["explain", NAME],
        &[NAME],
    ] {
        let (status, text) = failure(args);
        assert_ne!(status, 0);
        assert_harmless(&format!("{args:?}"), &text);
    }
}

#[test]
fn names_in_results_do_not_reach_the_terminal_raw() {
    let folder = folder();
    let recording = path(&folder, &format!("{NAME}.reach"));
    stdout(&["run", "--quiet", "--program", "stream:bytes=1M,passes=1", "--timing", "counts", "--record", &recording]);
    let run = ["run", "--quiet", "--timing", "counts", "--trace", &recording];
    for format in ["table", "jsonl", "csv"] {
        assert_harmless(format, &stdout(&[&run[..], &["--format", format]].concat()));
    }
    assert_harmless("info", &stdout(&["trace", "info", &recording]));
    assert_harmless("check", &stdout(&["--quiet", "trace", "check", &recording]));
    let copy = path(&folder, &format!("{NAME}.copy"));
    assert_harmless("convert", &stderr(&reach(&["trace", "convert", &recording, "-o", &copy]).output().unwrap()));
}
