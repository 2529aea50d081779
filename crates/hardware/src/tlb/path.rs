//! The order in which references of one kind probe the arrays.

use super::tag::{Context, NO_CLASS, size_class};
use super::tlb_array::TlbArray;
use crate::config;
use reach_core::{Kind, Vpn};

/// A probe of one array for one page size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Index of the array.
    pub array: u32,
    /// Index of the array's level in the path.
    pub(super) depth: u32,
    /// Binary logarithm of the base pages in a page of this size.
    pub(super) order: u32,
    /// Cycles that this probe adds because other probes of its level come before it.
    pub(super) after: u32,
    pub(super) set_mask: u64,
    /// See [`config::Index::fold`].
    pub(super) fold: u32,
    /// The page size, as class bits of a tag.
    pub(super) class_bits: u64,
}

/// A probe that finds nothing.
pub(super) const NO_PROBE: Probe =
    Probe { array: 0, depth: 0, order: 0, after: 0, set_mask: 0, fold: 63, class_bits: NO_CLASS };

impl Probe {
    /// Returns set and tag of the page that holds `vpn`.
    #[inline(always)]
    pub fn place(&self, context: Context, vpn: Vpn) -> (usize, u64) {
        let number = vpn.0 >> self.order;
        (((number ^ number >> self.fold) & self.set_mask) as usize, context.tag_with(self.class_bits, number))
    }

    /// Returns the same for a probe of a first-level array, none of which hashes its index.
    #[inline(always)]
    pub fn place_first(&self, context: Context, vpn: Vpn) -> (usize, u64) {
        let number = vpn.0 >> self.order;
        ((number & self.set_mask) as usize, context.tag_with(self.class_bits, number))
    }
}

/// The levels and arrays that references of one kind probe.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Arrays in probe order, each with the index of its level in this path.
    pub arrays: Vec<(usize, usize)>,
    /// By level, then by page size: where the level keeps a page of that size; `None` if it keeps none.
    pub placements: Vec<Vec<Option<Placement>>>,
}

/// Where a level keeps pages of some size: as pages of size number `size`, in one of `arrays`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placement {
    pub size: usize,
    pub arrays: Vec<usize>,
}

impl Path {
    /// Derives the path of references of `kind`.
    pub fn new(machine: &config::Machine, arrays: &[TlbArray], kind: Kind) -> Path {
        let serves = |tlb: &config::Tlb| match kind {
            Kind::Fetch => tlb.serves.fetch,
            Kind::Load => tlb.serves.load,
            Kind::Store => tlb.serves.store,
        };
        let mut levels: Vec<u8> = machine.tlbs.iter().filter(|t| serves(t)).map(|t| t.level).collect();
        levels.sort_unstable();
        levels.dedup();
        let of_level = |level: u8| -> Vec<usize> {
            (0..arrays.len()).filter(|&i| serves(&machine.tlbs[i]) && arrays[i].level == level).collect()
        };
        let levels: Vec<Vec<usize>> = levels.into_iter().map(of_level).collect();
        let sizes = machine.entry_sizes();
        let coalesced = machine.coalesces().and_then(|span| sizes.iter().position(|&size| size == span));
        let of_level =
            |level: &Vec<usize>| (0..sizes.len()).map(|size| placement(arrays, level, size, coalesced)).collect();
        let placements = levels.iter().map(of_level);
        let in_order = levels.iter().enumerate().flat_map(|(depth, level)| level.iter().map(move |&a| (a, depth)));
        Path { placements: placements.collect(), arrays: in_order.collect() }
    }

    /// Returns the arrays of the first level.
    pub fn first_level(&self) -> impl Iterator<Item = usize> {
        self.arrays.iter().filter(|(_, depth)| *depth == 0).map(|&(array, _)| array)
    }

    /// Returns the sizes, as bits, that levels beyond the first smash, together with those between them and their pieces.
    pub fn smashed_later(&self) -> u32 {
        let smashed = |level: &Vec<Option<Placement>>| {
            let pieces = level.iter().enumerate().filter_map(|(size, place)| Some((size, place.as_ref()?.size)));
            pieces.fold(0, |sizes, (size, piece)| sizes | ((2 << size) - (2 << piece)))
        };
        self.placements.iter().skip(1).map(smashed).fold(0, |all, sizes| all | sizes)
    }

    /// Lists a probe for every array of this path and page size that it has held, in probe order.
    pub fn list_probes(&self, arrays: &[TlbArray], sizes: usize, probes: &mut Vec<Probe>) {
        probes.clear();
        let mut last_depth = usize::MAX;
        for &(index, depth) in &self.arrays {
            let a = &arrays[index];
            let mut after = if depth == last_depth { a.probe } else { 0 };
            for size in (0..sizes).filter(|size| a.present >> size & 1 != 0) {
                probes.push(Probe {
                    array: index as u32,
                    depth: depth as u32,
                    order: a.orders[size].into(),
                    after,
                    set_mask: a.set_mask,
                    fold: a.fold,
                    class_bits: size_class(size),
                });
                (after, last_depth) = (a.probe_again, depth);
            }
        }
    }
}

/// Returns whether the first-level arrays of `kind` hold a page of each of `sizes` in one form, and in one of them at most. Other
/// kinds of references may fill them, too, elsewhere or with a page's pieces.
pub(super) fn holds_once(paths: &[Path; 3], kind: Kind, sizes: usize) -> bool {
    let first: Vec<usize> = paths[kind as usize].first_level().collect();
    (0..sizes).all(|whole| {
        let kept = paths.iter().flat_map(|path| &path.placements).filter_map(|level| level[whole].as_ref());
        let forms = kept.flat_map(|kept| kept.arrays.iter().map(|&array| (array, kept.size)));
        let mut forms = forms.filter(|(array, _)| first.contains(array));
        forms.next().is_none_or(|one| forms.all(|other| other == one))
    })
}

/// Returns where `level` keeps pages of size number `whole`: whole, or as pieces of the largest smaller page size to which an
/// array of the level smashes. An array that does not take a coalesced entry keeps the base page.
fn placement(arrays: &[TlbArray], level: &[usize], whole: usize, coalesced: Option<usize>) -> Option<Placement> {
    (0..=whole).rev().find_map(|size| {
        let takes = |a: &TlbArray| {
            let is_piece = match coalesced {
                Some(span) if span == whole => size == 0,
                Some(span) if span == size => false,
                _ => a.smash || a.level <= 1,
            };
            a.takes[size] && (size == whole || is_piece)
        };
        let equals: Vec<usize> = level.iter().copied().filter(|&i| takes(&arrays[i])).collect();
        (!equals.is_empty()).then_some(Placement { size, arrays: equals })
    })
}
