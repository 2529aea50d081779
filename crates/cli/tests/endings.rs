//! How captured programs end: results and recordings tell, and signals end recordings as they should.

use crate::common::{can_capture, compile, failure, folder, path, raw, reach, stderr, stdout};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const ARGS: [&str; 8] = ["compare", "-q", "-m", "zen4", "-s", "base", "--whole", "-f"];

/// Starts the command, waits for the program's line `ready`, and sends `signal` to the command alone.
fn interrupted(args: &[&str], signal: i32) -> Child {
    let mut child = raw(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::with_capacity(1, child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child.stdout = Some(out.into_inner());
    // SAFETY: the child has not been waited for, so its number is its own.
    unsafe { libc::kill(child.id() as i32, signal) };
    child
}

#[test]
fn a_program_that_fails_is_told_in_every_format_live_and_replayed() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    for (script, status, text) in [
        ("exit 3", 3, "the program ended with exit status 3"),
        ("kill -SEGV $$", 128 + 11, "the program ended by signal 11 (SIGSEGV)"),
        ("kill -KILL $$", 128 + 9, "the program was killed (signal 9, SIGKILL)"),
    ] {
        let trace = path(&folder, &format!("{status}.reach"));
        let live = ["jsonl", "--record", &trace, "--", "sh", "-c", script];
        let live = reach(&[&ARGS[..], &live].concat()).output().unwrap();
        let rows = String::from_utf8_lossy(&live.stdout).into_owned();
        assert_eq!(live.status.code(), Some(status), "{script}: {}", stderr(&live));
        assert!(rows.contains(&format!("\"ended\":\"{text}\"")), "{script}: {rows}");
        for (format, part) in [("jsonl", text), ("csv", ",finding.program_failed,"), ("table", text)] {
            let replayed = reach(&[&ARGS[..], &[format, "-t", &trace]].concat()).output().unwrap();
            let out = String::from_utf8_lossy(&replayed.stdout).into_owned();
            assert_eq!(replayed.status.code(), Some(status), "{script} as {format}: {}", stderr(&replayed));
            assert!(out.contains(part), "{script} as {format}: {out}");
            // After a captured program, results begin on a line of their own.
            assert!(format != "jsonl" || out == rows.trim_start(), "{script}: a replay equals the live run");
        }
        let report = reach(&["run", "-m", "zen4", "-t", &trace]).output().unwrap();
        assert_eq!(report.status.code(), Some(status));
        assert!(String::from_utf8_lossy(&report.stdout).contains(text) && stderr(&report).contains(text));
        assert!(stdout(&["trace", "info", &trace]).contains(&format!("complete       yes\nended          {text}\n")));
        assert!(stdout(&["trace", "check", &trace]).contains("valid"));
    }
}

#[test]
fn sigterm_and_sighup_end_the_program_and_finish_its_recording() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let trace = path(&folder, &format!("{signal}.reach"));
        let busy = "echo ready; while :; do :; done";
        let child = interrupted(&["record", "-o", &trace, "--", "sh", "-c", busy], signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + signal), "{}", stderr(&output));
        assert!(stderr(&output).contains("recorded "), "{}", stderr(&output));
        let info = stdout(&["trace", "info", &trace]);
        assert!(info.contains("stopped        by SIG") && info.contains("complete       yes"), "{info}");
        let replayed = reach(&[&ARGS[..], &["csv", "-t", &trace]].concat()).output().unwrap();
        assert_eq!(replayed.status.code(), Some(128 + signal), "{}", stderr(&replayed));
        let row = String::from_utf8_lossy(&replayed.stdout).into_owned();
        assert!(row.contains(",fetches,") && !row.contains("incomplete"), "{row}");
    }
}

