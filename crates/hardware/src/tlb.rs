//! Translation look-aside buffers: any number of arrays, split or unified by level, page size and kind of reference.

use crate::array::Array;
use crate::config;
use front::Side;
use reach_core::{Kind, PageShift, Pte, Vpn};

mod front;
mod inspect;
mod placement;
mod share;

/// A hardware address-space number as it stands in tags: already shifted into place, with the valid bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context(u64);

/// Tags: bits 0–44 page number in units of the page's own size, 45–49 what it is (page sizes from 0, table entries of
/// level l as 16 + l), 50–62 context, 63 valid.
const WHAT_AT: u32 = 45;
const CONTEXT_AT: u32 = 50;
const CONTEXT_MASK: u64 = !0 << CONTEXT_AT;

/// The number, in units of its own size, of the page that `tag` is of.
#[inline(always)]
pub(crate) fn number_of(tag: u64) -> u64 {
    tag & ((1 << WHAT_AT) - 1)
}

/// How many contexts tags can tell apart.
pub(crate) const CONTEXTS: u64 = 1 << 13;
/// How many page sizes a machine may have.
const SIZES: usize = 16;
/// Added to the level of a table entry that lives among translations.
const TABLES: u64 = 16;
/// No page size and no level.
const NEITHER: u64 = 31;

impl Context {
    /// Context number `n` < [`CONTEXTS`].
    pub fn new(n: u64) -> Context {
        debug_assert!(n < CONTEXTS);
        Context(1 << 63 | n << CONTEXT_AT)
    }

    /// Its number.
    pub fn number(self) -> usize {
        ((self.0 & !(1 << 63)) >> CONTEXT_AT) as usize
    }

    #[inline(always)]
    fn tag(self, what: u64, number: u64) -> u64 {
        self.0 | what << WHAT_AT | number
    }

    /// Whether `tag` belongs to this context.
    #[inline(always)]
    pub fn owns(self, tag: u64) -> bool {
        tag & CONTEXT_MASK == self.0
    }

    /// `vpn` in this context, as one number: those of one context follow one another as pages do.
    #[inline(always)]
    pub fn key(self, vpn: Vpn) -> u64 {
        debug_assert!(vpn.0 < 1 << WHAT_AT);
        self.0 | vpn.0
    }

    /// The page of a key.
    pub fn vpn_of(key: u64) -> Vpn {
        Vpn(key & !CONTEXT_MASK)
    }

    /// The tag of a table entry of `level`.
    #[inline(always)]
    pub fn table_tag(self, level: usize, number: u64) -> u64 {
        self.tag(TABLES + level as u64, number)
    }
}

/// One array with the page sizes it holds.
#[derive(Clone, Debug)]
pub(crate) struct TlbArray {
    pub array: Array<u64>,
    set_mask: u64,
    set_bits: u32,
    /// Per page size of the machine: the binary logarithm of its base pages, and whether it may be held here.
    orders: [u8; SIZES],
    takes: [bool; SIZES],
    /// Sizes that have been held here since the start, as bits: only these are looked for.
    present: u32,
    pub level: u8,
    pub latency: u32,
    /// Cycles of a probe after one of another array of the level, and after one of this array for another size. Both
    /// are zero in first-level arrays, which are probed side by side; the second also where ways are compared all at
    /// once.
    probe: u32,
    probe_again: u32,
    smash: bool,
    /// Whether a walk cache lives here, so that table entries stand among the translations.
    lends: bool,
}

/// What a lookup found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub pte: Pte,
    /// Index of the level in the path of the reference's kind.
    pub depth: usize,
    pub array: usize,
}

/// All arrays, and for each kind of reference the order in which they are asked.
#[derive(Clone, Debug)]
pub(crate) struct Tlbs {
    base: PageShift,
    sizes: Vec<PageShift>,
    pub arrays: Vec<TlbArray>,
    /// By kind: what is asked, in order.
    paths: [Path; 3],
    /// By kind: every array and page size that may hold something, in the order in which they are asked.
    probes: [Vec<Probe>; 3],
    /// By kind: the array of the first level that found something last, for the hot loop.
    sides: [Side; 3],
    /// The sizes, as bits, that some level beyond the first smashes, and those between them and their pieces. Of those a
    /// first level may get a page whole, or a larger piece, one time and the smaller pieces another, and hold both: then it
    /// matters which is asked for first.
    smashed: u32,
    /// No array has held any of those yet, so that no page stands in two first-level arrays, or twice in one.
    pages_stay_whole: bool,
    /// Loads and stores ask the same arrays.
    data_alike: bool,
    /// The index of each page size, by its shift.
    size_of: [u8; 64],
    /// Whether it is noted what goes from first-level arrays for fetches, and the tag that went last.
    notes_victims: bool,
    victim: Option<u64>,
}

