//! Whether somebody writes a file, by asking for a lease on it: the kernel grants one for reading only while nobody can write.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Names the signal of a descriptor: the same number on all machines of Linux.
const F_SETSIG: libc::c_int = 10;

/// A lease for reading. While it lasts, who opens the file for writing waits, for 45 seconds at most.
pub struct Lease<'f>(&'f File);

impl<'f> Lease<'f> {
    /// Takes one; nothing where somebody has the file open for writing, or mapped to be written.
    ///
    /// # Errors
    /// When the kernel grants none for another reason, as on some network file systems.
    pub fn take(file: &'f File) -> io::Result<Option<Lease<'f>>> {
        // The default signal of a broken lease would end this process.
        if set(file, F_SETSIG, libc::SIGURG) != 0 {
            return Err(io::Error::last_os_error());
        }
        match set(file, libc::F_SETLEASE, libc::F_RDLCK) {
            0 => Ok(Some(Lease(file))),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Whether nobody has come who wants to write.
    pub fn holds(&self) -> bool {
        set(self.0, libc::F_GETLEASE, 0) == libc::F_RDLCK
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        set(self.0, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

fn set(file: &File, what: libc::c_int, value: libc::c_int) -> libc::c_int {
    // SAFETY: these commands take a descriptor and a number.
    unsafe { libc::fcntl(file.as_raw_fd(), what, value) }
}

/// Whether somebody has a file open for writing, or mapped to be written. `false` where the file system grants no
/// leases.
///
/// # Errors
/// When the caller may not ask.
pub fn being_written(file: &File) -> io::Result<bool> {
    match Lease::take(file) {
        Ok(lease) => Ok(lease.is_none()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOLCK | libc::EOPNOTSUPP)) => Ok(false),
        Err(error) => Err(error),
    }
}
