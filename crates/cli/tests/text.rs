//! `reach text` and `reach pages` on this Linux: their output for every kind of file, and that files do not change.

#[allow(dead_code)]
mod common;
#[path = "../../live/tests/common/mod.rs"]
mod programs;

use common::{failure, folder, path, raw, reach, stderr, stdout};
use programs::{Linked, Waiting, can_promote, program};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

/// Runs a script in a private mount namespace, with `reach` as `$reach`. Returns `None` if that is not permitted.
fn in_namespace(script: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, "sh"]).args(arguments);
    command.env("reach", assert_cmd::cargo::cargo_bin("reach"));
    let allowed = std::process::Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: mounts need root");
        return None;
    }
    Some(command.output().unwrap())
}

/// Joins the lines of a text.
fn unwrapped(text: &[u8]) -> String {
    String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Moves a loadable segment beyond all addresses.
fn corrupt(header: &mut [u8]) {
    if header[..4] == [1, 0, 0, 0] {
        header[16..24].fill(0xff);
    }
}

#[test]
fn files_that_are_no_programs_for_this_machine_are_refused_with_one_line() {
    let folder = folder();
    let Some(good) = program(folder.path(), "good", 4, Linked::Aligned) else { return };
    let bytes = fs::read(&good).unwrap();
    let tampered = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        bytes
    };
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("empty", vec![], "is empty"),
        ("script", b"#! /usr/bin/env python3\n".to_vec(), "is a script; name its interpreter instead: /usr/bin/env"),
        ("prose", b"Call me Ishmael.".to_vec(), "is not a program or library"),
        ("short", bytes[..30].to_vec(), "is truncated"),
        ("cut", bytes[..bytes.len() / 2].to_vec(), "is truncated: a segment ends at byte"),
        ("narrow", tampered(&|bytes| bytes[4] = 1), "is a 32-bit program"),
        ("foreign", tampered(&|bytes| bytes[18] = 0xf3), "is for another processor"),
        ("corrupt", tampered(&|bytes| bytes[64..].chunks_mut(56).take(13).for_each(corrupt)), "is corrupt"),
    ];
    for (name, bytes, part) in cases {
        let file = path(&folder, name);
        fs::write(&file, &bytes).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let copy = path(&folder, "copy");
        for args in [
            &["text", "show", &file][..],
            &["text", "promote", &file],
            &["text", "promote", "--restore", &file],
            &["text", "align", &file, "-o", &copy],
            &["text", "bench", "--", &file],
            &["text", "run", "--", &file],
        ] {
            // These verbs run a script with its interpreter.
            if name == "script" && ["bench", "run"].contains(&args[1]) {
                continue;
            }
            let (status, message) = failure(args);
            assert_eq!((status, message.lines().count()), (1, 1), "{args:?}: {message}");
            assert!(message.starts_with("reach: ") && message.contains(part), "{args:?}: {message}");
        }
        assert_eq!(fs::read(&file).unwrap(), bytes);
        assert!(!Path::new(&copy).exists());
    }
    for (args, status, part) in [
        (&["text", "show", "/no/such/file"][..], 1, "cannot be found"),
        (&["text", "show", "99999999"], 1, "no such process"),
        (&["text", "promote", "/dev/null"], 1, "is not a regular file"),
        (&["text", "promote", text(folder.path())], 1, "is not a regular file"),
        (&["text", "promote", "--threshold", "33", "x"], 2, "33 is not in 0..=32"),
        (&["text", "promote", "--mount", "--restore", "x"], 2, "cannot be used with"),
        (&["text", "align", text(&good), "-o", text(&good)], 2, "is the file itself"),
        (&["text", "run", "--", "no-such-program"], 1, "no such program in PATH"),
        (&["text", "keep"], 2, "FILE"),
        (&["pages", "99999999"], 1, "no such process"),
        (&["pages", "0"], 2, "0 is not in 1.."),
    ] {
        let (is, message) = failure(args);
        assert_eq!(is, status, "{args:?}: {message}");
        assert!(message.starts_with("reach: ") && message.contains(part), "{args:?}: {message}");
    }
}

