//! Puts an unnamed file in the place of a named one, so that a kill at any moment leaves one complete file and no other name.
//!
//! The kernel cannot give a file without a name the name of another in one step. A temporary name is needed, for some
//! milliseconds. A child process with a session of its own makes these steps, with all signals blocked: if either
//! process is killed, the other finishes or cleans up. What remains if both are killed is removed by the next run.

use crate::lease;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::process::Pid;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

/// Time in which a process that has looked the old file's name up reaches the lease on it, in nanoseconds.
const GRACE: i64 = 10_000_000;

/// Exit status of the child if the name meant another file, or a writer came. No error of the kernel has this number.
const CHANGED: libc::c_int = 255;

/// How an exchange has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Swapped {
    /// The copy has the name.
    Done,
    /// The name meant another file, or a process has opened the original for writing. All is as it was.
    Changed,
}

/// A folder that is held open, and a name in it.
pub(super) struct Named {
    folder: OwnedFd,
    name: CString,
}

impl Named {
    /// Holds the place of a file.
    pub(super) fn new(folder: impl AsFd, name: &OsStr) -> io::Result<Named> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(folder, ".", flags, Mode::empty())?;
        Ok(Named { folder, name: CString::new(name.as_bytes())? })
    }

    /// Creates a file without a name. The kernel frees it when the process ends, even if killed.
    pub(super) fn unnamed(&self) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.folder, ".", flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Returns the beginning of temporary names for this name. A process ID follows.
    fn prefix(&self) -> Vec<u8> {
        [b".", self.name.as_bytes(), b".reach-"].concat()
    }

    /// Removes the temporary names of killed runs, whose processes are gone. What cannot be removed stays.
    pub(super) fn sweep(&self) -> io::Result<()> {
        let prefix = self.prefix();
        for entry in rustix::fs::Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let pid = name.to_bytes().strip_prefix(prefix.as_slice());
            if let Some(pid) = pid.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
                && !is_alive(pid)
                && self.is_unlocked(name)
            {
                let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
            }
        }
        Ok(())
    }

    /// Returns whether a name means a regular file that no run has locked. Processes of other containers have other IDs, but
    /// their locks are seen.
    fn is_unlocked(&self, name: &CStr) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let is_file = |stat: rustix::fs::Stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        // A device or pipe is not opened.
        rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_file)
            && rustix::fs::openat(&self.folder, name, flags, Mode::empty())
                .is_ok_and(|file| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok())
    }

    /// Puts `copy`, which has no name, in the place of `original`, on which the caller has a lease.
    pub(super) fn exchange(&self, copy: &File, original: &File) -> io::Result<Swapped> {
        // Other runs see that this one is under way. Released with the last descriptor, here and in the child.
        rustix::fs::flock(copy, FlockOperation::NonBlockingLockExclusive)?;
        let temporary = [self.prefix(), std::process::id().to_string().into_bytes()].concat();
        let steps = Steps {
            folder: self.folder.as_raw_fd(),
            name: &self.name,
            temporary: &CString::new(temporary)?,
            link: &CString::new(format!("/proc/self/fd/{}", copy.as_raw_fd()))?,
            original: original.as_raw_fd(),
            ids: (id(original.as_raw_fd(), None)?, id(copy.as_raw_fd(), None)?),
        };
        let status = in_child(&steps)?;
        let is_done = || id(steps.folder, Some(&self.name)).is_ok_and(|now| now == steps.ids.1);
        let swapped = match status {
            0 => Swapped::Done,
            CHANGED => Swapped::Changed,
            // The child was killed: the temporary name, if there, means either file.
            Killed::STATUS => {
                let done = is_done();
                steps.remove_temporary();
                if done { Swapped::Done } else { return Err(io::ErrorKind::Interrupted.into()) }
            }
            error => return Err(io::Error::from_raw_os_error(error)),
        };
        // Some file systems sync no folders.
        let _ = rustix::fs::fsync(&self.folder);
        Ok(swapped)
    }
}

/// The end of a child by a signal.
struct Killed;

