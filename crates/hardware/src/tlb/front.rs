//! The hot loop: folded references that the arrays asked first know, and that change nothing else.

use crate::array::{Array, Full, Recent};
use crate::tlb::{Context, Probe, Tlbs, WHAT_AT};
use reach_core::fold::{PAGE_SHIFT, PageRef};
use reach_core::{Kind, Pte, Vpn};

/// An array as the hot loop uses it.
pub(super) trait Front {
    /// Looks `tag` up in `set` and notes the use. Returns whether it is there and allows `kind` as it is.
    fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool;

    /// The same for a page of any of the sizes that `side` asks for.
    fn hits_any(&mut self, side: &mut Side, context: Context, vpn: Vpn, kind: Kind) -> bool {
        let (set, tag) = side.first().place(context, vpn);
        self.hits(set, tag, kind) || side.others_hit(self, context, vpn, kind)
    }
}

/// What an entry must say for a reference of `kind` to change nothing.
#[inline(always)]
fn needed(kind: Kind) -> u64 {
    match kind {
        Kind::Fetch => Pte::EXECUTABLE,
        Kind::Load => 0,
        Kind::Store => Pte::WRITABLE | Pte::DIRTY,
    }
}

impl<const WAYS: usize> Front for Recent<WAYS, u64> {
    #[inline(always)]
    fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool {
        self.lookup_flat(set, tag).is_some_and(|word| *word & needed(kind) == needed(kind))
    }
}

impl Front for Full<u64> {
    #[inline(always)]
    fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool {
        self.lookup(set, tag).is_some_and(|word| *word & needed(kind) == needed(kind))
    }

    /// With all sizes in one set, the place of a page is remembered whatever its size.
    #[inline(always)]
    fn hits_any(&mut self, side: &mut Side, context: Context, vpn: Vpn, kind: Kind) -> bool {
        let is = |tag| side.is_of(tag, context, vpn);
        let tags = side.asked().iter().map(|probe| probe.place(context, vpn).1);
        self.lookup_any(vpn.0, is, tags).is_some_and(|word| *word & needed(kind) == needed(kind))
    }
}

impl Front for Array<u64> {
    #[inline(always)]
    fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool {
        self.lookup(set, tag).is_some_and(|word| *word & needed(kind) == needed(kind))
    }
}

/// How references of a kind ask the array that found something last: for each page size that it may hold, first for
/// that which was found last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    probes: [Probe; Side::SIZES],
    count: usize,
    /// By what a tag says it is: the order of a page that is asked for, or [`Side::OTHER`].
    orders: [u8; 32],
}

impl Side {
    /// What it holds of more sizes is found on the long way.
    const SIZES: usize = 4;
    /// Not asked for.
    const OTHER: u8 = u8::MAX;

    /// Asks as the first of `probes` does, then as those of the others that ask the same array.
    pub fn new(first: Probe, probes: &[Probe]) -> Side {
        let mut side = Side { probes: [first; Side::SIZES], count: 1, orders: [Side::OTHER; 32] };
        for &other in probes.iter().filter(|probe| probe.array == first.array && probe.what != first.what) {
            if side.count < Side::SIZES {
                side.probes[side.count] = other;
                side.count += 1;
            }
        }
        for probe in &side.probes[..side.count] {
            side.orders[(probe.what >> WHAT_AT) as usize] = probe.order as u8;
        }
        side
    }

    /// What is asked first.
    #[inline(always)]
    pub fn first(&self) -> &Probe {
        &self.probes[0]
    }

    /// All that is asked.
    pub fn asked(&self) -> &[Probe] {
        &self.probes[..self.count]
    }

    /// Whether that is what `probe` asks.
    #[inline(always)]
    pub fn asks_first(&self, probe: &Probe) -> bool {
        (self.first().array, self.first().what) == (probe.array, probe.what)
    }

    /// Whether `tag` is that of a page that holds `vpn`, of a size that is asked for.
    #[inline(always)]
    fn is_of(&self, tag: u64, context: Context, vpn: Vpn) -> bool {
        let what = tag >> WHAT_AT & 31;
        let order = self.orders[what as usize];
        order != Side::OTHER && tag == context.tag(what, vpn.0 >> order)
    }

    #[inline(always)]
    fn hits(&mut self, array: &mut impl Front, context: Context, vpn: Vpn, kind: Kind) -> bool {
        if self.count == 1 {
            let (set, tag) = self.probes[0].place(context, vpn);
            return array.hits(set, tag, kind);
        }
        array.hits_any(self, context, vpn, kind)
    }

