//! `chained`: a hash table with chains.
//!
//! After the hashed page table of PowerPC (Power ISA, Book III, *Page Table*; Talluri, Hill and Khalidi, SOSP 1995,
//! describe its kind), the baseline of later hashed designs: a group of eight entries of 16 bytes, two lines, for each
//! value of the hash function. An entry carries its own tag, and neighbouring pages lie in unrelated groups.
//!
//! Readings. Power has a second hash function, and evicts an entry when both groups are full, because its table is a cache
//! of other tables. Here an address has one group and, when that is full, a chain of further groups, each of which a walk
//! reads after the one before, line by line. Each level of the radix tree that has entries gets a table of its own, and a
//! walk searches all of them at the same time. The table is of one process, begins with 4 KB, doubles when more than half
//! of its entries are in use, and is rehashed at once. Groups of a chain are freed when it is rehashed.

use super::memory::TableMemory;
use super::{Entries, Numbers, Organization, TableTraffic, Walker, hash};
use crate::{FrameSource, Layout, PhysAddr, Vpn};

/// Entries of a group.
const GROUP: usize = 8;
/// Bytes of an entry with its tag.
const WIDE: u64 = 16;
/// Groups of the smallest table, and of each allocation for chains: 4 KB.
const FEWEST: usize = 32;
/// Lines of a group.
const LINES: usize = 2;
/// Entries of a line.
const PER_LINE: usize = GROUP / LINES;

/// A group: the number of each entry, plus one; 0 for an unused one.
type Group = [u64; GROUP];

/// The table of one level.
#[derive(Clone, Debug)]
struct Groups {
    /// A power of two of groups, then those of chains.
    groups: Vec<Group>,
    /// The group behind each in its chain.
    next: Vec<Option<u32>>,
    /// Groups that are not of chains.
    heads: usize,
    /// The memory of the heads, and of each [`FEWEST`] groups of chains.
    memory: Vec<TableMemory>,
    entries: usize,
}

impl Groups {
    fn new(heads: usize, memory: &mut dyn FrameSource) -> Option<Groups> {
        let first = TableMemory::allocate(heads as u64 * GROUP as u64 * WIDE, memory)?;
        Some(Groups {
            groups: vec![[0; GROUP]; heads],
            next: vec![None; heads],
            heads,
            memory: vec![first],
            entries: 0,
        })
    }

    fn bytes(&self) -> u64 {
        self.memory.iter().map(TableMemory::bytes).sum()
    }

    /// Returns the address of line `line` of `group`.
    fn line(&self, group: usize, line: usize) -> PhysAddr {
        match group.checked_sub(self.heads) {
            None => self.memory[0].line(group * LINES + line),
            Some(behind) => self.memory[1 + behind / FEWEST].line(behind % FEWEST * LINES + line),
        }
    }

    fn entry(&self, group: usize, slot: usize) -> PhysAddr {
        self.line(group, slot / PER_LINE) + (slot % PER_LINE) as u64 * WIDE
    }

    /// Returns the groups in which entry `number` may be, in the order of the search.
    fn chain(&self, number: u64) -> impl Iterator<Item = usize> + '_ {
        let head = hash(number, 0) as usize & (self.heads - 1);
        std::iter::successors(Some(head), |&group| self.next[group].map(|next| next as usize))
    }

    /// Returns group and slot of entry `number`.
    fn find(&self, number: u64) -> Option<(usize, usize)> {
        let slot = |group: usize| self.groups[group].iter().position(|&tag| tag == number + 1);
        self.chain(number).find_map(|group| Some((group, slot(group)?)))
    }

    /// Adds an entry for which [`Groups::reserve`] made room. Returns its address; `None` when memory for a group of its
    /// chain is exhausted.
    fn add(&mut self, number: u64, memory: &mut dyn FrameSource) -> Option<PhysAddr> {
        let hole = |group: usize| self.groups[group].iter().position(|&tag| tag == 0);
        let free = self.chain(number).find_map(|group| Some((group, hole(group)?)));
        let (group, slot) = match free {
            Some(free) => free,
            None => {
                let (last, new) = (self.chain(number).last().unwrap_or(0), self.groups.len());
                if (new - self.heads).is_multiple_of(FEWEST) {
                    self.memory.push(TableMemory::allocate(FEWEST as u64 * GROUP as u64 * WIDE, memory)?);
                }
                self.groups.push([0; GROUP]);
                self.next.push(None);
                self.next[last] = Some(new as u32);
                (new, 0)
            }
        };
        self.groups[group][slot] = number + 1;
        self.entries += 1;
        Some(self.entry(group, slot))
    }

    /// Removes entry `number`, which is present.
    fn remove(&mut self, number: u64) {
        let (group, slot) = self.find(number).expect("the entry is present");
        self.groups[group][slot] = 0;
        self.entries -= 1;
    }

    /// Rehashes if more than half of the heads' entries would be in use with `more` entries.
    fn reserve(&mut self, more: usize, memory: &mut dyn FrameSource, log: &mut Vec<TableTraffic>) -> Option<()> {
        let needed = (self.entries + more) * 2;
        if needed <= self.heads * GROUP {
            return Some(());
        }
        let mut new = Groups::new(needed.div_ceil(GROUP).next_power_of_two(), memory)?;
        for (group, entries) in self.groups.iter().enumerate() {
            for (slot, &tag) in entries.iter().enumerate().filter(|&(_, &tag)| tag != 0) {
                let Some(to) = new.add(tag - 1, memory) else {
                    new.free(memory);
                    return None;
                };
                log.push(TableTraffic { at: self.entry(group, slot), bytes: WIDE, write: false });
                log.push(TableTraffic { at: to, bytes: WIDE, write: true });
            }
        }
        std::mem::replace(self, new).free(memory);
        Some(())
    }

    fn free(self, memory: &mut dyn FrameSource) {
        self.memory.into_iter().for_each(|part| part.free(memory));
    }
}

