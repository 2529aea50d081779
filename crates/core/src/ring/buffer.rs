//! Buffers: the fixed-size pieces of memory that travel through the ring.

use super::BUFFER_WORDS;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BufferKind {
    /// The buffer has no owner, or is changing owners.
    Free = 0,
    /// It holds records of one thread.
    Stream = 1,
    /// It defines blocks of one process.
    Dictionary = 2,
}

/// The writer of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Number of the process, dense from zero over the tree.
    pub process: u32,
    /// Number of the image that the process runs. Every exec takes a new one.
    pub image: u32,
    /// Number of the thread, dense from zero over the tree.
    pub thread: u32,
    /// Process identifier in the reader's namespace.
    pub pid: u32,
}

/// A buffer. Its header takes one cache line.
#[cfg_attr(not(loom), repr(C, align(65536)))]
#[cfg_attr(loom, derive(Default))]
pub struct Buffer {
    pub(super) cursor: AtomicU64,
    pub(super) link: AtomicU32,
    pub(super) kind: AtomicU32,
    pub(super) process: AtomicU32,
    pub(super) image: AtomicU32,
    pub(super) thread: AtomicU32,
    pub(super) pid: AtomicU32,
    pub(super) generation: AtomicU64,
    #[cfg_attr(loom, expect(dead_code))]
    spare: [AtomicU64; 3],
    words: [AtomicU64; BUFFER_WORDS],
}

impl Buffer {
    /// Makes a buffer that is full. A thread without a buffer uses it, so that one comparison covers both cases.
    #[cfg(not(loom))]
    pub const fn full() -> Buffer {
        Buffer {
            cursor: AtomicU64::new(BUFFER_WORDS as u64),
            link: AtomicU32::new(0),
            kind: AtomicU32::new(0),
            process: AtomicU32::new(0),
            image: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            generation: AtomicU64::new(0),
            spare: [const { AtomicU64::new(0) }; 3],
            words: [const { AtomicU64::new(0) }; BUFFER_WORDS],
        }
    }

    /// Appends one word. Returns `false` when the buffer is full. Only the owner may call this.
    #[inline(always)]
    pub fn push(&self, word: u64) -> bool {
        let at = self.cursor.load(Ordering::Relaxed) as usize;
        let Some(slot) = self.words.get(at) else { return false };
        slot.store(word, Ordering::Relaxed);
        // Release: a reader that sees the new cursor sees the words below it.
        self.cursor.store(at as u64 + 1, Ordering::Release);
        true
    }

    /// Appends all of `words`, or nothing when they do not fit, and returns whether they did. Only the owner may call
    /// this.
    pub fn push_all(&self, words: &[u64]) -> bool {
        let at = self.cursor.load(Ordering::Relaxed) as usize;
        // The cursor lies in shared memory, where another process may have written anything.
        let Some(slots) = self.words.get(at..).and_then(|rest| rest.get(..words.len())) else { return false };
        for (slot, &word) in slots.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.cursor.store((at + words.len()) as u64, Ordering::Release);
        true
    }

    /// Returns the number of words written.
    #[inline(always)]
    pub fn cursor(&self) -> usize {
        (self.cursor.load(Ordering::Acquire) as usize).min(BUFFER_WORDS)
    }

    /// Returns the words from `from` up to `to`, which must not exceed a [`Buffer::cursor`] read before. Empty when the
    /// range does not fit the buffer.
    pub fn words(&self, from: usize, to: usize) -> &[AtomicU64] {
        self.words.get(from..to).unwrap_or(&[])
    }

    /// Returns the use of the buffer.
    pub fn kind(&self) -> BufferKind {
        match self.kind.load(Ordering::Acquire) {
            1 => BufferKind::Stream,
            2 => BufferKind::Dictionary,
            _ => BufferKind::Free,
        }
    }

    /// Returns whether it defines blocks.
    pub fn is_dictionary(&self) -> bool {
        self.kind() == BufferKind::Dictionary
    }

    /// Returns the writer, or the last writer of a free buffer.
    pub fn owner(&self) -> Owner {
        Owner {
            process: self.process.load(Ordering::Relaxed),
            image: self.image.load(Ordering::Relaxed),
            thread: self.thread.load(Ordering::Relaxed),
            pid: self.pid.load(Ordering::Relaxed),
        }
    }

    /// Returns how often the buffer has been acquired. It distinguishes successive owners.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Drops all words. For a writer whose words will not be read.
    pub fn discard(&self) {
        self.cursor.store(0, Ordering::Relaxed);
    }
}
