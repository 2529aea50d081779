//! Gives an unnamed file the name of another, in a child process.
//!
//! The kernel cannot do that in one step: a temporary name is needed, for some milliseconds. The child has a session of its
//! own and blocks all signals. If either process is killed, the other finishes or cleans up.

use crate::lease;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// Time in which a process that has looked the old file's name up reaches the lease on it, in nanoseconds.
const GRACE: i64 = 10_000_000;

/// Exit status of the child if the name meant another file, or a writer came. No error of the kernel has this number.
const CHANGED: libc::c_int = 255;

/// Device and inode.
type Id = (libc::dev_t, libc::ino_t);

/// How the steps have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The copy has the name.
    Done,
    /// The name meant another file, or a process has opened the original for writing. All is as it was.
    Changed,
    /// The child was killed. The temporary name, if there, means either file.
    Killed,
}

/// The file that is replaced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Original {
    /// A descriptor with a lease.
    pub(super) leased: RawFd,
    pub(super) id: Id,
}

/// What the child needs, prepared before it exists.
pub(super) struct Steps<'a> {
    pub(super) folder: RawFd,
    pub(super) name: &'a CStr,
    pub(super) temporary: &'a CStr,
    /// A link to the copy.
    pub(super) link: &'a CStr,
    pub(super) copy: Id,
    /// The only file that may be replaced. `None` if any may.
    pub(super) original: Option<Original>,
}

impl Steps<'_> {
    /// Runs the steps in a child process.
    pub(super) fn in_child(&self) -> io::Result<Ended> {
        match fork_and_wait(|| self.run())? {
            Some(0) => Ok(Ended::Done),
            Some(CHANGED) => Ok(Ended::Changed),
            Some(error) => Err(io::Error::from_raw_os_error(error)),
            None => Ok(Ended::Killed),
        }
    }

    /// Returns 0, [`CHANGED`], or the number of an error; then all is as it was. Makes system calls only, because it runs
    /// between fork and exit.
    fn run(&self) -> libc::c_int {
        let (link, follow) = (self.link.as_ptr(), libc::AT_SYMLINK_FOLLOW);
        // SAFETY: both names are terminated, and the descriptor is open.
        if unsafe {
            libc::setsid();
            libc::linkat(libc::AT_FDCWD, link, self.folder, self.temporary.as_ptr(), follow)
        } != 0
        {
            return errno();
        }
        let result = match self.original {
            Some(original) => self.exchange(original),
            None => self.rename(0).map_or_else(|error| error, |()| 0),
        };
        self.remove_temporary();
        result
    }

    /// Exchanges the files, and again if that displaced another one than the original, or if a writer has come.
    fn exchange(&self, original: Original) -> libc::c_int {
        if let Err(error) = self.rename(libc::RENAME_EXCHANGE) {
            return error;
        }
        // A process that has looked the name up before the exchange, and opens the original for writing, meets the lease now.
        // SAFETY: the time is initialized, and nothing is asked of the rest.
        unsafe { libc::nanosleep(&libc::timespec { tv_sec: 0, tv_nsec: GRACE }, std::ptr::null_mut()) };
        let is_original = id(self.folder, Some(self.temporary)).is_ok_and(|displaced| displaced == original.id);
        if is_original && lease::holds(original.leased) {
            return 0;
        }
        self.rename(libc::RENAME_EXCHANGE).map_or_else(|error| error, |()| CHANGED)
    }

    /// Renames from the temporary name to the other.
    fn rename(&self, flags: libc::c_uint) -> Result<(), libc::c_int> {
        let (folder, from, to) = (self.folder, self.temporary.as_ptr(), self.name.as_ptr());
        // SAFETY: both names are terminated, and the descriptor is open. The C library may lack a function for this call.
        match unsafe { libc::syscall(libc::SYS_renameat2, folder, from, folder, to, flags) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }

    /// Removes the temporary name, if it means the original or the copy.
    pub(super) fn remove_temporary(&self) {
        let is_ours = |found| found == self.copy || self.original.is_some_and(|original| found == original.id);
        if id(self.folder, Some(self.temporary)).is_ok_and(is_ours) {
            // SAFETY: the name is terminated, and the descriptor is open.
            unsafe { libc::unlinkat(self.folder, self.temporary.as_ptr(), 0) };
        }
    }

    /// Returns whether the name means the copy.
    pub(super) fn is_done(&self) -> bool {
        id(self.folder, Some(self.name)).is_ok_and(|now| now == self.copy)
    }
}

/// Identifies the file of a descriptor, or the one with `name` in that folder. Makes a system call only.
pub(super) fn id(descriptor: RawFd, name: Option<&CStr>) -> io::Result<Id> {
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

fn errno() -> libc::c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Runs `steps`, which make system calls only, in a child process, and returns its exit status. `None` if it was killed.
fn fork_and_wait(steps: impl FnOnce() -> libc::c_int) -> io::Result<Option<libc::c_int>> {
    // SAFETY: the sets of signals are plain data and initialized before use. The child makes system calls only, on data that
    // was prepared before the fork, and ends without running anything of this process's end.
    let child = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let child = libc::fork();
        if child == 0 {
            libc::_exit(steps());
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
    Ok(libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)))
}
