//! Translation look-aside buffers: any number of arrays, split or unified by level, page size and kind of reference.
//!
//! `tag.rs` defines tags and contexts, `tlb_array.rs` one array, and `path.rs` and `probe_hints.rs` the order of probes. This
//! file looks up, fills and invalidates. `front.rs` is the hot loop over first-level hits, and `control_flow.rs` is for arrays
//! that predict reuse.
//! Module and parts are one idea: the parts that extend [`Tlbs`] use its fields.

use crate::config;
use front::FrontProbes;
pub(crate) use observer::{Lookup, TlbObserver};
use path::{NO_PROBE, Path, Probe};
use probe_hints::ProbeHints;
use reach_core::{Kind, Pte, Vpn};
use tag::is_table;
pub(crate) use tag::{CONTEXTS, Context, PageSizes, number_of};
pub(crate) use tlb_array::Filled;
use tlb_array::TlbArray;

mod control_flow;
mod front;
mod inspect;
mod observer;
mod path;
mod placement;
mod probe_hints;
mod share;
mod tag;
mod tlb_array;

const KINDS: [Kind; 3] = [Kind::Fetch, Kind::Load, Kind::Store];

/// The entry that a look-up found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlbHit {
    pub pte: Pte,
    /// Index of the level in the path of the reference's kind.
    pub depth: usize,
    /// Index of the array.
    pub array: usize,
}

/// All arrays, and for each kind of reference the order in which they are probed.
#[derive(Clone, Debug)]
pub(crate) struct Tlbs {
    pub sizes: PageSizes,
    pub arrays: Vec<TlbArray>,
    /// By kind of reference.
    paths: [Path; 3],
    /// By kind: a probe for every array and page size that may hold something, in order.
    probes: [Vec<Probe>; 3],
    /// By kind: how the hot loop probes the first-level array that hit last.
    front: [FrontProbes; 3],
    /// Whether the hot loop has run. Then a look-up sets what it probes first; otherwise it goes by `hints`.
    runs_hot_loop: bool,
    /// By kind: the probes by which look-ups found pages last.
    hints: [ProbeHints; 3],
    /// By kind: the first-level arrays hold a page of any size in one form, and in one of them at most, whichever kind has
    /// brought it.
    holds_once: [bool; 3],
    /// Sizes, as bits, that some level beyond the first smashes, and those between them and their pieces. A first level may
    /// hold such a page whole at one time and in pieces at another, or both at once; then the order of probes matters.
    smashed: u32,
    /// No array has held a size in `smashed` yet, so that no page is in two first-level arrays, or twice in one.
    pages_stay_whole: bool,
    /// Loads and stores probe the same arrays.
    data_alike: bool,
    /// By kind: the cycles after which a miss in the last level is known.
    miss_latencies: [u32; 3],
    /// Number of the size of coalesced entries. A page is in one entry of a level at most, coalesced or not.
    coalesced: Option<usize>,
}

impl Tlbs {
    /// Creates the empty arrays of `machine`. `seed` is for random replacement.
    pub fn new(machine: &config::Machine, seed: u64) -> Tlbs {
        let arrays: Vec<_> = (0..machine.tlbs.len()).map(|number| TlbArray::new(machine, number, seed)).collect();
        let paths = KINDS.map(|kind| Path::new(machine, &arrays, kind));
        let smashed = paths.iter().map(Path::smashed_later).fold(0, |all, sizes| all | sizes);
        let holds_once = KINDS.map(|kind| path::holds_once(&paths, kind, machine.entry_sizes().len()));
        let data_alike = paths[Kind::Load as usize].arrays == paths[Kind::Store as usize].arrays;
        let miss_latencies = [0, 1, 2].map(|kind: usize| {
            let path: &Path = &paths[kind];
            let last = path.arrays.iter().map(|&(_, depth)| depth).max().unwrap_or(0);
            let in_last = path.arrays.iter().filter(|&&(_, depth)| depth > 0 && depth == last);
            in_last.map(|&(array, _)| arrays[array].latency).max().unwrap_or(0)
        });
        let sizes = PageSizes::new(machine);
        let mut tlbs = Tlbs {
            coalesced: machine.coalesces().map(|span| sizes.index_of(span)),
            sizes,
            arrays,
            paths,
            probes: Default::default(),
            front: [FrontProbes::new(NO_PROBE, &[]); 3],
            runs_hot_loop: false,
            hints: Default::default(),
            holds_once,
            smashed,
            pages_stay_whole: true,
            data_alike,
            miss_latencies,
        };
        tlbs.list_probes();
        tlbs
    }

