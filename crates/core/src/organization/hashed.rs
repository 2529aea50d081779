//! `hashed`: a hash table with open addressing.
//!
//! After: Yaniv and Tsafrir, "Hash, Don't Cache (the Page Table)", SIGMETRICS 2016.
//!
//! | design | here |
//! |---|---|
//! | open addressing, linear probing | [`Buckets::probe`] |
//! | eight neighbouring entries share a bucket of one line and one tag, which fits in unused bits of the entries | [`Buckets`] |
//! | at most half of the buckets in use | [`Buckets::reserve`] |
//! | no walk caches | `PageTableKind::walk_caches` |
//!
//! Readings. The paper has one page size. Here each level of the radix tree that has entries gets a table of its own, and
//! a walk probes all of them at the same time; hardware knows which exist. The table is of one process and begins with
//! 4 KB, doubles when more than half of its buckets are or were in use, and is rehashed at once. The bucket of entries that
//! were removed stays in the probe sequence until then.

use super::memory::{TableMemory, log_move};
use super::{BUCKET, ENTRY, Entries, Numbers, Organization, TableTraffic, Walker, hash};
use crate::{FrameSource, Layout, PhysAddr, Vpn};

/// Buckets of the smallest table: 4 KB.
const FEWEST: usize = 64;

/// A bucket of a line: up to eight entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bucket {
    /// One more than the number of the block; 0 for a bucket that was never used.
    tag: u64,
    /// Mask of the entries present. 0 with a tag: all were removed.
    present: u8,
}

/// The table of one level.
#[derive(Clone, Debug)]
struct Buckets {
    /// A power of two of buckets.
    buckets: Vec<Bucket>,
    memory: TableMemory,
    /// Buckets with a tag.
    tagged: usize,
}

impl Buckets {
    fn new(buckets: usize, memory: &mut dyn FrameSource) -> Option<Buckets> {
        let lines = TableMemory::allocate(buckets as u64 * BUCKET * ENTRY, memory)?;
        Some(Buckets { buckets: vec![Bucket::default(); buckets], memory: lines, tagged: 0 })
    }

    /// Returns the numbers of the buckets in the order in which `block` is looked for, forever.
    fn probe(&self, block: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.buckets.len() - 1;
        let first = hash(block, 0) as usize;
        (0..).map(move |step| first.wrapping_add(step) & mask)
    }

    /// Returns the bucket of `block`, or the unused one that ends the search for it.
    fn bucket(&self, block: u64) -> usize {
        let ends = |&at: &usize| self.buckets[at].tag == 0 || self.buckets[at].tag == block + 1;
        self.probe(block).find(ends).expect("half of the buckets are unused")
    }

    fn entry(&self, bucket: usize, number: u64) -> PhysAddr {
        self.memory.line(bucket) + number % BUCKET * ENTRY
    }

    /// Makes room for `more` blocks: rehashes if more than half of the buckets would have a tag.
    fn reserve(&mut self, more: usize, memory: &mut dyn FrameSource, log: &mut Vec<TableTraffic>) -> Option<()> {
        if (self.tagged + more) * 2 <= self.buckets.len() {
            return Some(());
        }
        let live = self.buckets.iter().filter(|bucket| bucket.present != 0).count();
        // At most three eighths are in use afterwards, so that the next rehash is far.
        let mut new = Buckets::new(((live + more) * 8 / 3).next_power_of_two().max(FEWEST), memory)?;
        for (from, &bucket) in self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.present != 0) {
            let to = new.bucket(bucket.tag - 1);
            new.buckets[to] = bucket;
            new.tagged += 1;
            log_move(self.memory.line(from), new.memory.line(to), log);
        }
        std::mem::replace(self, new).memory.free(memory);
        Some(())
    }
}

/// A hash table with open addressing for each level.
#[derive(Clone, Debug)]
pub(super) struct Hashed {
    numbers: Numbers,
    /// By level; `None` for a level that never had an entry.
    tables: Vec<Option<Buckets>>,
}

impl Hashed {
    pub fn new(layout: &Layout) -> Hashed {
        let numbers = Numbers::new(layout);
        Hashed { tables: vec![None; numbers.levels()], numbers }
    }
}

impl Organization for Hashed {
    fn bytes(&self) -> u64 {
        self.tables.iter().flatten().map(|table| table.memory.bytes()).sum()
    }

    fn insert(&mut self, entries: Entries, memory: &mut dyn FrameSource, log: &mut Vec<TableTraffic>) -> Option<()> {
        let table = match &mut self.tables[entries.level] {
            Some(table) => table,
            none => none.insert(Buckets::new(FEWEST, memory)?),
        };
        table.reserve(entries.blocks().count(), memory, log)?;
        for (block, mask) in entries.blocks() {
            let at = table.bucket(block);
            let bucket = &mut table.buckets[at];
            debug_assert_eq!(bucket.present & mask, 0, "entries of block {block} are present");
            table.tagged += usize::from(bucket.tag == 0);
            *bucket = Bucket { tag: block + 1, present: bucket.present | mask };
        }
        Some(())
    }

    fn remove(&mut self, entries: Entries, _: &mut Vec<TableTraffic>) {
        let table = self.tables[entries.level].as_mut().expect("the entries are present");
        for (block, mask) in entries.blocks() {
            let at = table.bucket(block);
            table.buckets[at].present &= !mask;
        }
    }

    fn find(&self, level: usize, vpn: Vpn) -> Option<PhysAddr> {
        let (table, number) = (self.tables[level].as_ref()?, self.numbers.of(level, vpn));
        let at = table.bucket(number / BUCKET);
        (table.buckets[at].present >> (number % BUCKET) & 1 == 1).then(|| table.entry(at, number))
    }

    fn walk(&self, vpn: Vpn, walker: &mut dyn Walker) -> bool {
        // Each search: its table, the number of the entry, and the bucket that is next.
        let searches = self.tables.iter().enumerate();
        let mut searches: Vec<_> = searches
            .filter_map(|(level, table)| {
                let (table, number) = (table.as_ref()?, self.numbers.of(level, vpn));
                Some((table, number, table.probe(number / BUCKET)))
            })
            .collect();
        while !searches.is_empty() {
            let mut group = Vec::with_capacity(searches.len());
            let mut found = None;
            searches.retain_mut(|(table, number, probe)| {
                let at = probe.next().expect("probe sequences have no end");
                let bucket = table.buckets[at];
                group.push(table.entry(at, *number));
                let same = bucket.tag == *number / BUCKET + 1;
                if same && bucket.present >> (*number % BUCKET) & 1 == 1 {
                    found = Some(group.len() - 1);
                }
                !same && bucket.tag != 0
            });
            if !walker.read(&group, found) {
                return false;
            }
            if found.is_some() {
                return true;
            }
        }
        true
    }

    fn release(&mut self, memory: &mut dyn FrameSource) {
        self.tables.iter_mut().filter_map(Option::take).for_each(|table| table.memory.free(memory));
    }

    fn check(&self) {
        for table in self.tables.iter().flatten() {
            let tagged = table.buckets.iter().filter(|bucket| bucket.tag != 0).count();
            assert_eq!(tagged, table.tagged, "tags were lost");
            assert!(tagged * 2 <= table.buckets.len(), "more than half of the buckets are in use");
            for (at, bucket) in table.buckets.iter().enumerate().filter(|(_, bucket)| bucket.tag != 0) {
                assert_eq!(table.bucket(bucket.tag - 1), at, "a search does not find {bucket:?}");
            }
        }
    }

    fn copied(&self) -> Box<dyn Organization> {
        Box::new(self.clone())
    }
}
