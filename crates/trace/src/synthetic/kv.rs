//! `kv`: a key-value store like memcached, with requests like YCSB's.
//!
//! The store has a table of buckets, and items of one size with key and value. A list orders the items by the time of
//! writing; when memory is full, the oldest item is evicted. Reads do not move an item in the list, as memcached moves
//! one at most once a minute.
//!
//! The generator stores no values. Keys are numbers, which a permutation maps to buckets. The number of buckets is a
//! power of two not below the number of records, so no two records share a bucket. The generator stores where each
//! record is, and the list: 4 bytes per record and 12 per item, for some 8 KB in the simulated program. A twin in
//! `tests` that stores all data makes the same references.

use super::first_writes::FirstWrites;
use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, SEED, ValueKind, Values};
use super::permutation::Permutation;
use super::process::{Code, Emit, Process};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Event, Random};

mod code;

pub(super) const ABOUT: Description = Description {
    name: "kv",
    summary: "a key-value store like memcached, with YCSB's random keys; the generator stores no values",
    parameters: &[
        Parameter {
            name: "bytes",
            kind: ValueKind::Bytes(64 << 10, MAX_BYTES),
            default: "1G",
            summary: "memory of buckets and items",
        },
        Parameter { name: "value", kind: ValueKind::Bytes(32, 512 << 10), default: "8K", summary: "size of a value" },
        Parameter {
            name: "records",
            kind: ValueKind::Count(0, 1 << 32),
            default: "0",
            summary: "number of keys; 0 for as many as fit. With more than fit, the oldest are evicted",
        },
        Parameter {
            name: "requests",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "1M",
            summary: "number of requests",
        },
        Parameter { name: "writes", kind: ValueKind::Percent, default: "5%", summary: "share of requests that write" },
        Parameter {
            name: "load",
            kind: ValueKind::Word(&["no", "pages", "yes"]),
            default: "pages",
            summary: "write records first: by requests (yes) or one word of every 4 KB (pages); no: assume them written",
        },
        SEED,
    ],
    build,
};

/// The blocks, in the order of [`code::BLOCKS`].
#[derive(Clone, Copy)]
#[repr(usize)]
enum Site {
    Words,
    Get,
    Found,
    Hold,
    Send,
    Drop,
    Miss,
    Set,
    Reuse,
    Fresh,
    Grow,
    Evict,
    Fill,
    Receive,
    Old,
    Free,
    Link,
}

/// Offsets of an item's fields and of its value. The fields take a line of 64 bytes.
const OLDER: u64 = 0;
const NEWER: u64 = 8;
const LENGTH: u64 = 32;
const USERS: u64 = 36;
const KEY: u64 = 48;
const VALUE: u64 = 64;
/// Offsets of the program's global words: a free item, the first item never used, the newest item, the oldest item.
const SPARE: u64 = 0;
const UNUSED: u64 = 8;
const NEWEST: u64 = 16;
const OLDEST: u64 = 24;
/// The binary logarithm of the bytes that one instruction copies.
const PIECE: u8 = 5;

const NONE: u32 = u32::MAX;

/// The state of the store, without values.
struct State {
    /// The item of each record, or [`NONE`].
    item_of: Vec<u32>,
    /// The record of each item, or [`NONE`].
    record_of: Vec<u32>,
    /// Neighbours of each item in the order of writing.
    older: Vec<u32>,
    newer: Vec<u32>,
    newest: u32,
    oldest: u32,
    /// The free item, which is reused next. There is never more than one.
    spare: u32,
    /// Number of items ever used.
    used: u32,
}

