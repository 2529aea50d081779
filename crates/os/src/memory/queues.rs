//! The page daemon's lists of frames in use, each in approximate order of last use (Navarro et al. §5.1).

use super::chunked::Chunked;

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Used of late.
    Active = 0,
    /// Not used for a long time.
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

/// Two lists with constant-time moves; a frame is on one at most.
pub(crate) struct Queues {
    links: Chunked<Link>,
    lists: [List; 2],
}

impl Queues {
    /// Both empty, for so many frames.
    pub(crate) fn new(frames: u64) -> Queues {
        Queues { links: Chunked::new(frames), lists: [List { head: NIL, tail: NIL, len: 0 }; 2] }
    }

    pub(crate) fn len(&self, queue: Queue) -> u64 {
        self.lists[queue as usize].len
    }

    /// On which list `frame` is.
    pub(crate) fn of(&self, frame: u64) -> Option<Queue> {
        self.links.get(frame).queue
    }

    /// The frame that has been on the list for the longest time.
    pub(crate) fn first(&self, queue: Queue) -> Option<u64> {
        let head = self.lists[queue as usize].head;
        (head != NIL).then_some(head as u64)
    }

    /// The frame after `frame` on its list.
    pub(crate) fn next(&self, frame: u64) -> Option<u64> {
        let next = self.links.get(frame).next;
        (next != NIL).then_some(next as u64)
    }

    /// `frame` goes to the end of `queue`, wherever it was.
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

    /// `frame` leaves its list, if it is on one.
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

    /// All frames of a list, first to last.
    pub(crate) fn iter(&self, queue: Queue) -> impl Iterator<Item = u64> {
        std::iter::successors(self.first(queue), |&frame| self.next(frame))
    }
}
