//! `cuckoo`: elastic cuckoo page tables (ECPT).
//!
//! After: Skarlatos, Kokolis, Xu and Torrellas, "Elastic Cuckoo Page Tables: Rethinking Virtual Memory Translation for
//! Parallelism", ASPLOS 2020.
//!
//! | design | here |
//! |---|---|
//! | elastic cuckoo hashing, three ways, growth beyond 60 % a line at a time | `cuckoo/elastic.rs` |
//! | one table for each page size, of lines of eight entries | [`Cuckoo::tables`] |
//! | cuckoo walk tables (CWTs): for each 2 MB and 1 GB, which sizes are mapped there, and where | `cuckoo/sections.rs` |
//! | caches of them: 16 entries for 2 MB, 2 for 1 GB | [`WALK_CACHES`] |
//! | complete, partial, size and direct walks | `Cuckoo::walk` |
//!
//! Readings. A walk ends when the entry arrives that it looks for, and waits for the slowest if there is none. A walk that
//! misses in a cache of walk tables reads the walk table while it goes on, and the cache has the entry for the next walk.
//! Caches are coherent: they hold the walk table's present contents. Tables begin with 4 KB a way (the paper's begin larger),
//! do not shrink, and are made with their first entry. Hashes take no time of their own.

use super::{BUCKET, ENTRY, Entries, Numbers, Organization, TableTraffic, Walker};
use crate::{FrameSource, Layout, PhysAddr, Vpn};
use elastic::{Elastic, WAYS};
use sections::Sections;

mod elastic;
mod sections;

/// Entries of the caches of walk tables: for level 1 and level 2.
pub(super) const WALK_CACHES: [u32; 2] = [16, 2];

/// Elastic cuckoo page tables.
#[derive(Clone, Debug)]
pub(super) struct Cuckoo {
    numbers: Numbers,
    /// By level; `None` for a level that never had an entry.
    tables: Vec<Option<Elastic>>,
    /// The walk tables, by level from 1 on.
    sections: Vec<Sections>,
}

impl Cuckoo {
    pub fn new(layout: &Layout) -> Cuckoo {
        let numbers = Numbers::new(layout);
        let walk_tables = (1..numbers.levels()).take(WALK_CACHES.len());
        Cuckoo {
            tables: vec![None; numbers.levels()],
            sections: walk_tables.map(|level| Sections::new(&numbers, level)).collect(),
            numbers,
        }
    }

    /// Returns the addresses that a walk for `vpn` reads at the same time in the tables of `levels`.
    fn places(&self, vpn: Vpn, levels: &[usize]) -> Vec<PhysAddr> {
        let mut group = Vec::with_capacity(levels.len() * WAYS);
        for &level in levels {
            let number = self.numbers.of(level, vpn);
            if let Some(table) = &self.tables[level] {
                group.extend(table.places(number / BUCKET).map(|line| line + number % BUCKET * ENTRY));
            }
        }
        group
    }

    /// Enters `entries` into the walk tables. Returns `None`, and then nothing has changed, when memory is exhausted.
    fn note(&mut self, entries: Entries, memory: &mut dyn FrameSource, log: &mut Vec<TableTraffic>) -> Option<()> {
        let concerned = |sections: &&mut Sections| sections.level() >= entries.level;
        for at in 0..self.sections.len() {
            let sections = Some(&mut self.sections[at]).filter(concerned);
            if sections.is_some_and(|sections| sections.note(entries, memory, log).is_none()) {
                self.sections[..at].iter_mut().filter(concerned).for_each(|before| before.forget(entries, log));
                return None;
            }
        }
        Some(())
    }

    /// Removes `entries` from the walk tables.
    fn forget(&mut self, entries: Entries, log: &mut Vec<TableTraffic>) {
        let concerned = self.sections.iter_mut().filter(|sections| sections.level() >= entries.level);
        concerned.for_each(|sections| sections.forget(entries, log));
    }
}

