//! The reader's side of the shared memory: creates it, sleeps while it is empty, ends the capture early.

use crate::TraceError;
use reach_core::ring::{Memory, Reader, Ring};
use rustix::fs::{MemfdFlags, SealFlags, Timespec, fcntl_add_seals, memfd_create};
use rustix::thread::futex;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
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
pub(super) struct SharedMemory {
    file: File,
    ring: Ring,
}

impl SharedMemory {
    /// Creates the shared memory. Fails with [`TraceError::Capture`] where the operating system gives none.
    pub(super) fn new() -> Result<SharedMemory, TraceError> {
        let failed =
            |what: &str, why: io::Error| TraceError::Capture(format!("shared memory for the capture: {what}: {why}"));
        let file = anonymous_file().map_err(|why| failed("memfd_create", why))?;
        file.set_len(Ring::bytes(MAX_BUFFERS) as u64).map_err(|why| failed("ftruncate", why))?;
        // A traced process that shortened the file would end this process at its next access (SIGBUS).
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|why| failed("sealing it", why.into()))?;
        let ring = Ring::create(Memory::map(&file).map_err(|why| failed("mmap", why))?);
        ring.header().reader.store(std::process::id(), Ordering::Relaxed);
        let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |about| about.ino());
        ring.header().reader_namespace.store(namespace, Ordering::Relaxed);
        Ok(SharedMemory { file, ring })
    }

    /// Returns the ring.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the reading end of the ring. Call it once, before a process can write.
    pub(super) fn reader(&self) -> Reader {
        Reader::new(self.ring.clone(), INITIAL_BUFFERS)
    }

    /// Returns the path at which other processes can open the ring.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Returns the file behind the memory, which every traced process can open.
    #[cfg(test)]
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Makes writers stop recording. Their programs continue.
    pub(super) fn abort(&self) {
        self.ring.header().abort.0.store(1, Ordering::SeqCst);
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
            let timeout = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            // Whether it was woken, was too late or has waited long enough, the caller looks again.
            let _ = futex::wait(&header.publications.0, futex::Flags::empty(), before, Some(&timeout));
        }
        header.reader_sleeps.store(0, Ordering::SeqCst);
    }
}

/// Makes a file in memory that can be sealed. Administrators can forbid those that could be executed, and kernels before 6.3 know
/// no others.
fn anonymous_file() -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = memfd_create("reach", flags | MemfdFlags::NOEXEC_SEAL).or_else(|_| memfd_create("reach", flags));
    Ok(made?.into())
}

/// Wakes writers that wait for a buffer.
pub(super) fn wake_writers(ring: &Ring) {
    let header = ring.header();
    if header.writers_asleep.load(Ordering::SeqCst) > 0 {
        // It cannot fail: the word is in memory.
        let _ = futex::wake(&header.releases.0, futex::Flags::empty(), i32::MAX as u32);
    }
}