#[test]
fn a_program_that_handles_sigterm_is_read_to_its_own_end() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let trace = path(&folder, "t.reach");
    let script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do :; done";
    let args = [&ARGS[..], &["csv", "--record", &trace, "--", "sh", "-c", script]].concat();
    let output = interrupted(&args, libc::SIGTERM).wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM), "{}", stderr(&output));
    assert!(out.starts_with("bye\n") && out.contains(",fetches,"), "{out}");
    let info = stdout(&["trace", "info", &trace]);
    assert!(info.contains("the program ended with exit status 0"), "{info}");
    assert!(stdout(&["trace", "check", &trace]).contains("valid"));
}

#[test]
fn a_second_signal_ends_the_recorder_at_once_and_the_file_says_so() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let trace = path(&folder, "t.reach");
    // The program ends by itself, some seconds after the recorder.
    let stubborn = "trap '' TERM; echo ready; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let mut child = interrupted(&["record", "-o", &trace, "--", "sh", "-c", stubborn], libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(600));
    assert!(child.try_wait().unwrap().is_none(), "the program ignores the first signal");
    // SAFETY: the child has not been waited for, so its number is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let since = Instant::now();
    let status = child.wait().unwrap();
    assert!(since.elapsed() < Duration::from_secs(2) && status.code().is_none(), "{status}");
    let (status, text) = failure(&["trace", "info", &trace]);
    assert!(status == 1 && text.contains("never finished"), "{status} {text}");
}

#[test]
fn a_killed_recorder_leaves_a_file_that_says_that_it_is_unfinished() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let trace = path(&folder, "t.reach");
    // About three segments are written before the program is ready, and it ends by itself.
    let script =
        "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo ready; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let mut child = interrupted(&["record", "-o", &trace, "--", "sh", "-c", script], libc::SIGKILL);
    child.wait().unwrap();
    let replayed = reach(&[&ARGS[..], &["jsonl", "-t", &trace]].concat()).output().unwrap();
    let text = stderr(&replayed);
    assert_eq!(replayed.status.code(), Some(1), "{text}");
    assert!(text.contains("never finished"), "{text}");
    let rows = String::from_utf8_lossy(&replayed.stdout).into_owned();
    assert!(rows.is_empty() || rows.contains("\"incomplete\":\""), "{rows}");
}

#[test]
fn a_program_that_ends_before_its_fast_forwarded_part_leaves_no_file() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let trace = path(&folder, "t.reach");
    let (status, text) = failure(&["record", "--fast-forward", "100G", "-o", &trace, "--", "true"]);
    assert!(status == 1 && text.contains("before the 100000000000 to fast-forward"), "{status} {text}");
    assert!(!Path::new(&trace).exists());
    let args = [&ARGS[..], &["csv", "--fast-forward", "100G", "--record", &trace, "-p", "touch:bytes=1M"]].concat();
    let (status, text) = failure(&args);
    assert!(status == 1 && text.contains("to fast-forward") && !Path::new(&trace).exists(), "{status} {text}");
}

#[test]
fn a_limit_of_file_sizes_marks_the_part_that_was_kept() {
    let folder = folder();
    let trace = path(&folder, "t.reach");
    let record = format!(
        "ulimit -f 4000; exec {} compare -q -m zen4 -s base --timing counts -f csv -p gups:updates=1M --record {trace}",
        assert_cmd::cargo::cargo_bin("reach").display()
    );
    let output = std::process::Command::new("bash").args(["-c", &record]).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("the limit of file sizes is reached") && text.contains("marked as incomplete"), "{text}");
    let (status, text) = failure(&["trace", "info", &trace]);
    assert!(status == 1 && text.contains("could not write the rest"), "{status} {text}");
    let (status, text) = failure(&[&ARGS[..], &["csv", "-t", &trace]].concat());
    assert!(status == 1 && text.contains(" M references can be read: "), "{status} {text}");
}

