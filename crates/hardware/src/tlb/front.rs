//! The hot loop: folded references that hit in a first-level array and change nothing but the order of last uses.
//!
//! Each side (instructions or data) probes first the array that hit last, and in it the page size that hit last. The
//! loop is compiled once for each pair of array types that the machines of this project have.

use super::Tlbs;
use super::path::Probe;
use super::tag::{Context, class_of};
use crate::array::{Array, FullyAssociative, LruSets, PlruSets};
use crate::permission::as_is_bits;
use reach_core::fold::{PAGE_SHIFT, PageRef};
use reach_core::{Kind, Vpn};

/// An array as the hot loop uses it.
pub(super) trait FrontArray {
    /// Looks `tag` up in `set` and records the use. Returns whether it is present and permits `kind` without a change.
    fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool;

    /// Looks up the page that holds `vpn`, of any of the sizes that `front` probes; otherwise as [`FrontArray::hits`].
    fn hits_any(&mut self, front: &mut FrontProbes, context: Context, vpn: Vpn, kind: Kind) -> bool {
        let (set, tag) = front.first().place_first(context, vpn);
        self.hits(set, tag, kind) || front.others_hit(self, context, vpn, kind)
    }
}

/// Returns whether the entry `word` permits a reference of `kind` without a change.
#[inline(always)]
fn permits_as_is(word: u64, kind: Kind) -> bool {
    word & as_is_bits(kind) == as_is_bits(kind)
}

impl<const WAYS: usize> FrontArray for LruSets<WAYS, u64> {
    #[inline(always)]
    fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool {
        self.lookup_all_ways(set, tag).is_some_and(|word| permits_as_is(*word, kind))
    }
}

impl<const WAYS: usize> FrontArray for PlruSets<WAYS, u64> {
    #[inline(always)]
    fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool {
        self.lookup(set, tag).is_some_and(|word| permits_as_is(*word, kind))
    }
}

impl FrontArray for FullyAssociative<u64> {
    #[inline(always)]
    fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool {
        self.lookup(set, tag).is_some_and(|word| permits_as_is(*word, kind))
    }

    /// All sizes share one set, so one hint leads to a page of any size.
    #[inline(always)]
    fn hits_any(&mut self, front: &mut FrontProbes, context: Context, vpn: Vpn, kind: Kind) -> bool {
        let is = |tag| front.names(tag, context, vpn);
        let tags = front.all().iter().map(|probe| probe.place_first(context, vpn).1);
        self.lookup_any(vpn.0, is, tags).is_some_and(|word| permits_as_is(*word, kind))
    }
}

impl FrontArray for Array<u64> {
    #[inline(always)]
    fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool {
        if let Array::InstructionAware(sets) = self {
            // A reference that is looked up again, because it is not permitted as it is, must be one use.
            let permitted = sets.word_mut(set, tag).is_some_and(|word| permits_as_is(*word, kind));
            return permitted && sets.lookup(set, tag).is_some();
        }
        self.lookup(set, tag).is_some_and(|word| permits_as_is(*word, kind))
    }
}

/// How references of one kind probe the array that hit last: for each page size that it may hold, the one that hit last
/// first.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrontProbes {
    probes: [Probe; FrontProbes::SIZES],
    count: usize,
    /// By tag class: the order of a page size that is probed, or [`FrontProbes::UNPROBED`].
    orders: [u8; 32],
}

impl FrontProbes {
    /// Maximum number of sizes; look-ups outside the hot loop find pages of further sizes.
    const SIZES: usize = 4;
    /// Marks a class that is not probed.
    const UNPROBED: u8 = u8::MAX;

    /// Probes as `first` does, then as those of `probes` that probe the same array.
    pub fn new(first: Probe, probes: &[Probe]) -> FrontProbes {
        let mut front =
            FrontProbes { probes: [first; FrontProbes::SIZES], count: 1, orders: [FrontProbes::UNPROBED; 32] };
        for &other in probes.iter().filter(|probe| probe.array == first.array && probe.class_bits != first.class_bits) {
            if front.count < FrontProbes::SIZES {
                front.probes[front.count] = other;
                front.count += 1;
            }
        }
        for probe in &front.probes[..front.count] {
            front.orders[class_of(probe.class_bits) as usize] = probe.order as u8;
        }
        front
    }

    /// Returns the first probe.
    #[inline(always)]
    pub fn first(&self) -> &Probe {
        &self.probes[0]
    }

    /// Returns all probes.
    pub fn all(&self) -> &[Probe] {
        &self.probes[..self.count]
    }

    /// Returns whether `probe` is the first probe.
    #[inline(always)]
    pub fn starts_with(&self, probe: &Probe) -> bool {
        (self.first().array, self.first().class_bits) == (probe.array, probe.class_bits)
    }

    /// Returns whether `tag` names the page that holds `vpn`, of a size that is probed.
    #[inline(always)]
    fn names(&self, tag: u64, context: Context, vpn: Vpn) -> bool {
        let class = class_of(tag);
        let order = self.orders[class as usize];
        order != FrontProbes::UNPROBED && tag == context.tag(class, vpn.0 >> order)
    }

    #[inline(always)]
    fn hits(&mut self, array: &mut impl FrontArray, context: Context, vpn: Vpn, kind: Kind) -> bool {
        if self.count == 1 {
            let (set, tag) = self.probes[0].place_first(context, vpn);
            return array.hits(set, tag, kind);
        }
        array.hits_any(self, context, vpn, kind)
    }

