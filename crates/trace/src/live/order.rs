//! The order in which buffers are read, and the reader's place in each.

use reach_core::ring::{Corrupted, Owner, Reader, Ring};
use std::collections::VecDeque;

/// Published buffers in order, and the reader's place in all buffers.
pub(super) struct BufferOrder {
    reader: Reader,
    /// Each buffer is in the queue at most once.
    queue: VecDeque<u32>,
    /// For each buffer, the generation that was read last and the number of its words that were read.
    read: Vec<(u64, usize)>,
    corrupted: bool,
}

impl BufferOrder {
    pub(super) fn new(reader: Reader) -> BufferOrder {
        BufferOrder { reader, queue: VecDeque::new(), read: Vec::new(), corrupted: false }
    }

    /// Returns the ring.
    pub(super) fn ring(&self) -> &Ring {
        self.reader.ring()
    }

    /// Returns whether a process has overwritten the list of published buffers. Some may then be missing.
    pub(super) fn is_corrupted(&self) -> bool {
        self.corrupted
    }

    /// Returns the next published buffer; `None` where there is none.
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.queue.is_empty() {
            self.refresh();
        }
        self.queue.pop_front()
    }

    /// Adds newly published buffers to the queue.
    pub(super) fn refresh(&mut self) {
        self.corrupted |= self.reader.take_published(&mut self.queue) == Err(Corrupted);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds up to `more` unused buffers, and returns how many it added.
    pub(super) fn grow(&mut self, more: usize) -> usize {
        self.reader.grow(more)
    }

    /// Marks a buffer of the ring as read up to word `to`. Returns the first word that was not read before.
    pub(super) fn advance(&mut self, index: u32, to: usize) -> usize {
        let Some(generation) = self.ring().buffer(index).map(|buffer| buffer.generation()) else { return to };
        let at = index as usize;
        if self.read.len() <= at {
            self.read.resize(at + 1, (0, 0));
        }
        let (of, from) = self.read[at];
        let from = if of == generation { from } else { 0 };
        self.read[at] = (generation, from.max(to));
        from
    }

    /// Frees a buffer that was read to its end.
    pub(super) fn free(&mut self, index: u32) {
        self.reader.release(index);
    }

    /// Removes and returns all buffers of the owners for which `wanted` is true, which must not write any more: first
    /// dictionaries, then published buffers in order, then unpublished ones.
    pub(super) fn take_where(&mut self, wanted: impl Fn(Owner) -> bool) -> Vec<u32> {
        self.refresh();
        let (reader, ring) = (&self.reader, self.reader.ring());
        // Decides once for each buffer, because a hostile process may change the owner at any time.
        let mut is_wanted: Vec<bool> = (0..reader.in_use())
            .map(|index| reader.is_used(index) && ring.buffer(index).is_some_and(|buffer| wanted(buffer.owner())))
            .collect();
        let mut all = Vec::new();
        self.queue.retain(|&index| {
            let taken = std::mem::take(&mut is_wanted[index as usize]);
            all.extend(taken.then_some(index));
            !taken
        });
        all.extend((0..reader.in_use()).filter(|&index| is_wanted[index as usize]));
        all.sort_by_cached_key(|&index| ring.buffer(index).is_some_and(|buffer| !buffer.is_dictionary()));
        all
    }
}
