//! Lanes: the virtual processors of the emulator. A lane is one live thread of the program; its number is reused after
//! the thread has ended.

use crate::writer;
use reach_core::lock::RawLock;
use reach_core::ring::{Buffer, BufferKind, BufferSlot, Message};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The most live threads of a process.
const MAX_LANES: usize = 1 << 14;

/// A full buffer, for lanes without a buffer.
static FULL: Buffer = Buffer::full();

/// The buffer of each lane, for the hot path.
static BUFFERS: [BufferSlot; MAX_LANES] = [const { BufferSlot::new(&FULL) }; MAX_LANES];

/// One more than the greatest lane number so far.
static LANES_SEEN: AtomicU32 = AtomicU32::new(0);

/// Serialises changes of the address space, each from the entry of its system call to its message. Messages thus come
/// in the order in which the kernel made the changes.
pub static MAPPING: RawLock = RawLock::new();

/// A word of a lane's state. One thread uses it at a time; it is an atomic, so that this need not be believed.
pub struct Word(AtomicU64);

/// The state of a lane. The lane's thread uses it; in a forked child, the only thread also resets that of others.
pub struct Lane {
    /// The thread's number plus one; 0 before its first record.
    thread: Word,
    /// Arguments of its current system call.
    arguments: [Word; 6],
    /// 1 if it holds [`MAPPING`].
    pub holds_mapping: Word,
    /// Number of the child that it is forking, plus one; 0 for none.
    pub forking: Word,
    /// 1 if that child shares its memory (vfork).
    pub shares_memory: Word,
    /// Address at which the kernel writes the child's number in the child's memory; 0 for none.
    pub child_tid: Word,
    /// Its area for restartable sequences (rseq), which Linux writes in a new child before the child runs; 0 for none.
    pub rseq: Word,
    /// The pipe on which it waits until that child no longer uses its memory, plus one; 0 for none.
    pub vfork_pipe: Word,
}

impl Word {
    const fn zero() -> Word {
        Word(AtomicU64::new(0))
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, value: impl Into<u64>) {
        self.0.store(value.into(), Ordering::Relaxed);
    }

    /// Sets the word to 0, and returns what it was.
    pub fn take(&self) -> u64 {
        let value = self.get();
        self.set(0u64);
        value
    }
}

impl Lane {
    pub fn arguments(&self) -> [u64; 6] {
        std::array::from_fn(|at| self.arguments[at].get())
    }

    pub fn set_arguments(&self, arguments: [u64; 6]) {
        self.arguments.iter().zip(arguments).for_each(|(word, argument)| word.set(argument));
    }
}

static ALL: [Lane; MAX_LANES] = [const {
    Lane {
        thread: Word::zero(),
        arguments: [const { Word::zero() }; 6],
        holds_mapping: Word::zero(),
        forking: Word::zero(),
        shares_memory: Word::zero(),
        child_tid: Word::zero(),
        rseq: Word::zero(),
        vfork_pipe: Word::zero(),
    }
}; MAX_LANES];

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

/// Returns the state of lane `vcpu`, for the lane's thread.
pub fn of(vcpu: u32) -> &'static Lane {
    &ALL[vcpu as usize % MAX_LANES]
}

/// Returns the slot of lane `vcpu`. [`start`] has refused numbers that do not fit.
#[inline(always)]
fn slot(vcpu: u32) -> &'static BufferSlot {
    &BUFFERS[vcpu as usize % MAX_LANES]
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
    slot(vcpu).set(&FULL);
}

/// Publishes what the lane's thread wrote, and forgets the thread.
pub fn end(vcpu: u32) {
    publish(vcpu);
    of(vcpu).thread.take();
    of(vcpu).rseq.take();
}

/// Appends one record to the lane's stream.
#[inline(always)]
pub fn record(vcpu: u32, word: u64) {
    if !slot(vcpu).own().push(word) {
        refill(vcpu, &[word]);
    }
}

/// Appends a message to the lane's stream.
pub fn send(vcpu: u32, message: &Message) {
    let words = message.encode();
    if !slot(vcpu).own().push_all(&words) {
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
    slot(vcpu).set(fresh);
}

/// Publishes what the lane wrote, after the definitions of its blocks.
pub fn publish(vcpu: u32) {
    let buffer = slot(vcpu).own();
    if std::ptr::eq(buffer, &FULL) || buffer.cursor() == 0 {
        return;
    }
    writer::publish(buffer);
    slot(vcpu).set(&FULL);
}

/// Orders everything that the process's other threads have written before what this lane writes next. Call it with
/// [`MAPPING`] held.
pub fn fence(vcpu: u32) {
    let others = (0..LANES_SEEN.load(Ordering::Relaxed)).filter(|&other| other != vcpu).map(|other| slot(other).get());
    let entries: Vec<_> = others.filter_map(writer::fence_entry).collect();
    for part in entries.chunks(1000) {
        send(vcpu, &Message::Fence(part.to_vec()));
    }
}

/// Resets all lanes in a forked child, whose only thread is lane `vcpu` with the new number `thread`.
pub fn forget_all(vcpu: u32, thread: u32) {
    for other in 0..LANES_SEEN.load(Ordering::Relaxed) {
        slot(other).set(&FULL);
        of(other).thread.take();
    }
    let lane = of(vcpu);
    lane.thread.set(thread + 1);
    for word in [&lane.forking, &lane.shares_memory, &lane.vfork_pipe, &lane.holds_mapping] {
        word.take();
    }
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
    lane.thread.get() as u32 - 1
}
