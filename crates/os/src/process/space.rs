//! Address spaces: which regions of virtual memory mean what.
//!
//! Regions are kept to the byte, as the program made them. Simulated base pages may be larger than the program's, so
//! several regions may meet in one page. Rounding happens in two places only: [`Space::page`] gives such a page to the
//! region that covers its lowest byte that is covered at all, with the rights of all of them together; and a page's
//! translation goes away when no region overlaps the page any more. A mapping so covers every base page that it touches, a
//! neighbour's partial page is kept, and unmapping shrinks inwards.

use crate::ObjectId;
use reach_core::{PageShift, Protection, Role, Span, VirtAddr, Vpn};
use std::collections::BTreeMap;

/// What programs believe a page to be, in bytes. Lengths of mappings are rounded up to it, as kernels do.
pub const PROGRAM_PAGE: u64 = 4096;

/// A stretch of virtual memory with one meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Access rights.
    pub protection: Protection,
    /// What stands behind it.
    pub object: ObjectId,
    /// Where in the object it starts, in bytes. Private anonymous objects are addressed by the virtual address at
    /// which they were first mapped.
    pub offset: u64,
    /// The object is a file.
    pub file: bool,
    /// Stores go to the object itself.
    pub shared: bool,
    /// What it is for.
    pub role: Role,
    /// What the program advised about superpages: yes, no, nothing.
    pub huge: Option<bool>,
    /// The program itself asked for superpages of this size (MAP_HUGETLB); 0 when it did not.
    pub huge_shift: u8,
    /// Swap space is not accounted.
    pub no_reserve: bool,
    /// Children do not get it.
    pub dont_fork: bool,
    /// It has had pages of its own (what Linux notes by an `anon_vma`): fork must copy its translations.
    pub private_pages: bool,
}

impl Region {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it has no bytes. Regions in a [`Space`] always have some.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Private memory without a file.
    pub fn anonymous(&self) -> bool {
        !self.file && !self.shared
    }

    /// Which page of its object stands behind base page `vpn`, which the region touches. Rounded up where the program
    /// placed its file at an offset that is not congruent to its address in the simulated page size, so that one page
    /// of the object stands behind one page of memory however the region is split.
    pub fn index(&self, vpn: Vpn, base: PageShift) -> u64 {
        let bytes = (vpn.0 << base.0) as i64 + self.offset as i64 - self.start as i64;
        (bytes + (base.bytes() as i64 - 1)).max(0) as u64 >> base.0
    }

    /// The base pages that it touches.
    pub fn pages(&self, base: PageShift) -> std::ops::Range<u64> {
        self.start >> base.0..self.end.div_ceil(base.bytes())
    }

    /// Equal to `other` in all but place.
    fn alike(&self, other: &Region) -> bool {
        let place =
            |r: &Region| Region { start: 0, end: 0, offset: 0, object: ObjectId::NONE, private_pages: false, ..*r };
        place(self) == place(other)
    }

    /// Whether `next`, which starts where this ends, simply continues it.
    fn continues(&self, next: &Region) -> bool {
        self.end == next.start
            && self.object == next.object
            && self.offset + self.len() == next.offset
            && self.alike(next)
    }
}

/// A base page as regions see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageView {
    /// The region that the page belongs to.
    pub region: Region,
    /// The rights of all regions in the page together.
    pub protection: Protection,
}

/// The regions of one address space, disjoint.
#[derive(Clone, Debug, Default)]
pub struct Space {
    regions: BTreeMap<u64, Region>,
}

impl Space {
    /// How many regions there are.
    pub fn count(&self) -> u64 {
        self.regions.len() as u64
    }

    /// All regions by address.
    pub fn regions(&self) -> impl DoubleEndedIterator<Item = &Region> {
        self.regions.values()
    }

    /// Whether there is no region.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The region that holds this byte.
    pub fn find(&self, addr: VirtAddr) -> Option<&Region> {
        self.regions.range(..=addr.0).next_back().map(|(_, region)| region).filter(|region| region.end > addr.0)
    }