    #[inline(never)]
    fn others_hit(&mut self, array: &mut (impl FrontArray + ?Sized), context: Context, vpn: Vpn, kind: Kind) -> bool {
        for other in 1..self.count {
            let (set, tag) = self.probes[other].place_first(context, vpn);
            if array.hits(set, tag, kind) {
                self.probes.swap(0, other);
                return true;
            }
        }
        false
    }
}

/// Returns how many references at the head of `refs` hit in the array that their side probes first: `code` for fetches,
/// `data` for loads and stores.
#[inline(always)]
fn count_hits(
    code: (&mut FrontProbes, &mut impl FrontArray),
    data: (&mut FrontProbes, &mut impl FrontArray),
    context: Context,
    refs: &[PageRef],
    to_vpn: u32,
) -> usize {
    let hit = |page_ref: &PageRef| {
        let vpn = Vpn(page_ref.page() >> to_vpn);
        if page_ref.kind() == Kind::Fetch {
            code.0.hits(code.1, context, vpn, Kind::Fetch)
        } else {
            data.0.hits(data.1, context, vpn, page_ref.kind())
        }
    };
    refs.iter().map(hit).position(|hit| !hit).unwrap_or(refs.len())
}

impl Tlbs {
    /// Runs the references at the head of `refs` that hit in a first-level array whose entry permits them without a
    /// change. Returns how many there are.
    pub fn leading_hits(&mut self, context: Context, refs: &[PageRef]) -> usize {
        self.runs_hot_loop = true;
        let mut done = 0;
        loop {
            let hits = self.leading_front_hits(context, &refs[done..]);
            done += hits;
            match refs.get(done) {
                Some(page_ref) if self.hits_other_array(context, page_ref, hits == 0) => done += 1,
                _ => return done,
            }
        }
    }

    /// Returns whether `page_ref` hits in a first-level array that its side does not probe first. If `again`, because the last
    /// reference did too, the side probes that array first from now on.
    fn hits_other_array(&mut self, context: Context, page_ref: &PageRef, again: bool) -> bool {
        if !self.pages_stay_whole {
            return false;
        }
        let kind = page_ref.kind();
        let vpn = Vpn(page_ref.page() >> (u32::from(self.sizes.base.0) - PAGE_SHIFT));
        let first = self.front[kind as usize].first().array;
        let Tlbs { arrays, probes, .. } = self;
        let mut others = probes[kind as usize].iter().take_while(|probe| probe.depth == 0);
        let found = others.find(|probe| {
            let (set, tag) = probe.place_first(context, vpn);
            probe.array != first && arrays[probe.array as usize].array.hits(set, tag, kind)
        });
        let Some(&probe) = found else { return false };
        if again {
            self.probe_first(kind, probe);
        }
        true
    }

    /// Runs the references at the head of `refs` that hit in the array that their side probes first. Returns how many.
    fn leading_front_hits(&mut self, context: Context, refs: &[PageRef]) -> usize {
        let to_vpn = u32::from(self.sizes.base.0) - PAGE_SHIFT;
        let [fetch, load, _] = &mut self.front;
        let both = [fetch.first().array as usize, load.first().array as usize];
        if self.data_alike
            && let Ok([code, data]) = self.arrays.get_disjoint_mut(both)
        {
            // One loop for each pair of array types among the presets, then a general one.
            return match (&mut code.array, &mut data.array) {
                (Array::Lru8(code), Array::Lru4(data)) => {
                    count_hits((fetch, code), (load, data), context, refs, to_vpn)
                }
                (Array::Plru8(code), Array::Plru4(data)) => {
                    count_hits((fetch, code), (load, data), context, refs, to_vpn)
                }
                (Array::Plru4(code), Array::Plru4(data)) => {
                    count_hits((fetch, code), (load, data), context, refs, to_vpn)
                }
                (Array::Lru8(code), Array::FullyAssociative(data)) => {
                    count_hits((fetch, code), (load, &mut **data), context, refs, to_vpn)
                }
                (Array::FullyAssociative(code), Array::FullyAssociative(data)) => {
                    count_hits((fetch, &mut **code), (load, &mut **data), context, refs, to_vpn)
                }
                (code, data) => count_hits((fetch, code), (load, data), context, refs, to_vpn),
            };
        }
        let hit = |page_ref: &PageRef| {
            let probe = self.front[page_ref.kind() as usize].first();
            let (set, tag) = probe.place_first(context, Vpn(page_ref.page() >> to_vpn));
            self.arrays[probe.array as usize].array.hits(set, tag, page_ref.kind())
        };
        refs.iter().map(hit).position(|hit| !hit).unwrap_or(refs.len())
    }

    /// Makes the hot loop probe first as `probe` does for references of `kind`. Where a page may be held whole and in pieces
    /// at once, only the first of all probes is exact.
    pub(super) fn probe_first(&mut self, kind: Kind, probe: Probe) {
        let probes = &self.probes[kind as usize];
        let front = match self.pages_stay_whole {
            true => FrontProbes::new(probe, probes),
            false => FrontProbes::new(*probes.first().filter(|first| first.depth == 0).unwrap_or(&probe), &[]),
        };
        self.front[kind as usize] = front;
        if self.data_alike && kind != Kind::Fetch {
            (self.front[Kind::Load as usize], self.front[Kind::Store as usize]) = (front, front);
        }
    }
}