    /// Returns whether folding runs of references is exact: a page just looked up stays in the first-level arrays, most
    /// recently used of its set, until its side (instructions or data) turns to another page. That takes first-level arrays
    /// that hold pages of any size, in pieces if they must, and that no other side and no walk touches. Loads and stores are
    /// one side: they may share all of their first-level arrays. And another use of the page must change nothing there.
    pub fn keeps_last_page(&self) -> bool {
        let first = |kind: Kind| -> Vec<usize> { self.paths[kind as usize].first_level().collect() };
        let keeps = |kind: Kind| {
            let arrays = || first(kind).into_iter().map(|i| &self.arrays[i]);
            arrays().any(|a| a.takes[0]) && arrays().all(|a| a.level <= 1 && !a.lends && a.repeats_change_nothing)
        };
        let apart = |one: Kind, other: Kind| {
            let own = first(one);
            !self.paths[other as usize].arrays.iter().any(|p| own.contains(&p.0))
        };
        let one_side = |one: Kind, other: Kind| {
            one == other || one != Kind::Fetch && other != Kind::Fetch && first(one) == first(other)
        };
        KINDS.iter().all(|&one| keeps(one) && KINDS.iter().all(|&other| one_side(one, other) || apart(one, other)))
    }

    /// Returns whether loads and stores probe the same arrays.
    pub fn are_data_alike(&self) -> bool {
        self.data_alike
    }

    /// Returns the number of levels that references of `kind` probe.
    pub fn depth(&self, kind: Kind) -> usize {
        self.paths[kind as usize].placements.len()
    }

    /// Returns the index of the last level that references of `kind` probe, and the cycles of a hit there; `None` if there
    /// is only one level.
    pub fn last_level(&self, kind: Kind) -> Option<(usize, u32)> {
        let path = &self.paths[kind as usize];
        let last = path.placements.len().checked_sub(1).filter(|&last| last > 0)?;
        path.arrays.iter().find(|&&(_, depth)| depth == last).map(|&(array, _)| (last, self.arrays[array].latency))
    }

    /// Returns the cycles after which references of `kind` that miss in the last level know it: those of a hit there; 0 if
    /// there is only one level.
    #[inline(always)]
    pub fn miss_latency(&self, kind: Kind) -> u32 {
        self.miss_latencies[kind as usize]
    }

    /// Rebuilds the probe lists after an array has come to hold a new page size.
    #[cold]
    fn list_probes(&mut self) {
        self.pages_stay_whole = self.arrays.iter().all(|a| a.present & self.smashed == 0);
        for kind in KINDS {
            let path = &self.paths[kind as usize];
            path.list_probes(&self.arrays, self.sizes.len(), &mut self.probes[kind as usize]);
            let array = path.arrays.first().map_or(0, |&(index, _)| index as u32);
            let first = self.probes[kind as usize].first().copied().filter(|probe| probe.depth == 0);
            self.probe_first(kind, first.unwrap_or(Probe { array, ..NO_PROBE }));
            let in_one_place = self.pages_stay_whole && self.holds_once[kind as usize];
            self.hints[kind as usize] = ProbeHints::new(&self.probes[kind as usize], in_one_place);
        }
    }

    /// Looks `vpn` up, level by level. Adds to `penalty` the cycles of probes beyond the first of each level.
    #[inline(always)]
    pub fn lookup(&mut self, kind: Kind, context: Context, vpn: Vpn, penalty: &mut u64) -> Option<TlbHit> {
        if !self.runs_hot_loop
            && let Some(number) = self.hints[kind as usize].of(vpn)
        {
            let probe = &self.probes[kind as usize][number];
            let (set, tag) = probe.place(context, vpn);
            let array = probe.array as usize;
            if let Some(&mut word) = self.arrays[array].array.lookup(set, tag) {
                return Some(TlbHit { pte: Pte(word), depth: 0, array });
            }
        }
        for (number, probe) in self.probes[kind as usize].iter().enumerate() {
            *penalty += u64::from(probe.after);
            let (set, tag) = probe.place(context, vpn);
            let array = probe.array as usize;
            if let Some(&mut word) = self.arrays[array].array.lookup(set, tag) {
                let probe = *probe;
                if probe.depth == 0 {
                    self.found_first(kind, vpn, number, probe);
                }
                return Some(TlbHit { pte: Pte(word), depth: probe.depth as usize, array });
            }
        }
        None
    }