#[test]
fn show_prints_segments_page_cache_and_processes() {
    let folder = folder();
    let Some(file) = program(folder.path(), "shown", 4, Linked::Aligned) else { return };
    let process = Waiting::start(&file, 1000);
    for what in [text(&file), &process.pid().to_string()] {
        let shown = stdout(&["text", "show", what]);
        for part in [
            "position-independent program",
            "wherever the file is loaded",
            "page cache",
            &format!("shown ({})", process.pid()),
            "clusters",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(shown.lines().all(|line| line.chars().count() <= 80 || line.starts_with('/')), "{shown}");
    }
    let pages = stdout(&["pages", &process.pid().to_string()]);
    assert!(pages.contains("shown") && pages.contains("resident"), "{pages}");
    let rows = stdout(&["pages", &process.pid().to_string(), "--format", "jsonl"]);
    let row: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!(row["pid"], process.pid());
    assert!(rows.contains("\"resident_bytes\""), "{rows}");
    let rows = stdout(&["text", "show", "--format", "csv", text(&file), text(&file)]);
    assert!(rows.starts_with("file,metric,unit,value\n") && rows.matches("file,metric").count() == 1, "{rows}");
    assert!(rows.contains(&format!("mapped.{}", process.pid())) && rows.contains(",code_bytes,bytes,"), "{rows}");
    let libraries = stdout(&["text", "show", "--libraries", text(&file)]);
    assert!(libraries.contains("shared library"), "{libraries}");
}

#[test]
fn without_large_folios_promotion_fails_with_advice_and_the_file_stays() {
    let folder = folder();
    let Some(file) = program(folder.path(), "small", 4, Linked::Aligned) else { return };
    let bytes = fs::read(&file).unwrap();
    stdout(&["text", "promote", "--restore", text(&file)]);
    let mut command = reach(&["text", "promote", text(&file)]);
    let output = command.env("REACH_LIVE_WITHOUT", "large-folios").output().unwrap();
    let message = stderr(&output);
    if output.status.success() {
        eprintln!("skipped: this kernel makes folios of 2 MB without being asked");
        return;
    }
    assert!(
        message.contains("folios smaller than 2 MB") && message.contains("--mount") && message.contains("text run"),
        "{message}"
    );
    assert_eq!(fs::read(&file).unwrap(), bytes);
    let hidden = reach(&["text", "show", text(&file)]).env("REACH_LIVE_WITHOUT", "frames").output().unwrap();
    assert!(unwrapped(&hidden.stdout).contains("visible to root only"));
}

/// Copies with another process: otherwise children of other tests could hold the copy open for writing when it is executed.
fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    assert!(std::process::Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status().unwrap().success());
}