impl Killed {
    /// No exit status has this value.
    const STATUS: libc::c_int = -1;
}

fn is_alive(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Device and inode.
type Id = (libc::dev_t, libc::ino_t);

/// Identifies the file of a descriptor, or the one with `name` in that folder. Makes a system call only.
fn id(descriptor: RawFd, name: Option<&CStr>) -> io::Result<Id> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    let (name, flags) = name.map_or((c"", libc::AT_EMPTY_PATH), |name| (name, libc::AT_SYMLINK_NOFOLLOW));
    // SAFETY: the name is terminated, and the kernel fills all of the structure unless it reports an error.
    unsafe {
        match libc::fstatat(descriptor, name.as_ptr(), stat.as_mut_ptr(), flags) {
            0 => Ok((stat.assume_init_ref().st_dev, stat.assume_init_ref().st_ino)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// What the child needs, prepared before it exists.
struct Steps<'a> {
    folder: RawFd,
    name: &'a CStr,
    temporary: &'a CStr,
    /// A link to the copy.
    link: &'a CStr,
    /// The descriptor with the lease.
    original: RawFd,
    /// The original and the copy.
    ids: (Id, Id),
}

impl Steps<'_> {
    /// Exchanges the files. Returns 0, [`CHANGED`], or the number of an error; then all is as it was. Makes system calls only,
    /// because it runs between fork and exit.
    fn run(&self) -> libc::c_int {
        // SAFETY: both names are terminated, and the descriptor is open.
        if unsafe {
            libc::setsid();
            libc::linkat(
                libc::AT_FDCWD,
                self.link.as_ptr(),
                self.folder,
                self.temporary.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        } != 0
        {
            return errno();
        }
        if let Err(error) = self.exchange() {
            self.remove_temporary();
            return error;
        }
        // A process that has looked the name up before the exchange, and opens the original for writing, meets the lease now.
        // SAFETY: the time is initialized, and nothing is asked of the rest.
        unsafe { libc::nanosleep(&libc::timespec { tv_sec: 0, tv_nsec: GRACE }, std::ptr::null_mut()) };
        let is_original = id(self.folder, Some(self.temporary)).is_ok_and(|displaced| displaced == self.ids.0);
        if is_original && lease::holds(self.original) {
            self.remove_temporary();
            return 0;
        }
        let undone = self.exchange();
        self.remove_temporary();
        undone.map_or_else(|error| error, |()| CHANGED)
    }

    fn exchange(&self) -> Result<(), libc::c_int> {
        let (folder, flags) = (self.folder, libc::RENAME_EXCHANGE);
        // SAFETY: both names are terminated, and the descriptor is open. The C library may lack a function for this call.
        let done = unsafe {
            libc::syscall(libc::SYS_renameat2, folder, self.temporary.as_ptr(), folder, self.name.as_ptr(), flags)
        };
        if done == 0 { Ok(()) } else { Err(errno()) }
    }

    /// Removes the temporary name, if it means the original or the copy.
    fn remove_temporary(&self) {
        let (original, copy) = self.ids;
        if id(self.folder, Some(self.temporary)).is_ok_and(|found| found == original || found == copy) {
            // SAFETY: the name is terminated, and the descriptor is open.
            unsafe { libc::unlinkat(self.folder, self.temporary.as_ptr(), 0) };
        }
    }
}

fn errno() -> libc::c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Runs the steps in a child process, and returns its exit status, or that of [`Killed`].
fn in_child(steps: &Steps) -> io::Result<libc::c_int> {
    // SAFETY: the sets of signals are plain data and initialized before use. The child makes system calls only, on data that
    // was prepared before the fork, and ends without running anything of this process's end.
    let child = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let child = libc::fork();
        if child == 0 {
            libc::_exit(steps.run());
        }
        let forked = if child < 0 { Err(io::Error::last_os_error()) } else { Ok(child) };
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        forked?
    };
    let mut status = 0;
    // SAFETY: waits for a child of this process, and writes its status to a local variable.
    while unsafe { libc::waitpid(child, &mut status, 0) } != child {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { Killed::STATUS })
}
