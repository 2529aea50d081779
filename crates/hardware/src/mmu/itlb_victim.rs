//! The note of the entry that a fill evicts from the first-level ITLB, for cores whose ITLB includes the pages of all
//! instructions in flight.

use crate::tlb::{Filled, PageSizes, TlbObserver, Tlbs};
use reach_core::Kind;

/// The entry that the last fill for a fetch evicted from a first-level array.
#[derive(Clone, Debug)]
pub(super) struct ItlbVictim {
    /// By array: whether it is in the first level for fetches.
    first_level: Vec<bool>,
    /// The pages of the entry: the first, and the one after the last.
    pages: Option<(u64, u64)>,
}

impl ItlbVictim {
    pub fn new(tlbs: &Tlbs) -> ItlbVictim {
        ItlbVictim { first_level: tlbs.in_first_level(Kind::Fetch), pages: None }
    }

    /// Returns the pages of the victim, from the first to before the last, and forgets them. `None` if the last fill evicted
    /// none, or if it has been taken.
    pub fn take(&mut self) -> Option<(u64, u64)> {
        self.pages.take()
    }
}

impl TlbObserver for ItlbVictim {
    fn before_fill(&mut self, kind: Kind) {
        if kind == Kind::Fetch {
            self.pages = None;
        }
    }

    fn filled(&mut self, kind: Kind, sizes: &PageSizes, filled: Filled) {
        if kind == Kind::Fetch && self.first_level[filled.array] {
            let page = filled.evicted.and_then(|tag| sizes.page_of(tag));
            self.pages = page.map(|(_, first, size)| (first.0, first.0 + size.base_pages(sizes.base)));
        }
    }
}
