//! Buffers of the ring.

use super::BUFFER_WORDS;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What a buffer is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BufferKind {
    /// In no one's hands, or on the way between two.
    Free = 0,
    /// Records of one thread.
    Stream = 1,
    /// Definitions of blocks of one process.
    Dictionary = 2,
}

/// Who writes a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Number of the process, dense from zero over the tree.
    pub process: u32,
    /// Number of the image that the process runs; every exec takes a new one.
    pub image: u32,
    /// Number of the thread, dense from zero over the tree.
    pub thread: u32,
    /// The process as the kernel of the reader knows it.
    pub pid: u32,
}

/// A buffer and its header of one cache line.
#[repr(C, align(65536))]
pub struct Buffer {
    pub(super) cursor: AtomicU64,
    pub(super) link: AtomicU32,
    pub(super) kind: AtomicU32,
    pub(super) process: AtomicU32,
    pub(super) image: AtomicU32,
    pub(super) thread: AtomicU32,
    pub(super) pid: AtomicU32,
    pub(super) generation: AtomicU64,
    spare: [AtomicU64; 3],
    words: [AtomicU64; BUFFER_WORDS],
}

impl Buffer {
    /// A buffer that takes nothing: it stands where a thread has none, so that one comparison serves both cases.
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

    /// Appends one word; `false` when the buffer is full. Only the owner may call it.
    #[inline(always)]
    pub fn push(&self, word: u64) -> bool {
        let at = self.cursor.load(Ordering::Relaxed) as usize;
        let Some(slot) = self.words.get(at) else { return false };
        slot.store(word, Ordering::Relaxed);
        // Release: whoever sees the cursor sees the words below it.
        self.cursor.store(at as u64 + 1, Ordering::Release);
        true
    }

    /// Appends all of `words` or nothing. Only the owner may call it.
    pub fn push_all(&self, words: &[u64]) -> bool {
        let at = self.cursor.load(Ordering::Relaxed) as usize;
        let Some(slots) = self.words.get(at..at + words.len()) else { return false };
        for (slot, &word) in slots.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.cursor.store((at + words.len()) as u64, Ordering::Release);
        true
    }

    /// How many words it holds.
    #[inline(always)]
    pub fn cursor(&self) -> usize {
        (self.cursor.load(Ordering::Acquire) as usize).min(BUFFER_WORDS)
    }

    /// The words from `from` on, up to `to` (<= [`Buffer::cursor`] as read before).
    pub fn words(&self, from: usize, to: usize) -> &[AtomicU64] {
        self.words.get(from..to).unwrap_or(&[])
    }

    /// What it is used for.
    pub fn kind(&self) -> BufferKind {
        match self.kind.load(Ordering::Acquire) {
            1 => BufferKind::Stream,
            2 => BufferKind::Dictionary,
            _ => BufferKind::Free,
        }
    }

    /// Who writes it, or wrote it last.
    pub fn owner(&self) -> Owner {
        Owner {
            process: self.process.load(Ordering::Relaxed),
            image: self.image.load(Ordering::Relaxed),
            thread: self.thread.load(Ordering::Relaxed),
            pid: self.pid.load(Ordering::Relaxed),
        }
    }

    /// Counts how often it was taken: tells one use of the buffer from the next.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Empties it again, for a writer whose words nobody will read.
    pub fn discard(&self) {
        self.cursor.store(0, Ordering::Relaxed);
    }
}
