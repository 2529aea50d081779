//! The capture ring: shared memory through which traced processes send references to the reader.
//!
//! This module defines layout and atomic operations only. Mapping the memory, waiting and process management belong to
//! the two sides: the plugin writes, `trace::live` reads.
//!
//! One mapping serves a whole tree of processes. It holds a [`Header`] and a pool of fixed-size [`Buffer`]s. A writer
//! takes a free buffer, fills it and publishes it. The reader takes published buffers in the order of publication and
//! frees them.
//!
//! Both lists are stacks of linked buffers, changed by a single compare-and-swap, so a writer that is killed at any
//! instruction leaves them intact. The write cursor lies in the buffer, so the reader can recover what a killed process
//! had written.
//!
//! A *stream* buffer belongs to one thread and holds [`record`]s in program order. A *dictionary* buffer belongs to one
//! process and defines the blocks that its translator has seen. A writer publishes its dictionary before any stream
//! that may name its blocks, so the reader always sees definitions first.

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

/// First word of the mapping. It changes with every change of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"reachr03");

/// Bytes of a buffer, including its header.
pub const BUFFER_BYTES: usize = 1 << 16;

/// Number of data words in a buffer.
pub const BUFFER_WORDS: usize = BUFFER_BYTES / 8 - 8;

/// Bytes for the options with which processes start further emulators ([`Emulator`]).
const OPTION_BYTES: usize = 1 << 15;

/// A value with a cache line of its own, so that writers of its neighbours do not share the line.
#[repr(C, align(64))]
#[derive(Default)]
pub struct CacheLine<T>(pub T);

/// The start of the mapping.
#[repr(C, align(65536))]
pub struct Header {
    magic: AtomicU64,
    buffers: AtomicU32,
    /// Number of buffers that have ever been on the free list. The others are unused until [`Ring::grow`].
    pub in_use: AtomicU32,
    /// Process identifier of the reader.
    pub reader: AtomicU32,
    /// Set to 1 by either side when capture ends early. Writers then stop recording, and their programs continue.
    pub abort: CacheLine<AtomicU32>,
    /// The next block number. Numbers start at 1; 0 means no block.
    pub next_block: CacheLine<AtomicU32>,
    /// The next process number.
    pub next_process: AtomicU32,
    /// The next thread number.
    pub next_thread: AtomicU32,
    /// The next image number.
    pub next_image: AtomicU32,
    free: CacheLine<AtomicU64>,
    published: CacheLine<AtomicU32>,
    /// Number of publications. The reader sleeps on this word (futex).
    pub publications: CacheLine<AtomicU32>,
    /// 1 while the reader sleeps.
    pub reader_sleeps: AtomicU32,
    /// Number of releases. Writers without a buffer sleep on this word (futex).
    pub releases: CacheLine<AtomicU32>,
    /// Number of writers that sleep.
    pub writers_asleep: AtomicU32,
    option_bytes: AtomicU32,
    options: [AtomicU64; OPTION_BYTES / 8],
}

/// A handle to a mapping that holds a ring. It borrows the memory and never unmaps it.
#[derive(Clone, Copy)]
pub struct Ring {
    header: &'static Header,
    buffers: &'static [Buffer],
}

impl Ring {
    /// Returns the bytes of a mapping for `buffers` buffers.
    pub const fn bytes(buffers: usize) -> usize {
        size_of::<Header>() + buffers * BUFFER_BYTES
    }

    /// Initialises a ring in fresh memory. The first `ready` buffers are free; [`Ring::grow`] adds the others.
    ///
    /// # Safety
    /// `base` must be aligned to 64 KiB and point to `Ring::bytes(buffers)` zeroed, readable and writable bytes. They
    /// must stay mapped as long as any copy of the ring is in use.
    pub unsafe fn create(base: *mut u8, buffers: usize, ready: usize) -> Ring {
        // SAFETY: the caller provides the memory, and zero is a valid value of every field, because all are atomics.
        let ring = unsafe { Ring::at(base, buffers) };
        ring.header.next_block.0.store(1, Ordering::Relaxed);
        ring.header.buffers.store(buffers as u32, Ordering::Relaxed);
        ring.grow(ready);
        ring.header.magic.store(MAGIC, Ordering::Release);
        ring
    }

