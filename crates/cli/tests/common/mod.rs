//! Helpers of the tests of the command.

use assert_cmd::Command;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use tempfile::TempDir;

/// Returns the command with these arguments, and without variables of the environment that would change its output.
pub fn reach(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("reach").unwrap();
    command.env_remove("COLUMNS");
    command.args(args);
    command
}

/// Returns the command as a standard process, for tests that send signals or use pipes. Signals have their default effects
/// even if the test runner ignores them, as in the background.
pub fn raw(args: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("reach"));
    command.args(args).stdin(Stdio::null());
    // SAFETY: between fork and exec, the closure only sets dispositions of signals and a limit.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            // Signals that end the command leave no core files.
            libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
            Ok(())
        });
    }
    command
}

/// Runs the command, which must succeed, and returns its standard output.
pub fn stdout(args: &[&str]) -> String {
    let output = reach(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the standard error of a command.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command that must not panic, and returns its exit status and standard error.
pub fn failure(args: &[&str]) -> (i32, String) {
    let output = reach(args).output().unwrap();
    let text = stderr(&output);
    assert!(!text.contains("panicked"), "{args:?}: {text}");
    (output.status.code().expect("no signal ends it"), text)
}

/// Creates a folder for one test.
pub fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Returns the path of `name` in `folder`, as text.
pub fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// Returns whether programs can be captured here. Prints the reason if not.
pub fn can_capture() -> bool {
    match reach_trace::live::emulator(None) {
        Ok(_) => true,
        Err(why) => {
            eprintln!("skipped: {why}");
            false
        }
    }
}

/// Compiles a C program. Returns `None`, and prints the reason, if there is no compiler.
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
