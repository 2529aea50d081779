//! The order in which buffers are read, and the reader's place in each.

use reach_core::ring::{BufferKind, Owner, Ring};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Published buffers in order, and the reader's place in all buffers.
pub(super) struct BufferOrder {
    ring: Ring,
    queue: VecDeque<u32>,
    /// For each buffer, the generation that was read last and the number of its words that were read.
    read: Vec<(u64, usize)>,
}

impl BufferOrder {
    pub(super) fn new(ring: Ring) -> BufferOrder {
        BufferOrder { ring, queue: VecDeque::new(), read: Vec::new() }
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
        self.ring.take_published(&mut self.queue);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Marks a buffer as read up to word `to`. Returns the first word that was not read before.
    pub(super) fn advance(&mut self, index: u32, to: usize) -> usize {
        let at = index as usize;
        if self.read.len() <= at {
            self.read.resize(at + 1, (0, 0));
        }
        let generation = self.ring.buffer(index).map_or(0, |buffer| buffer.generation());
        let (of, from) = self.read[at];
        let from = if of == generation { from } else { 0 };
        self.read[at] = (generation, from.max(to));
        from
    }

    /// Frees a buffer that was read to its end.
    pub(super) fn free(&mut self, index: u32) {
        self.ring.release(index);
    }

    /// Removes and returns all buffers of the owners for which `wanted` is true, which must not write any more: first
    /// dictionaries, then published buffers in order, then unpublished ones.
    pub(super) fn take_where(&mut self, wanted: impl Fn(Owner) -> bool) -> Vec<u32> {
        self.refresh();
        let ring = self.ring;
        let is_wanted = |index: u32| {
            ring.buffer(index).is_some_and(|buffer| buffer.kind() != BufferKind::Free && wanted(buffer.owner()))
        };
        let published: Vec<u32> = self.queue.iter().copied().filter(|&index| is_wanted(index)).collect();
        self.queue.retain(|&index| !is_wanted(index));
        let in_use = ring.header().in_use.load(Ordering::Acquire);
        let unpublished = (0..in_use).filter(|&index| is_wanted(index) && !published.contains(&index));
        let mut all: Vec<u32> = published.iter().copied().chain(unpublished).collect();
        all.sort_by_key(|&index| ring.buffer(index).is_some_and(|buffer| buffer.kind() == BufferKind::Stream));
        all
    }
}
