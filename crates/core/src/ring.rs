//! The shared memory through which traced processes hand their references to the reader: layout and atomics only.
//! Waiting, mapping and process matters belong to the two sides that use it.
//!
//! One mapping serves a whole tree of processes. It holds a [`Header`] and a pool of fixed-size [`Buffer`]s. A writer
//! takes a free buffer, fills it, and publishes it; the reader takes published buffers in the order of publication and
//! frees them. Both lists are stacks of linked buffers, changed by one compare-and-swap, so a writer that is killed at
//! any instruction leaves them whole. The write cursor lives in the buffer as well, so what was written before a sudden
//! death can be read afterwards from the buffers that the dead process still owned.
//!
//! Two kinds of buffers exist. A *stream* belongs to one thread and holds [`record`]s in program order. A *dictionary*
//! belongs to one process and holds the blocks that its translator met. A writer publishes its dictionary before any
//! stream that may name blocks of it, so the reader always meets definitions first.

mod buffer;
mod emulator;
mod message;
pub mod record;
mod words;

pub use buffer::{Buffer, BufferKind, Owner};
pub use emulator::{Emulator, Executable, ProcessIdentity, inspect_executable};
pub use message::{FenceEntry, FileKey, Message};
pub use words::{define_block, read_block};

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// First word of the mapping; changes whenever the layout does.
pub const MAGIC: u64 = u64::from_le_bytes(*b"reachr02");

/// Bytes of a buffer, its header included.
pub const BUFFER_BYTES: usize = 1 << 16;

/// Words that a buffer holds for its owner.
pub const BUFFER_WORDS: usize = BUFFER_BYTES / 8 - 8;

/// Bytes for the strings with which processes start further emulators ([`Emulator`]).
const OPTION_BYTES: usize = 1 << 15;

/// A word on a cache line of its own.
#[repr(C, align(64))]
#[derive(Default)]
pub struct CacheLine<T>(pub T);

/// The start of the mapping.
#[repr(C, align(65536))]
pub struct Header {
    magic: AtomicU64,
    buffers: AtomicU32,
    /// How many buffers have ever been put on the free list; the rest of the mapping waits for a shortage.
    pub in_use: AtomicU32,
    /// Process of the reader.
    pub reader: AtomicU32,
    /// Set by either side when capture ends early; writers then stop recording and programs go on.
    pub abort: CacheLine<AtomicU32>,
    /// The next block number; they start at 1, so that 0 can stand for none.
    pub next_block: CacheLine<AtomicU32>,
    /// The next process number.
    pub next_process: AtomicU32,
    /// The next thread number.
    pub next_thread: AtomicU32,
    /// The next image number.
    pub next_image: AtomicU32,
    free: CacheLine<AtomicU64>,
    published: CacheLine<AtomicU32>,
    /// Counts publications; the reader sleeps on it.
    pub publications: CacheLine<AtomicU32>,
    /// The reader sleeps.
    pub reader_sleeps: AtomicU32,
    /// Counts freed buffers; writers without one sleep on it.
    pub releases: CacheLine<AtomicU32>,
    /// How many writers sleep.
    pub writers_asleep: AtomicU32,
    option_bytes: AtomicU32,
    options: [AtomicU64; OPTION_BYTES / 8],
}

/// A mapping that holds a ring. It borrows the memory and never unmaps it.
#[derive(Clone, Copy)]
pub struct Ring {
    header: &'static Header,
    buffers: &'static [Buffer],
}

impl Ring {
    /// Bytes of a mapping with room for `buffers` buffers.
    pub const fn bytes(buffers: usize) -> usize {
        size_of::<Header>() + buffers * BUFFER_BYTES
    }

    /// Sets up a ring in fresh memory: `ready` of its buffers are free, the rest wait for [`Ring::grow`].
    ///
    /// # Safety
    /// `base` must be 64 KiB aligned, start `Ring::bytes(buffers)` zeroed bytes of readable and writable memory, and
    /// stay mapped as long as any copy of the ring is used.
    pub unsafe fn create(base: *mut u8, buffers: usize, ready: usize) -> Ring {
        // SAFETY: the caller promises the memory; every field is an atomic, for which zero is a value.
        let ring = unsafe { Ring::at(base, buffers) };
        ring.header.next_block.0.store(1, Ordering::Relaxed);
        ring.header.buffers.store(buffers as u32, Ordering::Relaxed);
        ring.grow(ready);
        ring.header.magic.store(MAGIC, Ordering::Release);
        ring
    }

    /// The ring that `create` set up at `base`, perhaps in another process; `None` when the `len` bytes hold none.
    ///
    /// # Safety
    /// As for [`Ring::create`], with `len` bytes.
    pub unsafe fn attach(base: *mut u8, len: usize) -> Option<Ring> {
        if len < size_of::<Header>() || !(base as usize).is_multiple_of(BUFFER_BYTES) {
            return None;
        }
        // SAFETY: the header lies within the `len` bytes.
        let header = unsafe { &*base.cast::<Header>() };
        let buffers = header.buffers.load(Ordering::Relaxed) as usize;
        let sound = header.magic.load(Ordering::Acquire) == MAGIC && Ring::bytes(buffers) <= len;
        // SAFETY: the length was just checked.
        sound.then(|| unsafe { Ring::at(base, buffers) })
    }