/// Asking one array for one page size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub array: u32,
    depth: u32,
    /// Binary logarithm of the base pages in a page of this size.
    order: u32,
    /// Cycles that it takes because others were asked before.
    after: u32,
    set_mask: u64,
    /// The page size, in its place in a tag.
    pub what: u64,
}

/// A probe that finds nothing.
const NOTHING: Probe = Probe { array: 0, depth: 0, order: 0, after: 0, set_mask: 0, what: NEITHER << WHAT_AT };

impl Probe {
    /// Set and tag of the page that holds `vpn`.
    #[inline(always)]
    pub fn place(&self, context: Context, vpn: Vpn) -> (usize, u64) {
        let number = vpn.0 >> self.order;
        ((number & self.set_mask) as usize, context.0 | self.what | number)
    }
}

/// What references of one kind ask.
#[derive(Clone, Debug)]
struct Path {
    /// Arrays in order, each with the index of its level in this path.
    arrays: Vec<(usize, usize)>,
    /// For each level, and in it each page size of the machine: where such a page is kept.
    places: Vec<Vec<Option<Place>>>,
}

/// Where a level keeps pages of some size: as pages of size number `size`, in one of `arrays`.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    size: usize,
    arrays: Vec<usize>,
}

impl Tlbs {
    pub fn new(machine: &config::Machine, seed: u64) -> Tlbs {
        let arrays = machine.tlbs.iter().enumerate().map(|(i, tlb)| {
            let array = Array::new(
                tlb.entries as usize,
                tlb.ways as usize,
                tlb.replacement,
                seed ^ (i as u64 + 1).wrapping_mul(0x9e37_79b9),
            );
            TlbArray {
                set_mask: array.sets() as u64 - 1,
                set_bits: array.sets().trailing_zeros(),
                array,
                orders: per_size(machine, |s| s.0 - machine.sizes[0].0),
                takes: per_size(machine, |s| tlb.sizes.contains(&s)),
                present: 0,
                level: tlb.level,
                latency: tlb.latency,
                probe: if tlb.level >= 2 { tlb.probe } else { 0 },
                probe_again: if tlb.level >= 2 && tlb.entries > tlb.ways { tlb.probe } else { 0 },
                smash: tlb.smash,
                lends: false,
            }
        });
        let arrays = arrays.collect::<Vec<_>>();
        let path = |kind: Kind| {
            let serves = |tlb: &config::Tlb| match kind {
                Kind::Fetch => tlb.serves.fetch,
                Kind::Load => tlb.serves.load,
                Kind::Store => tlb.serves.store,
            };
            let mut levels: Vec<u8> = machine.tlbs.iter().filter(|t| serves(t)).map(|t| t.level).collect();
            levels.sort_unstable();
            levels.dedup();
            let at = |level: u8| -> Vec<usize> {
                (0..arrays.len()).filter(|&i| serves(&machine.tlbs[i]) && arrays[i].level == level).collect()
            };
            let levels: Vec<Vec<usize>> = levels.into_iter().map(at).collect();
            let sizes = 0..machine.sizes.len();
            let places = levels.iter().map(|level| sizes.clone().map(|size| place(&arrays, level, size)).collect());
            let in_order = levels.iter().enumerate().flat_map(|(depth, level)| level.iter().map(move |&a| (a, depth)));
            Path { places: places.collect(), arrays: in_order.collect() }
        };
        let paths = [path(Kind::Fetch), path(Kind::Load), path(Kind::Store)];
        let mut size_of = [u8::MAX; 64];
        for (index, size) in machine.sizes.iter().enumerate() {
            size_of[size.0 as usize] = index as u8;
        }
        let (base, sizes) = (machine.sizes[0], machine.sizes.clone());
        let smashes = |level: &Vec<Option<Place>>| {
            let pieces = level.iter().enumerate().filter_map(|(size, place)| Some((size, place.as_ref()?.size)));
            pieces.fold(0, |sizes, (size, piece)| sizes | ((2 << size) - (2 << piece)))
        };
        let later = paths.iter().flat_map(|path| path.places.iter().skip(1));
        let smashed = later.map(smashes).fold(0, |all, sizes| all | sizes);
        let data_alike = paths[Kind::Load as usize].arrays == paths[Kind::Store as usize].arrays;
        let (probes, sides) = (Default::default(), [Side::new(NOTHING, &[]); 3]);
        let mut tlbs = Tlbs {
            base,
            sizes,
            probes,
            sides,
            smashed,
            pages_stay_whole: true,
            data_alike,
            paths,
            arrays,
            size_of,
            notes_victims: false,
            victim: None,
        };
        tlbs.list_probes();
        tlbs
    }

