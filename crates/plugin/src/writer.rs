//! This process as a writer of the ring: its identity in the traced tree, its buffers, and its dictionary of blocks.

use reach_core::lock::{Held, Lock};
use reach_core::ring::{Buffer, BufferKind, Emulator, FenceEntry, Memory, Owner, Ring};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// Maps the ring at `path`. The mapping stays as long as the process.
///
/// # Errors
/// When the ring cannot be opened or mapped, or has another version.
pub fn map_ring(path: &Path) -> Result<Ring, String> {
    let memory = Memory::map(&open(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    Ring::attach(memory).ok_or_else(|| format!("{}: this is not a ring of this version of reach", path.display()))
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

/// Checks that a new emulator would find the ring.
///
/// # Errors
/// When capture has ended, or the process can no longer open the ring.
pub fn check_ring(emulator: &Emulator) -> Result<(), String> {
    if ring().aborted() {
        return Err("capture has ended".into());
    }
    open(&emulator.ring).map(drop)
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

fn reader_lives() -> bool {
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
