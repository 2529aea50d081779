//! Which process of the tree this is, its dealings with the ring, and forking.

use crate::lock::Lock;
use crate::{lane, touched, vfork};
use reach_core::ring::{Buffer, BufferKind, Emulator, FenceEntry, Message, Owner, Ring};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static RING: OnceLock<Ring> = OnceLock::new();
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
static NUMBER: AtomicU32 = AtomicU32::new(0);
static IMAGE: AtomicU32 = AtomicU32::new(0);
static PID: AtomicU32 = AtomicU32::new(0);
static FINISHED: AtomicBool = AtomicBool::new(false);

/// What is written here nobody reads: for the time after the reader has gone.
static SCRATCH: Buffer = Buffer::full();

/// The process's open dictionary.
static DICTIONARY: Lock<Option<&'static Buffer>> = Lock::new(None);

/// Finds the ring and the process's place in the tree in the plugin's arguments, which are those of
/// [`Emulator::arguments`]. `false`: there is no ring any more, and the program goes on without.
pub fn enter(args: &[&[u8]]) -> Result<bool, String> {
    let value = |name: &str| {
        let found = args.iter().find_map(|arg| arg.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        found.ok_or_else(|| format!("the plugin's argument `{name}=` is missing; start it by `reach`"))
    };
    let number = |name| {
        let text = std::str::from_utf8(value(name)?).ok().and_then(|text| text.parse::<u32>().ok());
        text.ok_or_else(|| format!("the plugin's argument `{name}=` is not a number"))
    };
    let path = |name| value(name).map(|bytes| Path::new(OsStr::from_bytes(bytes)));
    let ring = match attach(path("ring")?) {
        // The reader was there just before the exec, and was killed since.
        Err(_) if number("after_exec")? != 0 => return Ok(false),
        ring => ring?,
    };
    let program = std::path::absolute(path("program")?).map_err(|why| format!("the program's path: {why}"))?;
    RING.set(ring).map_err(|_| "the plugin was loaded twice".to_owned())?;
    PROGRAM.get_or_init(|| program);
    NUMBER.store(number("process")?, Ordering::Relaxed);
    IMAGE.store(ring.header().next_image.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    PID.store(own_pid(), Ordering::Relaxed);
    lane::adopt(0, number("thread")?);
    // SAFETY: the handlers are functions without arguments that never unwind.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child)) };
    Ok(true)
}

fn open(ring: &Path) -> Result<File, String> {
    let file = File::options().read(true).write(true).open(ring);
    file.map_err(|why| format!("{}: {why}; has the reader of the references ended?", ring.display()))
}

/// Whether a new emulator would find the ring; why not, otherwise.
pub fn attachable(emulator: &Emulator) -> Result<(), String> {
    if ring().aborted() {
        return Err("capture has ended".into());
    }
    open(&emulator.ring).map(drop)
}

fn attach(path: &Path) -> Result<Ring, String> {
    let file = open(path)?;
    let say = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let len = file.metadata().map_err(|e| say(&e))?.len() as usize;
    // The kernel aligns mappings to pages only: take too much, then map at the first aligned address within.
    let align = reach_core::ring::BUFFER_BYTES;
    // SAFETY: a fresh reservation, then a mapping of the file inside it; both are checked and neither is ever unmapped.
    unsafe {
        let held = libc::mmap(null_mut(), len + align, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        if held == libc::MAP_FAILED {
            return Err(say(&std::io::Error::last_os_error()));
        }
        let base = (held as usize).next_multiple_of(align) as *mut libc::c_void;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let base = libc::mmap(base, len, rights, libc::MAP_SHARED | libc::MAP_FIXED, file.as_raw_fd(), 0);
        if base == libc::MAP_FAILED {
            return Err(say(&std::io::Error::last_os_error()));
        }
        Ring::attach(base.cast(), len).ok_or_else(|| say(&"this is no ring of this version"))
    }
}

/// The ring. `enter` succeeded before any callback was registered.
pub fn ring() -> &'static Ring {
    RING.get().expect("callbacks are registered only after the ring was attached")
}

/// The image that the process runs.
pub fn program() -> &'static Path {
    PROGRAM.get().map_or(Path::new(""), PathBuf::as_path)
}

/// What new emulators are started with.
pub fn emulator() -> Option<Emulator> {
    Emulator::from_bytes(&ring().options())
}

/// The process's number in the tree.
pub fn number() -> u32 {
    NUMBER.load(Ordering::Relaxed)
}

/// A number for a new thread.
pub fn next_thread() -> u32 {
    ring().header().next_thread.fetch_add(1, Ordering::Relaxed)
}

/// The process as the mounted /proc has it: the reader's view even where the program made itself a PID namespace.
fn own_pid() -> u32 {
    let linked = std::fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
    linked.unwrap_or_else(std::process::id)
}

/// A free buffer; waits for one. When the reader is gone, memory that nobody will read.
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
            // SAFETY: the word lives in the ring, which stays mapped.
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
    // SAFETY: signal 0 only asks.
    unsafe { libc::kill(reader as i32, 0) == 0 || *libc::__errno_location() != libc::ESRCH }
}

