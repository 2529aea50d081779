//! What is needed to shadow an array ([`Curve`]): where pages are and belong, without touching anything.

use super::{Context, Probe, Tlbs, WHAT_AT};
use crate::curve::Curve;
use reach_core::{Kind, PageShift, Vpn};
use std::collections::BTreeSet;

impl Tlbs {
    /// The array in which a look-up would find `vpn`, and the size of the page it would find.
    pub fn whereabouts(&self, kind: Kind, context: Context, vpn: Vpn) -> Option<(usize, PageShift)> {
        let found = self.probes[kind as usize].iter().find(|probe| {
            let (set, tag) = probe.place(context, vpn);
            self.arrays[probe.array as usize].array.holds(set, tag)
        })?;
        Some((found.array as usize, self.sizes[(found.what >> WHAT_AT) as usize]))
    }

    /// For which kinds of reference `array` is among the arrays asked first.
    pub fn ask_first_of_all(&self, array: usize) -> [bool; 3] {
        [Kind::Fetch, Kind::Load, Kind::Store].map(|kind| self.paths[kind as usize].arrays.contains(&(array, 0)))
    }

    /// What is asked first for references of `kind`, if that is nothing but `array`, for pages of one size.
    pub fn sole(&self, kind: Kind, array: usize) -> Option<Probe> {
        let mut first = self.probes[kind as usize].iter().filter(|probe| probe.depth == 0);
        first.next().copied().filter(|probe| probe.array as usize == array && first.next().is_none())
    }

    /// Number and tag of the page that `array` would get if `vpn`, of a page of size `shift`, were entered for a reference
    /// of `kind`; `None` where it would get none.
    pub fn place_in(
        &self,
        array: usize,
        kind: Kind,
        context: Context,
        vpn: Vpn,
        shift: PageShift,
    ) -> Option<(u64, u64)> {
        let path = &self.paths[kind as usize];
        let &(_, depth) = path.arrays.iter().find(|&&(index, _)| index == array)?;
        let place = path.places[depth][usize::from(self.size_of[shift.0 as usize])].as_ref()?;
        let number = vpn.0 >> self.arrays[array].orders[place.size];
        place.arrays.contains(&array).then(|| (number, context.tag(place.size as u64, number)))
    }

    /// The page sizes of which levels up to that of `array` may get something else after a hit in a later level than after
    /// a walk, for a reference of one of `kinds`; and those that stand in its level in more forms than one. Of both,
    /// what an array holds depends on what others answer.
    pub fn unsteady_in(&self, array: usize, kinds: [bool; 3]) -> impl Iterator<Item = PageShift> {
        (0..self.sizes.len()).filter(move |&size| !self.is_steady(array, kinds, size)).map(|size| self.sizes[size])
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
                let places = &path.places[depth];
                for source in (0..=whole).filter(|source| sources >> source & 1 != 0) {
                    if counts && level <= own && places[source] != places[whole] {
                        return false;
                    }
                    if let Some(place) = &places[source] {
                        place.arrays.iter().for_each(|&index| forms[index] |= 1 << place.size);
                    }
                }
            }
        }
        let asked = self.paths.iter().filter(|path| path.arrays.iter().any(|&(index, _)| index == array));
        let peers = asked.flat_map(|path| &path.arrays).filter(|&&(index, _)| self.arrays[index].level == own);
        peers.fold(0, |all, &(index, _)| all | forms[index]).count_ones() <= 1
    }

    /// What [`Tlbs::invalidate`] does, in what shadows an array.
    pub fn forget_in(&self, curve: &mut Curve, context: Context, vpn: Vpn, pages: u64) {
        /// Fewer pages are looked for one by one.
        const FEW: u64 = 64;
        let end = vpn.0.saturating_add(pages);
        let a = &self.arrays[curve.array];
        curve.forget_where();
        if pages <= FEW {
            for size in (0..self.sizes.len()).filter(|&size| a.takes[size]) {
                for number in vpn.0 >> a.orders[size]..=(end - 1) >> a.orders[size] {
                    curve.remove(number, context.tag(size as u64, number));
                }
            }
            return;
        }
        let whole = vpn.0 == 0 && pages == u64::MAX;
        curve.remove_all(context.number() as u64, whole, |tag| {
            context.owns(tag)
                && self
                    .page_of(tag)
                    .is_some_and(|(_, first, size)| first.0 < end && first.0 + size.base_pages(self.base) > vpn.0)
        });
    }
}
