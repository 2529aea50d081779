//! Running a program once, with other files in the place of its own, and seeing how its code is mapped when it ends.

use crate::host;
use crate::users::{self, Identity};
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a run took, and how it ended.
#[derive(Debug, Clone)]
pub struct Run {
    /// Time on a processor outside of the kernel, of the program and the children it has waited for.
    pub user: Duration,
    /// The same in the kernel.
    pub system: Duration,
    /// From the first instruction to the last.
    pub wall: Duration,
    /// Page faults, with and without reading a disk.
    pub faults: u64,
    /// Bytes of the watched files' code that were mapped with superpages at the end; nothing where that could not be seen.
    pub superpages: Option<u64>,
    /// How it ended.
    pub status: ExitStatus,
}

/// A program with its arguments, and files that others take the place of.
pub struct Stage<'a> {
    /// The file to execute.
    pub program: &'a Path,
    /// Argument zero, and the others.
    pub command: &'a [OsString],
    /// Pairs of a file and the one to put over it.
    pub covers: Vec<(PathBuf, PathBuf)>,
    /// Files whose mapping is looked at.
    pub watched: Vec<Identity>,
}

impl Stage<'_> {
    /// Runs the program once, in a mount namespace of its own, its output thrown away.
    ///
    /// # Errors
    /// When it cannot be started so.
    pub fn run(&self) -> io::Result<Run> {
        let mut command = Command::new(self.program);
        command.arg0(&self.command[0]).args(&self.command[1..]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let covers = self.covers.iter().map(|(place, copy)| Ok((path(place)?, path(copy)?)));
        let covers = covers.collect::<io::Result<Vec<_>>>()?;
        let maps = IdMaps::new();
        // SAFETY: between fork and exec, only system calls are made, with what was prepared before.
        unsafe {
            command.pre_exec(move || {
                maps.enter()?;
                covers.iter().try_for_each(|(place, copy)| bind(copy, place))?;
                check(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))
            });
        }
        self.follow(&command.spawn()?)
    }

    /// Follows a program that is stopped before its first instruction to its end.
    fn follow(&self, child: &Child) -> io::Result<Run> {
        let pid = child.id() as libc::pid_t;
        wait(pid)?;
        let options = libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
        // SAFETY: the child is stopped, and ours to trace.
        check(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options) })?;
        let begun = Instant::now();
        let (mut ended, mut superpages, mut signal) = (None, None, 0);
        loop {
            // SAFETY: as above; it goes on with the signal that stopped it, if one did.
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

    fn superpages(&self, pid: i32) -> Option<u64> {
        let mapped = users::code_of(pid).ok()?;
        let watched = mapped.iter().filter(|file| self.watched.iter().any(|identity| identity.is(&file.first)));
        Some(watched.map(|file| file.user.superpages).sum())
    }
}

fn path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn check(result: impl Into<i64>) -> io::Result<()> {
    if result.into() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn time(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, 1000 * time.tv_usec as u32)
}

fn wait(pid: libc::pid_t) -> io::Result<(libc::c_int, libc::rusage)> {
    let mut status = 0;
    loop {
        // SAFETY: the status and the structure are plain data that the kernel fills.
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

/// Puts one file over another. Only system calls.
fn bind(copy: &CString, place: &CString) -> io::Result<()> {
    // SAFETY: the paths are terminated; nothing else is read.
    check(unsafe { libc::mount(copy.as_ptr(), place.as_ptr(), std::ptr::null(), libc::MS_BIND, std::ptr::null()) })
}

/// What it takes to have mounts of one's own: nothing for root; for others a user namespace in which they are themselves.
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

    /// Leaves the mounts of others. Only system calls.
    fn enter(&self) -> io::Result<()> {
        let flags = libc::CLONE_NEWNS | if self.root { 0 } else { libc::CLONE_NEWUSER };
        // SAFETY: takes flags only.
        check(unsafe { libc::unshare(flags) })?;
        if !self.root {
            write(c"/proc/self/setgroups", "deny")?;
            write(c"/proc/self/uid_map", &self.user)?;
            write(c"/proc/self/gid_map", &self.group)?;
        }
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        // SAFETY: paths are terminated; what is not needed is null.
        check(unsafe { libc::mount(std::ptr::null(), c"/".as_ptr(), std::ptr::null(), flags, std::ptr::null()) })
    }
}

/// Writes a line to a file of the kernel. Only system calls.
fn write(file: &std::ffi::CStr, text: &str) -> io::Result<()> {
    // SAFETY: the path is terminated, and the text as long as is said.
    unsafe {
        let descriptor = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(descriptor)?;
        let written = libc::write(descriptor, text.as_ptr().cast(), text.len());
        let result = check(written as i64);
        libc::close(descriptor);
        result
    }
}
