//! Address spaces: the regions of virtual memory.
//!
//! Regions are kept to the byte, as the program made them. Simulated base pages may be larger than the program's, so several
//! regions may share one page. Rounding happens in two places only. [`Space::page`] gives such a page to the region that
//! covers its lowest mapped byte, with the rights of all regions in the page. And a page's translation goes away when no
//! region overlaps the page any more. Thus a mapping covers every base page that it touches, a neighbour's partial page is
//! kept, and unmapping shrinks inwards.

use crate::ObjectId;
use reach_core::{PageShift, Protection, Role, Span, VirtAddr, Vpn};
use std::collections::BTreeMap;

/// The page size that programs assume, in bytes. Lengths of mappings are rounded up to it, as kernels do.
pub const PROGRAM_PAGE: u64 = 4096;

/// A region: contiguous virtual memory with the same rights and the same object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Access rights.
    pub protection: Protection,
    /// The memory object that it maps.
    pub object: ObjectId,
    /// Offset of its first byte in the object, in bytes. In private anonymous objects this is the virtual address at which
    /// they were first mapped.
    pub offset: u64,
    /// The object is a file.
    pub file: bool,
    /// Stores go to the object itself.
    pub shared: bool,
    /// Purpose of the memory: heap, stack, program image and so on.
    pub role: Role,
    /// Whether the program advised superpages. `None` when it did not say.
    pub huge: Option<bool>,
    /// Binary logarithm of the superpage size that the program asked for (`MAP_HUGETLB`); 0 when it did not.
    pub huge_shift: u8,
    /// Swap space is not reserved for it (`MAP_NORESERVE`).
    pub no_reserve: bool,
    /// Forks do not copy it (`MADV_DONTFORK`).
    pub dont_fork: bool,
    /// It has had private pages, so that fork must copy its translations (Linux notes this by an `anon_vma`).
    pub private_pages: bool,
}

impl Region {
    /// Returns a private, zero-filled region. It gets an object when it enters an address space.
    pub(crate) fn anonymous_at(start: u64, end: u64, protection: Protection) -> Region {
        Region {
            start,
            end,
            protection,
            object: ObjectId::NONE,
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

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Returns whether it has no bytes. Regions in a [`Space`] always have some.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns whether it is private memory without a file.
    pub fn anonymous(&self) -> bool {
        !self.file && !self.shared
    }

    /// Returns the index of the object's page that base page `vpn`, which the region touches, maps. The index is rounded up
    /// where offset and address are not congruent in the simulated page size, so that one page of memory maps one page of
    /// the object however the region is split.
    pub fn index(&self, vpn: Vpn, base: PageShift) -> u64 {
        let bytes = (vpn.0 << base.0) as i64 + self.offset as i64 - self.start as i64;
        (bytes + (base.bytes() as i64 - 1)).max(0) as u64 >> base.0
    }

    /// Returns the base pages that it touches.
    pub fn pages(&self, base: PageShift) -> std::ops::Range<u64> {
        self.start >> base.0..self.end.div_ceil(base.bytes())
    }

    /// Returns whether it equals `other` in all but place.
    fn alike(&self, other: &Region) -> bool {
        let place =
            |r: &Region| Region { start: 0, end: 0, offset: 0, object: ObjectId::NONE, private_pages: false, ..*r };
        place(self) == place(other)
    }

    /// Returns whether `next` starts where this ends, in addresses and in the object, with the same attributes.
    fn continues(&self, next: &Region) -> bool {
        self.end == next.start
            && self.object == next.object
            && self.offset + self.len() == next.offset
            && self.alike(next)
    }
}

/// A base page as the regions in it define it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageView {
    /// The region that the page belongs to.
    pub region: Region,
    /// The rights of all regions in the page, united.
    pub protection: Protection,
}

/// The regions of one address space, disjoint.
#[derive(Clone, Debug, Default)]
pub struct Space {
    regions: BTreeMap<u64, Region>,
}

impl Space {
    /// Returns the number of regions.
    pub fn count(&self) -> u64 {
        self.regions.len() as u64
    }