    /// Whether a page that has just been looked up stands in the arrays asked first, most recently used of its set,
    /// until this side turns to another page, so that runs of references may be folded. That takes first-level arrays
    /// which hold pages of any size (in pieces where they must), and which no other kind of reference and no walk
    /// touches. Loads and stores run on one side: they may share all of them.
    pub fn keep_what_was_just_used(&self) -> bool {
        let kinds = [Kind::Fetch, Kind::Load, Kind::Store];
        let first = |kind: Kind| -> Vec<usize> {
            self.paths[kind as usize].arrays.iter().filter(|p| p.1 == 0).map(|p| p.0).collect()
        };
        let keeps = |kind: Kind| {
            let arrays = || first(kind).into_iter().map(|i| &self.arrays[i]);
            arrays().any(|a| a.takes[0]) && arrays().all(|a| a.level <= 1 && !a.lends)
        };
        let apart = |one: Kind, other: Kind| {
            let own = first(one);
            !self.paths[other as usize].arrays.iter().any(|p| own.contains(&p.0))
        };
        let together = |one: Kind, other: Kind| {
            one == other || one != Kind::Fetch && other != Kind::Fetch && first(one) == first(other)
        };
        kinds.iter().all(|&one| keeps(one) && kinds.iter().all(|&other| together(one, other) || apart(one, other)))
    }

    /// Whether loads and stores ask the same arrays.
    pub fn are_data_alike(&self) -> bool {
        self.data_alike
    }

    /// How many levels references of `kind` ask.
    pub fn depth(&self, kind: Kind) -> usize {
        self.paths[kind as usize].places.len()
    }

    /// Which of the levels that references of `kind` ask is the last before the walker, and what a hit there takes;
    /// `None` where there is but one.
    pub fn last_level(&self, kind: Kind) -> Option<(usize, u32)> {
        let path = &self.paths[kind as usize];
        let last = path.places.len().checked_sub(1).filter(|&last| last > 0)?;
        path.arrays.iter().find(|&&(_, depth)| depth == last).map(|&(array, _)| (last, self.arrays[array].latency))
    }

