//! What is needed to shadow an array ([`Curve`]): where pages are and belong, without touching anything.

use super::{Context, Tlbs, WHAT_AT};
use crate::curve::Curve;
use reach_core::{Kind, PageShift, Vpn};

impl Tlbs {
    /// The array in which a look-up would find `vpn`, and the size of the page it would find.
    pub fn whereabouts(&self, kind: Kind, context: Context, vpn: Vpn) -> Option<(usize, PageShift)> {
        let found = self.probes[kind as usize].iter().find(|probe| {
            let (set, tag) = probe.place(context, vpn);
            self.arrays[probe.array as usize].array.holds(set, tag)
        })?;
        Some((found.array as usize, self.sizes[(found.what >> WHAT_AT) as usize]))
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

    /// Whether no page stands whole in one array and in pieces in another.
    pub fn pages_stay_whole(&self) -> bool {
        self.pages_stay_whole
    }

    /// What [`Tlbs::invalidate`] does, in what shadows an array.
    pub fn forget_in(&self, curve: &mut Curve, context: Context, vpn: Vpn, pages: u64) {
        /// Fewer pages are looked for one by one.
        const FEW: u64 = 64;
        let end = vpn.0.saturating_add(pages);
        let a = &self.arrays[curve.array];
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