fn wake_reader() {
    let header = ring().header();
    if header.reader_sleeps.load(Ordering::SeqCst) != 0 {
        // SAFETY: the word lives in the ring, which stays mapped.
        unsafe { libc::syscall(libc::SYS_futex, header.publications.0.as_ptr(), libc::FUTEX_WAKE, 1) };
    }
}

/// Hands a stream to the reader, and before it every block that it may name.
pub fn publish(stream: &Buffer) {
    DICTIONARY.with(publish_dictionary);
    hand_over(stream);
}

fn publish_dictionary(open: &mut Option<&'static Buffer>) {
    if let Some(dictionary) = open.take() {
        hand_over(dictionary);
    }
}

fn hand_over(buffer: &Buffer) {
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

/// How far the thread that writes `buffer` has come; `None` when there is no such thread.
pub fn fence_entry(buffer: &Buffer) -> Option<FenceEntry> {
    let mine = buffer.kind() == BufferKind::Stream && buffer.owner().process == number();
    let entry =
        FenceEntry { buffer: ring().index(buffer), generation: buffer.generation(), cursor: buffer.cursor() as u32 };
    (mine && entry.cursor > 0).then_some(entry)
}

/// The process ends: says so, once.
pub fn finish(vcpu: u32) {
    if !FINISHED.swap(true, Ordering::Relaxed) {
        lane::fence(vcpu);
        lane::send(vcpu, &Message::Exit);
        lane::publish(vcpu);
    }
}

/// The child's number is fixed and told before it exists, so that nothing of it can come earlier.
extern "C" fn before_fork() {
    let vcpu = lane::current();
    let child = ring().header().next_process.fetch_add(1, Ordering::Relaxed);
    lane::of(vcpu).forking.set(child + 1);
    lane::fence(vcpu);
    let shares_memory = lane::of(vcpu).lends.get();
    if shares_memory {
        vfork::before();
    }
    lane::send(vcpu, &Message::Fork { child, shares_memory });
    lane::publish(vcpu);
    DICTIONARY.take();
}

extern "C" fn after_fork_in_parent() {
    DICTIONARY.release();
    lane::of(lane::current()).lent.set(vfork::in_parent());
}

extern "C" fn after_fork_in_child() {
    DICTIONARY.release();
    vfork::in_child();
    touched::forget();
    // The open dictionary is the parent's.
    DICTIONARY.with(|open| *open = None);
    let vcpu = lane::current();
    let header = ring().header();
    NUMBER.store(lane::of(vcpu).forking.get() - 1, Ordering::Relaxed);
    IMAGE.store(header.next_image.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    PID.store(own_pid(), Ordering::Relaxed);
    FINISHED.store(false, Ordering::Relaxed);
    lane::forget_all(vcpu, next_thread());
    // The reader learns of the process from its first buffer.
    lane::open(vcpu);
    let lane = lane::of(vcpu);
    touched::tell(vcpu, lane.child_tid.get(), 4, true);
    touched::tell(vcpu, lane.rseq.get(), 32, true);
}
