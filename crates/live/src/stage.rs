//! Runs a program once with copies mounted over its files, and examines how its code is mapped when it ends.

use crate::host;
use crate::users::{self, Identity};
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Measurements of one run.
#[derive(Debug, Clone)]
pub struct Run {
    /// User time of the program and of the children that it has waited for.
    pub user: Duration,
    /// System time of the same.
    pub system: Duration,
    /// Time from the first instruction to the last.
    pub wall: Duration,
    /// Page faults, minor and major.
    pub faults: u64,
    /// Bytes of the watched files' code mapped with superpages at the end. `None` if the mappings were not visible.
    pub superpages: Option<u64>,
    /// Exit status.
    pub status: ExitStatus,
}

/// A program with its arguments, and the files to mount over its own.
pub struct Stage<'a> {
    /// The file to execute.
    pub program: &'a Path,
    /// The arguments, from argument zero.
    pub command: &'a [OsString],
    /// Pairs of a file and the copy to mount over it.
    pub covers: Vec<(PathBuf, PathBuf)>,
    /// Files whose mappings to examine.
    pub watched: Vec<Identity>,
}

impl Stage<'_> {
    /// Runs the program once in a mount namespace of its own, and discards its output.
    ///
    /// # Errors
    /// If the copies cannot be mounted, or the program cannot be started.
    pub fn run(&self) -> io::Result<Run> {
        let mut command = Command::new(self.program);
        command.arg0(&self.command[0]).args(&self.command[1..]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let covers = self.covers.iter().map(|(place, copy)| Ok((path(place)?, path(copy)?)));
        let covers = covers.collect::<io::Result<Vec<_>>>()?;
        let maps = IdMaps::new();
        // SAFETY: between fork and exec, the closure makes system calls only, on data that was prepared before the fork.
        unsafe {
            command.pre_exec(move || {
                maps.enter()?;
                covers.iter().try_for_each(|(place, copy)| bind(copy, place))?;
                check(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))
            });
        }
        self.trace(&command.spawn()?)
    }

    /// Traces a program that is stopped before its first instruction, up to its end.
    fn trace(&self, child: &Child) -> io::Result<Run> {
        let pid = child.id() as libc::pid_t;
        wait(pid)?;
        let options = libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
        // SAFETY: the child is stopped and traced by this process; the call takes no pointers.
        check(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options) })?;
        let begun = Instant::now();
        let (mut ended, mut superpages, mut signal) = (None, None, 0);
        loop {
            // SAFETY: as above. The child continues with the signal that stopped it, if any.
            check(unsafe { libc::ptrace(libc::PTRACE_CONT, pid, 0, signal) })?;
            let (status, usage) = wait(pid)?;
            if !libc::WIFSTOPPED(status) {
                return Ok(Run {
                    user: time(usage.ru_utime),
                    system: time(usage.ru_stime),
                    wall: ended.unwrap_or_else(|| begun.elapsed()),
                    faults: (usage.ru_minflt + usage.ru_majflt) as u64,
                    superpages,
                    status: ExitStatus::from_raw(status),
                });
            }
            signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
            if status >> 16 == libc::PTRACE_EVENT_EXIT {
                ended = Some(begun.elapsed());
                superpages = self.superpages(pid);
            }
        }
    }

    /// Returns the bytes of the watched files' code that process `pid` maps with superpages.
    fn superpages(&self, pid: i32) -> Option<u64> {
        let mapped = users::code_of(pid).ok()?;
        let watched = mapped.iter().filter(|file| self.watched.iter().any(|identity| identity.is(&file.first)));
        Some(watched.map(|file| file.user.superpages).sum())
    }
}

fn path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Turns the negative result of a system call into an error.
fn check(result: impl Into<i64>) -> io::Result<()> {
    if result.into() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn time(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, 1000 * time.tv_usec as u32)
}

/// Waits for a stop or the end of a traced process. Returns its status and resource usage.
fn wait(pid: libc::pid_t) -> io::Result<(libc::c_int, libc::rusage)> {
    let mut status = 0;
    loop {
        // SAFETY: the status and the usage are plain data, which the kernel fills.
        let (result, usage) = unsafe {
            let mut usage = std::mem::zeroed();
            (libc::wait4(pid, &mut status, libc::__WALL, &mut usage), usage)
        };
        match check(result) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok((status, usage)),
        }
    }
}

/// Mounts `copy` over `place`. Makes system calls only.
fn bind(copy: &CString, place: &CString) -> io::Result<()> {
    // SAFETY: the paths are terminated; the kernel reads nothing else.
    check(unsafe { libc::mount(copy.as_ptr(), place.as_ptr(), std::ptr::null(), libc::MS_BIND, std::ptr::null()) })
}

/// How to enter a private mount namespace: directly for root; for other users in a user namespace that maps their own IDs.
struct IdMaps {
    root: bool,
    user: String,
    group: String,
}

impl IdMaps {
    fn new() -> IdMaps {
        let (user, group) = host::user();
        IdMaps { root: user == 0, user: format!("{user} {user} 1"), group: format!("{group} {group} 1") }
    }

    /// Enters a private mount namespace. Makes system calls only.
    fn enter(&self) -> io::Result<()> {
        let flags = libc::CLONE_NEWNS | if self.root { 0 } else { libc::CLONE_NEWUSER };
        // SAFETY: the call takes flags only.
        check(unsafe { libc::unshare(flags) })?;
        if !self.root {
            write(c"/proc/self/setgroups", "deny")?;
            write(c"/proc/self/uid_map", &self.user)?;
            write(c"/proc/self/gid_map", &self.group)?;
        }
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        // SAFETY: the path is terminated; the pointers that the call does not use are null.
        check(unsafe { libc::mount(std::ptr::null(), c"/".as_ptr(), std::ptr::null(), flags, std::ptr::null()) })
    }
}

/// Writes a line to a file of the kernel. Makes system calls only.
fn write(file: &std::ffi::CStr, text: &str) -> io::Result<()> {
    // SAFETY: the path is terminated, and the length is that of the text.
    unsafe {
        let descriptor = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(descriptor)?;
        let written = libc::write(descriptor, text.as_ptr().cast(), text.len());
        let result = check(written as i64);
        libc::close(descriptor);
        result
    }
}
