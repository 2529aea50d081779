//! Checks that capture does not change a program's input, output and exit status, and that errors are explained.

use crate::common::{capture, compile, file, launch, possible};
use reach_core::ring::{Emulator, ProcessIdentity};
use reach_trace::Source;
use reach_trace::live::{Live, Options};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The environment variable with the words of a program for [`as_a_child`].
const WORDS: &str = "REACH_TEST_WORDS";

/// Returns a command that runs this test program, which captures a program. The captured program has the standard streams of
/// the command.
fn capturing(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "capture_program::as_a_child", "--nocapture"]).env(WORDS, words.join("\x1f"));
    command
}

/// The text that the test harness prints before the program runs.
const BANNER: &str = "\nrunning 1 test\n";

#[test]
fn as_a_child() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let words: Vec<&str> = words.split('\x1f').collect();
    let mut live = launch(words[0], &words[1..]).unwrap();
    let mut chunk = Default::default();
    while live.fill(&mut chunk).unwrap() {}
    let status = live.wait().unwrap();
    eprintln!("captured: {status}");
    std::process::exit(0);
}

/// Returns the first line that the program prints.
fn first_line(child: &mut Child) -> String {
    let mut lines = BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).lines();
    lines.nth(BANNER.lines().count()).unwrap().unwrap()
}

/// Writes an executable script. Returns its path.
fn script(name: &str, text: &str) -> PathBuf {
    let path = file(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn the_exit_status_is_that_of_the_program() {
    if !possible() {
        return;
    }
    let body = "#include <stdlib.h>\n#include <signal.h>\n#include <unistd.h>\n
        int main(int c, char **v) { int n = atoi(v[1]);
            if (n < 0) { kill(getpid(), -n); pause(); }
            return n; }";
    let program = compile("status", body, &[]);
    for code in [0, 3, 255] {
        assert_eq!(capture(&program, &[&code.to_string()]).status.unwrap().code(), Some(code));
    }
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGABRT, libc::SIGUSR1] {
        let all = capture(&program, &[&(-signal).to_string()]);
        assert_eq!(all.status.unwrap().signal(), Some(signal));
        assert_eq!(all.spaces.exits, 1);
    }
}

#[test]
fn input_and_output_pass_through() {
    if !possible() {
        return;
    }
    let mut child = capturing(&["sh", "-c", "tr a-z A-Z; echo to stderr >&2; exit 7"]);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"some text\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{BANNER}SOME TEXT\n"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("to stderr\n") && errors.contains("captured: exit status: 7"), "{errors}");
}

