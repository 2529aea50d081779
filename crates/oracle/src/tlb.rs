//! The twin of the TLB arrays: looked up and filled as `config::Tlb` states.

use crate::array::Array;
use reach_core::{Asid, Kind, NodeId, PageShift, Pte, Vpn};
use reach_hardware::config;
use std::collections::BTreeSet;

/// The span of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A page of this size.
    Page(PageShift),
    /// The span of a page-table entry of this level: a walk cache that has its entries in this array.
    Table(usize),
}

/// The tag of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub asid: Asid,
    pub unit: Unit,
    /// The address in units of what the entry spans.
    pub number: u64,
}

/// The contents of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    Page(Pte),
    Table(NodeId),
}

/// A hit.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    pub array: usize,
    pub key: Key,
    pub pte: Pte,
}

/// One array.
#[derive(Clone, Debug)]
pub struct Tlb {
    pub config: config::Tlb,
    pub array: Array<Key, Payload>,
    /// The page sizes that were ever inserted. Look-ups probe only these.
    inserted: BTreeSet<PageShift>,
}

/// All arrays of a machine.
#[derive(Clone, Debug)]
pub struct Tlbs {
    pub arrays: Vec<Tlb>,
    sizes: Vec<PageShift>,
    coalesces: Option<PageShift>,
}

impl Tlb {
    /// Returns the set of page, or page-table entry, `number`.
    pub fn set(&self, number: u64) -> u64 {
        let sets = self.array.sets();
        match self.config.index {
            config::Index::Low => number % sets,
            config::Index::Xor => (number % sets) ^ (number / sets % sets),
        }
    }
}

impl Tlbs {
    pub fn new(machine: &config::Machine, seed: u64) -> Tlbs {
        let array = |(i, config): (usize, &config::Tlb)| {
            let seed = seed ^ (i as u64 + 1).wrapping_mul(0x9e37_79b9);
            let array = Array::new(config.entries, config.ways, config.replacement, seed);
            Tlb { config: config.clone(), array, inserted: BTreeSet::new() }
        };
        Tlbs {
            arrays: machine.tlbs.iter().enumerate().map(array).collect(),
            sizes: machine.entry_sizes(),
            coalesces: machine.coalesces(),
        }
    }

    fn base(&self) -> PageShift {
        self.sizes[0]
    }

    /// Returns the levels that references of `kind` look up, nearest first.
    pub fn levels(&self, kind: Kind) -> Vec<u8> {
        let mut levels: Vec<u8> =
            self.arrays.iter().filter(|t| serves(&t.config, kind)).map(|t| t.config.level).collect();
        levels.sort();
        levels.dedup();
        levels
    }

    /// Returns the cycles after which a miss in the last level is known; 0 with one level.
    pub fn miss_latency(&self, kind: Kind) -> u64 {
        let levels = self.levels(kind);
        let &[_, .., last] = &levels[..] else { return 0 };
        let latencies = self.arrays_of(kind, last).into_iter().map(|i| self.arrays[i].config.latency);
        latencies.max().unwrap_or(0).into()
    }

    /// Returns whether references of `kind` look up such an array.
    pub fn serves(&self, config: &config::Tlb, kind: Kind) -> bool {
        serves(config, kind)
    }

    fn arrays_of(&self, kind: Kind, level: u8) -> Vec<usize> {
        let all = 0..self.arrays.len();
        all.filter(|&i| serves(&self.arrays[i].config, kind) && self.arrays[i].config.level == level).collect()
    }

    /// Returns the set and the key of the page of size `size` that holds `vpn`.
    fn key(&self, array: usize, asid: Asid, size: PageShift, vpn: Vpn) -> (u64, Key) {
        let number = vpn.0 / size.base_pages(self.base());
        (self.arrays[array].set(number), Key { asid, unit: Unit::Page(size), number })
    }

    /// Looks up level by level. Also returns the cycles of all probes except the first of each level.
    pub fn lookup(&mut self, kind: Kind, asid: Asid, vpn: Vpn) -> (Option<Hit>, u64) {
        let mut cycles = 0;
        for level in self.levels(kind) {
            let mut probes = 0;
            for array in self.arrays_of(kind, level) {
                let inserted = self.arrays[array].inserted.clone();
                for (i, &size) in inserted.iter().enumerate() {
                    // A fully associative array compares all sizes at once.
                    if i == 0 || self.arrays[array].array.sets() > 1 {
                        if probes > 0 && level >= 2 {
                            cycles += u64::from(self.arrays[array].config.probe);
                        }
                        probes += 1;
                    }
                    let (set, key) = self.key(array, asid, size, vpn);
                    if let Some(&mut Payload::Page(pte)) = self.arrays[array].array.lookup(set, key) {
                        return (Some(Hit { array, key, pte }), cycles);
                    }
                }
            }
        }
        (None, cycles)
    }

