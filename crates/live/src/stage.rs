//! Runs a program once with copies mounted over its files, and examines how its code is mapped when it ends.

use crate::held::HeldFile;
use crate::held::status::FileId;
use crate::host;
use crate::traced;
use crate::users::{self, Identity};
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
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
    /// Copies to mount over files.
    pub covers: Vec<Cover<'a>>,
    /// Files whose mappings to examine.
    pub watched: Vec<Identity>,
}

/// A copy to mount over a file. Both were held when they were chosen: what their paths lead to by now must be the same files.
pub struct Cover<'a> {
    /// The file.
    pub place: &'a HeldFile,
    /// The copy.
    pub copy: &'a HeldFile,
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
        let covers = self.covers.iter().map(|cover| Ok((Known::new(cover.place)?, Known::new(cover.copy)?)));
        let covers = covers.collect::<io::Result<Vec<_>>>()?;
        let (maps, parent) = (IdMaps::new(), std::process::id());
        // SAFETY: between fork and exec, the closure makes system calls only, on data that was prepared before the fork.
        unsafe {
            command.pre_exec(move || {
                maps.enter()?;
                covers.iter().try_for_each(|(place, copy)| bind(copy, place))?;
                traced::by_parent(parent)
            });
        }
        self.trace(&command.spawn()?)
    }

    /// Traces a program that is stopped before its first instruction, up to its end.
    fn trace(&self, child: &Child) -> io::Result<Run> {
        let pid = child.id() as libc::pid_t;
        wait(pid)?;
        traced::kill_on_exit(pid, libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_TRACEEXEC)?;
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

/// A path, and the file that it must lead to. A descriptor of this mount namespace is of no use in another.
struct Known {
    path: CString,
    id: FileId,
}

impl Known {
    fn new(file: &HeldFile) -> io::Result<Known> {
        Ok(Known { path: CString::new(file.path().as_os_str().as_bytes())?, id: file.id() })
    }

    /// Opens the file in the mount namespace of the caller, with `O_PATH`. Makes system calls only.
    fn open(&self) -> io::Result<libc::c_int> {
        // SAFETY: the path is terminated, and the structure is plain data, which the kernel fills.
        let (file, stat) = unsafe {
            let file = libc::open(self.path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            check(file)?;
            let mut stat: libc::stat = std::mem::zeroed();
            check(libc::fstat(file, &mut stat))?;
            (file, stat)
        };
        match (FileId { device: stat.st_dev, inode: stat.st_ino }) == self.id {
            true => Ok(file),
            // "Stale file handle": the file is not where it was.
            false => Err(io::Error::from_raw_os_error(libc::ESTALE)),
        }
    }
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

/// Mounts `copy` over `place`, by descriptors. Makes system calls only. The descriptors close when the program is executed.
fn bind(copy: &Known, place: &Known) -> io::Result<()> {
    let (copy, place, this) = (copy.open()?, place.open()?, c"".as_ptr());
    let clone = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH as libc::c_uint;
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: the descriptors are open, and the paths are empty and terminated: the descriptors themselves are meant.
    unsafe {
        let tree = libc::syscall(libc::SYS_open_tree, copy, this, clone);
        check(tree)?;
        check(libc::syscall(libc::SYS_move_mount, tree, this, place, this, flags))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_to_another_file_than_the_held_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("copy"), folder.path().join("other"));
        std::fs::write(&path, "copy").unwrap();
        std::fs::write(&other, "attack").unwrap();
        let held = HeldFile::open(&path).unwrap();
        let known = Known::new(&held).unwrap();
        assert!(known.open().is_ok());
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(known.open().unwrap_err().raw_os_error(), Some(libc::ESTALE));
    }
}
