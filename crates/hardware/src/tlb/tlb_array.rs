//! One TLB array with the page sizes that it holds.

use super::tag::{Context, SIZES};
use crate::array::Array;
use crate::config;
use reach_core::{PageShift, Pte, Vpn};

/// One TLB array with the page sizes that it holds.
#[derive(Clone, Debug)]
pub(crate) struct TlbArray {
    pub array: Array<u64>,
    pub(super) set_mask: u64,
    pub(super) set_bits: u32,
    /// See [`config::Index::fold`].
    pub(super) fold: u32,
    /// By page size: the binary logarithm of its base pages.
    pub(super) orders: [u8; SIZES],
    /// By page size: whether the array may hold it.
    pub(super) takes: [bool; SIZES],
    /// Sizes held at any time since the start, as bits. Look-ups probe only these.
    pub(super) present: u32,
    pub level: u8,
    pub latency: u32,
    /// Cycles of a probe after a probe of another array of the level. 0 in first-level arrays, which are probed in
    /// parallel.
    pub(super) probe: u32,
    /// Cycles of another probe of this array for another size. 0 in first-level and fully associative arrays.
    pub(super) probe_again: u32,
    pub(super) smash: bool,
    /// See [`config::Replacement::repeats_change_nothing`].
    pub(super) repeats_change_nothing: bool,
    /// A walk cache keeps its entries among the translations.
    pub(super) lends: bool,
}

/// The effect of filling one array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    /// Index of the array.
    pub array: usize,
    /// Tag of the page entered.
    pub tag: u64,
    /// Tag of the entry that it replaced; `None` if a way was free.
    pub evicted: Option<u64>,
}

impl TlbArray {
    /// Creates array number `number` of `machine`, empty.
    pub fn new(machine: &config::Machine, number: usize, seed: u64) -> TlbArray {
        let tlb = &machine.tlbs[number];
        let seed = seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9);
        let array = Array::new(tlb.entries as usize, tlb.ways as usize, tlb.replacement, seed);
        TlbArray {
            set_mask: array.sets() as u64 - 1,
            set_bits: array.sets().trailing_zeros(),
            fold: tlb.index.fold(array.sets()),
            array,
            orders: per_size(machine, |s| s.0 - machine.sizes[0].0),
            takes: per_size(machine, |s| tlb.sizes.contains(&s) || tlb.coalesce == Some(s)),
            present: 0,
            level: tlb.level,
            latency: tlb.latency,
            probe: if tlb.level >= 2 { tlb.probe } else { 0 },
            probe_again: if tlb.level >= 2 && tlb.entries > tlb.ways { tlb.probe } else { 0 },
            smash: tlb.smash,
            repeats_change_nothing: tlb.replacement.repeats_change_nothing(),
            lends: false,
        }
    }

    /// Returns the set of page, or page-table entry, `number`.
    #[inline(always)]
    pub(super) fn set_of(&self, number: u64) -> usize {
        ((number ^ number >> self.fold) & self.set_mask) as usize
    }

    /// Returns set and tag of the page of size number `size` that holds `vpn`.
    #[inline(always)]
    pub(super) fn place(&self, size: usize, context: Context, vpn: Vpn) -> (usize, u64) {
        let number = vpn.0 >> self.orders[size];
        (self.set_of(number), context.tag(size as u64, number))
    }

    /// Enters `pte` as a page of size number `size`, for a fetch or another reference. Returns whether it is the first of its size here, its tag, and the tag
    /// of the evicted entry.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        size: usize,
        context: Context,
        vpn: Vpn,
        pte: Pte,
        fetch: bool,
    ) -> (bool, u64, Option<u64>) {
        let (set, tag) = self.place(size, context, vpn);
        let evicted = self.array.insert_for(set, tag, pte.0, fetch);
        let first = self.present >> size & 1 == 0;
        self.present |= 1 << size;
        (first, tag, evicted.map(|(tag, _)| tag))
    }

    /// Removes the base pages of the page of size number `size` that holds `vpn`.
    pub(super) fn remove_base_pages(&mut self, context: Context, vpn: Vpn, size: usize) {
        if self.present & 1 != 0 {
            let first = vpn.0 >> self.orders[size] << self.orders[size];
            for number in first..first + (1 << self.orders[size]) {
                self.array.remove(self.set_of(number), context.tag(0, number));
            }
        }
    }

    /// Returns the piece of size number `size` of the page `pte` that holds `vpn`.
    pub(super) fn smashed(&self, pte: Pte, vpn: Vpn, size: usize, base: PageShift) -> Pte {
        let shift = PageShift(base.0 + self.orders[size]);
        let within = vpn.0 & (pte.shift().base_pages(base) - 1) & !(shift.base_pages(base) - 1);
        pte.with_pfn(pte.pfn() + within).with_shift(shift)
    }

    /// Lends entries to a walk cache. Call before the first reference.
    pub fn lend(&mut self) {
        self.lends = true;
    }

    /// Looks up a page-table entry of the walk cache that lives here.
    #[inline]
    pub fn lookup_table(&mut self, context: Context, level: usize, number: u64) -> Option<u64> {
        let set = self.set_of(number);
        self.array.lookup(set, context.table_tag(level, number)).copied()
    }

    /// Enters a page-table entry of the walk cache that lives here.
    #[inline]
    pub fn insert_table(&mut self, context: Context, level: usize, number: u64, word: u64) {
        let set = self.set_of(number);
        self.array.insert(set, context.table_tag(level, number), word);
    }
}

fn per_size<T: Copy + Default>(machine: &config::Machine, of: impl Fn(PageShift) -> T) -> [T; SIZES] {
    let mut all = [T::default(); SIZES];
    for (slot, size) in all.iter_mut().zip(machine.entry_sizes()) {
        *slot = of(size);
    }
    all
}
