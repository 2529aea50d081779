//! The reader's end of the shared memory: making it, sleeping, ending early.

use crate::TraceError;
use reach_core::ring::{BUFFER_BYTES, Ring};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Buffers that there can be: memory is taken only for those in use.
const BUFFERS: usize = 8192;

/// Buffers to begin with: how far (16 MiB) the program may run ahead.
const READY: usize = 256;

/// As long as this the reader looks again and again; after that it has itself woken.
const RESTLESS: Duration = Duration::from_millis(4);

/// An anonymous file, so that nothing is left behind however the reader ends. Traced processes open it through the
/// reader's /proc folder.
pub(super) struct Memory {
    file: File,
    held: *mut libc::c_void,
    len: usize,
    ring: Ring,
}

// SAFETY: the pointer is only used to unmap; the ring consists of atomics.
unsafe impl Send for Memory {}

impl Memory {
    pub(super) fn new() -> Result<Memory, TraceError> {
        let failed = |what: &str| {
            let why = io::Error::last_os_error();
            TraceError::Capture(format!("shared memory for the capture: {what}: {why}"))
        };
        let bytes = Ring::bytes(BUFFERS);
        // One alignment more than is needed, to find an aligned start in it.
        let len = bytes + BUFFER_BYTES;
        // SAFETY: every result is checked; the fixed mapping lies within the reservation, and the memory file is as long
        // as the mapping, and zero.
        unsafe {
            let fd = libc::memfd_create(c"reach".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(failed("memfd_create"));
            }
            let file = File::from_raw_fd(fd);
            if libc::ftruncate(fd, bytes as i64) != 0 {
                return Err(failed("ftruncate"));
            }
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let held = libc::mmap(null_mut(), len, libc::PROT_NONE, private, -1, 0);
            if held == libc::MAP_FAILED {
                return Err(failed("mmap"));
            }
            let base = (held as usize).next_multiple_of(BUFFER_BYTES) as *mut libc::c_void;
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            if libc::mmap(base, bytes, rights, libc::MAP_SHARED | libc::MAP_FIXED, fd, 0) == libc::MAP_FAILED {
                libc::munmap(held, len);
                return Err(failed("mmap"));
            }
            let ring = Ring::create(base.cast(), BUFFERS, READY);
            ring.header().reader.store(std::process::id(), Ordering::Relaxed);
            Ok(Memory { file, held, len, ring })
        }
    }

    /// The ring. No copy may be used after the memory is dropped.
    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// Where other processes find the ring.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Writers stop recording; their programs go on.
    pub(super) fn abort(&self) {
        self.ring.header().abort.0.store(1, Ordering::SeqCst);
        self.wake_writers();
    }

    /// Adds buffers if writers wait for some although the reader has nothing to read: so many threads own one.
    pub(super) fn relieve(&self, more: usize) {
        if self.ring.header().writers_asleep.load(Ordering::SeqCst) > 0 && self.ring.grow(more) > 0 {
            self.wake_writers();
        }
    }

    /// Puts a buffer back and wakes who waits for it.
    pub(super) fn wake_writers(&self) {
        wake_writers(&self.ring);
    }

    /// Sleeps a moment, having waited for `waited` already.
    pub(super) fn wait(&self, waited: Duration) {
        if waited < RESTLESS {
            return std::thread::sleep(Duration::from_micros(100));
        }
        let header = self.ring.header();
        let before = header.publications.0.load(Ordering::SeqCst);
        header.reader_sleeps.store(1, Ordering::SeqCst);
        if !self.ring.has_published() {
            let timeout = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            // SAFETY: the word lives in the mapping.
            unsafe {
                libc::syscall(libc::SYS_futex, header.publications.0.as_ptr(), libc::FUTEX_WAIT, before, &timeout);
            }
        }
        header.reader_sleeps.store(0, Ordering::SeqCst);
    }
}

/// Wakes writers that wait for a buffer.
pub(super) fn wake_writers(ring: &Ring) {
    let header = ring.header();
    if header.writers_asleep.load(Ordering::SeqCst) > 0 {
        // SAFETY: the word lives in the mapping.
        unsafe { libc::syscall(libc::SYS_futex, header.releases.0.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by `new`, unmapped once.
        unsafe { libc::munmap(self.held, self.len) };
    }
}
