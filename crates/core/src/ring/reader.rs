//! The reader's end of a ring. Only one process reads, in one thread.
//!
//! Any traced process can write anything to the shared memory at any time, and may be hostile. The reader therefore believes
//! nothing that it can know itself: it keeps the number of buffers in use and which of them wait to be read, takes each
//! buffer at most once, and reads every shared word at most once for a decision.

use super::{BufferKind, Ring};
use std::collections::VecDeque;

/// The reader's end of a ring.
pub struct Reader {
    ring: Ring,
    /// The number of buffers that have ever been on the free list.
    in_use: u32,
    /// Whether each buffer was taken and not released.
    taken: Vec<bool>,
}

/// The list of published buffers is not one that writers make: a process has overwritten the shared memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Corrupted;

impl Reader {
    /// Makes the reader of a ring that no writer has attached to. The first `ready` buffers become free; [`Reader::grow`]
    /// adds the others.
    pub fn new(ring: Ring, ready: usize) -> Reader {
        let taken = vec![false; ring.buffers().len()];
        let mut reader = Reader { ring, in_use: 0, taken };
        reader.grow(ready);
        reader
    }

    /// Returns the ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the number of buffers that have ever been free. The others are unused until [`Reader::grow`].
    pub fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Adds up to `more` unused buffers to the free list, and returns how many it added.
    pub fn grow(&mut self, more: usize) -> usize {
        let to = self.taken.len().min(self.in_use as usize + more) as u32;
        let added = self.in_use..to;
        added.clone().rev().for_each(|index| self.ring.release(index));
        self.in_use = to;
        added.len()
    }

    /// Appends to `order` the numbers of all buffers published since the last call, oldest first. Each number is less than
    /// [`Reader::in_use`], and comes once until [`Reader::release`].
    ///
    /// # Errors
    /// When the list is corrupted. `order` then has the buffers that were published last, up to the corruption.
    pub fn take_published(&mut self, order: &mut VecDeque<u32>) -> Result<(), Corrupted> {
        let mut newest_first = Vec::new();
        let mut next = self.ring.take_list();
        let mut result = Ok(());
        while let Some(index) = next.checked_sub(1) {
            // A cycle leads to a buffer that is taken already.
            if index >= self.in_use || std::mem::replace(&mut self.taken[index as usize], true) {
                result = Err(Corrupted);
                break;
            }
            newest_first.push(index);
            next = self.ring.link(index);
        }
        order.extend(newest_first.iter().rev());
        result
    }

    /// Returns a buffer to the free list.
    pub fn release(&mut self, index: u32) {
        if let Some(taken) = self.taken.get_mut(index as usize) {
            *taken = false;
            self.ring.release(index);
        }
    }

    /// Returns whether writer code may be writing the buffer, or has written it.
    pub fn is_used(&self, index: u32) -> bool {
        index < self.in_use && self.ring.buffer(index).is_some_and(|buffer| buffer.kind() != BufferKind::Free)
    }
}
