//! The hot loop: folded references that the arrays asked first know, and that change nothing else.

use crate::array::{Array, Recent};
use crate::full::Full;
use crate::tlb::{Context, Probe};
use reach_core::fold::Entry;
use reach_core::{Kind, Pte, Vpn};

/// An array as the hot loop uses it.
pub(crate) trait Front {
    /// Looks `tag` up in `set` and notes the use. Returns whether it is there and allows `kind` as it is.
    fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool;
}

macro_rules! fronts {
    ($([$($ways:tt)*] $array:ty => $lookup:ident),*) => {
        $(impl<$($ways)*> Front for $array {
            #[inline(always)]
            fn hits(&mut self, set: usize, tag: u64, kind: Kind) -> bool {
                let needed = match kind {
                    Kind::Fetch => Pte::EXECUTABLE,
                    Kind::Load => 0,
                    Kind::Store => Pte::WRITABLE | Pte::DIRTY,
                };
                self.$lookup(set, tag).is_some_and(|word| *word & needed == needed)
            }
        })*
    };
}
fronts!([const WAYS: usize] Recent<WAYS, u64> => lookup_flat, [] Full<u64> => lookup, [] Array<u64> => lookup);

/// How references of a kind ask the array that found something last: for each page size that it may hold, first for
/// that which was found last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    probes: [Probe; Side::SIZES],
    count: usize,
}

impl Side {
    /// What it holds of more sizes is found on the long way.
    const SIZES: usize = 4;

    /// Asks as the first of `probes` does, then as those of the others that ask the same array.
    pub fn new(first: Probe, probes: &[Probe]) -> Side {
        let mut side = Side { probes: [first; Side::SIZES], count: 1 };
        for &other in probes.iter().filter(|probe| probe.array == first.array && probe.what != first.what) {
            if side.count < Side::SIZES {
                side.probes[side.count] = other;
                side.count += 1;
            }
        }
        side
    }

    /// What is asked first.
    #[inline(always)]
    pub fn first(&self) -> &Probe {
        &self.probes[0]
    }

    /// Whether that is what `probe` asks.
    #[inline(always)]
    pub fn asks_first(&self, probe: &Probe) -> bool {
        (self.first().array, self.first().what) == (probe.array, probe.what)
    }

    #[inline(always)]
    fn hits(&mut self, array: &mut impl Front, context: Context, vpn: Vpn, kind: Kind) -> bool {
        let (set, tag) = self.probes[0].place(context, vpn);
        array.hits(set, tag, kind) || self.count > 1 && self.hits_another(array, context, vpn, kind)
    }

    #[inline(never)]
    fn hits_another(&mut self, array: &mut impl Front, context: Context, vpn: Vpn, kind: Kind) -> bool {
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
pub(crate) fn leading(
    code: (&mut Side, &mut impl Front),
    data: (&mut Side, &mut impl Front),
    context: Context,
    entries: &[Entry],
    to_vpn: u32,
) -> usize {
    let hit = |entry: &Entry| {
        let vpn = Vpn(entry.page() >> to_vpn);
        if entry.kind() == Kind::Fetch {
            code.0.hits(code.1, context, vpn, Kind::Fetch)
        } else {
            data.0.hits(data.1, context, vpn, entry.kind())
        }
    };
    entries.iter().map(hit).position(|hit| !hit).unwrap_or(entries.len())
}
