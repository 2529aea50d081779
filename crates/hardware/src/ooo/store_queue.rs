//! The store queue: stores from dispatch until they are written to the cache, in order, after they retire.

use super::reference::ByteRange;

/// A store in the queue, or the last one that had its entry.
#[derive(Clone, Copy, Debug, Default)]
struct Store {
    bytes: ByteRange,
    address_known: u64,
    data_known: u64,
    written: u64,
}

/// A store that has retired.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetiredStore {
    pub bytes: ByteRange,
    /// The cycle in which its address is known.
    pub address_known: u64,
    /// The cycle in which its address and its data are known.
    pub data_known: u64,
    pub retired: u64,
    /// The cycle in which the cache has its line.
    pub line_ready: u64,
}

/// The times of a store that forwards its data to a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forwarding {
    /// The cycle in which the store's address is known.
    pub address_known: u64,
    /// The cycle in which the store's address and data are known.
    pub data_known: u64,
}

/// The store queue. Entries are allocated in program order, and freed when the store is written.
#[derive(Clone, Debug)]
pub(super) struct StoreQueue {
    entries: Box<[Store]>,
    /// The entry to allocate next.
    next: usize,
    /// How many entries touch a line of each hash. It rejects most loads without a search.
    line_filter: Box<[u16; FILTER]>,
    last_written: u64,
    addresses_known: u64,
}

const FILTER: usize = 512;

fn filter_index(at: u64) -> usize {
    (at >> 6) as usize % FILTER
}

impl StoreQueue {
    /// Creates an empty queue.
    pub fn new(entries: u32) -> StoreQueue {
        StoreQueue {
            entries: vec![Store::default(); entries as usize].into(),
            next: 0,
            line_filter: Box::new([0; FILTER]),
            last_written: 0,
            addresses_known: 0,
        }
    }

    /// Returns the cycle in which the next entry is free: when its last occupant is written.
    #[inline(always)]
    pub fn next_free(&self) -> u64 {
        self.entries[self.next].written
    }

    /// Returns the cycle in which the entry behind the next `earlier` ones is free. `None` if the queue is smaller.
    pub fn free_after(&self, earlier: usize) -> Option<u64> {
        let capacity = self.entries.len();
        (earlier < capacity).then(|| self.entries[(self.next + earlier) % capacity].written)
    }

    /// Returns the cycle from which the addresses of all stores so far are known.
    #[inline(always)]
    pub fn addresses_known(&self) -> u64 {
        self.addresses_known
    }

    /// Enters a store. It is written once it has retired, its line is there and the previous store is written, at most
    /// one store in a cycle.
    #[inline]
    pub fn push(&mut self, store: RetiredStore) {
        let RetiredStore { bytes, address_known, data_known, retired, line_ready } = store;
        self.addresses_known = self.addresses_known.max(address_known);
        let written = line_ready.max(retired).max(self.last_written + 1);
        self.last_written = written;
        let old = self.entries[self.next].bytes;
        if old.end > 0 {
            self.line_filter[filter_index(old.start)] -= 1;
            self.line_filter[filter_index(old.end - 1)] -= 1;
        }
        self.line_filter[filter_index(bytes.start)] += 1;
        self.line_filter[filter_index(bytes.end - 1)] += 1;
        self.entries[self.next] = Store { bytes, address_known, data_known, written };
        self.next = if self.next + 1 == self.entries.len() { 0 } else { self.next + 1 };
    }

    /// Returns the times of the youngest store that overlaps `bytes` and is not yet written in cycle `at`. `None` if
    /// there is no such store.
    #[inline]
    pub fn forward(&self, bytes: ByteRange, at: u64) -> Option<Forwarding> {
        if self.last_written <= at
            || self.line_filter[filter_index(bytes.start)] == 0 && self.line_filter[filter_index(bytes.end - 1)] == 0
        {
            return None;
        }
        let (newer, older) = self.entries.split_at(self.next);
        let youngest_first = newer.iter().rev().chain(older.iter().rev());
        // Stores are written in order: all before a written one are written too.
        let mut in_flight = youngest_first.take_while(|store| store.written > at);
        let store = in_flight.find(|store| store.bytes.overlaps(bytes))?;
        Some(Forwarding { address_known: store.address_known, data_known: store.data_known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(start: u64, end: u64) -> ByteRange {
        ByteRange { start, end }
    }

    /// The data and address times that the queue forwards.
    fn forward(queue: &StoreQueue, start: u64, end: u64, at: u64) -> Option<(u64, u64)> {
        queue.forward(bytes(start, end), at).map(|found| (found.data_known, found.address_known))
    }

    #[test]
    fn the_youngest_overlapping_store_forwards_until_it_is_written() {
        let mut queue = StoreQueue::new(3);
        assert_eq!((queue.next_free(), forward(&queue, 0, 8, 0)), (0, None));
        let store =
            RetiredStore { bytes: bytes(100, 108), address_known: 9, data_known: 10, retired: 20, line_ready: 300 };
        queue.push(store);
        queue.push(RetiredStore {
            bytes: bytes(104, 112),
            address_known: 5,
            data_known: 11,
            retired: 21,
            line_ready: 22,
        });
        assert_eq!(queue.addresses_known(), 9);
        assert_eq!([0, 1, 2, 3].map(|earlier| queue.free_after(earlier)), [Some(0), Some(300), Some(301), None]);
        assert_eq!(forward(&queue, 100, 104, 50), Some((10, 9)));
        assert_eq!(forward(&queue, 100, 108, 50), Some((11, 5)));
        assert_eq!(forward(&queue, 112, 120, 50), None);
        assert_eq!(forward(&queue, 100, 104, 300), None, "written");
        assert_eq!(forward(&queue, 104, 105, 300), Some((11, 5)), "written one cycle later");
        assert_eq!(forward(&queue, 104, 105, 301), None);
        let store = RetiredStore { address_known: 12, data_known: 12, retired: 22, line_ready: 0, ..store };
        queue.push(RetiredStore { bytes: bytes(200, 264), ..store });
        assert_eq!(queue.next_free(), 300);
        queue.push(RetiredStore { bytes: bytes(300, 308), ..store });
        assert_eq!(forward(&queue, 100, 104, 50), None, "its entry is reused");
        assert_eq!(forward(&queue, 263, 300, 50), Some((12, 12)));
    }
}