/// A hash table with chains for each level.
#[derive(Clone, Debug)]
pub(super) struct Chained {
    numbers: Numbers,
    /// By level; `None` for a level that never had an entry.
    tables: Vec<Option<Groups>>,
}

impl Chained {
    pub fn new(layout: &Layout) -> Chained {
        let numbers = Numbers::new(layout);
        Chained { tables: vec![None; numbers.levels()], numbers }
    }
}

impl Organization for Chained {
    fn bytes(&self) -> u64 {
        self.tables.iter().flatten().map(Groups::bytes).sum()
    }

    fn insert(&mut self, entries: Entries, memory: &mut dyn FrameSource, log: &mut Vec<TableTraffic>) -> Option<()> {
        let table = match &mut self.tables[entries.level] {
            Some(table) => table,
            none => none.insert(Groups::new(FEWEST, memory)?),
        };
        table.reserve(entries.count as usize, memory, log)?;
        for number in entries.first..entries.first + entries.count {
            if table.add(number, memory).is_none() {
                (entries.first..number).for_each(|number| table.remove(number));
                return None;
            }
        }
        Some(())
    }

    fn remove(&mut self, entries: Entries, _: &mut Vec<TableTraffic>) {
        let table = self.tables[entries.level].as_mut().expect("the entries are present");
        (entries.first..entries.first + entries.count).for_each(|number| table.remove(number));
    }

    fn find(&self, level: usize, vpn: Vpn) -> Option<PhysAddr> {
        let table = self.tables[level].as_ref()?;
        table.find(self.numbers.of(level, vpn)).map(|(group, slot)| table.entry(group, slot))
    }

    fn walk(&self, vpn: Vpn, walker: &mut dyn Walker) -> bool {
        let searches = self.tables.iter().enumerate();
        let mut searches: Vec<_> = searches
            .filter_map(|(level, table)| {
                let (table, number) = (table.as_ref()?, self.numbers.of(level, vpn));
                let lines = table.chain(number).flat_map(|group| (0..LINES).map(move |line| (group, line)));
                Some((table, table.find(number), lines))
            })
            .collect();
        while !searches.is_empty() {
            let mut group = Vec::with_capacity(searches.len());
            let mut found = None;
            searches.retain_mut(|(table, entry, lines)| {
                let Some((at, line)) = lines.next() else { return false };
                let here = entry.filter(|&(of, slot)| of == at && slot / PER_LINE == line);
                group.push(here.map_or(table.line(at, line), |(of, slot)| table.entry(of, slot)));
                if here.is_some() {
                    found = Some(group.len() - 1);
                }
                true
            });
            if !group.is_empty() && !walker.read(&group, found) {
                return false;
            }
            if found.is_some() {
                return true;
            }
        }
        true
    }

    fn release(&mut self, memory: &mut dyn FrameSource) {
        self.tables.iter_mut().filter_map(Option::take).for_each(|table| table.free(memory));
    }

    fn check(&self) {
        for table in self.tables.iter().flatten() {
            let used = table.groups.iter().flatten().filter(|&&tag| tag != 0);
            assert_eq!(used.clone().count(), table.entries, "entries were lost");
            used.for_each(|tag| assert!(table.find(tag - 1).is_some(), "a search does not find entry {}", tag - 1));
        }
    }

    fn copied(&self) -> Box<dyn Organization> {
        Box::new(self.clone())
    }
}
