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
mod memory;
mod message;
mod reader;
pub mod record;
#[cfg(not(loom))]
mod slot;
mod words;

pub use buffer::{Buffer, BufferKind, Owner};
pub use emulator::{Emulator, Executable, ProcessIdentity, inspect_executable};
pub use memory::Memory;
pub use message::{FenceEntry, FileKey, Message};
pub use reader::{Corrupted, Reader};
#[cfg(not(loom))]
pub use slot::BufferSlot;
pub use words::{define_block, read_block};

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// First word of the mapping. It changes with every change of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"reachr05");

/// Bytes of a buffer, including its header.
pub const BUFFER_BYTES: usize = 1 << 16;

/// Number of data words in a buffer.
pub const BUFFER_WORDS: usize = match () {
    () if cfg!(loom) => 2,
    () if cfg!(miri) => 64,
    () => BUFFER_BYTES / 8 - 8,
};

/// A value with a cache line of its own, so that writers of its neighbours do not share the line.
#[repr(C, align(64))]
#[derive(Default)]
pub struct CacheLine<T>(pub T);

/// The start of the mapping.
#[cfg_attr(not(loom), repr(C, align(65536)))]
#[derive(Default)]
pub struct Header {
    magic: AtomicU64,
    buffers: AtomicU32,
    /// Process identifier of the reader.
    pub reader: AtomicU32,
    /// The PID namespace in which the reader has that identifier, by its inode; 0 if that is not known.
    pub reader_namespace: AtomicU64,
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
}

/// A ring. Its clones share one mapping, which stays as long as one of them.
#[derive(Clone)]
pub struct Ring(Arc<Memory>);

impl Ring {
    /// Returns the bytes of a mapping for `buffers` buffers.
    pub const fn bytes(buffers: usize) -> usize {
        size_of::<Header>() + buffers * BUFFER_BYTES
    }

    /// Initialises a ring in memory that is zero. [`Reader::new`] makes buffers free.
    pub fn create(memory: Memory) -> Ring {
        let ring = Ring(Arc::new(memory));
        let header = ring.header();
        header.next_block.0.store(1, Ordering::Relaxed);
        header.buffers.store(ring.buffers().len() as u32, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        ring
    }

    /// Returns the ring that [`Ring::create`] initialised in this memory, perhaps in another process. `None` when the memory
    /// holds no ring of this layout.
    pub fn attach(memory: Memory) -> Option<Ring> {
        let ring = Ring(Arc::new(memory));
        let header = ring.header();
        let is_whole = header.buffers.load(Ordering::Relaxed) as usize == ring.buffers().len();
        (header.magic.load(Ordering::Acquire) == MAGIC && is_whole).then_some(ring)
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        self.0.parts().0
    }

    fn buffers(&self) -> &[Buffer] {
        self.0.parts().1
    }

    /// Returns the buffer with this number; `None` when there is none.
    pub fn buffer(&self, index: u32) -> Option<&Buffer> {
        self.buffers().get(index as usize)
    }

    /// Returns the number of a buffer of this ring; any number for another buffer.
    pub fn index(&self, buffer: &Buffer) -> u32 {
        let offset = (buffer as *const Buffer as usize).wrapping_sub(self.buffers().as_ptr() as usize);
        (offset / size_of::<Buffer>()) as u32
    }

    /// Returns whether capture has ended early.
    pub fn aborted(&self) -> bool {
        self.header().abort.0.load(Ordering::Relaxed) != 0
    }

    /// Takes a free buffer for `owner`. Returns `None` when no buffer is free now.
    pub fn acquire(&self, kind: BufferKind, owner: Owner) -> Option<&Buffer> {
        let list = &self.header().free.0;
        let mut head = list.load(Ordering::Acquire);
        let buffer = loop {
            let buffer = self.buffers().get((head as u32).checked_sub(1)? as usize)?;
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
        let list = &self.header().published.0;
        let mut head = list.load(Ordering::Relaxed);
        loop {
            buffer.link.store(head, Ordering::Relaxed);
            match list.compare_exchange_weak(head, mine, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        // Both sides are sequentially consistent: either the reader sees the new count, or the writer sees it asleep.
        self.header().publications.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Empties the list of published buffers. Returns one more than the number of its last buffer; 0 when there was none.
    fn take_list(&self) -> u32 {
        self.header().published.0.swap(0, Ordering::AcqRel)
    }

    /// Returns what [`Ring::take_list`] returned before this buffer was published.
    fn link(&self, index: u32) -> u32 {
        self.buffer(index).map_or(0, |buffer| buffer.link.load(Ordering::Relaxed))
    }

    /// Returns whether [`Reader::take_published`] would find a buffer.
    pub fn has_published(&self) -> bool {
        self.header().published.0.load(Ordering::SeqCst) != 0
    }

    /// Returns a buffer to the free list. Only the reader may call this.
    fn release(&self, index: u32) {
        let Some(buffer) = self.buffer(index) else { return };
        buffer.kind.store(BufferKind::Free as u32, Ordering::Relaxed);
        let list = &self.header().free.0;
        let mut head = list.load(Ordering::Relaxed);
        loop {
            buffer.link.store(head as u32, Ordering::Relaxed);
            let next = head & !u64::from(u32::MAX) | u64::from(index + 1);
            match list.compare_exchange_weak(head, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.header().releases.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
