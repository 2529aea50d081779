//! Detects writers of a file with a read lease, which the kernel grants only while no process can write the file.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// The fcntl command that sets a descriptor's signal. Its number is the same on all architectures of Linux.
const F_SETSIG: libc::c_int = 10;

/// A read lease. While it lasts, a process that opens the file for writing waits, for at most 45 seconds by default.
pub struct Lease<'f> {
    file: &'f File,
    granted: bool,
}

impl<'f> Lease<'f> {
    /// Takes a lease. Returns `None` if a process has the file open for writing, or mapped writable.
    ///
    /// # Errors
    /// If the kernel grants none for another reason, as on some network file systems.
    pub fn take(file: &'f File) -> io::Result<Option<Lease<'f>>> {
        // A writer breaks the lease with a signal; the default one would end this process.
        if fcntl(file, F_SETSIG, libc::SIGURG) != 0 {
            return Err(io::Error::last_os_error());
        }
        match fcntl(file, libc::F_SETLEASE, libc::F_RDLCK) {
            0 => Ok(Some(Lease { file, granted: true })),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }

    /// As [`Lease::take`]. On a file system that grants no leases, writers are not detected, and the lease holds.
    ///
    /// # Errors
    /// If the caller may not take leases on the file.
    pub fn take_if_granted(file: &'f File) -> io::Result<Option<Lease<'f>>> {
        match Lease::take(file) {
            Err(error) if is_unsupported(&error) => Ok(Some(Lease { file, granted: false })),
            other => other,
        }
    }

    /// Returns whether no process has tried to open the file for writing.
    pub fn holds(&self) -> bool {
        !self.granted || holds(self.file.as_raw_fd())
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        fcntl(self.file, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

fn fcntl(file: &File, command: libc::c_int, value: libc::c_int) -> libc::c_int {
    // SAFETY: these commands take a descriptor and a number.
    unsafe { libc::fcntl(file.as_raw_fd(), command, value) }
}

/// Returns whether the lease on the file of a descriptor holds. Makes a system call only.
pub(crate) fn holds(descriptor: RawFd) -> bool {
    // SAFETY: the command takes a descriptor, and returns the type that the lease will have once writers have got their turn.
    unsafe { libc::fcntl(descriptor, libc::F_GETLEASE) == libc::F_RDLCK }
}

/// Returns whether an error says that the file system grants no leases.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOLCK | libc::EOPNOTSUPP))
}

/// Returns whether a process has a file open for writing, or mapped writable. `false` if the file system grants no
/// leases.
///
/// # Errors
/// If the caller may not take leases on the file.
pub fn being_written(file: &File) -> io::Result<bool> {
    Ok(Lease::take_if_granted(file)?.is_none())
}
