//! Stores in flight: from their entry into the window until they are written, in order, behind their retirement.

/// One store.
#[derive(Clone, Copy, Debug, Default)]
struct Store {
    /// First byte, and the byte behind the last.
    from: u64,
    to: u64,
    /// When its address is known.
    known: u64,
    /// When its data and address are.
    ready: u64,
    /// When it is written.
    written: u64,
}

/// The store queue.
#[derive(Clone, Debug)]
pub struct Stores {
    queue: Box<[Store]>,
    next: usize,
    /// How many stores in the queue touch a line of each hash.
    lines: Box<[u16; LINES]>,
    last_written: u64,
    /// When the addresses of all are known.
    all_known: u64,
}

const LINES: usize = 512;

fn line(at: u64) -> usize {
    (at >> 6) as usize % LINES
}

impl Stores {
    /// Room for so many.
    pub fn new(most: u32) -> Stores {
        Stores {
            queue: vec![Store::default(); most as usize].into(),
            next: 0,
            lines: Box::new([0; LINES]),
            last_written: 0,
            all_known: 0,
        }
    }

    /// When the place of the next store is free: when the one that had it before is written.
    #[inline(always)]
    pub fn free(&self) -> u64 {
        self.queue[self.next].written
    }

    /// When the place is free that a store takes before which `number` others come; none where there are not so many.
    pub fn free_after(&self, number: usize) -> Option<u64> {
        let places = self.queue.len();
        (number < places).then(|| self.queue[(self.next + number) % places].written)
    }

    /// When the addresses of all stores are known.
    #[inline(always)]
    pub fn all_known(&self) -> u64 {
        self.all_known
    }

    /// Enters a store of the bytes from `from` to before `to`, its address and then its data `known` at two times, whose line
    /// is there at `line_ready`; it is written then, and not before it has `retired` and the stores before it are written, one
    /// in a cycle.
    #[inline]
    pub fn push(&mut self, (from, to): (u64, u64), [known, ready]: [u64; 2], retired: u64, line_ready: u64) {
        self.all_known = self.all_known.max(known);
        let written = line_ready.max(retired).max(self.last_written + 1);
        self.last_written = written;
        let old = self.queue[self.next];
        if old.to > 0 {
            self.lines[line(old.from)] -= 1;
            self.lines[line(old.to - 1)] -= 1;
        }
        self.lines[line(from)] += 1;
        self.lines[line(to - 1)] += 1;
        self.queue[self.next] = Store { from, to, known, ready, written };
        self.next = if self.next + 1 == self.queue.len() { 0 } else { self.next + 1 };
    }

    /// When the data of the youngest store that overlaps these bytes and is not yet written at `at` is known, and when its
    /// address is.
    #[inline]
    pub fn forward(&self, from: u64, to: u64, at: u64) -> Option<(u64, u64)> {
        if self.last_written <= at || self.lines[line(from)] == 0 && self.lines[line(to - 1)] == 0 {
            return None;
        }
        let (newer, older) = self.queue.split_at(self.next);
        let all = newer.iter().rev().chain(older.iter().rev());
        // They are written in order: behind one that is written all are.
        let mut in_flight = all.take_while(|store| store.written > at);
        in_flight.find(|store| store.from < to && from < store.to).map(|store| (store.ready, store.known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_youngest_overlapping_store_is_found_until_it_is_written() {
        let mut stores = Stores::new(3);
        assert_eq!((stores.free(), stores.forward(0, 8, 0)), (0, None));
        stores.push((100, 108), [9, 10], 20, 300);
        stores.push((104, 112), [5, 11], 21, 22);
        assert_eq!(stores.all_known(), 9);
        assert_eq!((stores.free_after(0), stores.free_after(1), stores.free_after(2)), (Some(0), Some(300), Some(301)));
        assert_eq!(stores.free_after(3), None);
        assert_eq!(stores.forward(100, 104, 50), Some((10, 9)));
        assert_eq!(stores.forward(100, 108, 50), Some((11, 5)));
        assert_eq!(stores.forward(112, 120, 50), None);
        assert_eq!(stores.forward(100, 104, 300), None, "written");
        assert_eq!(stores.forward(104, 105, 300), Some((11, 5)), "written one cycle later");
        assert_eq!(stores.forward(104, 105, 301), None);
        stores.push((200, 264), [12, 12], 22, 0);
        assert_eq!(stores.free(), 300);
        stores.push((300, 308), [12, 12], 22, 0);
        assert_eq!(stores.forward(100, 104, 50), None, "its place is taken");
        assert_eq!(stores.forward(263, 300, 50), Some((12, 12)));
    }
}