    /// Lets later references look first by `probe`, number `number` of `kind`, which has found `vpn` in the first level.
    #[inline(always)]
    fn found_first(&mut self, kind: Kind, vpn: Vpn, number: usize, probe: Probe) {
        if !self.runs_hot_loop {
            self.hints[kind as usize].record(vpn, number);
        } else if !self.front[kind as usize].starts_with(&probe) {
            self.probe_first(kind, probe);
        }
    }

    /// Fills the first `depth` levels of the path of `kind` with `pte`, which translates `vpn` and which a look-up did not
    /// find there. Calls `observe` for each array that is filled.
    #[inline(always)]
    pub fn fill(
        &mut self,
        kind: Kind,
        context: Context,
        vpn: Vpn,
        pte: Pte,
        depth: usize,
        mut observe: impl FnMut(&PageSizes, Filled),
    ) {
        let whole = self.sizes.index_of(pte.shift());
        for d in 0..depth {
            let Tlbs { arrays, paths, sizes, .. } = self;
            let Some(placement) = &paths[kind as usize].placements[d][whole] else { continue };
            let mut array = placement.arrays[0];
            if placement.arrays.len() > 1 {
                // The bits of the page number above the set index choose the array.
                let a = &arrays[array];
                let number = vpn.0 >> a.orders[placement.size];
                array = placement.arrays[(number >> a.set_bits) as usize % placement.arrays.len()];
            }
            if self.coalesced == Some(placement.size) {
                let level = paths[kind as usize].arrays.iter().filter(|&&(_, depth)| depth == d);
                level.for_each(|&(index, _)| arrays[index].remove_base_pages(context, vpn, placement.size));
            }
            let a = &mut arrays[array];
            let piece = if placement.size == whole { pte } else { a.smashed(pte, vpn, placement.size, sizes.base) };
            let (first, tag, evicted) = a.insert(placement.size, context, vpn, piece, kind == Kind::Fetch);
            observe(sizes, Filled { array, tag, evicted });
            if first {
                self.list_probes();
            }
        }
    }

    /// Returns whether a first-level array still holds `vpn` as it did at the last look-up for `kind`. Changes nothing.
    pub fn still_holds(&self, kind: Kind, context: Context, vpn: Vpn) -> bool {
        let mut first = self.probes[kind as usize].iter().filter(|probe| probe.depth == 0);
        // If a page is held whole and in pieces, the remaining entry need not be the one that was used.
        self.pages_stay_whole
            && first.any(|probe| {
                let (set, tag) = probe.place(context, vpn);
                self.arrays[probe.array as usize].array.contains(set, tag)
            })
    }

    /// Rewrites the entry that a look-up found in `array`, in place.
    pub fn refresh(&mut self, array: usize, context: Context, vpn: Vpn, pte: Pte) {
        let size = self.sizes.index_of(pte.shift());
        let a = &mut self.arrays[array];
        let (set, tag) = a.place(size, context, vpn);
        if let Some(word) = a.array.last_used(set, tag) {
            *word = pte.0;
        }
    }

    /// Removes all translations of `context` that overlap the `pages` base pages from `vpn` on, and all its page-table
    /// entries that walk caches keep in these arrays.
    pub fn invalidate(&mut self, context: Context, vpn: Vpn, pages: u64) {
        /// Up to this many pages are removed one by one rather than by a scan.
        const FEW: u64 = 8;
        let sizes = &self.sizes;
        let end = vpn.0.saturating_add(pages);
        for a in &mut self.arrays {
            if pages <= FEW && !a.lends {
                for size in (0..sizes.len()).filter(|size| a.present >> size & 1 != 0) {
                    let order = a.orders[size];
                    for number in vpn.0 >> order..=(end - 1) >> order {
                        a.array.remove(a.set_of(number), context.tag(size as u64, number));
                    }
                }
                continue;
            }
            a.array.remove_if(|tag| context.owns(tag) && (is_table(tag) || sizes.overlaps(tag, vpn, end)));
        }
    }
}