    /// Returns the ring that [`Ring::create`] initialised at `base`, perhaps in another process. `None` when the `len`
    /// bytes hold no ring of this layout.
    ///
    /// # Safety
    /// `len` bytes at `base` must be readable and writable, and stay mapped as long as any copy of the ring is in use.
    pub unsafe fn attach(base: *mut u8, len: usize) -> Option<Ring> {
        if len < size_of::<Header>() || !(base as usize).is_multiple_of(BUFFER_BYTES) {
            return None;
        }
        // SAFETY: the header lies within the `len` bytes.
        let header = unsafe { &*base.cast::<Header>() };
        let buffers = header.buffers.load(Ordering::Relaxed) as usize;
        let sound = header.magic.load(Ordering::Acquire) == MAGIC && Ring::bytes(buffers) <= len;
        // SAFETY: the check above found that header and buffers fit in the `len` bytes.
        sound.then(|| unsafe { Ring::at(base, buffers) })
    }

    unsafe fn at(base: *mut u8, buffers: usize) -> Ring {
        debug_assert!((base as usize).is_multiple_of(BUFFER_BYTES));
        // SAFETY: `create`'s caller provides the memory of header and buffers; `attach` has checked its length.
        unsafe {
            Ring {
                header: &*base.cast::<Header>(),
                buffers: std::slice::from_raw_parts(base.add(size_of::<Header>()).cast::<Buffer>(), buffers),
            }
        }
    }

    /// Returns the header.
    pub fn header(&self) -> &'static Header {
        self.header
    }

    /// Returns the buffer with this number; `None` when there is none.
    pub fn buffer(&self, index: u32) -> Option<&'static Buffer> {
        self.buffers.get(index as usize)
    }

    /// Returns the number of a buffer of this ring.
    pub fn index(&self, buffer: &Buffer) -> u32 {
        ((buffer as *const Buffer as usize - self.buffers.as_ptr() as usize) / BUFFER_BYTES) as u32
    }

    /// Returns whether capture has ended early.
    pub fn aborted(&self) -> bool {
        self.header.abort.0.load(Ordering::Relaxed) != 0
    }

    /// Adds up to `more` unused buffers to the free list, and returns how many it added. Only the reader may call this.
    pub fn grow(&self, more: usize) -> usize {
        let from = self.header.in_use.load(Ordering::Relaxed) as usize;
        let to = (from + more).min(self.buffers.len());
        for index in (from..to).rev() {
            self.release(index as u32);
        }
        self.header.in_use.store(to as u32, Ordering::Release);
        to - from
    }

    /// Takes a free buffer for `owner`. Returns `None` when no buffer is free now.
    pub fn acquire(&self, kind: BufferKind, owner: Owner) -> Option<&'static Buffer> {
        let list = &self.header.free.0;
        let mut head = list.load(Ordering::Acquire);
        let buffer = loop {
            let buffer = self.buffers.get((head as u32).checked_sub(1)? as usize)?;
            // Every acquisition changes the count in the upper half, which avoids the ABA problem: a buffer that was
            // taken and released meanwhile makes a different head.
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

    /// Publishes a buffer to the reader. The caller must not write to it again.
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
        // Both sides are sequentially consistent: either the reader sees the new count, or the writer sees it asleep.
        self.header.publications.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Appends to `order` the numbers of all buffers published since the last call, oldest first. Only the reader may
    /// call this.
    pub fn take_published(&self, order: &mut std::collections::VecDeque<u32>) {
        let mut next = self.header.published.0.swap(0, Ordering::AcqRel);
        let at = order.len();
        while let Some(index) = next.checked_sub(1) {
            let Some(buffer) = self.buffer(index) else { break };
            order.insert(at, index);
            next = buffer.link.load(Ordering::Relaxed);
        }
    }

    /// Returns whether [`Ring::take_published`] would find a buffer.
    pub fn has_published(&self) -> bool {
        self.header.published.0.load(Ordering::SeqCst) != 0
    }

    /// Returns a buffer to the free list. Only the reader may call this.
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

    /// Stores options for every process that attaches. Returns `false` when they are longer than 32 KB. Call this
    /// before the first writer attaches.
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

    /// Returns the options that [`Ring::set_options`] stored.
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
