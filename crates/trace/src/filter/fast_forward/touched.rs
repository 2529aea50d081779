//! The pages that a program has touched, by address space.

use reach_core::{Asid, Span};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// The binary logarithm of the bytes in a page. No simulated machine has smaller pages.
pub(super) const PAGE_SHIFT: u32 = 12;

/// Pages in a region; each region has one entry in the map.
const REGION_PAGES: u64 = 512;

/// The pages that were touched, and those that were stored to.
#[derive(Default)]
pub(super) struct TouchedPages(HashMap<(Asid, u64), Region, BuildHasherDefault<RegionHasher>>);

impl TouchedPages {
    /// Adds a reference to page number `page`. Returns whether it is the first to the page, or its first store.
    pub(super) fn touch(&mut self, asid: Asid, page: u64, store: bool) -> bool {
        self.0.entry((asid, page / REGION_PAGES)).or_default().touch(page, store)
    }

    /// Removes the pages that `span` of address space `asid` overlaps.
    pub(super) fn remove(&mut self, asid: Asid, span: Span) {
        let first = span.start.0 >> PAGE_SHIFT;
        let end = span.start.0.saturating_add(span.len).div_ceil(1 << PAGE_SHIFT);
        let regions = first / REGION_PAGES..end.div_ceil(REGION_PAGES);
        // Returns whether pages outside the span remain.
        let remove_from = |number: u64, region: &mut Region| {
            let pages = (number * REGION_PAGES).max(first)..((number + 1) * REGION_PAGES).min(end);
            let whole = pages.end - pages.start == REGION_PAGES;
            if !whole {
                pages.for_each(|page| region.remove(page));
            }
            !whole
        };
        // Visits the regions of the span or those of the map, whichever are fewer.
        if regions.end - regions.start < self.0.len() as u64 {
            for number in regions {
                if let Entry::Occupied(mut region) = self.0.entry((asid, number))
                    && !remove_from(number, region.get_mut())
                {
                    region.remove();
                }
            }
        } else {
            self.0.retain(|&(owner, number), region| {
                owner != asid || !regions.contains(&number) || remove_from(number, region)
            });
        }
    }

    /// Removes all pages of all address spaces.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The state of [`REGION_PAGES`] pages, one bit each.
#[derive(Default)]
struct Region {
    touched: [u64; REGION_PAGES as usize / 64],
    stored: [u64; REGION_PAGES as usize / 64],
}

impl Region {
    fn touch(&mut self, page: u64, store: bool) -> bool {
        let (word, bit) = ((page % REGION_PAGES / 64) as usize, 1 << (page % 64));
        let known = self.touched[word] & bit != 0 && (!store || self.stored[word] & bit != 0);
        self.touched[word] |= bit;
        self.stored[word] |= if store { bit } else { 0 };
        !known
    }

    fn remove(&mut self, page: u64) {
        let (word, bit) = ((page % REGION_PAGES / 64) as usize, 1 << (page % 64));
        self.touched[word] &= !bit;
        self.stored[word] &= !bit;
    }
}

/// Hashes an address space and a region's number. Most references look one up, so the hash is one multiplication.
#[derive(Default)]
struct RegionHasher(u64);

impl Hasher for RegionHasher {
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(32) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::VirtAddr;

    #[test]
    fn removal_affects_exactly_the_pages_of_the_span() {
        let (mut touched, asid) = (TouchedPages::default(), Asid(0));
        let pages = [0u64, 511, 512, 1023, 1024, 5000];
        for removed in [1..2, 511..513, 512..1024, 0..6000, 500..4000] {
            for page in pages {
                touched.touch(asid, page, true);
            }
            let start = VirtAddr(removed.start << PAGE_SHIFT);
            touched.remove(asid, Span { start, len: (removed.end - removed.start) << PAGE_SHIFT });
            for page in pages {
                assert_eq!(touched.touch(asid, page, false), removed.contains(&page), "{page} in {removed:?}");
            }
        }
    }
}
