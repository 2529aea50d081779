//! Lanes: the virtual processors of the emulator. A lane is one live thread of the program; its number is reused after
//! the thread has ended.

use crate::lock::Lock;
use crate::writer;
use reach_core::ring::{Buffer, BufferKind, Message};
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The most live threads of a process.
const MAX_LANES: usize = 1 << 14;

/// A full buffer, for lanes without a buffer.
static FULL: Buffer = Buffer::full();

/// The buffer of each lane, for the hot path. Null before the lane's first thread.
static BUFFERS: [AtomicPtr<Buffer>; MAX_LANES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_LANES];

/// One more than the greatest lane number so far.
static LANES_SEEN: AtomicU32 = AtomicU32::new(0);

/// Serialises changes of the address space, each from the entry of its system call to its message. Messages thus come
/// in the order in which the kernel made the changes.
pub static MAPPING: Lock<()> = Lock::new(());

/// The state of a lane. Only the lane's thread accesses it.
pub struct Lane {
    /// The thread's number plus one; 0 before its first record.
    thread: Cell<u32>,
    /// Arguments of its current system call.
    pub arguments: Cell<[u64; 6]>,
    /// Whether it holds [`MAPPING`].
    pub holds_mapping: Cell<bool>,
    /// Number of the child that it is forking, plus one; 0 for none.
    pub forking: Cell<u32>,
    /// Whether that child shares its memory (vfork).
    pub shares_memory: Cell<bool>,
    /// Address at which the kernel writes the child's number in the child's memory; 0 for none.
    pub child_tid: Cell<u64>,
    /// Its area for restartable sequences (rseq), which Linux writes in a new child before the child runs; 0 for none.
    pub rseq: Cell<u64>,
    /// The pipe on which it waits until that child no longer uses its memory.
    pub vfork_pipe: Cell<Option<i32>>,
}

struct Lanes([Lane; MAX_LANES]);

// SAFETY: each element belongs to one thread at a time. The emulator reuses a number only after its thread has ended.
unsafe impl Sync for Lanes {}

static ALL: Lanes = Lanes(
    [const {
        Lane {
            thread: Cell::new(0),
            arguments: Cell::new([0; 6]),
            holds_mapping: Cell::new(false),
            forking: Cell::new(0),
            shares_memory: Cell::new(false),
            child_tid: Cell::new(0),
            rseq: Cell::new(0),
            vfork_pipe: Cell::new(None),
        }
    }; MAX_LANES],
);

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// Returns the lane of the calling thread, as of its last system call.
pub fn current() -> u32 {
    CURRENT.get()
}

/// Sets the lane of the calling thread.
pub fn set_current(vcpu: u32) {
    CURRENT.set(vcpu);
}

/// Returns the state of lane `vcpu`. Only the lane's thread may call this.
pub fn of(vcpu: u32) -> &'static Lane {
    &ALL.0[vcpu as usize % MAX_LANES]
}

/// Returns whether a thread has started.
pub fn any_started() -> bool {
    LANES_SEEN.load(Ordering::Relaxed) != 0
}

/// Prepares lane `vcpu` for a new thread. Aborts the process when it has too many threads.
pub fn start(vcpu: u32) {
    if vcpu as usize >= MAX_LANES {
        eprintln!("reach: cannot capture: more than {MAX_LANES} threads at a time; capture a run with fewer");
        std::process::abort();
    }
    LANES_SEEN.fetch_max(vcpu + 1, Ordering::Relaxed);
    BUFFERS[vcpu as usize].store((&raw const FULL).cast_mut(), Ordering::Release);
}

/// Publishes what the lane's thread wrote, and forgets the thread.
pub fn end(vcpu: u32) {
    publish(vcpu);
    of(vcpu).thread.set(0);
    of(vcpu).rseq.set(0);
}

/// Appends one record to the lane's stream.
#[inline(always)]
pub fn record(vcpu: u32, word: u64) {
    // SAFETY: `start` ran for this lane, so the number is below MAX_LANES and the pointer is that of a buffer.
    let buffer = unsafe { &*BUFFERS.get_unchecked(vcpu as usize).load(Ordering::Relaxed) };
    if !buffer.push(word) {
        refill(vcpu, &[word]);
    }
}

/// Appends a message to the lane's stream.
pub fn send(vcpu: u32, message: &Message) {
    let words = message.encode();
    if !buffer(vcpu).push_all(&words) {
        refill(vcpu, &words);
    }
}

/// Gives the lane a new buffer, and so announces a new process to the reader.
pub fn open(vcpu: u32) {
    refill(vcpu, &[]);
}

/// Publishes the lane's buffer, and appends `words` to a new one.
#[cold]
#[inline(never)]
fn refill(vcpu: u32, words: &[u64]) {
    publish(vcpu);
    let fresh = writer::acquire(BufferKind::Stream, thread(vcpu));
    fresh.push_all(words);
    BUFFERS[vcpu as usize].store(std::ptr::from_ref(fresh).cast_mut(), Ordering::Release);
}

fn buffer(vcpu: u32) -> &'static Buffer {
    // SAFETY: a lane's pointer is null, that of `FULL`, or that of a buffer of the ring; all of them live for ever.
    unsafe { BUFFERS[vcpu as usize % MAX_LANES].load(Ordering::Acquire).as_ref() }.unwrap_or(&FULL)
}

/// Publishes what the lane wrote, after the definitions of its blocks.
pub fn publish(vcpu: u32) {
    let buffer = buffer(vcpu);
    if std::ptr::eq(buffer, &FULL) || buffer.cursor() == 0 {
        return;
    }
    writer::publish(buffer);
    BUFFERS[vcpu as usize].store((&raw const FULL).cast_mut(), Ordering::Release);
}

/// Orders everything that the process's other threads have written before what this lane writes next. Call it with
/// [`MAPPING`] held.
pub fn fence(vcpu: u32) {
    let others = (0..LANES_SEEN.load(Ordering::Relaxed)).filter(|&other| other != vcpu).map(buffer);
    let entries: Vec<_> = others.filter_map(writer::fence_entry).collect();
    for part in entries.chunks(1000) {
        send(vcpu, &Message::Fence(part.to_vec()));
    }
}

/// Resets all lanes in a forked child, whose only thread is lane `vcpu` with the new number `thread`.
pub fn forget_all(vcpu: u32, thread: u32) {
    for other in 0..LANES_SEEN.load(Ordering::Relaxed) {
        BUFFERS[other as usize].store((&raw const FULL).cast_mut(), Ordering::Relaxed);
        of(other).thread.set(0);
    }
    let lane = of(vcpu);
    lane.thread.set(thread + 1);
    lane.forking.set(0);
    lane.shares_memory.set(false);
    lane.vfork_pipe.set(None);
    lane.holds_mapping.set(false);
    MAPPING.release();
}

/// Gives the lane a thread number that an earlier image of the process had.
pub fn adopt(vcpu: u32, thread: u32) {
    of(vcpu).thread.set(thread + 1);
}

/// Returns the number of the lane's thread, and takes one if it has none.
pub fn thread(vcpu: u32) -> u32 {
    let lane = of(vcpu);
    if lane.thread.get() == 0 {
        lane.thread.set(writer::next_thread() + 1);
    }
    lane.thread.get() - 1
}
