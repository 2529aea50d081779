//! What a run of the command costs: the peak of its memory, and its processor time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The most memory of a run on a file of a megabyte, in bytes, with the 8 MB that the command takes for itself.
pub const MEMORY: u64 = 64 << 20;
/// The most processor time of such a run: the two seconds of docs/security.md, on a computer that may be three times as
/// slow, or busy.
pub const TIME: Duration = Duration::from_secs(6);
/// A run is killed after as much processor time, in seconds.
const KILLED_AFTER: u64 = 30;

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// The exit status; 128 plus the signal that ended it.
    pub status: i32,
    /// What it wrote to standard error.
    pub message: String,
    /// The peak of its resident memory, in bytes.
    pub memory: u64,
    /// Its processor time.
    pub time: Duration,
}

/// Creates a folder for one test.
pub fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Returns the path of `name` in `folder`, as text.
pub fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// Names the folder that [`start_the_command`] and [`run`] exchange files in.
const EXCHANGE: &str = "REACH_BUDGET_EXCHANGE";

/// Runs the command. Between this process and the command is another one of this program: the kernel counts the peak of the
/// process that starts a command as the command's own, and these tests make files of many megabytes.
pub fn run(args: &[&str]) -> Run {
    let exchange = folder();
    let place = |name: &str| exchange.path().join(name);
    fs::write(place("args"), args.join("\n")).unwrap();
    let mut starter = Command::new(std::env::current_exe().unwrap());
    starter.args(["--exact", "budget::cost::start_the_command", "--include-ignored"]).env(EXCHANGE, exchange.path());
    let output = starter.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(place("usage")).unwrap();
    let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
    let [status, memory, micros] = numbers.try_into().unwrap();
    let message = String::from_utf8_lossy(&fs::read(place("message")).unwrap()).into_owned();
    Run { status: status as i32, message, memory, time: Duration::from_micros(micros) }
}

#[test]
#[expect(clippy::zombie_processes, reason = "wait4 waits for it")]
#[ignore = "starts the command for other tests; does nothing alone"]
fn start_the_command() {
    let Some(exchange) = std::env::var_os(EXCHANGE).map(PathBuf::from) else { return };
    let args = fs::read_to_string(exchange.join("args")).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("reach"));
    command.args(args.split('\n')).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(File::create(exchange.join("message")).unwrap()).spawn().unwrap();
    let pid = child.id() as libc::pid_t;
    let limit = libc::rlimit { rlim_cur: KILLED_AFTER, rlim_max: KILLED_AFTER };
    // SAFETY: the limit is a valid structure, and the process is not reaped yet, so that the number is its own.
    assert_eq!(unsafe { libc::prlimit(pid, libc::RLIMIT_CPU, &limit, std::ptr::null_mut()) }, 0);
    let mut status = 0;
    // SAFETY: all bytes of the structure may be zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to variables of their type that live through the call; nothing else waits for the process.
    assert_eq!(unsafe { libc::wait4(pid, &mut status, 0, &mut usage) }, pid);
    let status = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
    let micros = |t: libc::timeval| t.tv_sec * 1_000_000 + t.tv_usec;
    let micros = micros(usage.ru_utime) + micros(usage.ru_stime);
    fs::write(exchange.join("usage"), format!("{status} {} {micros}", usage.ru_maxrss * 1024)).unwrap();
}

impl Run {
    /// Returns whether the run stayed within memory and time.
    pub fn is_within_budget(&self) -> bool {
        self.memory <= MEMORY && self.time <= TIME
    }
}

/// Runs the command with `args`, and asserts that it stays within the budget and ends as a command should: well, or with one
/// line about `file` and exit status 1 or 2.
pub fn assert_within_budget(args: &[&str], file: &Path) -> Run {
    let run = run(args);
    let what = format!("{args:?}: {} MB, {:?}, status {}: {}", run.memory >> 20, run.time, run.status, run.message);
    assert!(run.is_within_budget(), "{what}");
    assert!(!run.message.contains("panicked"), "{what}");
    let lines: Vec<&str> = run.message.lines().filter(|line| !line.contains(" % ")).collect();
    match run.status {
        0 => {}
        1 | 2 => assert!(lines.iter().any(|line| line.contains(file.to_str().unwrap())), "{what}"),
        _ => panic!("{what}"),
    }
    run
}
