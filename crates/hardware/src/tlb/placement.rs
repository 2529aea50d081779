//! Read-only queries about where pages are and where they belong, for miss curves ([`crate::curve`]).

use super::{Context, KINDS, Probe, Tlbs};
use crate::tlb::tag::class_of;
use reach_core::{Kind, PageShift, Vpn};
use std::collections::BTreeSet;

impl Tlbs {
    /// Returns the array in which a look-up would find `vpn`, and the size of the page that it would find; `None` if it
    /// would miss.
    pub fn locate(&self, kind: Kind, context: Context, vpn: Vpn) -> Option<(usize, PageShift)> {
        let found = self.probes[kind as usize].iter().find(|probe| {
            let (set, tag) = probe.place(context, vpn);
            self.arrays[probe.array as usize].array.contains(set, tag)
        })?;
        Some((found.array as usize, self.sizes.size(class_of(found.class_bits) as usize)))
    }

    /// Returns, by kind of reference, whether `array` is in its first level.
    pub fn first_level_kinds(&self, array: usize) -> [bool; 3] {
        KINDS.map(|kind| self.paths[kind as usize].arrays.contains(&(array, 0)))
    }

    /// Returns the first-level probe for references of `kind`, if there is only one and it probes `array`.
    pub fn sole_first_probe(&self, kind: Kind, array: usize) -> Option<Probe> {
        let mut first = self.probes[kind as usize].iter().filter(|probe| probe.depth == 0);
        first.next().copied().filter(|probe| probe.array as usize == array && first.next().is_none())
    }

    /// Returns number and tag of the page that a fill of `vpn`, of a page of size `shift`, for a reference of `kind` would
    /// enter into `array`; `None` if it would enter none.
    pub fn entry_in(
        &self,
        array: usize,
        kind: Kind,
        context: Context,
        vpn: Vpn,
        shift: PageShift,
    ) -> Option<(u64, u64)> {
        let path = &self.paths[kind as usize];
        let &(_, depth) = path.arrays.iter().find(|&&(index, _)| index == array)?;
        let placement = path.placements[depth][self.sizes.index_of(shift)].as_ref()?;
        let number = vpn.0 >> self.arrays[array].orders[placement.size];
        placement.arrays.contains(&array).then(|| (number, context.tag(placement.size as u64, number)))
    }

    /// Calls `each` with number and tag of every entry that `array` may hold for the `pages` base pages from `vpn` on.
    pub fn for_each_entry_in(
        &self,
        array: usize,
        context: Context,
        vpn: Vpn,
        pages: u64,
        mut each: impl FnMut(u64, u64),
    ) {
        let (a, end) = (&self.arrays[array], vpn.0.saturating_add(pages));
        for size in (0..self.sizes.len()).filter(|&size| a.takes[size]) {
            for number in vpn.0 >> a.orders[size]..=(end - 1) >> a.orders[size] {
                each(number, context.tag(size as u64, number));
            }
        }
    }

    /// Returns the page sizes for which the contents of `array` depend on which array answered a reference of one of
    /// `kinds`: those of which a level up to that of `array` is filled differently after a later hit than after a walk, and
    /// those that its level holds in more than one form.
    pub fn unsteady_sizes(&self, array: usize, kinds: [bool; 3]) -> impl Iterator<Item = PageShift> {
        let unsteady = (0..self.sizes.len()).filter(move |&size| !self.is_steady(array, kinds, size));
        unsteady.map(|size| self.sizes.size(size))
    }

    fn is_steady(&self, array: usize, kinds: [bool; 3], whole: usize) -> bool {
        let own = self.arrays[array].level;
        let levels: BTreeSet<u8> = self.arrays.iter().map(|a| a.level).collect();
        // By array: the sizes, as bits, of the pieces of such a page that it may hold.
        let mut forms = vec![0u32; self.arrays.len()];
        for &level in levels.iter().rev() {
            for (path, &counts) in self.paths.iter().zip(&kinds) {
                let Some(&(_, depth)) = path.arrays.iter().find(|&&(index, _)| self.arrays[index].level == level)
                else {
                    continue;
                };
                let later = path.arrays.iter().filter(|&&(_, d)| d > depth);
                let sources = later.fold(1 << whole, |all, &(index, _)| all | forms[index]);
                let placements = &path.placements[depth];
                for source in (0..=whole).filter(|source| sources >> source & 1 != 0) {
                    if counts && level <= own && placements[source] != placements[whole] {
                        return false;
                    }
                    if let Some(placement) = &placements[source] {
                        placement.arrays.iter().for_each(|&index| forms[index] |= 1 << placement.size);
                    }
                }
            }
        }
        let probed = self.paths.iter().filter(|path| path.arrays.iter().any(|&(index, _)| index == array));
        let peers = probed.flat_map(|path| &path.arrays).filter(|&&(index, _)| self.arrays[index].level == own);
        peers.fold(0, |all, &(index, _)| all | forms[index]).count_ones() <= 1
    }
}
