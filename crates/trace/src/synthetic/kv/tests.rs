//! A twin of the store that stores all data: buckets, items and global words lie in memory and hold addresses.

use super::super::tests::data;
use super::*;
use reach_core::Kind as Access;
use std::collections::HashMap;

/// Kind, address, and binary logarithm of the size of a reference.
type Reference = (Access, u64, u8);

/// Memory by word address, and all references to it. Words never written are 0.
#[derive(Default)]
struct Memory {
    words: HashMap<u64, u64>,
    references: Vec<Reference>,
}

impl Memory {
    fn get(&mut self, at: u64) -> u64 {
        self.references.push((Access::Load, at, 3));
        self.words.get(&at).copied().unwrap_or(0)
    }

    fn set(&mut self, at: u64, word: u64) {
        self.references.push((Access::Store, at, 3));
        self.words.insert(at, word);
    }

    fn change(&mut self, at: u64, by: i64) {
        self.references.extend([(Access::Load, at, 2), (Access::Store, at, 2)]);
        let word = self.words.entry(at).or_insert(0);
        *word = word.wrapping_add_signed(by);
    }

    fn copy(&mut self, from: u64, to: u64, bytes: u64) {
        for at in (0..bytes).step_by(32) {
            self.references.extend([(Access::Load, from + at, 5), (Access::Store, to + at, 5)]);
            for word in (at..at + 32).step_by(8) {
                let value = self.words.get(&(from + word)).copied().unwrap_or(0);
                self.words.insert(to + word, value);
            }
        }
    }
}

struct Addresses {
    words: u64,
    buckets: u64,
    items: u64,
    items_end: u64,
    buffer: u64,
    item_bytes: u64,
    value: u64,
}

/// Runs requests (record, whether it is a write) and returns their references. A value is the record's number and the
/// number of the request that wrote it; `check` has the latter for each stored record.
fn run(at: &Addresses, hash: &Permutation, requests: &[(u64, bool)], check: &mut HashMap<u64, u64>) -> Vec<Reference> {
    let mut m = Memory::default();
    for (n, &(record, write)) in requests.iter().enumerate() {
        let bucket = at.buckets + 8 * hash.apply(record);
        m.words.insert(at.buffer, record + 1);
        if !write {
            m.get(at.buffer);
            let item = m.get(bucket);
            if item != 0 {
                assert_eq!(m.get(item + 48), record + 1, "the item in the bucket has another key");
                m.change(item + 36, 1);
                m.copy(item + 64, at.buffer, at.value);
                m.change(item + 36, -1);
                assert_eq!(m.words[&(at.buffer + 8)], check[&record], "the value is not the one written last");
            }
            continue;
        }
        m.words.insert(at.buffer + 8, n as u64);
        m.get(at.buffer);
        let mut item = m.get(at.words);
        if item != 0 {
            let next = m.get(item);
            m.set(at.words, next);
        } else {
            // The word is 0 until the first item is used.
            let unused = m.get(at.words + 8).max(at.items);
            if unused < at.items_end {
                item = unused;
                m.set(at.words + 8, unused + at.item_bytes);
            } else {
                item = m.get(at.words + 24);
                let evicted = m.get(item + 48) - 1;
                m.set(at.buckets + 8 * hash.apply(evicted), 0);
                let newer = m.get(item + 8);
                m.set(newer, 0);
                m.set(at.words + 24, newer);
                check.remove(&evicted);
            }
        }
        m.set(item + 32, at.value);
        m.set(item + 48, record + 1);
        m.copy(at.buffer, item + 64, at.value);
        let old = m.get(bucket);
        if old != 0 {
            assert_eq!(m.get(old + 48), record + 1);
            let (older, newer) = (m.get(old), m.get(old + 8));
            m.set(if older == 0 { at.words + 24 } else { older + 8 }, newer);
            m.set(if newer == 0 { at.words + 16 } else { newer }, older);
            let spare = m.get(at.words);
            m.set(old, spare);
            m.set(at.words, old);
        }
        m.set(bucket, item);
        let newest = m.get(at.words + 16);
        m.set(if newest == 0 { at.words + 24 } else { newest + 8 }, item);
        m.set(item, newest);
        m.words.insert(item + 8, 0);
        m.set(at.words + 16, item);
        check.insert(record, n as u64);
    }
    m.references
}

#[test]
fn requests_make_the_references_of_a_store_with_all_data() {
    let mut evictions = 0;
    for spec in [
        "kv:bytes=64K,value=1000,requests=500,writes=50%,load=yes",
        "kv:bytes=100K,value=2K,records=200,requests=2000,writes=30%,load=yes,seed=4",
        "kv:bytes=300K,requests=100,load=yes,seed=2",
        "kv:bytes=64K,value=64,records=900,requests=3000,writes=60%,load=yes",
    ] {
        let (_, rest) = spec.split_once(':').unwrap();
        let values = Values::read(ABOUT.parameters, rest).unwrap();
        let source = super::super::generator(spec, 1).unwrap();
        let maps = source.start.iter().filter_map(|event| match event {
            Event::Map(map) if map.role == reach_core::Role::Mmap => Some(map.span),
            _ => None,
        });
        let maps: Vec<_> = maps.collect();
        let value = values.number("value");
        let item_bytes = (value + 64).next_multiple_of(64);
        let slots = maps[1].len / item_bytes;
        let records = if rest.contains("records") { values.number("records") } else { slots };
        let addresses = Addresses {
            words: Process::new("twin").data().0,
            buckets: maps[0].start.0,
            items: maps[1].start.0,
            items_end: maps[1].start.0 + slots * item_bytes,
            buffer: maps[2].start.0,
            item_bytes,
            value,
        };
        assert!(maps[0].len + maps[1].len <= values.number("bytes"));
        let seed = values.number("seed");
        let hash = Permutation::new(records.next_power_of_two(), seed);
        let mut random = Random::new(!seed);
        let mut requests: Vec<(u64, bool)> = (0..records).map(|record| (record, true)).collect();
        for _ in 0..values.number("requests") {
            let record = random.below(records);
            requests.push((record, random.unit() < values.share("writes")));
        }
        let expected = run(&addresses, &hash, &requests, &mut HashMap::new());
        let actual: Vec<Reference> = data(spec).iter().map(|r| (r.kind(), r.addr().0, r.size_log2())).collect();
        let first = actual.iter().zip(&expected).position(|(a, b)| a != b);
        let difference = first.map(|at| (at, actual[at], expected[at]));
        let lengths = (actual.len(), expected.len());
        assert!(difference.is_none() && lengths.0 == lengths.1, "{spec}: {difference:?}, {lengths:?}");
        evictions += usize::from(records > slots);
    }
    assert_eq!(evictions, 2);
}

#[test]
fn load_no_continues_as_after_load_yes() {
    for spec in ["kv:bytes=100K,value=1K,requests=400", "kv:bytes=100K,value=1K,records=300,requests=400,writes=40%"] {
        let (loaded, assumed) = (data(&format!("{spec},load=yes")), data(&format!("{spec},load=no")));
        assert!(loaded.len() > assumed.len() && loaded.ends_with(&assumed), "{spec}");
        let touched = data(&format!("{spec},load=pages"));
        assert!(touched.ends_with(&assumed) && touched.len() - assumed.len() <= 27, "{spec}");
    }
}

#[test]
fn too_few_records_are_refused() {
    let error = |spec: &str| super::super::parse(spec).err().unwrap().to_string();
    assert!(error("kv:bytes=64K,value=64K").contains("hold 0 of 0 records"));
    assert!(error("kv:bytes=64K,records=2").contains("hold 2 of 2 records"));
}
