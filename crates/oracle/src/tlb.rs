//! TLB arrays, asked and filled as `config::Tlb` says.

use crate::array::Array;
use reach_core::{Asid, Kind, NodeId, PageShift, Pte, Vpn};
use reach_hardware::config;
use std::collections::BTreeSet;

/// What an entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A page of this size.
    Page(PageShift),
    /// A page-table entry of this level: a walk cache's guest among the translations.
    Table(usize),
}

/// What an entry is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub asid: Asid,
    pub what: What,
    /// The address in units of what the entry spans.
    pub number: u64,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Page(Pte),
    Table(NodeId),
}

/// What a lookup found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub array: usize,
    pub key: Key,
    pub pte: Pte,
}

/// One array.
#[derive(Clone, Debug)]
pub struct Tlb {
    pub config: config::Tlb,
    pub array: Array<Key, Held>,
    /// Sizes of pages that have been entered since the start: only these are looked for.
    seen: BTreeSet<PageShift>,
}

/// All arrays of a machine.
#[derive(Clone, Debug)]
pub struct Tlbs {
    pub arrays: Vec<Tlb>,
    sizes: Vec<PageShift>,
}

impl Tlbs {
    pub fn new(machine: &config::Machine, seed: u64) -> Tlbs {
        let array = |(i, config): (usize, &config::Tlb)| {
            let seed = seed ^ (i as u64 + 1).wrapping_mul(0x9e37_79b9);
            let array = Array::new(config.entries, config.ways, config.replacement, seed);
            Tlb { config: config.clone(), array, seen: BTreeSet::new() }
        };
        Tlbs { arrays: machine.tlbs.iter().enumerate().map(array).collect(), sizes: machine.sizes.clone() }
    }

    fn base(&self) -> PageShift {
        self.sizes[0]
    }

    /// The levels that references of `kind` ask, nearest first.
    pub fn levels(&self, kind: Kind) -> Vec<u8> {
        let mut levels: Vec<u8> =
            self.arrays.iter().filter(|t| serves(&t.config, kind)).map(|t| t.config.level).collect();
        levels.sort();
        levels.dedup();
        levels
    }

    /// Whether references of `kind` ask such an array.
    pub fn serves(&self, config: &config::Tlb, kind: Kind) -> bool {
        serves(config, kind)
    }

    fn arrays_of(&self, kind: Kind, level: u8) -> Vec<usize> {
        let all = 0..self.arrays.len();
        all.filter(|&i| serves(&self.arrays[i].config, kind) && self.arrays[i].config.level == level).collect()
    }

    /// The key and set of the page of size `size` that holds `vpn`.
    fn key(&self, array: usize, asid: Asid, size: PageShift, vpn: Vpn) -> (u64, Key) {
        let number = vpn.0 / size.base_pages(self.base());
        (number % self.arrays[array].array.sets(), Key { asid, what: What::Page(size), number })
    }

    /// Asks level by level. Also gives the cycles of all probes that were not the first of their level.
    pub fn lookup(&mut self, kind: Kind, asid: Asid, vpn: Vpn) -> (Option<Found>, u64) {
        let mut cycles = 0;
        for level in self.levels(kind) {
            let mut probes = 0;
            for array in self.arrays_of(kind, level) {
                let seen = self.arrays[array].seen.clone();
                for (i, &size) in seen.iter().enumerate() {
                    // A fully associative array compares all sizes at once.
                    if i == 0 || self.arrays[array].array.sets() > 1 {
                        if probes > 0 && level >= 2 {
                            cycles += u64::from(self.arrays[array].config.probe);
                        }
                        probes += 1;
                    }
                    let (set, key) = self.key(array, asid, size, vpn);
                    if let Some(&mut Held::Page(pte)) = self.arrays[array].array.lookup(set, key) {
                        return (Some(Found { array, key, pte }), cycles);
                    }
                }
            }
        }
        (None, cycles)
    }

    /// Rewrites an entry that was found.
    pub fn refresh(&mut self, found: &Found, pte: Pte) {
        let array = &mut self.arrays[found.array].array;
        let set = found.key.number % array.sets();
        *array.lookup(set, found.key).expect("it was found") = Held::Page(pte);
    }

    /// Enters `pte`, which translates `vpn`, in one level.
    pub fn fill(&mut self, kind: Kind, level: u8, asid: Asid, vpn: Vpn, pte: Pte) {
        let Some((array, size)) = self.place(kind, level, vpn, pte.shift()) else { return };
        let (set, key) = self.key(array, asid, size, vpn);
        let piece = vpn.align_down(size, self.base());
        let offset = piece - vpn.align_down(pte.shift(), self.base());
        let pte = pte.with_pfn(pte.pfn() + offset).with_shift(size);
        self.arrays[array].array.insert(set, key, Held::Page(pte));
        self.arrays[array].seen.insert(size);
    }

    /// Where `level` keeps a page of size `whole`, and as a piece of what size.
    fn place(&self, kind: Kind, level: u8, vpn: Vpn, whole: PageShift) -> Option<(usize, PageShift)> {
        let arrays = self.arrays_of(kind, level);
        for &size in self.sizes.iter().rev().filter(|&&s| s <= whole) {
            let may = |array: &usize| {
                let config = &self.arrays[*array].config;
                config.sizes.contains(&size) && (size == whole || config.smash || level <= 1)
            };
            let equals: Vec<usize> = arrays.iter().copied().filter(may).collect();
            if let Some(&first) = equals.first() {
                let number = vpn.0 / size.base_pages(self.base());
                let turn = number / self.arrays[first].array.sets() % equals.len() as u64;
                return Some((equals[turn as usize], size));
            }
        }
        None
    }

    /// Removes every translation of `asid` that overlaps the pages, and every table entry of `asid`.
    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let (start, end) = (u128::from(vpn.0), u128::from(vpn.0) + u128::from(pages));
        let base = self.base();
        for tlb in &mut self.arrays {
            tlb.array.remove_if(|key| match key.what {
                _ if key.asid != asid => false,
                What::Table(_) => true,
                What::Page(size) => {
                    let span = u128::from(size.base_pages(base));
                    let first = u128::from(key.number) * span;
                    first < end && start < first + span
                }
            });
        }
    }

    /// Every translation held: array, address space, first base page.
    pub fn contents(&self) -> Vec<(usize, Asid, Vpn, Pte)> {
        let mut all = Vec::new();
        for (index, tlb) in self.arrays.iter().enumerate() {
            for (key, held) in tlb.array.entries() {
                if let (What::Page(size), Held::Page(pte)) = (key.what, held) {
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
