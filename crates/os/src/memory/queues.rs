//! The page daemon's lists of frames, each in approximate order of last use (Navarro et al. §5.1).

use super::chunked::Chunked;

/// A list of the page daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Recently used frames.
    Active = 0,
    /// Frames that have not been used for long.
    Inactive = 1,
}

#[derive(Clone, Copy, PartialEq)]
struct Link {
    next: u32,
    prev: u32,
    queue: Option<Queue>,
}

impl Default for Link {
    fn default() -> Link {
        Link { next: NIL, prev: NIL, queue: None }
    }
}

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u64,
}

/// The two lists. A frame is on at most one. Moves take constant time.
pub(crate) struct Queues {
    links: Chunked<Link>,
    lists: [List; 2],
}

impl Queues {
    /// Returns empty lists for `frames` frames.
    pub(crate) fn new(frames: u64) -> Queues {
        Queues { links: Chunked::new(frames), lists: [List { head: NIL, tail: NIL, len: 0 }; 2] }
    }

    /// Returns the number of frames on a list.
    pub(crate) fn len(&self, queue: Queue) -> u64 {
        self.lists[queue as usize].len
    }

    /// Returns the list that `frame` is on. `None` when it is on none.
    pub(crate) fn of(&self, frame: u64) -> Option<Queue> {
        self.links.get(frame).queue
    }

    /// Returns the frame that has been on the list for longest.
    pub(crate) fn first(&self, queue: Queue) -> Option<u64> {
        let head = self.lists[queue as usize].head;
        (head != NIL).then_some(head as u64)
    }

    /// Returns the frame after `frame` on its list.
    pub(crate) fn next(&self, frame: u64) -> Option<u64> {
        let next = self.links.get(frame).next;
        (next != NIL).then_some(next as u64)
    }

    /// Moves `frame` to the end of `queue`, wherever it was.
    pub(crate) fn push(&mut self, queue: Queue, frame: u64) {
        self.remove(frame);
        let list = &mut self.lists[queue as usize];
        let tail = std::mem::replace(&mut list.tail, frame as u32);
        list.len += 1;
        match tail {
            NIL => list.head = frame as u32,
            tail => self.links.get_mut(tail as u64).next = frame as u32,
        }
        self.links.set(frame, Link { next: NIL, prev: tail, queue: Some(queue) });
    }

    /// Removes `frame` from its list, if it is on one.
    pub(crate) fn remove(&mut self, frame: u64) {
        let link = self.links.get(frame);
        let Some(queue) = link.queue else { return };
        let list = &mut self.lists[queue as usize];
        list.len -= 1;
        match link.prev {
            NIL => list.head = link.next,
            prev => self.links.get_mut(prev as u64).next = link.next,
        }
        let list = &mut self.lists[queue as usize];
        match link.next {
            NIL => list.tail = link.prev,
            next => self.links.get_mut(next as u64).prev = link.prev,
        }
        self.links.set(frame, Link::default());
    }

    /// Returns all frames of a list, first to last.
    pub(crate) fn iter(&self, queue: Queue) -> impl Iterator<Item = u64> {
        std::iter::successors(self.first(queue), |&frame| self.next(frame))
    }
}