impl Organization for Cuckoo {
    fn bytes(&self) -> u64 {
        let tables: u64 = self.tables.iter().flatten().map(Elastic::bytes).sum();
        tables + self.sections.iter().map(Sections::bytes).sum::<u64>()
    }

    fn insert(&mut self, entries: Entries, memory: &mut dyn FrameSource, log: &mut Vec<TableTraffic>) -> Option<()> {
        if self.tables[entries.level].is_none() {
            self.tables[entries.level] = Some(Elastic::new(memory)?);
        }
        self.note(entries, memory, log)?;
        let table = self.tables[entries.level].as_mut().expect("made above");
        let sections = self.sections.iter().find(|sections| sections.level() == entries.level);
        let mut added = Vec::new();
        for (block, mask) in entries.blocks() {
            let mut moved = Vec::new();
            if table.add(block, mask, memory, log, &mut |key| moved.push(key)).is_none() {
                added.into_iter().for_each(|(block, mask)| table.subtract(block, mask));
                self.forget(entries, log);
                return None;
            }
            added.push((block, mask));
            // The walk table says in which way a large page is.
            let places = moved.into_iter().filter_map(|key| sections?.place(key * BUCKET));
            log.extend(places.map(|at| TableTraffic { at, bytes: ENTRY, write: true }));
        }
        Some(())
    }

    fn remove(&mut self, entries: Entries, log: &mut Vec<TableTraffic>) {
        let table = self.tables[entries.level].as_mut().expect("the entries are present");
        entries.blocks().for_each(|(block, mask)| table.subtract(block, mask));
        self.forget(entries, log);
    }

    fn find(&self, level: usize, vpn: Vpn) -> Option<PhysAddr> {
        let number = self.numbers.of(level, vpn);
        let (line, present) = self.tables[level].as_ref()?.find(number / BUCKET)?;
        (present >> (number % BUCKET) & 1 == 1).then(|| line + number % BUCKET * ENTRY)
    }

    fn walk(&self, vpn: Vpn, walker: &mut dyn Walker) -> bool {
        let mut levels: Vec<usize> = (0..self.tables.len()).filter(|&level| self.tables[level].is_some()).collect();
        let mut missed = Vec::new();
        let mut direct = None;
        // What is known of the smallest section decides; larger ones only matter where that is not known.
        for (cache, sections) in self.sections.iter().enumerate() {
            let (level, entry) = (sections.level(), sections.entry_of(vpn));
            if !walker.lookup(cache, entry) {
                missed.push((cache, entry));
                continue;
            }
            let section = sections.of(vpn);
            if section.is_empty() {
                levels.retain(|&other| other > level);
                continue;
            }
            levels.retain(|&other| other < level && section.below[other] > 0);
            if section.own {
                direct = self.find(level, vpn);
                missed.clear();
            }
            break;
        }
        let group = direct.map_or_else(|| self.places(vpn, &levels), |at| vec![at]);
        let entry = direct.or_else(|| levels.iter().find_map(|&level| self.find(level, vpn)));
        let found = entry.and_then(|entry| group.iter().position(|&at| at == entry));
        if !group.is_empty() && !walker.read(&group, found) {
            return false;
        }
        let aside: Vec<_> = missed.iter().flat_map(|&(cache, entry)| self.sections[cache].places(entry)).collect();
        if !aside.is_empty() {
            walker.read_aside(&aside);
        }
        missed.into_iter().for_each(|(cache, entry)| walker.insert(cache, entry));
        true
    }

    fn release(&mut self, memory: &mut dyn FrameSource) {
        self.tables.iter_mut().filter_map(Option::take).for_each(|table| table.free(memory));
        self.sections.iter_mut().for_each(|sections| sections.release(memory));
    }

    fn check(&self) {
        self.tables.iter().flatten().for_each(Elastic::check);
        self.sections.iter().for_each(Sections::check);
    }

    fn copied(&self) -> Box<dyn Organization> {
        Box::new(self.clone())
    }
}