    /// Lists the probes anew: an array has come to hold a page size that it did not hold before.
    #[cold]
    fn list_probes(&mut self) {
        self.pages_stay_whole = self.arrays.iter().all(|a| a.present & self.smashed == 0);
        for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
            let probes = &mut self.probes[kind as usize];
            probes.clear();
            let mut last_depth = usize::MAX;
            for &(index, depth) in &self.paths[kind as usize].arrays {
                let a = &self.arrays[index];
                let mut after = if depth == last_depth { a.probe } else { 0 };
                for size in (0..self.sizes.len()).filter(|size| a.present >> size & 1 != 0) {
                    probes.push(Probe {
                        array: index as u32,
                        depth: depth as u32,
                        order: a.orders[size].into(),
                        after,
                        set_mask: a.set_mask,
                        what: (size as u64) << WHAT_AT,
                    });
                    (after, last_depth) = (a.probe_again, depth);
                }
            }
            let array = self.paths[kind as usize].arrays.first().map_or(0, |&(index, _)| index as u32);
            let first = probes.first().copied().filter(|probe| probe.depth == 0);
            self.ask_first(kind, first.unwrap_or(Probe { array, ..NOTHING }));
        }
    }

    /// Looks `vpn` up, level by level. `penalty` receives the cycles of probes beyond the first of each level.
    #[inline(always)]
    pub fn lookup(&mut self, kind: Kind, context: Context, vpn: Vpn, penalty: &mut u64) -> Option<Found> {
        for probe in &self.probes[kind as usize] {
            *penalty += u64::from(probe.after);
            let (set, tag) = probe.place(context, vpn);
            let array = probe.array as usize;
            if let Some(&mut word) = self.arrays[array].array.lookup(set, tag) {
                let probe = *probe;
                if probe.depth == 0 && !self.sides[kind as usize].asks_first(&probe) {
                    self.ask_first(kind, probe);
                }
                return Some(Found { pte: Pte(word), depth: probe.depth as usize, array });
            }
        }
        None
    }

    /// Enters `pte`, which translates `vpn` and which a lookup did not find in the levels of the path of `kind` before
    /// `depth`, in those levels.
    #[inline(always)]
    pub fn fill(&mut self, kind: Kind, context: Context, vpn: Vpn, pte: Pte, depth: usize) {
        if self.notes_victims && kind == Kind::Fetch {
            return self.fill_and_note(context, vpn, pte, depth);
        }
        self.fill_watched(kind, context, vpn, pte, depth, |_, _, _| {});
    }

    /// The same for a fetch. What goes from a first-level array is noted.
    #[cold]
    fn fill_and_note(&mut self, context: Context, vpn: Vpn, pte: Pte, depth: usize) {
        // Levels are filled in order, but the first need not take pages of this size.
        let mut first = None;
        self.fill_watched(Kind::Fetch, context, vpn, pte, depth, |array, _, gone| {
            first.get_or_insert((array, gone));
        });
        let path = &self.paths[Kind::Fetch as usize].arrays;
        self.victim = first.filter(|&(array, _)| path.contains(&(array, 0))).and_then(|(_, gone)| gone);
    }

    /// From now on it is noted what goes from first-level arrays for fetches.
    pub fn note_victims(&mut self) {
        self.notes_victims = true;
    }

    /// The pages, from the first to before the last, of the entry that had to go from a first-level array at the last
    /// fill for a fetch, if one had to and has not been asked for.
    pub fn take_victim(&mut self) -> Option<(u64, u64)> {
        let gone = self.victim.take()?;
        let (_, first, size) = self.page_of(gone)?;
        Some((first.0, first.0 + size.base_pages(self.base)))
    }

    /// The same. `watch` is told of each array that is filled, the tag that comes, and the tag that it takes the place
    /// of.
    #[inline(always)]
    pub fn fill_watched(
        &mut self,
        kind: Kind,
        context: Context,
        vpn: Vpn,
        pte: Pte,
        depth: usize,
        mut watch: impl FnMut(usize, u64, Option<u64>),
    ) {
        let whole = usize::from(self.size_of[pte.shift().0 as usize]);
        for d in 0..depth {
            let Tlbs { arrays, paths, base, .. } = self;
            let Some(place) = &paths[kind as usize].places[d][whole] else { continue };
            let mut index = place.arrays[0];
            if place.arrays.len() > 1 {
                // Page numbers choose in turn, by the bits above the set index.
                let a = &arrays[index];
                let number = vpn.0 >> a.orders[place.size];
                index = place.arrays[(number >> a.set_bits) as usize % place.arrays.len()];
            }
            let a = &mut arrays[index];
            let piece = if place.size == whole { pte } else { a.smashed(pte, vpn, place.size, *base) };
            let (first, tag, gone) = a.enter(place.size, context, vpn, piece);
            watch(index, tag, gone);
            if first {
                self.list_probes();
            }
        }
    }

    /// Whether an array asked first holds `vpn`, as it did when `kind` last looked it up. Changes nothing.
    pub fn keeps(&self, kind: Kind, context: Context, vpn: Vpn) -> bool {
        let mut first = self.probes[kind as usize].iter().filter(|probe| probe.depth == 0);
        // With a page held whole and in pieces, what is left need not be what was used.
        self.pages_stay_whole
            && first.any(|probe| {
                let (set, tag) = probe.place(context, vpn);
                self.arrays[probe.array as usize].array.holds(set, tag)
            })
    }

    /// Rewrites the entry that a lookup found in `array`, in place.
    pub fn refresh(&mut self, array: usize, context: Context, vpn: Vpn, pte: Pte) {
        let size = usize::from(self.size_of[pte.shift().0 as usize]);
        let a = &mut self.arrays[array];
        let number = vpn.0 >> a.orders[size];
        let (set, tag) = ((number & a.set_mask) as usize, context.tag(size as u64, number));
        if let Some(word) = a.array.lookup(set, tag) {
            *word = pte.0;
        }
    }

    /// Removes all translations of `context` that overlap `[vpn, vpn + pages)`, and all its table entries.
    pub fn invalidate(&mut self, context: Context, vpn: Vpn, pages: u64) {
        let (base, sizes) = (self.base, &self.sizes);
        let end = vpn.0.saturating_add(pages);
        for a in &mut self.arrays {
            let few = pages <= 8 && !a.lends;
            if few {
                for size in (0..sizes.len()).filter(|size| a.present >> size & 1 != 0) {
                    let order = a.orders[size];
                    for number in vpn.0 >> order..=(end - 1) >> order {
                        a.array.remove((number & a.set_mask) as usize, context.tag(size as u64, number));
                    }
                }
                continue;
            }
            a.array.remove_all(|tag| {
                if !context.owns(tag) {
                    return false;
                }
                let what = (tag >> WHAT_AT & 31) as usize;
                if what >= TABLES as usize {
                    return true;
                }
                let order = sizes[what].0 - base.0;
                let first = (tag & ((1 << WHAT_AT) - 1)) << order;
                first < end && first + (1 << order) > vpn.0
            });
        }
    }
}

