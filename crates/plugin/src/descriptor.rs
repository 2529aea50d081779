//! Descriptors of the plugin, among those of the program.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The least descriptors, above those that programs use. The later ones are for processes that may have few.
const HIGH: [i32; 4] = [900, 200, 50, 10];

/// Duplicates a descriptor as a high one, by `command`: `F_DUPFD`, or `F_DUPFD_CLOEXEC` if exec is to close it.
///
/// # Errors
/// When the descriptor is not open, or the process may have no more.
pub fn duplicate(descriptor: i32, command: i32) -> io::Result<OwnedFd> {
    let mut result = Err(io::ErrorKind::InvalidInput.into());
    for least in HIGH {
        // SAFETY: duplicating a descriptor touches no memory.
        let high = unsafe { libc::fcntl(descriptor, command, least) };
        if high >= 0 {
            // SAFETY: the descriptor is new, so nothing else owns it.
            return Ok(unsafe { OwnedFd::from_raw_fd(high) });
        }
        result = Err(io::Error::last_os_error());
    }
    result
}
