//! Keeps output of this command and of the captured program on separate lines.
//!
//! A captured program shares standard output and standard error with this command, and may end in the middle of a line. What
//! this command writes after the program then begins with a line break:
//!
//! - in a regular file, if the byte before is not the end of a line;
//! - in a pipe, on a terminal and elsewhere, always: nobody can see what the program left there.
//!
//! Nothing is added where no program was captured, nor between lines of this command after the program has ended.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard};

/// A standard stream.
#[derive(Clone, Copy)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// What is known about a program that shares the standard streams.
struct Sharing {
    /// Whether a program is running that can write at any time.
    running: bool,
    /// Whether a program may have written to standard output and standard error since this command did.
    written: [bool; 2],
}

static SHARING: Mutex<Sharing> = Mutex::new(Sharing { running: false, written: [false; 2] });

impl Stream {
    fn descriptor(self) -> i32 {
        match self {
            Stream::Output => libc::STDOUT_FILENO,
            Stream::Error => libc::STDERR_FILENO,
        }
    }
}

/// Notes that a program has started that writes to the standard streams.
pub fn program_started() {
    *sharing() = Sharing { running: true, written: [true; 2] };
}

/// Notes that the program has ended.
pub fn program_ended() {
    sharing().running = false;
}

/// Writes `text` to the stream with `write`, on a line of its own.
pub fn write<R>(stream: Stream, text: &str, write: impl FnOnce(&str) -> R) -> R {
    let mut sharing = sharing();
    let breaks = sharing.written[stream as usize] && is_within_a_line(stream);
    let written = if breaks { write(&format!("\n{text}")) } else { write(text) };
    if !sharing.running {
        // Standard output and standard error may be the same file.
        let id = |stream| status(stream).map(|status| (status.st_dev, status.st_ino));
        for other in [Stream::Output, Stream::Error] {
            sharing.written[other as usize] &= id(other) != id(stream);
        }
    }
    written
}

fn sharing() -> MutexGuard<'static, Sharing> {
    SHARING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns whether the program may have left an unfinished line in the stream.
fn is_within_a_line(stream: Stream) -> bool {
    let Some(status) = status(stream) else { return false };
    match status.st_mode & libc::S_IFMT {
        libc::S_IFREG => last_byte(stream, &status).is_some_and(|byte| byte != b'\n'),
        // SAFETY: the call takes a number.
        libc::S_IFCHR => unsafe { libc::isatty(stream.descriptor()) == 1 },
        _ => true,
    }
}

/// Returns the byte before the one that is written next to a regular file. `None` at its beginning, and if it cannot be read.
fn last_byte(stream: Stream, status: &libc::stat) -> Option<u8> {
    let descriptor = stream.descriptor();
    // SAFETY: both calls take numbers.
    let (appends, at) = unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        (flags & libc::O_APPEND != 0, libc::lseek(descriptor, 0, libc::SEEK_CUR))
    };
    let next = if appends { status.st_size } else { at };
    let last = u64::try_from(next).ok()?.checked_sub(1)?;
    // The stream itself is usually open for writing only.
    let file = File::open(format!("/proc/self/fd/{descriptor}")).ok()?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, last).ok()?;
    Some(byte[0])
}

fn status(stream: Stream) -> Option<libc::stat> {
    // SAFETY: stat is plain data; fstat writes it, and only it.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fstat(stream.descriptor(), &mut status) == 0).then_some(status)
    }
}