#[test]
fn an_untraced_process_makes_the_capture_incomplete() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let trace = path(&folder, "t.reach");
    // A file that Linux executes and the emulator cannot trace: an ELF image of another machine is none, so take a script
    // without a `#!` line, which the shell executes by itself.
    let foreign = path(&folder, "foreign");
    let mut image = std::fs::read("/bin/true").unwrap();
    image[18] = 3;
    image[4] = 1;
    std::fs::write(&foreign, image).unwrap();
    std::fs::set_permissions(&foreign, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = format!("{foreign}; exit 0");
    let output = reach(&["record", "-o", &trace, "--", "sh", "-c", &script]).output().unwrap();
    let text = stderr(&output);
    if !text.contains("runs untraced") {
        eprintln!("skipped: this system refuses the foreign image: {text}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{text}");
    let (status, replayed) = failure(&[&ARGS[..], &["csv", "-t", &trace]].concat());
    assert!(status == 1 && replayed.contains("runs untraced"), "{status} {replayed}");
}

/// Executes 60 million instructions.
const COMPUTE: &str =
    "int main(void) { volatile unsigned x = 1; for (int i = 0; i < 10000000; i++) x += i; return 0; }";

#[test]
fn a_program_that_changes_its_user_is_captured_after_its_exec_too() {
    let folder = folder();
    let (true, Some(program)) = (can_capture(), compile(&folder, "compute", COMPUTE, &["-static"])) else { return };
    let other = |words: &[&str]| std::process::Command::new("setpriv").arg("--reuid=65534").args(words).status();
    let plugin =
        std::env::current_exe().unwrap().ancestors().map(|at| at.join("libreach_plugin.so")).find(|at| at.exists());
    let emulator = reach_trace::live::emulator(None).unwrap();
    let files = [&program, &plugin.unwrap(), &emulator].map(|path| path.to_str().unwrap().to_owned());
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    if !files.iter().all(|file| other(&["test", "-r", file]).is_ok_and(|status| status.success())) {
        eprintln!("skipped: this user cannot become another one that reads {files:?}");
        return;
    }
    let program = files[0].as_str();
    let users: [&[&str]; 4] = [
        &["setpriv", "--reuid=65534", program],
        &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "\"$0\"; exit 0", program],
        &["sh", "-c", "ulimit -n 256; exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$0\"", program],
        &["perl", "-e", "use POSIX; POSIX::setuid(65534); exec @ARGV", "sh", "-c", "\"$0\"; exit 0", program],
    ];
    for user in users {
        let text = stdout(&[&["run", "-q", "-m", "zen4", "--timing", "counts", "-f", "csv", "--"], user].concat());
        let row = text.lines().find(|row| row.contains(",all,instructions,")).unwrap();
        let instructions: f64 = row.rsplit(',').next().unwrap().parse().unwrap();
        assert!(instructions > 5e7, "{user:?}: {row}");
    }
    // A file that may be executed and not read runs natively.
    std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    let (status, text) = failure(&[&["run", "-m", "zen4", "--timing", "counts", "--"], users[1]].concat());
    assert!(status == 1 && text.contains("runs untraced: it can be executed but not read"), "{status} {text}");
}

