//! Which buffer comes next, and how far each was read.

use reach_core::ring::{BufferKind, Owner, Ring};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Published buffers in order, and the reader's place in all of them.
pub(super) struct Order {
    ring: Ring,
    queue: VecDeque<u32>,
    /// How many words of each buffer's present use have been read, and of which use.
    read: Vec<(u64, usize)>,
}

impl Order {
    pub(super) fn new(ring: Ring) -> Order {
        Order { ring, queue: VecDeque::new(), read: Vec::new() }
    }

    /// The next published buffer.
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.queue.is_empty() {
            self.refresh();
        }
        self.queue.pop_front()
    }

    /// Looks for newly published buffers.
    pub(super) fn refresh(&mut self) {
        self.ring.take_published(&mut self.queue);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Notes that a buffer is read up to word `to`; returns from where on it was not.
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

    /// Gives a buffer back that was read to its end.
    pub(super) fn free(&mut self, index: u32) {
        self.ring.release(index);
    }

    /// Takes every buffer whose owner is `wanted`, whose owners write no more: dictionaries first, then what they
    /// published, in order, then what they did not.
    pub(super) fn take_of(&mut self, wanted: impl Fn(Owner) -> bool) -> Vec<u32> {
        self.refresh();
        let ring = self.ring;
        let mine = |index: u32| {
            ring.buffer(index).is_some_and(|buffer| buffer.kind() != BufferKind::Free && wanted(buffer.owner()))
        };
        let published: Vec<u32> = self.queue.iter().copied().filter(|&index| mine(index)).collect();
        self.queue.retain(|&index| !mine(index));
        let in_use = ring.header().in_use.load(Ordering::Acquire);
        let kept = (0..in_use).filter(|&index| mine(index) && !published.contains(&index));
        let mut all: Vec<u32> = published.iter().copied().chain(kept).collect();
        all.sort_by_key(|&index| ring.buffer(index).is_some_and(|buffer| buffer.kind() == BufferKind::Stream));
        all
    }
}
