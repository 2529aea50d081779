//! Translation look-aside buffers: any number of arrays, split or unified by level, page size and kind of reference.

use crate::array::Array;
use crate::config;
use reach_core::{Kind, PageShift, Pte, Vpn};

/// A hardware address-space number as it stands in tags: already shifted into place, with the valid bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context(u64);

/// Tags: bits 0–44 page number in units of the page's own size, 45–49 what it is (page sizes from 0, table entries of
/// level l as 16 + l), 50–62 context, 63 valid.
const WHAT_AT: u32 = 45;
const CONTEXT_AT: u32 = 50;
const CONTEXT_MASK: u64 = !0 << CONTEXT_AT;
/// How many contexts tags can tell apart.
pub(crate) const CONTEXTS: u64 = 1 << 13;
/// Added to the level of a table entry that lives among translations.
const TABLES: u64 = 16;

impl Context {
    /// Context number `n` < [`CONTEXTS`].
    pub fn new(n: u64) -> Context {
        debug_assert!(n < CONTEXTS);
        Context(1 << 63 | n << CONTEXT_AT)
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

    /// The tag of a table entry of `level`.
    #[inline(always)]
    pub fn table_tag(self, level: usize, number: u64) -> u64 {
        self.tag(TABLES + level as u64, number)
    }
}

/// One array with the page sizes it holds.
#[derive(Clone, Debug)]
pub(crate) struct TlbArray {
    pub array: Array,
    set_mask: u64,
    set_bits: u32,
    /// Per page size of the machine: whether it may be held here, and how many are now.
    takes: Vec<bool>,
    live: Vec<u32>,
    /// Sizes with `live > 0`, as bits.
    present: u32,
    pub level: u8,
    pub latency: u32,
    probe: u32,
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
    /// By kind: levels in order, in each the arrays.
    paths: [Vec<Vec<usize>>; 3],
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
                takes: machine.sizes.iter().map(|s| tlb.sizes.contains(s)).collect(),
                live: vec![0; machine.sizes.len()],
                present: 0,
                level: tlb.level,
                latency: tlb.latency,
                probe: tlb.probe,
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
            let at = |level: u8| {
                let tlbs = machine.tlbs.iter().enumerate();
                tlbs.filter(|(_, t)| serves(t) && t.level == level).map(|(i, _)| i).collect()
            };
            levels.into_iter().map(at).collect()
        };
        Tlbs {
            base: machine.sizes[0],
            sizes: machine.sizes.clone(),
            arrays,
            paths: [path(Kind::Fetch), path(Kind::Load), path(Kind::Store)],
        }
    }

    /// Whether fetches share a first-level array with loads or stores. Then a fetch may change what a repeated load
    /// would find, and runs must not be folded.
    pub fn fetches_share_first_level(&self) -> bool {
        let first = |kind: Kind| self.paths[kind as usize].first().cloned().unwrap_or_default();
        let data = [first(Kind::Load), first(Kind::Store)].concat();
        first(Kind::Fetch).iter().any(|a| data.contains(a))
    }

    /// The levels asked for references of `kind`.
    pub fn path(&self, kind: Kind) -> &[Vec<usize>] {
        &self.paths[kind as usize]
    }

    /// The array whose first way decides nearly all lookups of `kind`: the first one asked, if it is LRU.
    pub fn front(&self, kind: Kind) -> Option<usize> {
        let first = *self.paths[kind as usize].first()?.first()?;
        self.arrays[first].array.is_lru().then_some(first)
    }

    /// The front's translation of base page `vpn`, when it is the most recently used of its set.
    #[inline(always)]
    pub fn front_hit(&self, front: usize, context: Context, vpn: Vpn) -> Option<Pte> {
        let a = &self.arrays[front];
        a.array.first((vpn.0 & a.set_mask) as usize, context.tag(0, vpn.0)).map(Pte)
    }

    /// Looks `vpn` up, level by level. `penalty` receives the cycles of probes beyond the first.
    #[inline(always)]
    pub fn lookup(&mut self, kind: Kind, context: Context, vpn: Vpn, penalty: &mut u64) -> Option<Found> {
        for (depth, level) in self.paths[kind as usize].iter().enumerate() {
            let mut probes = 0;
            for &index in level {
                let a = &mut self.arrays[index];
                let mut present = a.present;
                while present != 0 {
                    let size = present.trailing_zeros() as usize;
                    present &= present - 1;
                    let number = vpn.0 >> (self.sizes[size].0 - self.base.0);
                    let tag = context.tag(size as u64, number);
                    // First-level arrays are probed side by side.
                    if probes > 0 && a.level >= 2 {
                        *penalty += u64::from(a.probe);
                    }
                    probes += 1;
                    if let Some(&mut word) = a.array.lookup((number & a.set_mask) as usize, tag) {
                        return Some(Found { pte: Pte(word), depth, array: index });
                    }
                }
            }
        }
        None
    }

    /// Enters `pte`, which translates `vpn`, in the levels of the path of `kind` before `depth`.
    #[inline]
    pub fn fill(&mut self, kind: Kind, context: Context, vpn: Vpn, pte: Pte, depth: usize) {
        for d in 0..depth {
            if let Some((index, size)) = self.place(kind, d, vpn, pte.shift()) {
                self.enter(index, size, context, vpn, pte);
            }
        }
    }

    /// Rewrites the entry that a lookup found in `array`, in place.
    pub fn refresh(&mut self, array: usize, context: Context, vpn: Vpn, pte: Pte) {
        let size = self.size_index(pte.shift());
        let number = vpn.0 >> (pte.shift().0 - self.base.0);
        let a = &mut self.arrays[array];
        let set = (number & a.set_mask) as usize;
        if let Some(word) = a.array.lookup(set, context.tag(size as u64, number)) {
            *word = pte.0;
        }
    }

    #[inline]
    fn size_index(&self, shift: PageShift) -> usize {
        self.sizes.iter().position(|&s| s == shift).expect("pages come in the machine's sizes")
    }

    /// Where level `depth` keeps a page of size `shift`: an array that takes the size, or the largest smaller size that
    /// one takes by smashing. Of several equals, page numbers choose in turn, so that they act as one larger array.
    #[inline]
    fn place(&self, kind: Kind, depth: usize, vpn: Vpn, shift: PageShift) -> Option<(usize, usize)> {
        let level = &self.paths[kind as usize][depth];
        let whole = self.size_index(shift);
        if let &[only] = level.as_slice()
            && self.arrays[only].takes[whole]
        {
            return Some((only, whole));
        }
        for size in (0..=whole).rev() {
            let takes = |&&i: &&usize| {
                let a = &self.arrays[i];
                a.takes[size] && (size == whole || a.smash || a.level <= 1)
            };
            let equals = level.iter().filter(takes).count();
            if equals > 0 {
                let number = vpn.0 >> (self.sizes[size].0 - self.base.0);
                let first = *level.iter().find(takes).expect("counted above");
                let turn = (number >> self.arrays[first].set_bits) as usize % equals;
                return Some((*level.iter().filter(takes).nth(turn).expect("below the count"), size));
            }
        }
        None
    }

    #[inline]
    fn enter(&mut self, index: usize, size: usize, context: Context, vpn: Vpn, pte: Pte) {
        let shift = self.sizes[size];
        let number = vpn.0 >> (shift.0 - self.base.0);
        let piece = smashed(pte, vpn, shift, self.base);
        let a = &mut self.arrays[index];
        let tag = context.tag(size as u64, number);
        let set = (number & a.set_mask) as usize;
        let known = a.array.contains(set, tag);
        let gone = a.array.insert(set, tag, piece.0);
        if let Some((tag, _)) = gone {
            a.forget(tag);
        }
        if !known {
            a.live[size] += 1;
            a.present |= 1 << size;
        }
    }

    /// Removes all translations of `context` that overlap `[vpn, vpn + pages)`, and all its table entries.
    pub fn invalidate(&mut self, context: Context, vpn: Vpn, pages: u64) {
        let (base, sizes) = (self.base, &self.sizes);
        let end = vpn.0.saturating_add(pages);
        for a in &mut self.arrays {
            let few = pages <= 8 && !a.lends;
            if few {
                for size in 0..sizes.len() {
                    let order = sizes[size].0 - base.0;
                    for number in vpn.0 >> order..=(end - 1) >> order {
                        let tag = context.tag(size as u64, number);
                        if a.live[size] > 0 && a.array.remove((number & a.set_mask) as usize, tag).is_some() {
                            a.forget(tag);
                        }
                    }
                }
                continue;
            }
            let TlbArray { array, live, present, .. } = a;
            array.retain(
                |tag, _| {
                    let what = (tag >> WHAT_AT & 31) as usize;
                    if !context.owns(tag) {
                        return false;
                    }
                    if what >= TABLES as usize {
                        return true;
                    }
                    let order = sizes[what].0 - base.0;
                    let first = (tag & ((1 << WHAT_AT) - 1)) << order;
                    first < end && first + (1 << order) > vpn.0
                },
                |tag, _| forget(live, present, tag),
            );
        }
    }

    /// Every translation held: array, kind-independent, with its first base page. For checks.
    pub fn translations(&self, context: Context) -> Vec<(usize, Vpn, Pte)> {
        let mut found = Vec::new();
        for (index, a) in self.arrays.iter().enumerate() {
            for (_, tag, word) in a.array.entries() {
                let what = (tag >> WHAT_AT & 31) as usize;
                if context.owns(tag) && what < TABLES as usize {
                    let number = tag & ((1 << WHAT_AT) - 1);
                    found.push((index, Vpn(number << (self.sizes[what].0 - self.base.0)), Pte(word)));
                }
            }
        }
        found
    }
}

impl TlbArray {
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
        if let Some((tag, _)) = self.array.insert(set, context.table_tag(level, number), word) {
            self.forget(tag);
        }
    }

    fn forget(&mut self, tag: u64) {
        forget(&mut self.live, &mut self.present, tag);
    }
}

/// Takes the entry with `tag` out of the books. Table entries are not in them.
fn forget(live: &mut [u32], present: &mut u32, tag: u64) {
    let what = (tag >> WHAT_AT & 31) as usize;
    if what < TABLES as usize {
        live[what] -= 1;
        if live[what] == 0 {
            *present &= !(1 << what);
        }
    }
}

/// The piece of size `shift` of the page `pte` that holds `vpn`.
#[inline]
fn smashed(pte: Pte, vpn: Vpn, shift: PageShift, base: PageShift) -> Pte {
    if pte.shift() == shift {
        return pte;
    }
    let within = vpn.0 & (pte.shift().base_pages(base) - 1) & !(shift.base_pages(base) - 1);
    pte.with_pfn(pte.pfn() + within).with_shift(shift)
}