    unsafe fn at(base: *mut u8, buffers: usize) -> Ring {
        debug_assert!((base as usize).is_multiple_of(BUFFER_BYTES));
        // SAFETY: both callers were promised, or have checked, that header and buffers lie in mapped memory.
        unsafe {
            Ring {
                header: &*base.cast::<Header>(),
                buffers: std::slice::from_raw_parts(base.add(size_of::<Header>()).cast::<Buffer>(), buffers),
            }
        }
    }

    /// The shared counters.
    pub fn header(&self) -> &'static Header {
        self.header
    }

    /// A buffer by its number.
    pub fn buffer(&self, index: u32) -> Option<&'static Buffer> {
        self.buffers.get(index as usize)
    }

    /// The number of a buffer of this ring.
    pub fn index(&self, buffer: &Buffer) -> u32 {
        ((buffer as *const Buffer as usize - self.buffers.as_ptr() as usize) / BUFFER_BYTES) as u32
    }

    /// Whether capture has ended early.
    pub fn aborted(&self) -> bool {
        self.header.abort.0.load(Ordering::Relaxed) != 0
    }

    /// Adds up to `more` unused buffers to the free list; returns how many. Only the reader may call it.
    pub fn grow(&self, more: usize) -> usize {
        let from = self.header.in_use.load(Ordering::Relaxed) as usize;
        let to = (from + more).min(self.buffers.len());
        for index in (from..to).rev() {
            self.release(index as u32);
        }
        self.header.in_use.store(to as u32, Ordering::Release);
        to - from
    }

    /// Takes a free buffer for `owner`; `None` when there is none now.
    pub fn acquire(&self, kind: BufferKind, owner: Owner) -> Option<&'static Buffer> {
        let list = &self.header.free.0;
        let mut head = list.load(Ordering::Acquire);
        let buffer = loop {
            let buffer = self.buffers.get((head as u32).checked_sub(1)? as usize)?;
            // The count in the upper half changes with every take, so a head that came back is not taken for the old.
            let next = (head >> 32).wrapping_add(1) << 32 | u64::from(buffer.link.load(Ordering::Relaxed));
            match list.compare_exchange_weak(head, next, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => break buffer,
                Err(now) => head = now,
            }
        };
        buffer.cursor.store(0, Ordering::Relaxed);
        buffer.process.store(owner.process, Ordering::Relaxed);
        buffer.image.store(owner.image, Ordering::Relaxed);
        buffer.thread.store(owner.thread, Ordering::Relaxed);
        buffer.pid.store(owner.pid, Ordering::Relaxed);
        buffer.generation.fetch_add(1, Ordering::Release);
        buffer.kind.store(kind as u32, Ordering::Release);
        Some(buffer)
    }

    /// Hands a filled buffer to the reader. The caller must not write it again.
    pub fn publish(&self, buffer: &Buffer) {
        let mine = self.index(buffer) + 1;
        let list = &self.header.published.0;
        let mut head = list.load(Ordering::Relaxed);
        loop {
            buffer.link.store(head, Ordering::Relaxed);
            match list.compare_exchange_weak(head, mine, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        // Sequentially consistent on both sides: either the reader sees the count or the writer sees it asleep.
        self.header.publications.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Appends the numbers of all buffers published since the last call to `order`, first published first. Only the
    /// reader may call it.
    pub fn take_published(&self, order: &mut std::collections::VecDeque<u32>) {
        let mut next = self.header.published.0.swap(0, Ordering::AcqRel);
        let at = order.len();
        while let Some(index) = next.checked_sub(1) {
            let Some(buffer) = self.buffer(index) else { break };
            order.insert(at, index);
            next = buffer.link.load(Ordering::Relaxed);
        }
    }

    /// Whether [`Ring::take_published`] would find any.
    pub fn has_published(&self) -> bool {
        self.header.published.0.load(Ordering::SeqCst) != 0
    }

    /// Puts a buffer on the free list. Only the reader may call it.
    pub fn release(&self, index: u32) {
        let Some(buffer) = self.buffer(index) else { return };
        buffer.kind.store(BufferKind::Free as u32, Ordering::Relaxed);
        let list = &self.header.free.0;
        let mut head = list.load(Ordering::Relaxed);
        loop {
            buffer.link.store(head as u32, Ordering::Relaxed);
            let next = head & !u64::from(u32::MAX) | u64::from(index + 1);
            match list.compare_exchange_weak(head, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.header.releases.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Leaves bytes for every process that attaches; `false` when they are too many. Before the first writer only.
    pub fn set_options(&self, bytes: &[u8]) -> bool {
        if bytes.len() > OPTION_BYTES {
            return false;
        }
        for (slot, part) in self.header.options.iter().zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            slot.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        self.header.option_bytes.store(bytes.len() as u32, Ordering::Release);
        true
    }

    /// What [`Ring::set_options`] left.
    pub fn options(&self) -> Vec<u8> {
        let len = (self.header.option_bytes.load(Ordering::Acquire) as usize).min(OPTION_BYTES);
        let words = self.header.options.iter().take(len.div_ceil(8));
        let mut bytes: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}

#[cfg(test)]
mod tests;