struct Store {
    text: [Code; code::BLOCKS.len()],
    words: u64,
    buckets: u64,
    items: u64,
    buffer: u64,
    item_bytes: u64,
    value: u64,
    records: u64,
    hash: Permutation,
    random: Random,
    writes: f64,
    state: State,
    /// The writes of `load=pages`.
    pages: Option<FirstWrites>,
    /// Records left to write for `load=yes`.
    load: u64,
    left: u64,
    requests: u64,
    /// Whether no phase `requests` remains to be announced.
    announced: bool,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (bytes, value, records) = (values.number("bytes"), values.number("value"), values.number("records"));
    let item_bytes = (VALUE + value).next_multiple_of(64);
    let table = |records: u64| records.next_power_of_two() * 8;
    let records = if records > 0 {
        records
    } else {
        // The most records that fit together with their buckets.
        let fits = |n: u64| n * item_bytes + table(n) <= bytes;
        (0..40).rev().fold(0, |n, bit| if fits(n + (1 << bit)) { n + (1 << bit) } else { n })
    };
    let room = bytes.saturating_sub(table(records)) / item_bytes;
    let slots = room.min(records);
    if slots < 3 || slots >= u64::from(NONE) || records >= u64::from(NONE) {
        return Err(format!(
            "{bytes} bytes hold {slots} of {records} records; give bytes and records for 3 to 2^32 - 2 of them"
        ));
    }
    let text = process.assembled(code::BLOCKS);
    let (buckets, items) = (process.mmap(table(records)).0, process.mmap(slots * item_bytes).0);
    let buffer = process.mmap(value.next_multiple_of(4096)).0;
    let words = process.data().0;
    let first = !values.is("load", "no");
    if first {
        process.events.push(Event::Phase("load".into()));
    }
    let load = if values.is("load", "yes") { records } else { 0 };
    let pages = values.is("load", "pages").then(|| {
        let mut pages = FirstWrites::new(true);
        pages.add(buckets, table(records));
        pages.add(items, slots * item_bytes);
        pages
    });
    let requests = values.number("requests");
    Ok(Box::new(Store {
        text,
        words,
        buckets,
        items,
        buffer,
        item_bytes,
        value,
        records,
        hash: Permutation::new(records.next_power_of_two(), values.number("seed")),
        random: Random::new(!values.number("seed")),
        writes: values.share("writes"),
        state: if load > 0 { State::empty(records, slots) } else { State::loaded(records, slots) },
        pages,
        load,
        left: requests,
        requests,
        announced: !first,
    }))
}

impl State {
    fn empty(records: u64, slots: u64) -> State {
        let none = |n: u64| vec![NONE; n as usize];
        State {
            item_of: none(records),
            record_of: none(slots),
            older: none(slots),
            newer: none(slots),
            newest: NONE,
            oldest: NONE,
            spare: NONE,
            used: 0,
        }
    }

    /// Returns the state after every record was written once, in order.
    fn loaded(records: u64, slots: u64) -> State {
        let mut state = State::empty(records, slots);
        for record in records - slots..records {
            let item = record % slots;
            state.item_of[record as usize] = item as u32;
            state.record_of[item as usize] = record as u32;
            state.older[item as usize] = ((item + slots - 1) % slots) as u32;
            state.newer[item as usize] = ((item + 1) % slots) as u32;
        }
        (state.newest, state.oldest) = (((records - 1) % slots) as u32, (records % slots) as u32);
        state.older[state.oldest as usize] = NONE;
        state.newer[state.newest as usize] = NONE;
        state.used = slots as u32;
        state
    }

    /// Removes `item` from the list. Returns its older and newer neighbours.
    fn unlink(&mut self, item: u32) -> (u32, u32) {
        let (older, newer) = (self.older[item as usize], self.newer[item as usize]);
        *self.newer.get_mut(older as usize).unwrap_or(&mut self.oldest) = newer;
        *self.older.get_mut(newer as usize).unwrap_or(&mut self.newest) = older;
        (older, newer)
    }

    /// Appends `item` as the newest. Returns the former newest item.
    fn link(&mut self, item: u32) -> u32 {
        let before = std::mem::replace(&mut self.newest, item);
        (self.older[item as usize], self.newer[item as usize]) = (before, NONE);
        *self.newer.get_mut(before as usize).unwrap_or(&mut self.oldest) = item;
        before
    }
}

impl Store {
    fn code(&self, site: Site) -> Code {
        self.text[site as usize]
    }

    fn bucket_at(&self, record: u64) -> u64 {
        self.buckets + 8 * self.hash.apply(record)
    }

    /// Returns the address of a field of `item`; for [`NONE`], that of the global word `global`.
    fn field_at(&self, item: u32, field: u64, global: u64) -> u64 {
        if item == NONE { self.words + global } else { self.items + u64::from(item) * self.item_bytes + field }
    }

    /// Appends the copy of a value, from the item to the buffer when `out`, else in the other direction.
    fn copy(&self, item: u32, out: bool, emit: &mut Emit) {
        let value = self.field_at(item, VALUE, 0);
        let code = self.code(if out { Site::Send } else { Site::Receive });
        for at in (0..self.value).step_by(1 << PIECE) {
            let (from, to) = if out { (value, self.buffer) } else { (self.buffer, value) };
            emit.fetch(code);
            emit.load(from + at, PIECE, 0);
            emit.store(to + at, PIECE, 1);
        }
    }