    #[inline(never)]
    fn others_hit(&mut self, array: &mut (impl Front + ?Sized), context: Context, vpn: Vpn, kind: Kind) -> bool {
        for other in 1..self.count {
            let (set, tag) = self.probes[other].place(context, vpn);
            if array.hits(set, tag, kind) {
                self.probes.swap(0, other);
                return true;
            }
        }
        false
    }
}

/// How many references at the head of `entries` hit in the array that their side asks first: `code` for fetches, `data`
/// for loads and stores alike.
#[inline(always)]
pub(super) fn leading(
    code: (&mut Side, &mut impl Front),
    data: (&mut Side, &mut impl Front),
    context: Context,
    entries: &[PageRef],
    to_vpn: u32,
) -> usize {
    let hit = |entry: &PageRef| {
        let vpn = Vpn(entry.page() >> to_vpn);
        if entry.kind() == Kind::Fetch {
            code.0.hits(code.1, context, vpn, Kind::Fetch)
        } else {
            data.0.hits(data.1, context, vpn, entry.kind())
        }
    };
    entries.iter().map(hit).position(|hit| !hit).unwrap_or(entries.len())
}

impl Tlbs {
    /// How many references at the head of `entries` change nothing: a first-level array holds their page, and its entry
    /// allows the reference as it is.
    pub fn leading_hits(&mut self, context: Context, entries: &[PageRef]) -> usize {
        let mut done = 0;
        loop {
            let hits = self.leading_in_first(context, &entries[done..]);
            done += hits;
            match entries.get(done) {
                Some(entry) if self.hits_elsewhere(context, entry, hits == 0) => done += 1,
                _ => return done,
            }
        }
    }

    /// Whether a first-level array that its side does not ask first has such a hit. Where that happens `again`, the side
    /// asks it first from now on.
    fn hits_elsewhere(&mut self, context: Context, entry: &PageRef, again: bool) -> bool {
        if !self.pages_stay_whole {
            return false;
        }
        let kind = entry.kind();
        let vpn = Vpn(entry.page() >> (u32::from(self.base.0) - PAGE_SHIFT));
        let first = self.sides[kind as usize].first().array;
        let Tlbs { arrays, probes, .. } = self;
        let mut others = probes[kind as usize].iter().take_while(|probe| probe.depth == 0);
        let found = others.find(|probe| {
            let (set, tag) = probe.place(context, vpn);
            probe.array != first && arrays[probe.array as usize].array.hits(set, tag, kind)
        });
        let Some(&probe) = found else { return false };
        if again {
            self.ask_first(kind, probe);
        }
        true
    }

    /// The same, as far as the arrays that are asked first go.
    fn leading_in_first(&mut self, context: Context, entries: &[PageRef]) -> usize {
        let to_vpn = u32::from(self.base.0) - PAGE_SHIFT;
        let [fetch, load, _] = &mut self.sides;
        let both = [fetch.first().array as usize, load.first().array as usize];
        if self.data_alike
            && let Ok([code, data]) = self.arrays.get_disjoint_mut(both)
        {
            // The shapes of the presets, each with a loop of its own; then any other.
            return match (&mut code.array, &mut data.array) {
                (Array::Eight(code), Array::Four(data)) => {
                    leading((fetch, code), (load, data), context, entries, to_vpn)
                }
                (Array::Four(code), Array::Four(data)) => {
                    leading((fetch, code), (load, data), context, entries, to_vpn)
                }
                (Array::Eight(code), Array::Full(data)) => {
                    leading((fetch, code), (load, &mut **data), context, entries, to_vpn)
                }
                (Array::Full(code), Array::Full(data)) => {
                    leading((fetch, &mut **code), (load, &mut **data), context, entries, to_vpn)
                }
                (code, data) => leading((fetch, code), (load, data), context, entries, to_vpn),
            };
        }
        let hit = |entry: &PageRef| {
            let probe = self.sides[entry.kind() as usize].first();
            let (set, tag) = probe.place(context, Vpn(entry.page() >> to_vpn));
            self.arrays[probe.array as usize].array.hits(set, tag, entry.kind())
        };
        entries.iter().map(hit).position(|hit| !hit).unwrap_or(entries.len())
    }

    /// Lets the hot loop ask as `probe` does for references of `kind`; where pages may be held whole and in pieces at
    /// once, only as the first of all does.
    pub(super) fn ask_first(&mut self, kind: Kind, probe: Probe) {
        let probes = &self.probes[kind as usize];
        let side = match self.pages_stay_whole {
            true => Side::new(probe, probes),
            false => Side::new(*probes.first().filter(|first| first.depth == 0).unwrap_or(&probe), &[]),
        };
        self.sides[kind as usize] = side;
        if self.data_alike && kind != Kind::Fetch {
            (self.sides[Kind::Load as usize], self.sides[Kind::Store as usize]) = (side, side);
        }
    }
}
