//! What the tests of the command share.

use assert_cmd::Command;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use tempfile::TempDir;

/// The command, away from what the environment might tell it.
pub fn reach(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("reach").unwrap();
    command.env_remove("COLUMNS");
    command.args(args);
    command
}

/// The same for those who must have their hands on the process. Whoever runs tests in the background ignores interrupts;
/// it does not.
pub fn raw(args: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("reach"));
    command.args(args).stdin(Stdio::null());
    // SAFETY: between fork and exec only the disposition of a signal is changed.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    command
}

/// Runs the command, which must succeed, and gives its standard output.
pub fn stdout(args: &[&str]) -> String {
    let output = reach(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Exit status and standard error of a command that fails.
pub fn failure(args: &[&str]) -> (i32, String) {
    let output = reach(args).output().unwrap();
    let text = stderr(&output);
    assert!(!text.contains("panicked"), "{args:?}: {text}");
    (output.status.code().expect("it is not killed"), text)
}

/// A folder of the test's own.
pub fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A file in `folder`, as text.
pub fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// Whether programs can be captured here; says so when they cannot.
pub fn can_capture() -> bool {
    match reach_trace::live::emulator(None) {
        Ok(_) => true,
        Err(why) => {
            eprintln!("skipped: {why}");
            false
        }
    }
}

/// Compiles a C program, where there is a compiler.
pub fn compile(folder: &TempDir, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let (text, program) = (folder.path().join(format!("{name}.c")), folder.path().join(name));
    std::fs::write(&text, source).unwrap();
    match std::process::Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&text).args(flags).status() {
        Ok(done) => {
            assert!(done.success(), "cc {name}.c");
            Some(program)
        }
        Err(why) => {
            eprintln!("skipped: no C compiler: {why}");
            None
        }
    }
}