    /// Returns all regions, by address.
    pub fn regions(&self) -> impl DoubleEndedIterator<Item = &Region> {
        self.regions.values()
    }

    /// Returns whether there is no region.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Returns the region that holds this byte. `None` when none does.
    pub fn find(&self, addr: VirtAddr) -> Option<&Region> {
        self.regions.range(..=addr.0).next_back().map(|(_, region)| region).filter(|region| region.end > addr.0)
    }

    /// Returns the regions that overlap the bytes `start..end`, by address. There are none for an empty or inverted span.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Region> {
        let first = match self.find(VirtAddr(start)) {
            Some(region) if start < end => region.start,
            _ => start.min(end),
        };
        self.regions.range(first..end).map(|(_, region)| region)
    }

    /// Returns whether any region overlaps the bytes `start..end`.
    pub fn any(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).next().is_some()
    }

    /// Returns the first region that starts at or above `addr`.
    pub fn next(&self, addr: u64) -> Option<&Region> {
        self.regions.range(addr..).next().map(|(_, region)| region)
    }

    /// Returns the view of `pages` base pages from `vpn` on, taken as one page. `None` when no region overlaps them.
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

    /// Adds a region where none is, and joins it with neighbours that it continues.
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

    /// Returns the object and offset with which a private anonymous `region` would continue a neighbour. `None` when it
    /// continues none.
    pub(crate) fn neighbour(&self, region: &Region) -> Option<(ObjectId, u64)> {
        let left = self.regions.range(..region.start).next_back().map(|(_, left)| left);
        if let Some(left) = left.filter(|left| left.end == region.start && left.anonymous() && left.alike(region)) {
            return Some((left.object, left.offset + left.len()));
        }
        let right = self.regions.get(&region.end)?;
        let fits = right.anonymous() && right.alike(region) && right.offset >= region.len();
        fits.then(|| (right.object, right.offset - region.len()))
    }

    /// Removes the bytes `start..end` from all regions. Returns what was removed, by address.
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

    /// Changes all regions in the bytes of `span`. Regions are split at its ends, and joined where they become equal.
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

    /// Notes that the regions in these bytes have private pages.
    pub(crate) fn note_private(&mut self, start: u64, end: u64) {
        let first = self.find(VirtAddr(start)).map_or(start, |region| region.start);
        for (_, region) in self.regions.range_mut(first..end) {
            region.private_pages = true;
        }
    }

    /// Checks that regions are in order and disjoint. For tests and debug builds.
    ///
    /// # Panics
    /// When they are not.
    pub fn check(&self) {
        let mut end = 0;
        for (&start, region) in &self.regions {
            assert!(start == region.start && start >= end && region.end > start, "{region:?}");
            end = region.end;
        }
    }
}

/// Returns the end of a span, rounded up to the program's page as kernels do. The end of an empty span is its start.
pub(crate) fn page_end(span: Span) -> u64 {
    if span.len == 0 { span.start.0 } else { span.end().0.next_multiple_of(PROGRAM_PAGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, object: u32) -> Region {
        Region { object: ObjectId(object), ..Region::anonymous_at(start, end, Protection::READ_WRITE) }
    }

    #[test]
    fn carving_splits_regions_and_changing_back_joins_them() {
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
    fn a_large_base_page_belongs_to_its_first_region_with_the_rights_of_all() {
        let (mut space, base) = (Space::default(), PageShift(14));
        space.insert(Region { protection: Protection::READ_EXECUTE, ..region(0x5000, 0x7000, 1) });
        space.insert(region(0x7000, 0x9000, 2));
        let view = space.page(Vpn(1), 1, base).unwrap();
        assert_eq!((view.region.object, view.protection.write, view.protection.execute), (ObjectId(1), true, true));
        assert_eq!(space.page(Vpn(2), 1, base).unwrap().region.object, ObjectId(2));
        assert!(space.page(Vpn(3), 1, base).is_none() && space.page(Vpn(0), 1, base).is_none());
    }
}
