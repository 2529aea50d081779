//! `reach text` as root on files of another user, who attacks meanwhile. Skipped, with a sentence, for other users.

#[path = "../../live/tests/common/attacker.rs"]
mod attacker;
#[allow(dead_code)]
mod common;
#[path = "../../live/tests/common/mod.rs"]
mod programs;

use attacker::{Attacker, allow, attackers_folder, can_attack, give, roots_folder};
use common::{failure, reach, stderr};
use programs::{Linked, program};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn plays_the_attacker() {
    attacker::play();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Builds a program of the attacker whose dynamic loader is `loader`. `None`, with a sentence, without a C compiler.
fn program_with_loader(folder: &Path, loader: &Path) -> Option<PathBuf> {
    let (path, source) = (folder.join("main"), folder.join("main.c"));
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let built = Command::new("cc")
        .arg(format!("-Wl,--dynamic-linker={}", loader.display()))
        .arg("-o")
        .args([&path, &source])
        .status();
    match built {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            eprintln!("skipped: no C compiler: {error}");
            return None;
        }
    }
    give(&path);
    Some(path)
}

#[test]
fn listing_libraries_runs_no_loader_that_is_flipped() {
    flip_loader(100);
}

#[test]
#[ignore = "long: 2,000 tries of a race"]
fn listing_libraries_runs_no_loader_that_is_flipped_in_many_tries() {
    flip_loader(2_000);
}

/// Lists libraries while `ld-linux-x86-64.so.2` is flipped between a link to the system's loader and a script.
fn flip_loader(tries: usize) {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let theirs = attackers_folder(folder.path());
    let (name, script, mark) = (theirs.join("ld-linux-x86-64.so.2"), theirs.join("script"), theirs.join("ran"));
    let Some(main) = program_with_loader(&theirs, &name) else { return };
    let system = reach_live::image::Image::open(Path::new("/proc/self/exe")).unwrap().elf.interpreter.unwrap();
    symlink(system, &name).unwrap();
    fs::write(&script, format!("#!/bin/sh\nid -u >{}\n", mark.display())).unwrap();
    allow(&script, 0o755);
    give(&script);
    let attacker = Attacker::flips(&name, &script);
    let mut refused = 0;
    for i in 0..tries {
        let (status, errors) = failure(&["text", "show", "--libraries", text(&main)]);
        assert!(!mark.exists(), "the attacker's script has run as root in try {i}");
        refused += usize::from(status == 1 && errors.contains("belongs to uid 65534"));
    }
    drop(attacker);
    assert_eq!(refused, tries);
}

#[test]
fn listing_libraries_runs_nothing_that_a_program_names() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let theirs = attackers_folder(folder.path());
    // The loader is the attacker's, by a link in a folder that has the name of the system's.
    let Some(main) = program_with_loader(&theirs, &theirs.join("ld-linux-x86-64.so.2")) else { return };
    let system = reach_live::image::Image::open(Path::new("/proc/self/exe")).unwrap().elf.interpreter.unwrap();
    symlink(system, theirs.join("ld-linux-x86-64.so.2")).unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=execve", "-o"]).arg(folder.path().join("calls"));
    let traced =
        strace.arg(assert_cmd::cargo::cargo_bin("reach")).args(["text", "show", "--libraries"]).arg(&main).output();
    if traced.is_err() {
        eprintln!("skipped: no strace");
        return;
    }
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    assert_eq!(calls.matches("execve(").count(), 1, "reach alone: {calls}");
}

#[test]
fn aligned_copies_are_of_the_file_whose_headers_were_read() {
    flip_file(40);
}

#[test]
#[ignore = "long: 2,000 tries of a race"]
fn aligned_copies_are_of_the_file_whose_headers_were_read_in_many_tries() {
    flip_file(2_000);
}

/// Aligns a file while it is flipped with another of a different mode.
fn flip_file(tries: usize) {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let theirs = attackers_folder(folder.path());
    let Some(one) = program(&theirs, "one", 4, Linked::AsUsual) else { return };
    // The other has a mark behind everything that is loaded, which a copy keeps with its sections.
    let two = theirs.join("two");
    let mut bytes = fs::read(&one).unwrap();
    let comment = bytes.windows(4).rposition(|window| window == b"GCC:").expect("the compiler's name");
    bytes[comment..comment + 4].copy_from_slice(b"TWO:");
    fs::write(&two, bytes).unwrap();
    allow(&one, 0o755);
    allow(&two, 0o700);
    give(&one);
    give(&two);
    let copy = folder.path().join("copy");
    let attacker = Attacker::flips(&one, &two);
    let mut seen = [0; 2];
    for i in 0..tries {
        let output = reach(&["text", "align", "--force", text(&one), "-o", text(&copy)]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let is_two = fs::read(&copy).unwrap().windows(4).any(|window| window == b"TWO:");
        let mode = fs::metadata(&copy).unwrap().mode() & 0o777;
        assert_eq!(mode, if is_two { 0o700 } else { 0o755 }, "try {i} has the mode of one and the bytes of the other");
        seen[usize::from(is_two)] += 1;
    }
    drop(attacker);
    eprintln!("{seen:?}");
}

#[test]
fn keep_opens_no_pipe_and_takes_no_list_of_others() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let theirs = attackers_folder(folder.path());
    let pipe = theirs.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Prints a line as soon as somebody opens the pipe for reading.
    let mut writer = Command::new("sh")
        .arg("-c")
        .arg(format!("exec 3>{}; echo opened", text(&pipe)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let output = reach(&["text", "keep", "--once", text(&pipe)]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("is not a regular file"), "{output:?}");
    // Time for the writer to end, if it was woken.
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(writer.try_wait().unwrap().is_none(), "the pipe was opened");
    drop(File::open(&pipe));
    let mut line = String::new();
    BufReader::new(writer.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!((line.trim(), writer.wait().unwrap().success()), ("opened", true));

    let list = theirs.join("list");
    fs::write(&list, "/usr/bin/env\n").unwrap();
    let (status, errors) = failure(&["text", "keep", "--once", "--list", text(&list)]);
    assert!(status == 1 && errors.contains("is not used for root") && errors.contains("uid 65534"), "{errors}");
}

#[test]
fn benchmarks_keep_no_copies_where_others_can_exchange_them() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let theirs = attackers_folder(folder.path());
    let Some(code) = program(folder.path(), "code", 4, Linked::Aligned) else { return };
    let (status, errors) = failure(&["text", "bench", "--rounds", "6", "--scratch", text(&theirs), "--", text(&code)]);
    assert!(status == 1 && errors.contains("is not used for root"), "{errors}");
}

#[test]
fn hostile_headers_are_refused_within_little_memory() {
    let folder = common::folder();
    let path = folder.path().join("hostile");
    fs::copy("/proc/self/exe", &path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let count = usize::from(bytes[56]);
    let interp = (0..count).map(|i| 64 + 56 * i).find(|&at| bytes[at] == 3);
    let Some(interp) = interp else {
        eprintln!("skipped: the tests are static programs");
        return;
    };
    bytes[interp + 32..interp + 40].copy_from_slice(&(3u64 << 30).to_le_bytes());
    let file = File::create(&path).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    file.set_len(4 << 30).unwrap();
    drop(file);
    let reach = assert_cmd::cargo::cargo_bin("reach");
    let limited = format!("ulimit -v 1000000; exec {} text show {}", text(&reach), text(&path));
    let output = Command::new("sh").arg("-c").arg(limited).output().unwrap();
    let errors = stderr(&output);
    assert!(output.status.code() == Some(1) && errors.contains("longer than 4096 bytes"), "{errors}");
}