impl TlbArray {
    /// Returns whether this is the first page of its size here, its tag, and the tag that had to go.
    #[inline(always)]
    fn enter(&mut self, size: usize, context: Context, vpn: Vpn, pte: Pte) -> (bool, u64, Option<u64>) {
        let number = vpn.0 >> self.orders[size];
        let (set, tag) = ((number & self.set_mask) as usize, context.tag(size as u64, number));
        let gone = self.array.insert(set, tag, pte.0);
        let first = self.present >> size & 1 == 0;
        self.present |= 1 << size;
        (first, tag, gone.map(|(tag, _)| tag))
    }

    /// The piece of page size number `size` of the page `pte` that holds `vpn`.
    fn smashed(&self, pte: Pte, vpn: Vpn, size: usize, base: PageShift) -> Pte {
        let shift = PageShift(base.0 + self.orders[size]);
        let within = vpn.0 & (pte.shift().base_pages(base) - 1) & !(shift.base_pages(base) - 1);
        pte.with_pfn(pte.pfn() + within).with_shift(shift)
    }

    /// Lets a walk cache live here.
    pub fn lend(&mut self) {
        self.lends = true;
    }

    /// Looks up a table entry that lives here.
    #[inline]
    pub fn lookup_table(&mut self, context: Context, level: usize, number: u64) -> Option<u64> {
        let set = (number & self.set_mask) as usize;
        self.array.lookup(set, context.table_tag(level, number)).copied()
    }

    /// Enters a table entry.
    #[inline]
    pub fn enter_table(&mut self, context: Context, level: usize, number: u64, word: u64) {
        let set = (number & self.set_mask) as usize;
        self.array.insert(set, context.table_tag(level, number), word);
    }
}

fn per_size<T: Copy + Default>(machine: &config::Machine, of: impl Fn(PageShift) -> T) -> [T; SIZES] {
    let mut all = [T::default(); SIZES];
    for (slot, &size) in all.iter_mut().zip(&machine.sizes) {
        *slot = of(size);
    }
    all
}

/// Where `level` keeps pages of size number `whole`: whole, or as pieces of the largest smaller size that is smashed to.
fn place(arrays: &[TlbArray], level: &[usize], whole: usize) -> Option<Place> {
    (0..=whole).rev().find_map(|size| {
        let takes = |a: &TlbArray| a.takes[size] && (size == whole || a.smash || a.level <= 1);
        let equals: Vec<usize> = level.iter().copied().filter(|&i| takes(&arrays[i])).collect();
        (!equals.is_empty()).then_some(Place { size, arrays: equals })
    })
}
