//! Errors say what is wrong, where, and what to do, with the right exit status; and no data is lost.

use crate::common;
use crate::common::{failure, folder, path, raw, reach, stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

#[test]
fn usage_errors_suggest_the_nearest_valid_spelling() {
    let touch = ["-p", "touch:bytes=1M"];
    let cases: &[(&[&str], &str)] = &[
        (&["-m", "skylake"], "did you mean skylake-e3-1240v5 or skylake-sp?"),
        (&["-m", "quux"], "`reach machine list` lists them all"),
        (&["-m", "zen4:tlb.l2d.entires=512"], "did you mean tlb.l2d.entries"),
        (&["-m", "zen4:tlb.l2d.entries=many"], "tlb.l2d.entries"),
        (&["-m", "zen4:tlb.l2d.entries=1000"], "power-of-two number of sets"),
        (&["-m", "zen4:tlb"], "key=value"),
        (&["-s", "linux-tph"], "did you mean \"linux-thp\"?"),
        (&["-s", "linux-thp:enable=always"], "did you mean \"enabled\"?"),
        (&["-s", "linux-thp:enabled=perhaps"], "always or madvise or never"),
        (&["-s", "linux-thp:enabled"], "key=value"),
        (&["--timing", "outoforder"], "possible values: counts, inorder, ooo"),
        (&["--format", "xml"], "possible values: table, jsonl, csv"),
        (&["--memory", "lots"], "such as 512M, 16G or 1T"),
        (&["--limit", "0"], "expected a count of at least 1"),
        (&["--threads", "0"], "0 is not in 1..=1024"),
        (&["--fragment", "order=9"], "scattered is missing"),
        (&["--fragment", "scattered=1.5"], "from 0 to 1"),
        (&["--machines", "zen4"], "--machine"),
        (&["--", "true"], "cannot be used with"),
        (&["--force"], "--record"),
        (&["--scenario", "s.toml"], "cannot be used with"),
        (&["--quantum", "0"], "expected a count of at least 1"),
    ];
    for (args, part) in cases {
        let (status, text) = failure(&[&["compare"], &touch[..], args].concat());
        assert_eq!(status, 2, "{args:?}: {text}");
        assert!(text.starts_with("reach: ") && text.contains(part), "{args:?}: {text}");
    }
    for (args, part) in [
        (&["compare"][..], "-- PROG [ARGS]…"),
        (&["compare", "-p", "gusp"], "did you mean `gups`?"),
        (&["compare", "-p", "gups:update=5"], "did you mean `updates`?"),
        (&["compare", "-p", "gups:updates=few"], "give count"),
        (&["program", "show", "gusp"], "did you mean `gups`?"),
        (&["machine", "show", "zen6"], "did you mean"),
        (&["system", "show", "bsae"], "did you mean \"base\"?"),
        (&["record", "--", "true"], "--output <FILE>"),
        (&["record", "-o", "x.reach"], "PROG"),
        (&["comprae"], "'compare'"),
        (&["run", "--quantum", "5", "--", "true"], "cannot be used with"),
        (&["run", "--fast-forward", "search", "--", "true"], "announces no phases; give a count of references"),
        (&["record", "-o", "x.reach", "--fast-forward", "search", "--", "true"], "such as 500000, 200k or 10M"),
        (&["paper", "run", "navarro"], "there are alverti-2020-spot, barr-2011-spectlb, chasapis-2025-itp, "),
        (&["paper", "run", "navarro-2002", "matrx"], "it has matrix"),
        (&["compare", "gcc", "-c", "x.c"], "-- PROG [ARGS]…"),
    ] {
        let (status, text) = failure(args);
        assert_eq!(status, 2, "{args:?}: {text}");
        assert!(text.starts_with("reach: ") && text.contains(part), "{args:?}: {text}");
    }
}

#[test]
fn options_from_before_a_renaming_name_the_new_spelling() {
    let touch = ["compare", "-m", "zen4", "-s", "base", "-p", "touch:bytes=1M"];
    for (args, part) in [
        (&["--skim", "10M"][..], "--skim is now called --fast-forward"),
        (&["--skim=10M"], "--skim is now called --fast-forward"),
        (&["--timing", "window"], "--timing window is now called --timing ooo"),
        (&["--timing=window"], "--timing window is now called --timing ooo"),
        (&["--sample", "between=skim"], "between=fast-forward"),
        (&["--sample", "between=follow"], "between=tlbs"),
    ] {
        let (status, text) = failure(&[&touch[..], args].concat());
        assert!(status == 2 && text.starts_with("reach: ") && text.contains(part), "{args:?}: {status} {text}");
    }
    let (status, text) = failure(&["record", "-o", "x.reach", "--skim", "10M", "--", "true"]);
    assert!(status == 2 && text.contains("--skim is now called --fast-forward"), "{status} {text}");
    let (status, text) = failure(&["machine", "check", "--timing", "window", "x.toml"]);
    assert!(status == 2 && text.contains("--timing window is now called --timing ooo"), "{status} {text}");
}

#[test]
fn impossible_simulations_say_why() {
    for (args, part) in [
        (&["-m", "zen4", "-s", "base", "--memory", "64M", "-p", "touch:bytes=256M"][..], "give more with --memory"),
        (&["-m", "zen4", "-s", "base", "--memory", "64K", "-p", "touch"], "give --memory in that range"),
        (&["-m", "/no/such/machine.toml", "-p", "touch"], "No such file"),
    ] {
        let (status, text) = failure(&[&["compare"], args].concat());
        assert!(status == 1 || text.contains("machine.toml") && status == 2, "{args:?}: {status} {text}");
        assert!(text.starts_with("reach: ") && text.contains(part), "{args:?}: {text}");
        assert!(!text.contains('\n') || text.trim_end().lines().count() <= 3, "{text}");
    }
}

#[test]
fn errors_in_scenario_files_name_the_line_or_program() {
    let folder = folder();
    let file = path(&folder, "s.toml");
    for (text, message) in [
        ("[[program]]\nrun = 'touch'\nwhen = 5\n", "line 3: unknown field `when`"),
        ("[[program]]\nrun = 'tuoch'\n", "program 1: there is no synthetic program `tuoch`; did you mean `touch`?"),
        ("[[program]]\ntrace = 'none.reach'\n", "none.reach: No such file"),
    ] {
        std::fs::write(&file, text).unwrap();
        let (status, error) = failure(&["run", "-m", "zen4", "--scenario", &file]);
        assert!(status == 1 && error.contains(message), "{status} {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let (status, error) = failure(&["compare", "-m", "zen4", "--scenario", "/no/such.toml"]);
    assert!(status == 1 && error.starts_with("reach: /no/such.toml: "), "{status} {error}");
}

#[test]
fn machine_check_names_each_problem_by_file_and_line() {
    let folder = folder();
    let (good, bad) = (path(&folder, "good.toml"), path(&folder, "bad.toml"));
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/zen4.toml")).unwrap();
    std::fs::write(&good, &text).unwrap();
    std::fs::write(&bad, text.replacen("entries = [", "entries = [-", 1)).unwrap();
    assert_eq!(stdout(&["machine", "check", &good]), format!("{good}: valid\n"));
    let output = reach(&["machine", "check", &good, &bad, "/no/such/file"]).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("bad.toml: line ") && text.contains("No such file"), "{text}");
}

#[test]
fn every_verb_refuses_files_that_are_no_traces() {
    let folder = folder();
    let file = |name: &str, content: &[u8]| {
        let path = path(&folder, name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let trace = recorded(&folder, "whole.reach");
    let whole = std::fs::read(&trace).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x40;
    let random: Vec<u8> = (0u32..10_000).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (path, part) in [
        (file("empty", b""), "the file is empty"),
        (file("random", &random), "no trace of a known format"),
        (file("short", &whole[..20]), "cut short"),
        (file("flipped", &flipped), "damaged"),
        (file("machine.toml", b"name = 1\n"), "no trace of a known format"),
        (folder.path().to_str().unwrap().to_owned(), "a folder without traces"),
        ("/no/such/file".to_owned(), "No such file"),
    ] {
        let out = common::path(&folder, "out.reach");
        let verbs: [&[&str]; 4] = [
            &["trace", "check", &path],
            &["trace", "convert", "--force", &path, "-o", &out],
            &["trace", "dump", &path],
            &["compare", "-m", "zen4", "-s", "base", "--trace", &path],
        ];
        for verb in verbs {
            let output = reach(verb).output().unwrap();
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{verb:?}: {text}");
            assert!(text.contains(part) && text.contains(&path) && !text.contains("panicked"), "{verb:?}: {text}");
        }
    }
}

#[test]
fn existing_files_are_replaced_only_with_force() {
    let folder = folder();
    let trace = recorded(&folder, "kept.reach");
    let before = std::fs::read(&trace).unwrap();
    for args in [
        &["compare", "-m", "zen4", "-s", "base", "-p", "touch:bytes=1M", "--record", &trace][..],
        &["record", "-o", &trace, "--", "/bin/true"],
        &["trace", "convert", &trace, "-o", &trace],
    ] {
        let (status, text) = failure(args);
        assert!(status == 2 && text.contains("exists already") && text.contains("--force"), "{args:?}: {text}");
    }
    // Errors that can be detected early leave the existing file as it is.
    for args in [
        &["record", "--force", "-o", &trace, "--", "/no/such/program"][..],
        &["compare", "--force", "--record", &trace, "-t", "/no/such/trace"],
        &["trace", "convert", "--force", &trace, "-o", &trace],
    ] {
        assert_eq!(failure(args).0, 1, "{args:?}");
    }
    assert_eq!(std::fs::read(&trace).unwrap(), before);
}

#[test]
fn unwritable_results_fail_and_keep_earlier_ones() {
    let args = ["compare", "-m", "zen4", "-s", "base", "-p", "touch:bytes=1M"];
    let (status, text) = failure(&[&args[..], &["-o", "/no/such/folder/file"]].concat());
    assert_eq!(
        (status, text.as_str()),
        (1, "reach: /no/such/folder/file: cannot be written: No such file or directory\n")
    );
    let (status, text) = failure(&[&args[..], &["-o", "/dev/full"]].concat());
    assert!(status == 1 && text.contains("/dev/full: the disk is full; free some space"), "{text}");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = raw(&args).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.code() == Some(1) && stderr(&output).contains("standard output"), "{}", stderr(&output));
    // Earlier results stay until there are new ones.
    let folder = folder();
    let results = path(&folder, "results");
    std::fs::write(&results, "before").unwrap();
    assert_eq!(failure(&["compare", "-s", "base", "-t", "/no/such/trace", "--force", "-o", &results]).0, 1);
    assert_eq!(std::fs::read_to_string(&results).unwrap(), "before");
    assert_eq!(stdout(&[&args[..], &["--force", "-o", &results]].concat()), "");
    assert!(std::fs::read_to_string(&results).unwrap().starts_with("touch"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = folder();
    let trace = recorded(&folder, "t.reach");
    for args in [
        &["trace", "dump", &trace][..],
        &["machine", "show", "zen4"],
        &["compare", "-m", "zen4", "-s", "base", "-p", "touch:bytes=1M", "-f", "jsonl"],
        &["--help"],
    ] {
        let mut child = raw(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_full_disk_loses_neither_results_nor_the_recorded_part() {
    let folder = folder();
    let Some(disk) = SmallDisk::mount(&folder) else { return };
    let trace = disk.0.join("t.reach").to_str().unwrap().to_owned();
    let program = ["-p", "gups:updates=1M", "-q", "--record", &trace];
    let args = [&["compare", "-m", "zen4", "-s", "base", "--timing", "counts"][..], &program].concat();
    let output = reach(&args).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("t.reach: the disk is full") && text.contains("the part recorded before is kept"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nbase "), "the results are printed nevertheless");
    let output = reach(&["compare", "-m", "zen4", "-s", "base", "-t", &trace, "-f", "csv"]).output().unwrap();
    let (rows, text) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(" M references can be read: the recorder (reach "), "{text}");
    assert!(text.contains("could not write the rest"), "{text}");
    let loads = rows.lines().find(|row| row.contains(",loads,")).unwrap().rsplit(',').next().unwrap();
    assert!(loads.parse::<u64>().unwrap() > 100_000, "{loads}");
}

/// A file system of 4 MB.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(folder: &TempDir) -> Option<SmallDisk> {
        let at = folder.path().join("disk");
        std::fs::create_dir(&at).unwrap();
        let mount =
            std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=4M", "tmpfs"]).arg(&at).output();
        match mount {
            Ok(output) if output.status.success() => Some(SmallDisk(at)),
            _ => {
                eprintln!("skipped: no right to mount a small disk");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_missing_emulator_plugin_or_program_is_named() {
    let folder = folder();
    let emulator = path(&folder, "qemu-x86_64");
    std::fs::write(&emulator, "#!/bin/sh\necho 'usage: qemu-x86_64 [options] program'\n").unwrap();
    std::fs::set_permissions(&emulator, std::fs::Permissions::from_mode(0o755)).unwrap();
    let empty = path(&folder, "empty");
    let run = |variables: &[(&str, &str)], program: &str| {
        let mut command = reach(&["compare", "-m", "zen4", "-s", "base", "--", program]);
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert!(output.stdout.is_empty());
        (output.status.code().unwrap(), stderr(&output))
    };
    for (variables, program, part) in [
        (&[("REACH_QEMU", emulator.as_str())][..], "/bin/true", "built without plugins"),
        (&[("REACH_QEMU", "/no/such/qemu")], "/bin/true", "/no/such/qemu"),
        (&[("PATH", &empty), ("HOME", &empty), ("XDG_CACHE_HOME", &empty)], "/bin/true", "no qemu-x86_64 found"),
        (&[], "/no/such/program", "no such program"),
        (&[], "no-such-program-anywhere", "no such program in PATH"),
        (&[], "/etc/passwd", "/etc/passwd"),
        (&[], "/tmp", "/tmp"),
    ] {
        // If the environment names an emulator, no PATH hides it.
        if part.starts_with("no qemu") && std::env::var_os("REACH_QEMU").is_some() {
            continue;
        }
        let (status, text) = run(variables, program);
        assert_eq!(status, 1, "{variables:?} {program}: {text}");
        assert!(text.starts_with("reach: ") && text.contains(part), "{variables:?} {program}: {text}");
    }
    if common::can_capture() {
        let (status, text) = run(&[("REACH_PLUGIN", "/no/such/plugin.so")], "/bin/true");
        assert!(status == 1 && text.contains("/no/such/plugin.so"), "{text}");
    }
}

#[test]
#[cfg(target_feature = "avx2")]
fn an_older_processor_gets_the_missing_feature_named() {
    let Ok(qemu) = reach_trace::live::emulator(None) else {
        eprintln!("skipped: no emulator of an older processor");
        return;
    };
    // Before AVX, with AVX but without AVX2, and with AVX2 but without BMI2.
    for (processor, feature) in [("Nehalem", "fma"), ("SandyBridge", "fma"), ("max,-bmi2", "bmi2")] {
        let reach = assert_cmd::cargo::cargo_bin("reach");
        let command = std::process::Command::new(&qemu).args(["-cpu", processor]).arg(&reach).arg("--version").output();
        let output = command.unwrap();
        let text = stderr(&output);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{processor}: {text}");
        let line = text.lines().last().unwrap_or_default();
        assert!(line.starts_with(&format!("reach: this processor has no {feature}, ")), "{processor}: {text}");
        assert!(line.ends_with("RUSTFLAGS=\"\" make build"), "{text}");
    }
    let output = std::process::Command::new(&qemu)
        .args(["-cpu", "max"])
        .arg(assert_cmd::cargo::cargo_bin("reach"))
        .arg("--version")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn this_computer_names_the_probed_machine() {
    let folder = folder();
    let show =
        |machine: &str| reach(&["machine", "show", machine]).env("XDG_DATA_HOME", folder.path()).output().unwrap();
    let missing = show("this-computer");
    let text = stderr(&missing);
    assert_eq!(missing.status.code(), Some(2), "{text}");
    assert!(text.contains("run `reach machine probe`"), "{text}");
    let behind = text.split_once("measured (").unwrap().1;
    // A processor without a name has no file.
    let Some((file, _)) = behind.split_once(" is missing") else { return };
    let file = Path::new(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let preset = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/zen3.toml");
    std::fs::copy(preset, file).unwrap();
    let changed = show("this-computer:tlb.l2d.entries=4096");
    assert!(changed.status.success(), "{}", stderr(&changed));
    assert!(String::from_utf8_lossy(&changed.stdout).contains("4096"));
    assert_eq!(show("this-computers").status.code(), Some(2), "the name of nothing");
}

/// Records a trace of about three segments, and returns its path.
fn recorded(folder: &TempDir, name: &str) -> String {
    let trace = path(folder, name);
    let args = ["compare", "-q", "-m", "zen4", "-s", "ideal", "-p", "gups:bytes=1M,updates=900000", "--record", &trace];
    reach(&args).assert().success();
    trace
}
