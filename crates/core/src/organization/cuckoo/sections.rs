//! Cuckoo walk tables: for each section of the address space of 2 MB or 1 GB, which page sizes are mapped there, and for a
//! page of the section's size the way that its entry is in (Skarlatos et al. §5). An entry of a walk table describes 64
//! consecutive sections in a line.

use super::elastic::Elastic;
use crate::organization::{ENTRY, Entries, Numbers, TableTraffic};
use crate::{FrameSource, PhysAddr, Vpn};
use std::collections::HashMap;

/// Sections that an entry of a walk table describes.
const PER_ENTRY: u64 = 64;
/// The most levels below a section.
const BELOW: usize = 2;

/// What is mapped in a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// A page of the section's size.
    pub own: bool,
    /// Numbers of entries of the levels below.
    pub below: [u32; BELOW],
}

impl Section {
    pub fn is_empty(&self) -> bool {
        *self == Section::default()
    }

    /// Returns what the walk table says of it: which sizes there are.
    fn header(&self) -> (bool, [bool; BELOW]) {
        (self.own, self.below.map(|entries| entries > 0))
    }
}

/// The walk table of one level.
#[derive(Clone, Debug)]
pub(super) struct Sections {
    level: usize,
    /// By level up to this one: the binary logarithm of the base pages of an entry.
    orders: Vec<u8>,
    sections: HashMap<u64, Section>,
    /// Sections described by each entry of the walk table.
    entries: HashMap<u64, u32>,
    /// The walk table. `None` until the first section.
    table: Option<Elastic>,
}

impl Sections {
    pub fn new(numbers: &Numbers, level: usize) -> Sections {
        let orders = numbers.orders[..=level].to_vec();
        Sections { level, orders, sections: HashMap::new(), entries: HashMap::new(), table: None }
    }

    /// Returns the level of pages of the sections' size.
    pub fn level(&self) -> usize {
        self.level
    }

    pub fn bytes(&self) -> u64 {
        self.table.as_ref().map_or(0, Elastic::bytes)
    }

    /// Returns the number of the walk table's entry for `vpn`.
    pub fn entry_of(&self, vpn: Vpn) -> u64 {
        (vpn.0 >> self.orders[self.level]) / PER_ENTRY
    }

    /// Returns what is mapped in the section of `vpn`.
    pub fn of(&self, vpn: Vpn) -> Section {
        self.sections.get(&(vpn.0 >> self.orders[self.level])).copied().unwrap_or_default()
    }

    /// Returns the lines in which the walk table's entry `entry` may be.
    pub fn places(&self, entry: u64) -> impl Iterator<Item = PhysAddr> + use<> {
        self.table.as_ref().map(|table| table.places(entry)).into_iter().flatten()
    }

    /// Returns the line of the walk table that describes section `section`.
    pub fn place(&self, section: u64) -> Option<PhysAddr> {
        self.table.as_ref()?.find(section / PER_ENTRY).map(|(at, _)| at)
    }

    /// Returns the sections that `entries` lie in, with how many of them lie in each.
    fn sections_of(&self, entries: Entries) -> impl Iterator<Item = (u64, u32)> + use<> {
        let each = self.orders[self.level] - self.orders[entries.level];
        let last = entries.first + entries.count - 1;
        let within = entries.count.min(1 << each) as u32;
        (entries.first >> each..=last >> each).map(move |section| (section, within))
    }

    /// Notes that `entries` came. Returns `None`, and then nothing has changed, when memory is exhausted.
    pub fn note(&mut self, entries: Entries, memory: &mut dyn FrameSource, log: &mut Vec<TableTraffic>) -> Option<()> {
        if self.table.is_none() {
            self.table = Some(Elastic::new(memory)?);
        }
        let table = self.table.as_mut()?;
        // The lines first, because they can fail.
        let each = self.orders[self.level] - self.orders[entries.level];
        let sections: Vec<_> = (entries.first >> each..=(entries.first + entries.count - 1) >> each).collect();
        for &section in &sections {
            let entry = section / PER_ENTRY;
            if !self.entries.contains_key(&entry) && table.add(entry, 1, memory, log, &mut |_| ()).is_none() {
                self.drop_unused(&sections);
                return None;
            }
        }
        for (section, within) in self.sections_of(entries) {
            let (level, own_level) = (self.level, entries.level);
            let known = self.sections.entry(section).or_default();
            let before = *known;
            if own_level == level {
                known.own = true;
            } else {
                known.below[own_level] += within;
            }
            let changed = known.header() != before.header();
            if before.is_empty() {
                *self.entries.entry(section / PER_ENTRY).or_default() += 1;
            }
            if changed {
                self.log_write(section, log);
            }
        }
        Some(())
    }

    /// Notes that `entries` went.
    pub fn forget(&mut self, entries: Entries, log: &mut Vec<TableTraffic>) {
        let mut sections = Vec::new();
        for (section, within) in self.sections_of(entries) {
            let (level, own_level) = (self.level, entries.level);
            let known = self.sections.get_mut(&section).expect("it was noted when its entries came");
            let before = *known;
            if own_level == level {
                known.own = false;
            } else {
                known.below[own_level] -= within;
            }
            let after = *known;
            if after.header() != before.header() {
                self.log_write(section, log);
            }
            if after.is_empty() {
                self.sections.remove(&section);
                let entry = section / PER_ENTRY;
                let described = self.entries.get_mut(&entry).expect("it describes this section");
                *described -= 1;
                if *described == 0 {
                    self.entries.remove(&entry);
                }
                sections.push(section);
            }
        }
        self.drop_unused(&sections);
    }

    /// Drops the lines of the walk table that describe no section any more, among those for `sections`.
    fn drop_unused(&mut self, sections: &[u64]) {
        let Some(table) = &mut self.table else { return };
        for section in sections {
            let entry = section / PER_ENTRY;
            if !self.entries.contains_key(&entry) && table.find(entry).is_some() {
                table.subtract(entry, 1);
            }
        }
    }

    /// Logs that the header of `section` was written.
    fn log_write(&self, section: u64, log: &mut Vec<TableTraffic>) {
        if let Some(at) = self.place(section) {
            log.push(TableTraffic { at, bytes: ENTRY, write: true });
        }
    }

    pub fn release(&mut self, memory: &mut dyn FrameSource) {
        if let Some(table) = self.table.take() {
            table.free(memory);
        }
    }

    pub fn check(&self) {
        assert_eq!(self.table.as_ref().map_or(0, Elastic::used), self.entries.len(), "a line for each entry");
        if let Some(table) = &self.table {
            table.check();
        }
        let described: u32 = self.entries.values().sum();
        assert_eq!(described as usize, self.sections.len(), "an entry for each section");
        for (section, known) in &self.sections {
            assert!(!known.is_empty() && self.place(*section).is_some(), "section {section} has no entry");
        }
    }
}