    /// Regions that overlap the bytes `start..end`, by address. None for an empty or inverted span.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Region> {
        let first = match self.find(VirtAddr(start)) {
            Some(region) if start < end => region.start,
            _ => start.min(end),
        };
        self.regions.range(first..end).map(|(_, region)| region)
    }

    /// Whether any region overlaps the bytes `start..end`.
    pub fn any(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).next().is_some()
    }

    /// The first region that starts at or above `addr`.
    pub fn next(&self, addr: u64) -> Option<&Region> {
        self.regions.range(addr..).next().map(|(_, region)| region)
    }

    /// What regions say about `pages` base pages from `vpn` on, taken as one page.
    pub fn page(&self, vpn: Vpn, pages: u64, base: PageShift) -> Option<PageView> {
        let start = vpn.0 << base.0;
        let mut view: Option<PageView> = None;
        for region in self.overlapping(start, start + (pages << base.0)) {
            let p = region.protection;
            match &mut view {
                None => view = Some(PageView { region: *region, protection: p }),
                Some(view) => {
                    let mine = &mut view.protection;
                    *mine = Protection {
                        read: mine.read || p.read,
                        write: mine.write || p.write,
                        execute: mine.execute || p.execute,
                    };
                }
            }
        }
        view
    }

    /// Adds a region where none is, united with its neighbours where they are one.
    pub(crate) fn insert(&mut self, mut region: Region) {
        debug_assert!(!region.is_empty() && !self.any(region.start, region.end), "{region:?}");
        if let Some((_, left)) = self.regions.range(..region.start).next_back()
            && left.continues(&region)
        {
            region.start = left.start;
            region.offset = left.offset;
            region.private_pages |= left.private_pages;
            self.regions.remove(&region.start);
        }
        if let Some(right) = self.regions.get(&region.end)
            && region.continues(right)
        {
            region.private_pages |= right.private_pages;
            let right = region.end;
            region.end = self.regions[&right].end;
            self.regions.remove(&right);
        }
        self.regions.insert(region.start, region);
    }

    /// The object and offset with which a private anonymous `region` would continue a neighbour.
    pub(crate) fn neighbour(&self, region: &Region) -> Option<(ObjectId, u64)> {
        let left = self.regions.range(..region.start).next_back().map(|(_, left)| left);
        if let Some(left) = left.filter(|left| left.end == region.start && left.anonymous() && left.alike(region)) {
            return Some((left.object, left.offset + left.len()));
        }
        let right = self.regions.get(&region.end)?;
        let fits = right.anonymous() && right.alike(region) && right.offset >= region.len();
        fits.then(|| (right.object, right.offset - region.len()))
    }

    /// Removes the bytes `start..end` from all regions and returns what was removed, by address.
    pub(crate) fn carve(&mut self, start: u64, end: u64) -> Vec<Region> {
        let touched: Vec<Region> = self.overlapping(start, end).copied().collect();
        let mut removed = Vec::with_capacity(touched.len());
        for region in touched {
            self.regions.remove(&region.start);
            let (from, to) = (region.start.max(start), region.end.min(end));
            if region.start < from {
                self.regions.insert(region.start, Region { end: from, ..region });
            }
            if to < region.end {
                self.regions.insert(to, Region { start: to, offset: region.offset + (to - region.start), ..region });
            }
            removed.push(Region { start: from, end: to, offset: region.offset + (from - region.start), ..region });
        }
        removed
    }

    /// Changes all regions in the bytes `span`, splitting at its ends and uniting what has become equal.
    pub(crate) fn change(&mut self, span: Span, change: impl Fn(&mut Region)) {
        for mut region in self.carve(span.start.0, span.end().0) {
            change(&mut region);
            self.insert(region);
        }
        // The region after the span may now continue the last one inside it.
        if let Some(right) = self.regions.get(&span.end().0).copied() {
            self.regions.remove(&right.start);
            self.insert(right);
        }
    }

    /// Notes that the regions in these bytes have pages of their own.
    pub(crate) fn note_private(&mut self, start: u64, end: u64) {
        let first = self.find(VirtAddr(start)).map_or(start, |region| region.start);
        for (_, region) in self.regions.range_mut(first..end) {
            region.private_pages = true;
        }
    }

    /// Checks that regions are in order and disjoint. For tests and debug builds.
    pub fn check(&self) {
        let mut end = 0;
        for (&start, region) in &self.regions {
            assert!(start == region.start && start >= end && region.end > start, "{region:?}");
            end = region.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, object: u32) -> Region {
        Region {
            start,
            end,
            protection: Protection::READ_WRITE,
            object: ObjectId(object),
            offset: start,
            file: false,
            shared: false,
            role: Role::Mmap,
            huge: None,
            huge_shift: 0,
            no_reserve: false,
            dont_fork: false,
            private_pages: false,
        }
    }

    #[test]
    fn carving_splits_and_changing_back_unites() {
        let mut space = Space::default();
        space.insert(region(0x1000, 0x9000, 1));
        let middle = Span { start: VirtAddr(0x3000), len: 0x2000 };
        space.change(middle, |r| r.protection = Protection::READ);
        assert_eq!(space.regions().count(), 3);
        space.change(middle, |r| r.protection = Protection::READ_WRITE);
        assert_eq!(space.regions().count(), 1);
        let gone = space.carve(0x2000, 0x3000);
        assert_eq!((gone.len(), gone[0].offset), (1, 0x2000));
        assert_eq!(
            space.regions().map(|r| (r.start, r.end, r.offset)).collect::<Vec<_>>(),
            [(0x1000, 0x2000, 0x1000), (0x3000, 0x9000, 0x3000)]
        );
        space.check();
    }

    #[test]
    fn a_large_base_page_belongs_to_its_first_region_with_all_rights() {
        let (mut space, base) = (Space::default(), PageShift(14));
        space.insert(Region { protection: Protection::READ_EXECUTE, ..region(0x5000, 0x7000, 1) });
        space.insert(region(0x7000, 0x9000, 2));
        let view = space.page(Vpn(1), 1, base).unwrap();
        assert_eq!((view.region.object, view.protection.write, view.protection.execute), (ObjectId(1), true, true));
        assert_eq!(space.page(Vpn(2), 1, base).unwrap().region.object, ObjectId(2));
        assert!(space.page(Vpn(3), 1, base).is_none() && space.page(Vpn(0), 1, base).is_none());
    }
}
