//! A lane is a virtual processor of the emulator: one live thread of the program. Its number is used again when the
//! thread has ended.

use crate::lock::Lock;
use crate::{api, image, process};
use reach_core::ring::{Buffer, BufferKind, Message};
use std::cell::Cell;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// How many threads a process may have at a time.
const LANES: usize = 1 << 14;

/// Takes nothing; stands where a lane has no buffer.
static FULL: Buffer = Buffer::full();

/// The buffer that each lane writes; what the hot path reads. Null before the lane's first thread.
static BUFFERS: [AtomicPtr<Buffer>; LANES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; LANES];

/// One more than the greatest lane that ever was.
static LANES_SEEN: AtomicU32 = AtomicU32::new(0);

/// Changes of the address space happen one at a time, from the system call's entry to its message, so that messages come in
/// the order in which the kernel did the work.
pub static MAPPING: Lock<()> = Lock::new(());

/// What a lane's thread is doing; only that thread touches it.
pub struct Lane {
    /// The thread's number plus one; 0 before its first record.
    thread: Cell<u32>,
    /// Arguments of the system call that it is in.
    pub arguments: Cell<[u64; 6]>,
    /// It holds [`MAPPING`].
    pub holds_mapping: Cell<bool>,
    /// Number of the child that it is forking, plus one.
    pub forking: Cell<u32>,
    /// That child is to share its memory.
    pub lends: Cell<bool>,
    /// Where the kernel is to write the child's number in the child's memory; 0: nowhere.
    pub child_tid: Cell<u64>,
    /// Its area for restartable sequences (rseq), which a real kernel writes in a new child before it runs; 0: none.
    pub rseq: Cell<u64>,
    /// Where it waits until that child has left its memory.
    pub lent: Cell<Option<i32>>,
}

struct Lanes([Lane; LANES]);

// SAFETY: each element belongs to one thread at a time, and the emulator hands a number on only after the thread ended.
unsafe impl Sync for Lanes {}

static ALL: Lanes = Lanes(
    [const {
        Lane {
            thread: Cell::new(0),
            arguments: Cell::new([0; 6]),
            holds_mapping: Cell::new(false),
            forking: Cell::new(0),
            lends: Cell::new(false),
            child_tid: Cell::new(0),
            rseq: Cell::new(0),
            lent: Cell::new(None),
        }
    }; LANES],
);

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// The lane of the calling thread, as of its last system call.
pub fn current() -> u32 {
    CURRENT.get()
}

/// Notes which lane the calling thread is.
pub fn set_current(vcpu: u32) {
    CURRENT.set(vcpu);
}

/// What the thread of `vcpu` is doing. To be called by that thread only.
pub fn of(vcpu: u32) -> &'static Lane {
    &ALL.0[vcpu as usize % LANES]
}

/// A thread is about to start.
pub extern "C" fn on_start(_: api::Id, vcpu: c_uint) {
    if vcpu as usize >= LANES {
        eprintln!("reach: cannot capture: more than {LANES} threads at a time; capture a run with fewer");
        std::process::abort();
    }
    if LANES_SEEN.load(Ordering::Relaxed) == 0 {
        image::at_first_thread();
    }
    LANES_SEEN.fetch_max(vcpu + 1, Ordering::Relaxed);
    BUFFERS[vcpu as usize].store((&raw const FULL).cast_mut(), Ordering::Release);
}

/// A thread has ended.
pub extern "C" fn on_exit(_: api::Id, vcpu: c_uint) {
    end(vcpu);
}

/// Hands over what the thread wrote and forgets the thread.
pub fn end(vcpu: u32) {
    publish(vcpu);
    of(vcpu).thread.set(0);
    of(vcpu).rseq.set(0);
}

/// Appends one record to the lane's stream.
#[inline(always)]
pub fn record(vcpu: u32, word: u64) {
    // SAFETY: `on_start` ran for this lane, so the number is below LANES and the pointer is that of a buffer.
    let buffer = unsafe { &*BUFFERS.get_unchecked(vcpu as usize).load(Ordering::Relaxed) };
    if !buffer.push(word) {
        refill(vcpu, &[word]);
    }
}

/// Appends a message.
pub fn send(vcpu: u32, message: &Message) {
    let words = message.encode();
    if !writing(vcpu).push_all(&words) {
        refill(vcpu, &words);
    }
}

/// Gives the lane a buffer if it has none: makes this process known to the reader.
pub fn open(vcpu: u32) {
    refill(vcpu, &[]);
}

#[cold]
#[inline(never)]
fn refill(vcpu: u32, words: &[u64]) {
    publish(vcpu);
    let lane = of(vcpu);
    if lane.thread.get() == 0 {
        lane.thread.set(process::next_thread() + 1);
    }
    let fresh = process::acquire(BufferKind::Stream, lane.thread.get() - 1);
    fresh.push_all(words);
    BUFFERS[vcpu as usize].store(std::ptr::from_ref(fresh).cast_mut(), Ordering::Release);
}

fn writing(vcpu: u32) -> &'static Buffer {
    // SAFETY: a lane's pointer is null, that of `FULL`, or that of a buffer of the ring; none of them goes away.
    unsafe { BUFFERS[vcpu as usize % LANES].load(Ordering::Acquire).as_ref() }.unwrap_or(&FULL)
}

/// Hands what the lane wrote to the reader, definitions of blocks first.
pub fn publish(vcpu: u32) {
    let buffer = writing(vcpu);
    if std::ptr::eq(buffer, &FULL) || buffer.cursor() == 0 {
        return;
    }
    process::publish(buffer);
    BUFFERS[vcpu as usize].store((&raw const FULL).cast_mut(), Ordering::Release);
}

/// Marks how far the process's other threads have come: that comes first. The caller should hold [`MAPPING`].
pub fn fence(vcpu: u32) {
    let others = (0..LANES_SEEN.load(Ordering::Relaxed)).filter(|&other| other != vcpu).map(writing);
    let entries: Vec<_> = others.filter_map(process::fence_entry).collect();
    for part in entries.chunks(1000) {
        send(vcpu, &Message::Fence(part.to_vec()));
    }
}

/// In a forked child: no thread but this one is left, and it is a new one.
pub fn forget_all(vcpu: u32, thread: u32) {
    for other in 0..LANES_SEEN.load(Ordering::Relaxed) {
        BUFFERS[other as usize].store((&raw const FULL).cast_mut(), Ordering::Relaxed);
        of(other).thread.set(0);
    }
    let lane = of(vcpu);
    lane.thread.set(thread + 1);
    lane.forking.set(0);
    lane.lends.set(false);
    lane.lent.set(None);
    lane.holds_mapping.set(false);
    MAPPING.release();
}

/// Adopts a thread number that an earlier image of the process had.
pub fn adopt(vcpu: u32, thread: u32) {
    of(vcpu).thread.set(thread + 1);
}

/// The number of the lane's thread.
pub fn thread(vcpu: u32) -> u32 {
    let lane = of(vcpu);
    if lane.thread.get() == 0 {
        lane.thread.set(process::next_thread() + 1);
    }
    lane.thread.get() - 1
}