#[test]
fn an_instruction_that_the_emulator_lacks_is_named_with_the_remedy() {
    let folder = folder();
    let avx2 = r#"int main(void) { __asm__ volatile("vpaddd %%ymm1, %%ymm0, %%ymm0" ::: "xmm0"); return 0; }"#;
    let avx512 = r#"int main(void) { __asm__ volatile("vpaddd %%zmm1, %%zmm0, %%zmm0" ::: "xmm0"); return 0; }"#;
    let ud2 = r#"int main(void) { __asm__ volatile("ud2"); return 0; }"#;
    let Ok(emulator) = reach_trace::live::emulator(None) else { return };
    let version = std::process::Command::new(emulator).arg("-version").output().unwrap().stdout;
    let old = String::from_utf8_lossy(&version).contains("version 7.");
    for (name, source, part) in [
        ("avx2", avx2, Some("an AVX or AVX2 instruction, which QEMU 7").filter(|_| old)),
        ("avx512", avx512, Some("an AVX-512 instruction, which QEMU ")),
        ("ud2", ud2, None),
    ] {
        let Some(program) = compile(&folder, name, source, &["-mavx512f"]) else { return };
        let program = program.to_str().unwrap();
        let trace = path(&folder, &format!("{name}.reach"));
        let live = reach(&[&ARGS[..], &["table", "--record", &trace, "--", program]].concat()).output().unwrap();
        let words = |text: &[u8]| String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ");
        if name == "avx2" && !old {
            assert!(live.status.success(), "{}", stderr(&live));
            continue;
        }
        let out = words(&live.stdout);
        assert_eq!(live.status.code(), Some(128 + 4), "{name}: {}", stderr(&live));
        assert!(out.contains("the program ended by signal 4 (SIGILL)"), "{name}: {out}");
        assert_eq!(out.contains("instruction, which QEMU"), part.is_some(), "{name}: {out}");
        assert!(part.is_none_or(|part| out.contains(part)), "{name}: {out}");
        assert_eq!(out.contains("`make qemu`"), name == "avx2", "{name}: {out}");
        let replayed = reach(&[&ARGS[..], &["jsonl", "-t", &trace]].concat()).output().unwrap();
        assert_eq!(replayed.status.code(), Some(128 + 4));
        assert!(part.is_none_or(|part| String::from_utf8_lossy(&replayed.stdout).contains(part)), "{name}");
    }
    // A shell passes the signal of its child on as a status.
    let Some(program) = compile(&folder, "avx512", avx512, &["-mavx512f"]) else { return };
    let script = format!("{}; exit $?", program.display());
    let output = reach(&[&ARGS[..], &["jsonl", "--", "sh", "-c", &script]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(132));
    assert!(String::from_utf8_lossy(&output.stdout).contains("an AVX-512 instruction"), "{}", stderr(&output));
}

/// On a terminal, which `script` provides here.
#[test]
fn a_terminal_is_asked_once_whether_to_build_a_newer_emulator() {
    let folder = folder();
    let source = r#"int main(void) { __asm__ volatile("vpaddd %%ymm1, %%ymm0, %%ymm0" ::: "xmm0"); return 0; }"#;
    let Some(program) = compile(&folder, "avx2", source, &["-mavx2"]) else { return };
    let command = format!(
        "{} {} table -- {}",
        assert_cmd::cargo::cargo_bin("reach").display(),
        ARGS.join(" "),
        program.display()
    );
    let on_a_terminal = |command: &str| {
        let mut script = assert_cmd::Command::new("script");
        script.args(["-qec", command, "/dev/null"]).env_remove("REACH_QEMU").write_stdin("n\n");
        // The emulator of the cache folder is out of sight, and that of PATH is taken.
        script.env("XDG_CACHE_HOME", folder.path()).output().ok()
    };
    let Some(first) = on_a_terminal(&command) else { return eprintln!("skipped: no `script`") };
    let text = String::from_utf8_lossy(&first.stdout).into_owned();
    if !text.contains("`make qemu`") {
        return eprintln!("skipped: no emulator without AVX2: {text}");
    }
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        // The script that builds belongs to whoever has the checkout.
        assert!(!text.contains("[y/N]"), "root is asked: {text}");
        return eprintln!("skipped in part: root is never asked");
    }
    assert!(text.contains("build QEMU 10 now (") && text.contains("[y/N]") && text.contains("not built"), "{text}");
    assert_eq!(first.status.code(), Some(128 + 4), "{text}");
    let second = on_a_terminal(&command).unwrap();
    assert!(!String::from_utf8_lossy(&second.stdout).contains("[y/N]"), "it asks once");
    // Without a terminal, it never asks.
    let _ = std::fs::remove_dir_all(folder.path().join("reach"));
    let piped = reach(&[&ARGS[..], &["table", "--", program.to_str().unwrap()]].concat())
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .unwrap();
    assert!(!stderr(&piped).contains("[y/N]"), "{}", stderr(&piped));
}