    /// Rewrites the entry of a hit.
    pub fn refresh(&mut self, hit: &Hit, pte: Pte) {
        let set = self.arrays[hit.array].set(hit.key.number);
        let array = &mut self.arrays[hit.array].array;
        *array.value_mut(set, hit.key).expect("it was hit") = Payload::Page(pte);
    }

    /// Inserts `pte`, which translates `vpn`, into one level. Returns the page that left it: address space, first base page and
    /// size. `None` if the level takes no such page.
    pub fn fill(
        &mut self,
        kind: Kind,
        level: u8,
        asid: Asid,
        vpn: Vpn,
        pte: Pte,
    ) -> Option<Option<(Asid, Vpn, PageShift)>> {
        let (array, size) = self.place(kind, level, vpn, pte.shift())?;
        let (set, key) = self.key(array, asid, size, vpn);
        let piece = vpn.align_down(size, self.base());
        let offset = piece - vpn.align_down(pte.shift(), self.base());
        let pte = pte.with_pfn(pte.pfn() + offset).with_shift(size);
        if Some(size) == self.coalesces {
            let pages = piece.0..piece.0 + size.base_pages(self.base());
            let base = self.base();
            let is_part = |key: Key| key.asid == asid && key.unit == Unit::Page(base) && pages.contains(&key.number);
            for other in self.arrays_of(kind, level) {
                self.arrays[other].array.remove_if(is_part);
            }
        }
        let evicted = self.arrays[array].array.insert_kept(set, key, Payload::Page(pte), kind == Kind::Fetch);
        self.arrays[array].inserted.insert(size);
        Some(evicted.and_then(|(key, _)| match key.unit {
            Unit::Page(size) => Some((key.asid, Vpn(key.number * size.base_pages(self.base())), size)),
            Unit::Table(_) => None,
        }))
    }

    /// Returns the array of `level` that holds a page of size `whole`, and the size of the piece that it holds. `None`
    /// if no array of the level takes such a page.
    fn place(&self, kind: Kind, level: u8, vpn: Vpn, whole: PageShift) -> Option<(usize, PageShift)> {
        let arrays = self.arrays_of(kind, level);
        for &size in self.sizes.iter().rev().filter(|&&s| s <= whole) {
            let takes = |array: &usize| {
                let config = &self.arrays[*array].config;
                let is_piece = match self.coalesces {
                    Some(span) if span == whole => size == self.base(),
                    Some(span) if span == size => false,
                    _ => config.smash || level <= 1,
                };
                let takes = config.sizes.contains(&size) || config.coalesce == Some(size);
                takes && (size == whole || is_piece)
            };
            let candidates: Vec<usize> = arrays.iter().copied().filter(takes).collect();
            if let Some(&first) = candidates.first() {
                let number = vpn.0 / size.base_pages(self.base());
                let turn = number / self.arrays[first].array.sets() % candidates.len() as u64;
                return Some((candidates[turn as usize], size));
            }
        }
        None
    }

    /// Drops every translation of `asid` that overlaps the `pages` from `vpn` on, and every table entry of `asid`.
    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let (start, end) = (u128::from(vpn.0), u128::from(vpn.0) + u128::from(pages));
        let base = self.base();
        for tlb in &mut self.arrays {
            tlb.array.remove_if(|key| match key.unit {
                _ if key.asid != asid => false,
                Unit::Table(_) => true,
                Unit::Page(size) => {
                    let span = u128::from(size.base_pages(base));
                    let first = u128::from(key.number) * span;
                    first < end && start < first + span
                }
            });
        }
    }

    /// Returns every translation: index of the array, address space, first base page, entry.
    pub fn contents(&self) -> Vec<(usize, Asid, Vpn, Pte)> {
        let mut all = Vec::new();
        for (index, tlb) in self.arrays.iter().enumerate() {
            for (key, held) in tlb.array.entries() {
                if let (Unit::Page(size), Payload::Page(pte)) = (key.unit, held) {
                    all.push((index, key.asid, Vpn(key.number * size.base_pages(self.base())), pte));
                }
            }
        }
        all
    }
}

fn serves(config: &config::Tlb, kind: Kind) -> bool {
    match kind {
        Kind::Fetch => config.serves.fetch,
        Kind::Load => config.serves.load,
        Kind::Store => config.serves.store,
    }
}