#[test]
fn arguments_and_environment_arrive_as_given() {
    if !possible() {
        return;
    }
    let inner = script("inner.sh", "#!/bin/sh -e\necho \"$0|$1|$2|$#\"\n");
    let body = "#include <stdio.h>\n#include <unistd.h>\nextern char **environ;\n
        int main(int c, char **v) { printf(\"%s\\n\", v[0]); fflush(stdout);
            for (char **e = environ; *e; e++) puts(*e);
            fflush(stdout); char *a[] = {\"zero\", \"a b\", \"\", 0}; execv(v[1], a); return 9; }";
    let program = compile("arguments", body, &[]);
    let (program, inner) = (program.to_str().unwrap(), inner.to_str().unwrap());
    let emulator = reach_trace::live::emulator(None).unwrap();
    let lines = |command: &mut Command| {
        // In no order, and with a variable that would affect the emulator.
        let variables = [("PATH", "/usr/bin:/bin"), ("B", "2,3"), ("A", "1"), ("LD_BIND_NOW", "1"), ("C", "")];
        let words = [program, inner].join("\x1f");
        // Without HOME, an emulator in the cache folder is not found.
        command.env_clear().env(WORDS, words).env("REACH_QEMU", &emulator).envs(variables);
        let output = command.stderr(Stdio::inherit()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.strip_prefix(BANNER).unwrap_or(&text).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut alone = lines(Command::new(program).arg(inner));
    let mut captured = lines(&mut capturing(&[]));
    assert_eq!(captured.last().unwrap(), &format!("{inner}|a b||2"));
    // The linker's variables move to the front; the others keep their order.
    let is_linkers = |line: &String| line.starts_with("LD_");
    assert_eq!(
        alone.iter().filter(|line| is_linkers(line)).count(),
        captured.iter().filter(|line| is_linkers(line)).count()
    );
    alone.retain(|line| !is_linkers(line));
    captured.retain(|line| !is_linkers(line));
    assert_eq!(alone, captured);
}

#[test]
fn a_script_can_be_the_program() {
    if !possible() {
        return;
    }
    let path = script("outer.sh", "#! /bin/sh\nexit $(($1 + 1))\n");
    assert_eq!(capture(path, &["41"]).status.unwrap().code(), Some(42));
}

#[test]
fn an_interrupt_affects_only_the_program() {
    if !possible() {
        return;
    }
    let mut child = capturing(&["sh", "-c", "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done"]);
    child.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Tests that run in the background inherit ignored interrupts, and the program would inherit them too.
    // SAFETY: between fork and exec, the closure only changes the disposition of a signal.
    unsafe {
        child.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut child = child.spawn().unwrap();
    assert_eq!(first_line(&mut child), "ready");
    // SAFETY: the call takes numbers only; the group is that of the child.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"caught\n");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.contains("captured: exit status: 5"), "{errors}");
}

#[test]
fn a_program_continues_when_its_reader_dies() {
    if !possible() {
        return;
    }
    let done = file("went-on");
    let _ = std::fs::remove_file(&done);
    let body = "#include <stdio.h>\n#include <unistd.h>\n
        int main(int c, char **v) { puts(\"ready\"); fflush(stdout);
            for (volatile long i = 0; i < 30000000; i++);
            FILE *f = fopen(v[1], \"w\"); fputs(\"done\", f); fclose(f); return 0; }";
    let program = compile("goes-on", body, &[]);
    let mut child = capturing(&[program.to_str().unwrap(), done.to_str().unwrap()]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(first_line(&mut child), "ready");
    child.kill().unwrap();
    child.wait().unwrap();
    let start = Instant::now();
    while std::fs::read(&done).unwrap_or_default() != b"done" {
        assert!(start.elapsed() < Duration::from_secs(60), "the program hangs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_continues_after_exec_when_its_reader_dies() {
    if !possible() {
        return;
    }
    let done = file("went-on-after-exec");
    let _ = std::fs::remove_file(&done);
    // A child execs, and then the program itself.
    let text = format!("echo ready; read go; ls / >/dev/null || exit; exec cp /bin/true {}", done.display());
    let mut child = capturing(&["sh", "-c", &text]);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    assert_eq!(first_line(&mut child), "ready");
    let mut go = child.stdin.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    go.write_all(b"go\n").unwrap();
    let (start, whole) = (Instant::now(), std::fs::read("/bin/true").unwrap());
    while std::fs::read(&done).unwrap_or_default() != whole {
        assert!(start.elapsed() < Duration::from_secs(60), "the program hangs or died");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_continues_when_the_ring_vanishes_during_its_exec() {
    if !possible() {
        return;
    }
    let folder = std::env::current_exe().unwrap();
    let plugin = folder.ancestors().map(|folder| folder.join("libreach_plugin.so")).find(|path| path.exists());
    let qemu = reach_trace::live::emulator(None).unwrap();
    let run = |after_exec| {
        let identity = ProcessIdentity { process: 0, thread: 0, after_exec };
        let plugin = plugin.clone().expect("the plugin is built");
        let emulator = Emulator {
            qemu: qemu.clone(),
            cpu: String::new(),
            plugin,
            ring: "/no/ring".into(),
            layout: 0,
            grants_hugetlb: false,
            aligns_shared: false,
            reverses_environment: false,
        };
        let words = ["echo".into(), "here".into()];
        let arguments = emulator.arguments(identity, &[], Path::new("/bin/echo"), &words);
        let output = Command::new(&arguments[0]).args(&arguments[1..]).output().unwrap();
        (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run(Some(99)), (Some(0), b"here\n".to_vec(), String::new()));
    let (status, out, why) = run(None);
    assert!(status != Some(0) && out.is_empty() && why.contains("/no/ring"), "{why}");
}

#[test]
fn a_program_continues_when_the_reader_stops() {
    if !possible() {
        return;
    }
    let mut live = launch("sh", &["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 6"]).unwrap();
    assert!(live.fill(&mut Default::default()).unwrap());
    assert_eq!(live.wait().unwrap().code(), Some(6));
}

#[test]
fn options_set_the_working_directory_and_the_output_file() {
    if !possible() {
        return;
    }
    let (folder, output) = (file("elsewhere"), file("elsewhere.txt"));
    std::fs::create_dir_all(&folder).unwrap();
    let args = ["-c", "cat; pwd; echo wrong >&2"].map(Into::into).to_vec();
    let (folder, output) = (Some(folder), Some(output));
    let options = Options { program: "sh".into(), args, folder, output, ..Options::default() };
    let (folder, output) = (options.folder.clone().unwrap(), options.output.clone().unwrap());
    let mut live = Live::launch(options).unwrap();
    let mut chunk = Default::default();
    while live.fill(&mut chunk).unwrap() {}
    assert!(live.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(output).unwrap(), format!("{}\nwrong\n", folder.display()));
}

#[test]
fn programs_that_cannot_be_captured_are_explained() {
    if !possible() {
        return;
    }
    let fails = |options: Options| Live::launch(options).err().expect("no launch").to_string();
    let program = |program: &str| Options { program: program.into(), ..Options::default() };
    assert_eq!(fails(program("/no/such")), "/no/such: no such program");
    assert_eq!(fails(program("no-such-program-9")), "no-such-program-9: no such program in PATH; give its path");
    let plain = file("plain.txt");
    std::fs::write(&plain, "text").unwrap();
    assert!(fails(program(plain.to_str().unwrap())).contains("ermission denied"));
    let text = script("nothing", "just words");
    assert!(fails(program(text.to_str().unwrap())).contains("neither an ELF program nor a script"));
    let mut other = vec![0x7f, b'E', b'L', b'F', 1, 1, 1];
    other.resize(64, 0);
    let other = script("other", std::str::from_utf8(&other).unwrap());
    assert!(fails(program(other.to_str().unwrap())).ends_with("it is not a 64-bit x86 program"));

    let fake = script("qemu-fake", "#!/bin/sh\necho 'usage: qemu-x86_64 [options] program; version 7.2.0'\n");
    let error = fails(Options { qemu: Some(fake), ..program("true") });
    assert!(error.contains("built without plugins") && error.contains("REACH_QEMU"), "{error}");
    assert!(fails(Options { qemu: Some("/no/qemu".into()), ..program("true") }).contains("/no/qemu"));
    let error = fails(Options { plugin: Some("/no/plugin.so".into()), ..program("true") });
    assert!(error.contains("/no/plugin.so") && error.contains("REACH_PLUGIN"), "{error}");
}
