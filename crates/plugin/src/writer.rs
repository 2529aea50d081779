//! This process as a writer of the ring: its identity in the traced tree, its buffers, and its dictionary of blocks.

use crate::descriptor::duplicate;
use reach_core::lock::{Held, Lock};
use reach_core::ring::{Buffer, BufferKind, Emulator, FenceEntry, Memory, Owner, Ring};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

static RING: OnceLock<Ring> = OnceLock::new();
static EMULATOR: OnceLock<Emulator> = OnceLock::new();
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
static NUMBER: AtomicU32 = AtomicU32::new(0);
static IMAGE: AtomicU32 = AtomicU32::new(0);
static PID: AtomicU32 = AtomicU32::new(0);

/// Receives what threads write after the reader has ended. Nothing reads it.
static SCRATCH: Buffer = Buffer::full();

/// The process's open dictionary.
static DICTIONARY: Lock<Option<&'static Buffer>> = Lock::new(None);

/// Device and inode of the ring's file.
static FILE: OnceLock<(u64, u64)> = OnceLock::new();

/// A descriptor of the ring; negative for none. A program may close it, and open another file in its place.
static KEPT: AtomicI32 = AtomicI32::new(-1);

/// Whether this process is in the reader's PID namespace, and so can tell whether the reader lives.
static SEES_READER: AtomicBool = AtomicBool::new(true);

/// Maps the ring at `path`, or the one that an exec handed over as descriptor number `handed_over`, if this process may not open
/// it. The mapping stays as long as the process. `None`: the ring is gone since the exec.
///
/// # Errors
/// When the first program cannot open the ring, or when it cannot be mapped or has another version.
pub fn map_ring(path: &Path, handed_over: Option<u32>) -> Result<Option<Ring>, String> {
    let inherited = handed_over.and_then(|descriptor| i32::try_from(descriptor).ok()).filter(|&descriptor| {
        // SAFETY: asking for its flags touches no memory.
        unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
    });
    // SAFETY: the descriptor is open. The program has not started yet, so nothing else owns it.
    let inherited = inherited.map(|descriptor| unsafe { File::from_raw_fd(descriptor) });
    let file = match (open(path), inherited) {
        (Ok(file), _) => file,
        (Err(_), Some(file)) => {
            keep(&file);
            file
        }
        (Err(_), None) if handed_over.is_some() => return Ok(None),
        (Err(error), None) => return Err(error),
    };
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    FILE.get_or_init(|| id(&file).unwrap_or_default());
    let ring = Ring::attach(Memory::map(&file).map_err(failed)?);
    ring.map(Some).ok_or_else(|| format!("{}: this is not a ring of this version of reach", path.display()))
}

/// Keeps a descriptor of the ring for execs. Call before a system call after which the process may not open the ring any more.
pub fn keep_ring() {
    if kept().is_none()
        && let Some(emulator) = emulator()
        && let Ok(file) = open(&emulator.ring)
    {
        keep(&file);
    }
}

fn keep(file: &File) {
    if let Ok(high) = duplicate(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC) {
        KEPT.store(high.into_raw_fd(), Ordering::Relaxed);
    }
}

fn id(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|about| (about.dev(), about.ino()))
}

fn open(ring: &Path) -> Result<File, String> {
    let file = File::options().read(true).write(true).open(ring);
    file.map_err(|error| {
        let why = "has reach ended, or has the program changed its user, its root folder or its namespaces? Then run reach \
                   there";
        format!("{}: {error}; {why}", ring.display())
    })
}

/// Makes this process writer number `number` of `ring`, running `program` under `emulator`. Call once, before any callback is
/// registered.
///
/// # Errors
/// When it was called before.
pub fn start(ring: Ring, emulator: Emulator, program: PathBuf, number: u32) -> Result<(), String> {
    RING.set(ring).map_err(|_| "the plugin was loaded twice".to_owned())?;
    EMULATOR.get_or_init(|| emulator);
    PROGRAM.get_or_init(|| program);
    identify(number);
    Ok(())
}

/// Makes a forked child writer number `number`, in the only thread of the child. The open dictionary stays the
/// parent's.
pub fn start_child(number: u32) {
    DICTIONARY.with(|open| *open = None);
    identify(number);
}

fn identify(number: u32) {
    NUMBER.store(number, Ordering::Relaxed);
    IMAGE.store(ring().header().next_image.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    PID.store(own_pid(), Ordering::Relaxed);
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |about| about.ino());
    let readers = ring().header().reader_namespace.load(Ordering::Relaxed);
    // Where either is not known, they are taken for the same, as in most captures.
    SEES_READER.store(namespace == readers || namespace == 0 || readers == 0, Ordering::Relaxed);
}

/// Returns the process identifier in the mounted /proc: the reader's view even if the program is in a PID namespace.
fn own_pid() -> u32 {
    let linked = std::fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
    linked.unwrap_or_else(std::process::id)
}

/// Returns the ring.
///
/// # Panics
/// When [`start`] has not succeeded. No callback is registered in that case.
pub fn ring() -> &'static Ring {
    RING.get().expect("callbacks are registered only after the ring was mapped")
}

