//! Which pages of each extent the program has touched.
//!
//! The first reference to a page always misses in the TLB, so the costs name every page. Under superpages, they name the first page
//! of each only.

use super::{EXTENT_SHIFT, MappingId};
use reach_core::{PageShift, VirtAddr};
use rustc_hash::FxHashMap;

/// Pages of an extent, one bit each; pages are at least 4 KB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    bits: [u64; 8],
    /// The binary logarithm of the size of a page.
    shift: u8,
}

impl Pages {
    /// Adds the pages of `other`, of the same size.
    pub fn absorb(&mut self, other: &Pages) {
        self.bits.iter_mut().zip(other.bits).for_each(|(bits, other)| *bits |= other);
        self.shift = self.shift.max(other.shift);
    }

    /// Returns their bytes.
    pub fn bytes(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>() << self.shift
    }
}

/// The pages that were touched.
#[derive(Clone, Debug)]
pub(super) struct Touched {
    base: PageShift,
    extents: FxHashMap<(MappingId, u64), Pages>,
    /// The extent that was touched last.
    recent: (MappingId, u64),
    pages: Pages,
}

impl Touched {
    /// Begins without any. `base` is the base page, of 4 KB to 2 MB.
    pub fn new(base: PageShift) -> Touched {
        Touched { base, extents: FxHashMap::default(), recent: (MappingId(0), 0), pages: Pages::default() }
    }

    /// Notes that `mapping` was accessed at `address`.
    pub fn note(&mut self, mapping: MappingId, address: VirtAddr) {
        let extent = (mapping, address.0 >> EXTENT_SHIFT);
        if extent != self.recent {
            self.keep();
            (self.recent, self.pages) = (extent, self.extents.get(&extent).copied().unwrap_or_default());
        }
        let page = (address.0 & ((1 << EXTENT_SHIFT) - 1)) >> self.base.0.max(12);
        self.pages.bits[page as usize / 64] |= 1 << (page % 64);
        self.pages.shift = self.base.0.max(12);
    }

    fn keep(&mut self) {
        if self.pages != Pages::default() {
            self.extents.insert(self.recent, self.pages);
        }
    }

    /// Returns the pages that were touched of each extent of each mapping.
    pub fn finish(mut self) -> FxHashMap<(MappingId, u64), Pages> {
        self.keep();
        self.extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_once_in_the_extent_and_mapping_that_has_them() {
        let mut touched = Touched::new(PageShift(13));
        let (a, b) = (MappingId(2), MappingId(3));
        for address in [0x20_0000, 0x20_1fff, 0x20_2000, 0x3f_ffff, 0x40_0000, 0x20_0008] {
            touched.note(a, VirtAddr(address));
        }
        touched.note(b, VirtAddr(0x20_0000));
        let pages = touched.finish();
        let bytes = |place| pages[&place].bytes();
        assert_eq!((bytes((a, 1)), bytes((a, 2)), bytes((b, 1)), pages.len()), (3 << 13, 1 << 13, 1 << 13, 3));
        let mut both = pages[&(a, 1)];
        both.absorb(&pages[&(b, 1)]);
        assert_eq!(both.bytes(), 3 << 13);
    }
}
