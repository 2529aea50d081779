//! Runs programs natively, with or without transparent huge pages, and measures the time that they take.

use crate::exits::{self, Gate};
use crate::traced;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The transparent huge pages that a program and its children may have, by `PR_SET_THP_DISABLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thp {
    /// As this process may.
    Inherited,
    /// Where this Linux gives them.
    Allowed,
    /// None.
    Disabled,
    /// Only in memory that the program names by `MADV_HUGEPAGE` (Linux 6.18: `PR_THP_DISABLE_EXCEPT_ADVISED`).
    ExceptAdvised,
}

/// `PR_THP_DISABLE_EXCEPT_ADVISED` of `linux/prctl.h`, which the C library does not have yet.
const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;

impl Thp {
    /// Gives the calling process these pages. One system call with numbers only, for use between fork and exec.
    fn apply(self) -> io::Result<()> {
        let (disable, flags) = match self {
            Thp::Inherited => return Ok(()),
            Thp::Allowed => (0, 0),
            Thp::Disabled => (1, 0),
            Thp::ExceptAdvised => (1, EXCEPT_ADVISED),
        };
        let disable: libc::c_ulong = disable;
        // SAFETY: the call takes numbers only.
        match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, disable, flags, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// What a program and its descendants have used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Time from start to end.
    pub wall: Duration,
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Page faults, minor and major.
    pub faults: u64,
    /// The peak of resident memory of the process or descendant that had most, in bytes. Hugetlb pages do not count.
    pub peak: u64,
    /// How the program ended.
    pub status: ExitStatus,
}

impl Usage {
    /// Returns the processor time: that of user mode and of the kernel together.
    pub fn processor(&self) -> Duration {
        self.user + self.system
    }
}

/// The environment that makes glibc's allocator ask for huge pages (`MADV_HUGEPAGE`).
pub const TUNABLES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// A program to run, with empty input.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The program: a path, or a name to look for in `PATH`.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// The folder to run it in; `None` for that of this process.
    pub folder: Option<&'a Path>,
    /// The file for its output and its messages, which is overwritten.
    pub output: &'a Path,
    /// Variables beside those of this process.
    pub environment: &'a [(&'a str, &'a OsStr)],
    /// Its huge pages.
    pub thp: Thp,
    /// Whether it and its children are a process group of their own, which ends with the [`Running`]; the program also ends
    /// with the thread that has started it.
    pub own_group: bool,
}

impl Task<'_> {
    /// Runs the program up to its end.
    ///
    /// # Errors
    /// As [`start`](Task::start) and [`Running::wait`].
    pub fn run(&self) -> io::Result<Usage> {
        self.start()?.wait()
    }

    /// Starts the program.
    ///
    /// # Errors
    /// When the program cannot be started, or when the output cannot be written.
    pub fn start(&self) -> io::Result<Running> {
        self.start_through(None)
    }

    /// Starts the program once it has passed a gate, if there is one.
    ///
    /// # Errors
    /// As [`start`](Task::start).
    pub(crate) fn start_through(&self, gate: Option<&Gate>) -> io::Result<Running> {
        let out = File::create(self.output)?;
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .envs(self.environment.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        if let Some(folder) = self.folder {
            command.current_dir(folder);
        }
        if self.own_group {
            command.process_group(0);
        }
        let (thp, parent) = (self.thp, self.own_group.then(std::process::id));
        let gate = gate.map(Gate::descriptor);
        // SAFETY: between fork and exec, the closure makes system calls with numbers and a set of signals of its own.
        unsafe {
            command.pre_exec(move || {
                // This process may hold signals back, which the program must not inherit.
                let mut none = std::mem::zeroed();
                libc::sigemptyset(&mut none);
                libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
                parent.map_or(Ok(()), traced::end_with)?;
                thp.apply()?;
                gate.map_or(Ok(()), exits::pass)
            });
        }
        let started = Instant::now();
        let mut child = command.spawn()?;
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(end) => Ok(Running { pid, own_group: self.own_group, end, started, ended: false }),
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(error.into())
            }
        }
    }
}

/// A program that runs. Dropping it kills the program, with its whole group if that is its own.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    own_group: bool,
    /// Readable once the program has ended.
    end: OwnedFd,
    started: Instant,
    ended: bool,
}

impl Running {
    /// Returns the ID of the process, which is also that of a group of its own.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits for the program's end.
    ///
    /// # Errors
    /// The errors of wait4.
    pub fn wait(mut self) -> io::Result<Usage> {
        self.reap()
    }

    /// Waits for the program's end, for at most `time`, and returns whether it has come.
    ///
    /// # Errors
    /// The errors of poll.
    pub fn ends_within(&self, time: Duration) -> io::Result<bool> {
        let time = time.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&self.end, PollFlags::IN)], Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks the program to end (SIGTERM).
    pub fn terminate(&self) {
        // Fails only if the program has ended, which is what is wanted.
        let _ = kill_process(self.pid, Signal::TERM);
    }

    /// Waits for the process, and returns what it and the descendants that it has waited for used.
    fn reap(&mut self) -> io::Result<Usage> {
        // While a thread traces the process, wait4 would return at its stops, too.
        while !self.ends_within(Duration::from_secs(3600))? {}
        let mut status = 0;
        // SAFETY: all bytes zero are a valid rusage, which holds numbers only.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        loop {
            // SAFETY: both pointers are to live values of the types that the call writes.
            let waited = unsafe { libc::wait4(self.pid(), &mut status, 0, &mut usage) };
            if waited == self.pid() {
                break;
            }
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error),
            }
        }
        self.ended = true;
        Ok(Usage {
            wall: self.started.elapsed(),
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            faults: (usage.ru_minflt + usage.ru_majflt) as u64,
            peak: usage.ru_maxrss as u64 * 1024,
            status: ExitStatus::from_raw(status),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What is left of the group goes, too: children whose parent has ended. An error means that nothing is left.
        if self.own_group {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        if !self.ended {
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = self.reap();
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.max(0) as u64, (time.tv_usec.clamp(0, 999_999) * 1000) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, thp: Thp) -> (Usage, String) {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let args = ["-c".into(), script.into()];
        let task = Task {
            program: Path::new("sh"),
            args: &args,
            folder: Some(folder.path()),
            output: &output,
            environment: &[(TUNABLES.0, TUNABLES.1.as_ref())],
            thp,
            own_group: true,
        };
        let usage = task.run().unwrap();
        (usage, std::fs::read_to_string(output).unwrap())
    }

    #[test]
    fn each_side_has_its_pages_and_both_have_the_tunable() {
        for (thp, expected) in [(Thp::Disabled, "0"), (Thp::Allowed, "1")] {
            let (usage, text) = shell("awk '/THP_enabled/ { print $2 }' /proc/self/status; echo $GLIBC_TUNABLES", thp);
            assert!(usage.status.success());
            // Kernels before 5.0 do not tell.
            let lines: Vec<_> = text.lines().collect();
            assert!(lines == [expected, TUNABLES.1] || lines == [TUNABLES.1], "{text}");
        }
    }

    #[test]
    fn descendants_count_and_failures_are_told() {
        let (usage, _) = shell("i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done & wait; exit 3", Thp::Allowed);
        assert_eq!(usage.status.code(), Some(3));
        assert!(usage.processor() > Duration::from_millis(10), "{usage:?}");
        assert!(usage.faults > 10, "{usage:?}");
    }

    #[test]
    fn a_dropped_program_and_its_children_are_gone() {
        let output = tempfile::NamedTempFile::new().unwrap();
        let args = ["-c".into(), "sleep 1000 & echo $!; wait".into()];
        let (program, environment) = (Path::new("sh"), &[]);
        let output = output.path();
        let thp = Thp::Inherited;
        let running = Task { program, args: &args, folder: None, output, environment, thp, own_group: true }.start();
        let running = running.unwrap();
        let child = loop {
            match std::fs::read_to_string(output).unwrap().trim().parse::<i32>() {
                Ok(child) => break child,
                Err(_) => assert!(!running.ends_within(Duration::from_millis(5)).unwrap()),
            }
        };
        drop(running);
        let gone = |_| {
            std::thread::sleep(Duration::from_millis(10));
            let status = std::fs::read_to_string(format!("/proc/{child}/stat"));
            status.map_or(true, |status| status.contains(") Z "))
        };
        assert!((0..500).any(gone), "the child of a killed program runs");
    }
}