    /// Appends a read request.
    fn get(&self, record: u64, emit: &mut Emit) {
        emit.fetch(self.code(Site::Get));
        emit.load(self.buffer, 3, 0);
        emit.load(self.bucket_at(record), 3, 5);
        let item = self.state.item_of[record as usize];
        if item != NONE {
            emit.fetch(self.code(Site::Found));
            emit.load(self.field_at(item, KEY, 0), 3, 0);
            let users = self.field_at(item, USERS, 0);
            emit.fetch(self.code(Site::Hold));
            emit.load(users, 2, 0);
            emit.store(users, 2, 0);
            self.copy(item, true, emit);
            emit.fetch(self.code(Site::Drop));
            emit.load(users, 2, 0);
            emit.store(users, 2, 0);
        }
        emit.fetch(self.code(Site::Miss));
    }

    /// Appends the allocation of an item: the free one, one never used, or the oldest. Returns it.
    fn allocate(&mut self, emit: &mut Emit) -> u32 {
        emit.fetch(self.code(Site::Set));
        emit.load(self.buffer, 3, 0);
        emit.load(self.words + SPARE, 3, 1);
        let spare = std::mem::replace(&mut self.state.spare, NONE);
        if spare != NONE {
            emit.fetch(self.code(Site::Reuse));
            emit.load(self.field_at(spare, OLDER, 0), 3, 0);
            emit.store(self.words + SPARE, 3, 1);
            return spare;
        }
        emit.fetch(self.code(Site::Fresh));
        emit.load(self.words + UNUSED, 3, 0);
        if (self.state.used as usize) < self.state.record_of.len() {
            emit.fetch(self.code(Site::Grow));
            emit.store(self.words + UNUSED, 3, 1);
            self.state.used += 1;
            return self.state.used - 1;
        }
        let oldest = self.state.oldest;
        let record = self.state.record_of[oldest as usize];
        self.state.item_of[record as usize] = NONE;
        let (_, newer) = self.state.unlink(oldest);
        emit.fetch(self.code(Site::Evict));
        emit.load(self.words + OLDEST, 3, 0);
        emit.load(self.field_at(oldest, KEY, 0), 3, 1);
        emit.store(self.bucket_at(record.into()), 3, 4);
        emit.load(self.field_at(oldest, NEWER, 0), 3, 5);
        emit.store(self.field_at(newer, OLDER, NEWEST), 3, 6);
        emit.store(self.words + OLDEST, 3, 7);
        oldest
    }

    /// Appends a write request.
    fn set(&mut self, record: u64, emit: &mut Emit) {
        let item = self.allocate(emit);
        emit.fetch(self.code(Site::Fill));
        emit.store(self.field_at(item, LENGTH, 0), 3, 0);
        emit.store(self.field_at(item, KEY, 0), 3, 1);
        self.copy(item, false, emit);
        let bucket = self.bucket_at(record);
        emit.fetch(self.code(Site::Old));
        emit.load(bucket, 3, 3);
        let old = std::mem::replace(&mut self.state.item_of[record as usize], item);
        self.state.record_of[item as usize] = record as u32;
        if old != NONE {
            let (older, newer) = self.state.unlink(old);
            emit.fetch(self.code(Site::Free));
            emit.load(self.field_at(old, KEY, 0), 3, 0);
            emit.load(self.field_at(old, OLDER, 0), 3, 1);
            emit.load(self.field_at(old, NEWER, 0), 3, 2);
            emit.store(self.field_at(older, NEWER, OLDEST), 3, 3);
            emit.store(self.field_at(newer, OLDER, NEWEST), 3, 4);
            emit.load(self.words + SPARE, 3, 5);
            emit.store(self.field_at(old, OLDER, 0), 3, 6);
            emit.store(self.words + SPARE, 3, 7);
            self.state.spare = old;
        }
        let before = self.state.link(item);
        emit.fetch(self.code(Site::Link));
        emit.store(bucket, 3, 0);
        emit.load(self.words + NEWEST, 3, 1);
        emit.store(self.field_at(before, NEWER, OLDEST), 3, 2);
        emit.store(self.field_at(item, OLDER, 0), 3, 3);
        emit.store(self.words + NEWEST, 3, 4);
    }
}

impl Program for Store {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        let ready = self.pages.as_mut().is_none_or(|pages| pages.run(self.text[Site::Words as usize], chunk, until));
        while ready && chunk.refs.len() < until && self.left > 0 {
            if self.load > 0 {
                let record = self.records - self.load;
                self.load -= 1;
                self.set(record, &mut Emit { chunk });
                continue;
            }
            if !std::mem::replace(&mut self.announced, true) {
                chunk.push_event(Event::Phase("requests".into()));
            }
            let record = self.random.below(self.records);
            let write = self.random.unit() < self.writes;
            let emit = &mut Emit { chunk };
            if write {
                self.set(record, emit)
            } else {
                self.get(record, emit)
            }
            self.left -= 1;
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.requests - self.left, total: Some(self.requests) }
    }
}

#[cfg(test)]
mod tests;
