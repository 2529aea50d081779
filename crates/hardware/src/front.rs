//! The hot loop: folded references that the arrays asked first know, and that change nothing else.

use crate::array::{Array, Recent, Wide};
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
fronts!([const WAYS: usize] Recent<WAYS, u64> => lookup_flat, [] Wide<u64> => lookup, [] Array<u64> => lookup);

/// How a side asks its first array.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub probe: Probe,
    pub context: Context,
}

/// How many references at the head of `entries` hit in the array that their side asks first: `code` for fetches, `data`
/// for loads and stores alike.
#[inline(always)]
pub(crate) fn leading(
    code: &mut impl Front,
    data: &mut impl Front,
    asked: [Asked; 2],
    entries: &[Entry],
    to_vpn: u32,
) -> usize {
    let hit = |entry: &Entry| {
        let vpn = Vpn(entry.page() >> to_vpn);
        if entry.kind() == Kind::Fetch {
            let (set, tag) = asked[0].probe.place(asked[0].context, vpn);
            code.hits(set, tag, Kind::Fetch)
        } else {
            let (set, tag) = asked[1].probe.place(asked[1].context, vpn);
            data.hits(set, tag, entry.kind())
        }
    };
    entries.iter().map(hit).position(|hit| !hit).unwrap_or(entries.len())
}
