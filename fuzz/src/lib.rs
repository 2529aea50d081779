//! The budget of processor time that all fuzz targets share. libFuzzer's own limits count wall-clock time, in which other work on
//! the computer counts too.

use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

/// The most processor time that one input may take, in a build with AddressSanitizer.
const INPUT: Duration = Duration::from_secs(2);

/// The most processor time that a run takes, in seconds: `REACH_FUZZ_SECONDS`. `None` sets no limit.
static RUN: LazyLock<Option<Duration>> = LazyLock::new(|| {
    let seconds = std::env::var("REACH_FUZZ_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("REACH_FUZZ_SECONDS is a whole number")))
});

/// Runs `parse` on one input. Asks libFuzzer to end the run, with its closing statistics and status 0, once the run has used up its
/// time.
///
/// # Panics
///
/// If `parse` takes more than [`INPUT`], which libFuzzer reports as a crash, with the input.
pub fn within_budget(parse: impl FnOnce()) {
    let began = now(ClockId::ThreadCPUTime);
    parse();
    let took = now(ClockId::ThreadCPUTime) - began;
    assert!(took <= INPUT, "one input took {took:?} of processor time: expected at most {INPUT:?}");
    if RUN.is_some_and(|run| now(ClockId::ProcessCPUTime) >= run) {
        kill_process(getpid(), Signal::USR1).expect("a process can signal itself");
    }
}

/// Makes a folder for files that each run writes anew. Where it can be, it is in memory: a disk's file system waits for the disk when
/// a file is emptied and written again.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| TempDir::new()).expect("a temporary folder")
}

fn now(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
