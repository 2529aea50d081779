//! The reader's side of the shared memory: creates it, sleeps while it is empty, ends the capture early.

use crate::TraceError;
use reach_core::ring::{BUFFER_BYTES, Ring};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The most buffers. Only buffers in use take memory.
const MAX_BUFFERS: usize = 8192;

/// The buffers at the start: the program may run ahead by this much (16 MiB).
const INITIAL_BUFFERS: usize = 256;

/// The reader polls for this long; after that, it sleeps until a writer wakes it.
const POLLING_TIME: Duration = Duration::from_millis(4);

/// The shared memory. It is an anonymous file, so that nothing is left however the reader ends. Traced processes open it
/// through the reader's /proc folder.
pub(super) struct Memory {
    file: File,
    /// The mapped addresses, and their length in bytes.
    mapping: *mut libc::c_void,
    len: usize,
    ring: Ring,
}

// SAFETY: the pointer is only used to unmap; the ring consists of atomics.
unsafe impl Send for Memory {}

impl Memory {
    /// Creates the shared memory. Fails with [`TraceError::Capture`] where the operating system gives none.
    pub(super) fn new() -> Result<Memory, TraceError> {
        let failed = |what: &str| {
            let why = io::Error::last_os_error();
            TraceError::Capture(format!("shared memory for the capture: {what}: {why}"))
        };
        let bytes = Ring::bytes(MAX_BUFFERS);
        // One alignment more than needed, so that an aligned start fits.
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
            let mapping = libc::mmap(null_mut(), len, libc::PROT_NONE, private, -1, 0);
            if mapping == libc::MAP_FAILED {
                return Err(failed("mmap"));
            }
            let base = (mapping as usize).next_multiple_of(BUFFER_BYTES) as *mut libc::c_void;
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            if libc::mmap(base, bytes, rights, libc::MAP_SHARED | libc::MAP_FIXED, fd, 0) == libc::MAP_FAILED {
                libc::munmap(mapping, len);
                return Err(failed("mmap"));
            }
            let ring = Ring::create(base.cast(), MAX_BUFFERS, INITIAL_BUFFERS);
            ring.header().reader.store(std::process::id(), Ordering::Relaxed);
            Ok(Memory { file, mapping, len, ring })
        }
    }

    /// Returns the ring. No copy of it may be used after the memory is dropped.
    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// Returns the path at which other processes can open the ring.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Makes writers stop recording. Their programs continue.
    pub(super) fn abort(&self) {
        self.ring.header().abort.0.store(1, Ordering::SeqCst);
        self.wake_writers();
    }

    /// Adds `count` buffers if writers wait for a buffer. Call when the reader has nothing to read: then threads own all
    /// buffers.
    pub(super) fn relieve_shortage(&self, count: usize) {
        if self.ring.header().writers_asleep.load(Ordering::SeqCst) > 0 && self.ring.grow(count) > 0 {
            self.wake_writers();
        }
    }

    /// Wakes writers that wait for a buffer.
    pub(super) fn wake_writers(&self) {
        wake_writers(&self.ring);
    }

    /// Sleeps for a moment. `waited` is the time that the reader has waited already.
    pub(super) fn wait(&self, waited: Duration) {
        if waited < POLLING_TIME {
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
        // SAFETY: `new` made the mapping, and it is unmapped once.
        unsafe { libc::munmap(self.mapping, self.len) };
    }
}