/// Returns the path of the program.
pub fn program() -> &'static Path {
    PROGRAM.get().map_or(Path::new(""), PathBuf::as_path)
}

/// Returns the emulator for the process's next exec. It is this process's own knowledge: the ring can be written by processes
/// that have given up rights which this one still has.
pub fn emulator() -> Option<&'static Emulator> {
    EMULATOR.get()
}

/// Returns a descriptor of the ring that a new emulator of this process inherits.
///
/// # Errors
/// When capture has ended, or the process has lost access to the ring.
pub fn hand_over(emulator: &Emulator) -> Result<OwnedFd, String> {
    if ring().aborted() {
        return Err("capture has ended".into());
    }
    let file = open(&emulator.ring).or_else(|error| kept().ok_or(error))?;
    duplicate(file.as_raw_fd(), libc::F_DUPFD).map_err(|error| format!("{}: {error}", emulator.ring.display()))
}

/// Returns the ring's file by the descriptor that was kept, if the program has left that as it was.
fn kept() -> Option<File> {
    let file = File::from(duplicate(KEPT.load(Ordering::Relaxed), libc::F_DUPFD_CLOEXEC).ok()?);
    (id(&file).ok().as_ref() == FILE.get()).then_some(file)
}

/// Returns the process's number in the tree.
pub fn number() -> u32 {
    NUMBER.load(Ordering::Relaxed)
}

/// Takes a number for a new thread.
pub fn next_thread() -> u32 {
    ring().header().next_thread.fetch_add(1, Ordering::Relaxed)
}

/// Takes a free buffer, and waits for one if necessary. After the reader has ended, returns a buffer that nothing
/// reads.
pub fn acquire(kind: BufferKind, thread: u32) -> &'static Buffer {
    let (ring, header) = (ring(), ring().header());
    let image = IMAGE.load(Ordering::Relaxed);
    let owner = Owner { process: number(), image, thread, pid: PID.load(Ordering::Relaxed) };
    while !ring.aborted() {
        header.writers_asleep.fetch_add(1, Ordering::SeqCst);
        let before = header.releases.0.load(Ordering::SeqCst);
        let taken = ring.acquire(kind, owner);
        if taken.is_none() {
            wake_reader();
            let timeout = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            // SAFETY: the word lies in the ring, which stays mapped.
            let result = unsafe {
                libc::syscall(libc::SYS_futex, header.releases.0.as_ptr(), libc::FUTEX_WAIT, before, &timeout)
            };
            if result < 0 && !reader_lives() {
                header.abort.0.store(1, Ordering::Relaxed);
            }
        }
        header.writers_asleep.fetch_sub(1, Ordering::SeqCst);
        if let Some(buffer) = taken {
            return buffer;
        }
    }
    SCRATCH.discard();
    &SCRATCH
}

/// Returns whether the reader is alive, as far as this process can tell.
fn reader_lives() -> bool {
    if !SEES_READER.load(Ordering::Relaxed) {
        return true;
    }
    let reader = ring().header().reader.load(Ordering::Relaxed);
    // SAFETY: signal 0 only checks that the process exists; errno belongs to this thread.
    unsafe { libc::kill(reader as i32, 0) == 0 || *libc::__errno_location() != libc::ESRCH }
}

fn wake_reader() {
    let header = ring().header();
    if header.reader_sleeps.load(Ordering::SeqCst) != 0 {
        // SAFETY: the word lies in the ring, which stays mapped.
        unsafe { libc::syscall(libc::SYS_futex, header.publications.0.as_ptr(), libc::FUTEX_WAKE, 1) };
    }
}

/// Publishes a stream, after the definitions of all blocks that it may name.
pub fn publish(stream: &Buffer) {
    DICTIONARY.with(publish_dictionary);
    publish_buffer(stream);
}

fn publish_dictionary(open: &mut Option<&'static Buffer>) {
    if let Some(dictionary) = open.take() {
        publish_buffer(dictionary);
    }
}

fn publish_buffer(buffer: &Buffer) {
    if std::ptr::eq(buffer, &SCRATCH) {
        return;
    }
    ring().publish(buffer);
    wake_reader();
}

/// Adds a definition to the dictionary.
pub fn define(words: &[u64]) {
    DICTIONARY.with(|open| {
        if open.is_some_and(|dictionary| dictionary.push_all(words)) {
            return;
        }
        publish_dictionary(open);
        let fresh = acquire(BufferKind::Dictionary, 0);
        fresh.push_all(words);
        *open = Some(fresh);
    });
}

/// Locks the dictionary before a fork, so that no other thread holds the lock in the child.
pub fn hold_dictionary() -> Held<'static> {
    DICTIONARY.hold()
}

/// Returns the position of the thread that writes `buffer`; `None` when no thread of this process has written to it.
pub fn fence_entry(buffer: &Buffer) -> Option<FenceEntry> {
    let mine = buffer.kind() == BufferKind::Stream && buffer.owner().process == number();
    let entry =
        FenceEntry { buffer: ring().index(buffer), generation: buffer.generation(), cursor: buffer.cursor() as u32 };
    (mine && entry.cursor > 0).then_some(entry)
}