#[test]
fn other_users_get_an_error_about_permissions() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let Some(file) = program(folder.path(), "owned", 4, Linked::Aligned) else { return };
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can become nobody");
        return;
    }
    let as_nobody = |args: &[&str]| {
        let binary = folder.path().join("reach");
        if !binary.exists() {
            copy_program(assert_cmd::cargo::cargo_bin("reach"), &binary);
        }
        let mut command = std::process::Command::new(binary);
        command.args(args).uid(65534).gid(65534).current_dir("/").output().unwrap()
    };
    let refused = as_nobody(&["text", "promote", text(&file)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("only its owner and root can see"), "{}", stderr(&refused));
    let shown = as_nobody(&["text", "show", text(&file)]);
    assert!(unwrapped(&shown.stdout).contains("to the owner of the file and to root only"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
    let refused = as_nobody(&["text", "promote", text(&file)]);
    assert!(stderr(&refused).contains("cannot be opened: Permission denied"), "{}", stderr(&refused));
}

#[test]
fn read_only_and_overlay_file_systems_are_promoted_and_writes_are_refused() {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let lower = folder.path().join("lower");
    for name in ["lower", "upper", "work", "place"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let Some(file) = program(&lower, "code", 4, Linked::Aligned) else { return };
    // Dirty pages are written first, in the lower layer too.
    let script = "cd $1; $reach text promote --restore lower/code >&2
        mount -t overlay o -olowerdir=lower,upperdir=upper,workdir=work place
        $reach text promote place/code; $reach text promote --restore place/code; umount place
        mount --bind lower place; mount -o remount,ro,bind place
        $reach text promote place/code; $reach text promote --restore place/code
        ! $reach text align place/code -o place/copy";
    let Some(output) = in_namespace(script, &[text(folder.path())]) else { return };
    let (message, errors) = (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output));
    if errors.contains("mount:") {
        eprintln!("skipped: no overlay here: {errors}");
        return;
    }
    assert!(output.status.success(), "{message}{errors}");
    let all = programs::state(&file).regions;
    assert_eq!(message.matches(&format!("after   {all} of {all}")).count(), 2, "{message}");
    assert!(errors.contains("cannot be written: Read-only file system"), "{errors}");
}

#[test]
fn without_large_folios_a_cover_on_tmpfs_is_mounted_and_unmounted() {
    let folder = folder();
    let Some(file) = program(folder.path(), "covered", 4, Linked::Aligned) else { return };
    let bytes = fs::read(&file).unwrap();
    let script = "mount -t tmpfs none /run
        $reach text promote --restore $1 > /dev/null
        export REACH_LIVE_WITHOUT=large-folios
        $reach text promote --mount $1; cmp $1 $2; $1 1000
        ! rm $1 2> /dev/null; ! $reach text promote --mount $1 2>&1
        $reach text promote --restore $1; ! $reach text promote $1 2> /dev/null; cmp $1 $2; test ! -e /run/reach-text";
    let copy = path(&folder, "copy");
    fs::copy(&file, &copy).unwrap();
    let Some(output) = in_namespace(script, &[text(&file), &copy]) else { return };
    let message = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{message}{}", stderr(&output));
    assert!(message.contains("the copy mounted over it is unmounted"), "{message}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn run_moves_code_and_keeps_output_status_and_environment() {
    let folder = folder();
    let Some(file) = program(folder.path(), "moved", 6, Linked::AsUsual) else { return };
    let plain = std::process::Command::new(&file).arg("5000").output().unwrap();
    let run = raw(&["text", "run", "--", text(&file), "5000"]).output().unwrap();
    assert_eq!((run.status.code(), &run.stdout), (Some(0), &plain.stdout));
    let message = stderr(&run);
    if message.contains("no superpage was allocated") {
        eprintln!("skipped: {message}");
        return;
    }
    assert!(message.contains("regions of 2 MB of code moved to superpages") && !message.contains("0 of"), "{message}");

    // The process maps its code with anonymous superpages.
    let mut command = raw(&["-q", "text", "run", "--", text(&file), "5000", "wait"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 4];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    let pages = stdout(&["pages", &child.id().to_string(), "--all", "--format", "csv"]);
    let huge =
        pages.lines().filter(|row| row.contains(" r-xp ") && row.contains("superpages.2M") && row.ends_with("152"));
    assert!(huge.count() > 0, "{pages}");
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));

    // Environment, exit status and children are those of a plain run.
    let shell = "echo $LD_PRELOAD$REACH_TEXT_RUN; exit 3";
    let run = raw(&["-q", "text", "run", "--", "sh", "-c", shell]).output().unwrap();
    assert_eq!((run.status.code(), &run.stdout[..], &run.stderr[..]), (Some(3), &b"\n"[..], &b""[..]));
    let run = raw(&["text", "run", "--children", "--", "sh", "-c", "env true; exit 0"]).output().unwrap();
    assert_eq!(stderr(&run).matches("moved to superpages").count(), 3, "{}", stderr(&run));

    let Some(fixed) = program(folder.path(), "static", 4, Linked::Static) else { return };
    let (status, message) = failure(&["text", "run", "--", text(&fixed)]);
    assert!(status == 1 && message.contains("is a static program"), "{message}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
    let (status, message) = failure(&["text", "run", "--", text(&file)]);
    assert!(status == 1 && message.contains("setuid"), "{message}");
}

#[test]
fn a_failed_move_leaves_the_program_as_it_was() {
    let folder = folder();
    let Some(file) = program(folder.path(), "unmoved", 40, Linked::Aligned) else { return };
    let plain = std::process::Command::new(&file).arg("5000").output().unwrap();
    let reach = assert_cmd::cargo::cargo_bin("reach");
    // First with too little memory for the copies, then with a kernel that refuses to move them.
    let little = "ulimit -v 85000; exec \"$@\"";
    let refuse = "exec strace -f -qq -o /dev/null -e trace=mremap -e inject=mremap:error=ENOMEM \"$@\"";
    for (script, why) in [(little, "(not enough memory)"), (refuse, "(the kernel refused to remap a copy)")] {
        if script == refuse && std::process::Command::new("strace").arg("-V").output().is_err() {
            eprintln!("skipped: no strace");
            continue;
        }
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, "sh"]).arg(&reach).args(["text", "run", "--"]).arg(&file).arg("5000");
        let run = command.output().unwrap();
        let message = stderr(&run);
        if message.contains("no superpage was allocated") || message.contains("strace: ") {
            eprintln!("skipped: {message}");
            continue;
        }
        assert_eq!((run.status.code(), &run.stdout), (Some(0), &plain.stdout), "{message}");
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn killing_a_promotion_at_any_point_leaves_the_file_intact() {
    let folder = folder();
    let Some(file) = program(folder.path(), "killed", 8, Linked::Aligned) else { return };
    let bytes = fs::read(&file).unwrap();
    let runs = |args: &[&str]| raw(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let output = std::process::Command::new(&file).arg("1000").output().unwrap().stdout;
    let user = Waiting::start(&file, 10);
    let file = text(&file);
    for i in 0..60u64 {
        // In turn: restore, promote a file not in use, replace a file in use.
        let user = (i % 3 == 2).then(|| Waiting::start(Path::new(file), 10));
        let verb: &[&str] = match i % 3 {
            0 => &["text", "promote", "--restore", file],
            1 => &["text", "promote", file],
            _ => &["text", "promote", "--replace", file],
        };
        let mut child = runs(verb);
        // Delays are deterministic, distinct, and spread over the time that the verb takes.
        std::thread::sleep(Duration::from_micros(700 * (i * 37 % 60)));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(user);
        assert_eq!(fs::read(file).unwrap(), bytes, "after {i}");
    }
    drop(user);
    let after = std::process::Command::new(file).arg("1000").output().unwrap();
    assert_eq!(after.stdout, output);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.len() <= 2, "{left:?}");
}

#[test]
fn keep_prints_a_line_for_each_change_and_ends_on_signals() {
    let folder = folder();
    let Some(file) = program(folder.path(), "kept", 4, Linked::Aligned) else { return };
    let list = path(&folder, "list");
    fs::write(&list, format!("# programs\n{}\n\n/no/such/file # gone\n", text(&file))).unwrap();
    let once = stdout(&["text", "keep", "--once", "--list", &list]);
    assert_eq!(once.lines().count(), 2, "{once}");
    assert!(once.contains("kept: ") && once.contains("/no/such/file: cannot be found"), "{once}");
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut command = raw(&["text", "keep", "--every", "60", text(&file)]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 1];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn bench_measures_nothing_of_programs_without_2_mb_of_code_and_says_so() {
    let (status, message) = failure(&["text", "bench", "--rounds", "5", "--", "true"]);
    assert!(status == 2 && message.contains("5 is not in 6..=1000"), "{message}");
    let (status, message) = failure(&["text", "bench", "--within", "0", "--", "true"]);
    assert!(status == 2 && message.contains("expected a percentage above 0"), "{message}");
    for format in ["table", "jsonl", "csv"] {
        let output = reach(&["text", "bench", "--format", format, "--", "true"]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{format}");
        let message = stderr(&output);
        assert!(message.starts_with("reach: nothing to measure: ") && message.contains("true"), "{message}");
    }
}

/// The program of this test takes 1 to 16 times as long in one run as in another.
#[test]
fn bench_of_a_program_whose_time_varies_cannot_tell_and_fails() {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let Some(file) = program(folder.path(), "varies", 4, Linked::AsUsual) else { return };
    // Six pairs whose times vary by chance are all on one side of 1 in one of 32 trials, four in a row in one of a million.
    let bench = |options: &[&str]| {
        let command = ["text", "bench", "--rounds", "6", "--scratch", text(folder.path())];
        let run = || reach(&[&command, options, &["--", text(&file), "?20000"]].concat()).output().unwrap();
        (0..3).map(|_| run()).find(|output| !output.status.success()).unwrap_or_else(run)
    };
    let output = bench(&[]);
    if stderr(&output).contains("cannot be run with copies") || stderr(&output).contains("does not hold it") {
        eprintln!("skipped: {}", stderr(&output));
        return;
    }
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains("superpages, wall time    cannot tell: ±"), "{table}");
    assert!(!table.contains("times as") && !table.contains("no effect"), "{table}");
    assert!(stderr(&output).contains("reach: cannot tell whether superpages help: "), "{}", stderr(&output));
    let output = bench(&["--format", "csv"]);
    assert_eq!(output.status.code(), Some(1));
    let rows = String::from_utf8(output.stdout).unwrap();
    let row = rows.lines().find(|row| row.starts_with("superpages,speedup_wall,")).unwrap();
    assert!(row.ends_with(",cannot tell"), "{rows}");
}

#[test]
fn bench_verifies_its_states() {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let Some(file) = program(folder.path(), "measured", 4, Linked::AsUsual) else { return };
    let scratch = text(folder.path());
    let command =
        ["text", "bench", "--rounds", "6", "--scratch", scratch, "--format", "jsonl", "--", text(&file), "1000"];
    let output = reach(&command).output().unwrap();
    if stderr(&output).contains("cannot be run with copies") || stderr(&output).contains("does not hold it") {
        eprintln!("skipped: {}", stderr(&output));
        return;
    }
    // The runs are too short to tell what superpages do; their states are verified all the same.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let rows = String::from_utf8(output.stdout).unwrap();
    let value = |code: &str, metric: &str| {
        let rows = rows.lines().map(|row| serde_json::from_str::<serde_json::Value>(row).unwrap());
        rows.filter(|row| row["code"] == code && row["metric"] == metric)
            .map(|row| row["value"].as_f64().unwrap())
            .next()
    };
    assert_eq!((value("base pages", "superpages.2M"), value("64 KB folios", "superpages.2M")), (Some(0.0), Some(0.0)));
    assert!(value("superpages", "superpages.2M").unwrap() >= f64::from(2 << 20), "{rows}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "copies are removed");
    let failed = reach(&["text", "bench", "--scratch", scratch, "--", text(&file), "0x"]).output().unwrap();
    assert!(!stderr(&failed).contains("failed with exit status"), "the program exits with status 0");
}

#[test]
fn promotion_keeps_the_output_of_large_real_programs() {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let cc1plus = std::process::Command::new("gcc").arg("-print-prog-name=cc1plus").output();
    let cc1plus = cc1plus.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let source = path(&folder, "x.cc");
    fs::write(&source, "template<int N> int f() { return N; }\nint main() { return f<3>(); }\n").unwrap();
    let node = ["/usr/bin/node", "/usr/local/bin/node"].into_iter().find(|path| Path::new(path).exists());
    let mut tried = 0;
    for (file, args) in [
        (
            Some(cc1plus.as_str()).filter(|path| Path::new(path).is_absolute()),
            vec!["-quiet", "-O2", &source, "-o", "-"],
        ),
        (node, vec!["-e", "console.log([3, 1, 2].sort().map(x => x * x).join())"]),
    ] {
        let Some(original) = file else { continue };
        // A copy, because the installed program may be in use.
        let copy = path(&folder, "program");
        copy_program(original, &copy);
        let run = |program: &str| {
            let output = std::process::Command::new(program).args(&args).output().unwrap();
            assert!(output.status.success(), "{program}: {}", stderr(&output));
            output.stdout
        };
        let before = run(&copy);
        let promoted = reach(&["text", "promote", &copy]).output().unwrap();
        let message = format!("{}{}", String::from_utf8_lossy(&promoted.stdout), stderr(&promoted));
        if message.contains("text align") {
            continue;
        }
        let state = programs::state(Path::new(&copy));
        assert!(
            state.superpages > 0 && message.contains(&format!("{} of {}", state.superpages, state.regions)),
            "{message}"
        );
        assert_eq!(run(&copy), before);
        tried += 1;
    }
    if tried == 0 {
        eprintln!("skipped: neither cc1plus nor node is here, linked so that it can be promoted");
    }
}
