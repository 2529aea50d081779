//! Nested paging: in a guest, the host's page table translates every guest-physical address once more.
//!
//! Each entry of the guest's table that a walk reads, and the page that the walk is for, has a guest-physical address. A walk
//! without caches reads (n + 1)(m + 1) - 1 entries of tables of n and m levels (Bhargava et al., ASPLOS 2008, figure 1).
//! The processor caches the places of guest page-table pages (a nested TLB, ibid. section 4) and upper entries of the host's
//! table (Intel SDM 28.4, *guest-physical mappings*). Guest walk caches hold combined entries, so that a table found there
//! needs no translation. TLBs hold pieces of the smaller of the two page sizes.
//!
//! The host may have an operating system of its own, whose table is lent to the guest's while the processor runs
//! ([`PageTable::host`]). Then its entries are read where they are, and a page that it has not given yet ends the walk.
//! Otherwise, the host has given every page of the guest a frame, in no order, and changes nothing. Its table is of the guest's kind
//! ([`PageTableKind`]). A tree is as dense as the guest's memory: consecutive pages have consecutive entries, in one region for
//! each level. A hash table has no collisions: a page is found by the first probe, or in the first group of a chain. A
//! learned index has one model, which is a tree of one level. The walk tables of
//! a cuckoo table say that all pages are of one size; they are always cached.

use crate::array::Array;
use crate::config::{self, Replacement};
use reach_core::{PageShift, PageTable, PageTableKind, PhysAddr, Pte, Random, Slot, VirtAddr, Vpn};

/// Address of the host's table, outside all memory of the guest.
const TABLES: u64 = 1 << 46;
/// Binary logarithm of the distance between the regions of two levels.
const LEVEL_AT: u32 = 40;
/// Bits of a host-physical address.
const BITS: u32 = 48;
/// Set in every tag, so that no page number is the empty tag.
const VALID: u64 = 1 << 63;
/// Where a tag has the number of the guest, above all page numbers.
const GUEST_AT: u32 = 48;

/// The most guests that a processor tells apart.
pub const MOST_GUESTS: u32 = 16;
/// Where the host's map of frames takes the number of the guest, above the memory of each: 16 TB.
const GUEST_FRAMES_AT: u32 = 44;

/// The map from guest pages to host frames: a pseudo-random permutation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostFrames {
    shift: u32,
    /// The number of the guest that runs, in the bits of an address that no guest uses.
    guest: u64,
}

impl HostFrames {
    /// Creates the map for host pages of size `host`.
    pub fn new(host: PageShift) -> HostFrames {
        HostFrames { shift: host.0.into(), guest: 0 }
    }

    /// Enters guest number `guest`, less than [`MOST_GUESTS`]. No two guests share a frame.
    pub fn enter_guest(&mut self, guest: u32) {
        self.guest = u64::from(guest) << GUEST_FRAMES_AT;
    }

    /// Returns the host-physical address of guest-physical address `at`.
    #[inline]
    pub fn of(self, at: PhysAddr) -> PhysAddr {
        let bits = BITS - self.shift;
        let (mask, half) = ((1 << bits) - 1, bits / 2);
        let mut page = (at.0 ^ self.guest) >> self.shift & mask;
        // Each step is invertible, so that no two pages share a frame.
        for odd in [0x9e37_79b9_7f4a_7c15u64, 0xd6e8_feb8_6659_fd93] {
            page ^= page >> half;
            page = page.wrapping_mul(odd) & mask;
        }
        page ^= page >> half;
        PhysAddr(page << self.shift | at.0 & ((1 << self.shift) - 1))
    }
}

/// Returns the part of the guest page `pte` around `vpn` that one host page of size `host_page` backs; `pte` itself if the
/// host page is not smaller, or without a host. `base` is the base page.
#[inline(always)]
pub(crate) fn within_host_page(pte: Pte, vpn: Vpn, base: PageShift, host_page: Option<PageShift>) -> Pte {
    match host_page {
        Some(host_page) if host_page < pte.shift() => {
            let offset_mask = |shift: PageShift| shift.base_pages(base) - 1;
            let within = vpn.0 & offset_mask(pte.shift()) & !offset_mask(host_page);
            pte.with_pfn(pte.pfn() + within).with_shift(host_page)
        }
        _ => pte,
    }
}

/// The virtual address of the guest's memory in its host's address space.
pub const GUEST_MEMORY: VirtAddr = VirtAddr(1 << 40);

/// Returns the host's base page that holds guest-physical address `at`.
pub(crate) fn host_vpn(at: PhysAddr, host: &PageTable) -> Vpn {
    VirtAddr(GUEST_MEMORY.0 + at.0).vpn(host.layout().base)
}

/// Ways of a cuckoo table.
const WAYS: u64 = 3;
/// Lines of a hash table, more than any guest's memory needs.
const HASHED_LINES: u64 = 1 << 34;

/// The host's page table, with the caches of its upper levels.
#[derive(Clone, Debug)]
enum Table {
    Tree {
        /// Binary logarithm of the bytes that an entry spans, by level of nodes from that of the host's pages up.
        spans: Vec<u32>,
        /// Caches of the levels above the lowest; `None` for a level that is not cached.
        upper: Vec<Option<Array<u64>>>,
    },
    Hash {
        /// Lines that are read at the same time.
        ways: u64,
        /// Neighbouring pages whose entries share a line.
        cluster: u64,
    },
}

/// The host's page table, and the processor's caches of it.
#[derive(Clone, Debug)]
pub(crate) struct Nested {
    /// Size of the host's pages.
    pub host: PageShift,
    table: Table,
    /// The nested TLB: host translations of guest page-table pages. `None` if the machine has none.
    tlb: Option<Array<u64>>,
    /// The tag of the guest that runs. It is part of each tag of the caches, which all guests share.
    guest: u64,
}

/// Returns a fully associative array; `None` for 0 entries.
fn fully_associative(entries: u32) -> Option<Array<u64>> {
    let entries = entries as usize;
    (entries > 0).then(|| Array::new(entries, entries, Replacement::Lru, 0))
}

/// Returns whether `array` holds `number`, and enters it if not. Without an array, nothing is held.
fn lookup_or_insert(array: &mut Option<Array<u64>>, number: u64) -> bool {
    let Some(array) = array else { return false };
    let tag = number | VALID;
    let held = array.lookup(0, tag).is_some();
    if !held {
        array.insert(0, tag, 0);
    }
    held
}

impl Nested {
    /// Creates empty caches for the host that `nested` describes.
    pub fn new(machine: &config::Machine, nested: &config::Nested) -> Nested {
        let layout = &machine.layout;
        let (lowest, _) = layout.placement(nested.host_page);
        let tree = |levels: &mut dyn Iterator<Item = usize>, caches: &[u32]| Table::Tree {
            spans: levels.map(|level| layout.span(level).0.into()).collect(),
            upper: caches.iter().map(|&entries| fully_associative(entries)).collect(),
        };
        let table = match layout.kind {
            PageTableKind::Radix => {
                let entries = |level: usize| *nested.walk_cache_entries.get(level - 1).unwrap_or(&0);
                let caches: Vec<u32> = (lowest + 1..layout.levels()).map(entries).collect();
                tree(&mut (lowest..layout.levels()), &caches)
            }
            // Two levels are one node.
            PageTableKind::Flattened => {
                let levels = (lowest / 2 * 2..layout.levels()).step_by(2);
                let caches = layout.kind.walk_caches().iter().copied().chain(std::iter::repeat(0));
                let caches: Vec<u32> = caches.skip(lowest / 2).take(levels.len() - 1).collect();
                tree(&mut levels.into_iter(), &caches)
            }
            // One model fits all of the guest's memory.
            PageTableKind::Learned => tree(&mut std::iter::once(lowest), &[]),
            PageTableKind::Hashed => Table::Hash { ways: 1, cluster: 8 },
            PageTableKind::Chained => Table::Hash { ways: 1, cluster: 1 },
            // The walk tables say in which way a page larger than the base page is.
            PageTableKind::Cuckoo => Table::Hash { ways: if lowest == 0 { WAYS } else { 1 }, cluster: 8 },
        };
        Nested { host: nested.host_page, table, tlb: fully_associative(nested.tlb_entries), guest: 0 }
    }

    /// Returns the address of the entry that ends the walk for guest-physical address `at`.
    pub fn leaf_entry(&self, at: PhysAddr) -> PhysAddr {
        match &self.table {
            Table::Tree { spans, .. } => tree_entry(0, spans, at),
            &Table::Hash { cluster, .. } => hashed_entry(0, cluster, at.0 >> self.host.0),
        }
    }

    /// Returns the size of the host's page for guest-physical address `at`. `host` is the table of a host with an operating
    /// system.
    pub fn page_size(&self, host: Option<&PageTable>, at: PhysAddr) -> PageShift {
        match host {
            None => self.host,
            Some(host) => host.lookup(host_vpn(at, host)).map_or(host.layout().base, Pte::shift),
        }
    }

    /// Enters guest number `guest`.
    pub fn enter_guest(&mut self, guest: u32) {
        self.guest = u64::from(guest) << GUEST_AT;
    }

    /// Drops everything of guest number `guest`, because the host has changed its table.
    pub fn clear(&mut self, guest: u32) {
        let tag = u64::from(guest) << GUEST_AT | VALID;
        let upper = match &mut self.table {
            Table::Tree { upper, .. } => upper.as_mut_slice(),
            Table::Hash { .. } => &mut [],
        };
        upper
            .iter_mut()
            .chain([&mut self.tlb])
            .flatten()
            .for_each(|array| array.remove_if(|held| held >> GUEST_AT == tag >> GUEST_AT));
    }

    /// Translates through the table of a host with an operating system. Returns false where the host has given no page.
    fn translate_through(
        &mut self,
        host: &PageTable,
        at: PhysAddr,
        table: bool,
        mut read: impl FnMut(&[PhysAddr]),
    ) -> bool {
        let path = host.walk(host_vpn(at, host));
        let Some(Slot::Leaf(pte)) = path.last().map(|step| step.slot) else { return false };
        if table && lookup_or_insert(&mut self.tlb, self.guest | at.0 >> pte.shift().0) {
            return true;
        }
        // The walk starts below the lowest entry that is cached. The entry of the page itself is in no cache.
        let mut first = 0;
        if let Table::Tree { upper, .. } = &mut self.table {
            for (number, step) in path.iter().enumerate().rev().skip(1) {
                let span = host.layout().span(step.level);
                let cache = step.level.checked_sub(1).and_then(|level| upper.get_mut(level));
                if cache.is_some_and(|cache| lookup_or_insert(cache, self.guest | at.0 >> span.0)) {
                    first = number + 1;
                    break;
                }
            }
        }
        path[first..].iter().for_each(|step| read(&[step.at]));
        true
    }

    /// Translates guest-physical address `at`: of an entry of the guest's page table if `table`, otherwise of the page that the
    /// walk is for. Calls `read` with each group of addresses of entries of the host's table that it reads at the same time.
    /// Returns false where a host with an operating system, whose table is `host`, has given no page.
    pub fn translate(
        &mut self,
        host: Option<&PageTable>,
        at: PhysAddr,
        table: bool,
        mut read: impl FnMut(&[PhysAddr]),
    ) -> bool {
        if let Some(host) = host {
            return self.translate_through(host, at, table, read);
        }
        if table && lookup_or_insert(&mut self.tlb, at.0 >> self.host.0) {
            return true;
        }
        match &mut self.table {
            Table::Tree { spans, upper } => {
                let caches = upper.iter_mut().zip(&spans[1..]);
                // The walk starts below the lowest cached entry.
                let cached = caches.map(|(cache, span)| lookup_or_insert(cache, at.0 >> span)).position(|held| held);
                for level in (0..=cached.unwrap_or(upper.len())).rev() {
                    read(&[tree_entry(level, spans, at)]);
                }
            }
            &mut Table::Hash { ways, cluster } => {
                let page = at.0 >> self.host.0;
                let entries: [PhysAddr; WAYS as usize] =
                    std::array::from_fn(|way| hashed_entry(way as u64, cluster, page));
                read(&entries[..ways as usize]);
            }
        }
        true
    }
}

/// Returns the address of the entry for `at` of a tree's region number `level`.
fn tree_entry(level: usize, spans: &[u32], at: PhysAddr) -> PhysAddr {
    PhysAddr(TABLES + ((level as u64) << LEVEL_AT) + (at.0 >> spans[level]) * 8)
}

/// Returns the address of the entry for `page` in a way of a hash table.
fn hashed_entry(way: u64, cluster: u64, page: u64) -> PhysAddr {
    let line = Random::new((page / cluster) ^ (way << 60)).below(HASHED_LINES);
    PhysAddr(TABLES + (way << LEVEL_AT) + line * 64 + page % cluster * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(host: u8, tlb: u32, tables: &[u32]) -> Nested {
        let layout = reach_core::Layout::x86_64();
        let spans = (0..4).map(|level| layout.span(level).0.into()).skip_while(|span| *span < u32::from(host));
        let spans: Vec<u32> = spans.collect();
        let lowest = 4 - spans.len();
        let upper = (lowest + 1..4).map(|level| fully_associative(*tables.get(level - 1).unwrap_or(&0))).collect();
        Nested { host: PageShift(host), table: Table::Tree { spans, upper }, tlb: fully_associative(tlb), guest: 0 }
    }

    fn reads(nested: &mut Nested, at: u64, table: bool) -> Vec<u64> {
        let mut all = Vec::new();
        nested.translate(None, PhysAddr(at), table, |entries| all.extend(entries.iter().map(|entry| entry.0)));
        all
    }

    #[test]
    fn hashed_hosts_are_found_by_one_read_and_neighbours_share_its_line() {
        let table = Table::Hash { ways: 1, cluster: 8 };
        let mut hashed = Nested { host: PageShift(12), table, tlb: None, guest: 0 };
        let [first, second] = [0x8000, 0x9000].map(|at| reads(&mut hashed, at, false));
        assert_eq!((first.len(), second[0] - first[0]), (1, 8));
        assert!(reads(&mut hashed, 0x1_0000, false)[0].abs_diff(first[0]) > 64, "the next cluster is elsewhere");
        let table = Table::Hash { ways: 3, cluster: 8 };
        let mut cuckoo = Nested { host: PageShift(12), table, tlb: None, guest: 0 };
        let mut groups = Vec::new();
        cuckoo.translate(None, PhysAddr(0x8000), false, |entries| groups.push(entries.len()));
        assert_eq!(groups, [3], "three lines at the same time");
    }

    #[test]
    fn a_walk_without_caches_reads_every_level() {
        let mut uncached = nested(12, 0, &[]);
        assert_eq!(reads(&mut uncached, 0x1234_5678, false).len(), 4);
        assert_eq!(reads(&mut uncached, 0x1234_5678, true).len(), 4, "again");
        assert_eq!(reads(&mut nested(21, 0, &[]), 0x1234_5678, false).len(), 3);
        assert_eq!(reads(&mut nested(30, 0, &[]), 0x1234_5678, false).len(), 2);
        let last = TABLES + (0x1234_5678 >> 12) * 8;
        assert_eq!(reads(&mut uncached, 0x1234_5678, false)[3], last, "neighbouring pages have neighbouring entries");
    }

    #[test]
    fn cached_entries_are_not_read_again() {
        let mut all = nested(12, 2, &[4, 2, 1]);
        assert_eq!(reads(&mut all, 0x1000, false).len(), 4);
        assert_eq!(reads(&mut all, 0x2000, false).len(), 1, "the same table");
        assert_eq!(reads(&mut all, 0x40_0000, false).len(), 2, "the next table");
        assert_eq!(reads(&mut all, 0x1008, true).len(), 1, "the nested TLB holds page-table pages only");
        assert_eq!(reads(&mut all, 0x1010, true).len(), 0);
        assert_eq!(reads(&mut all, 0x1010, false).len(), 1, "data pages do not look up the nested TLB");
        let mut large = nested(21, 0, &[4, 2, 1]);
        assert_eq!(reads(&mut large, 0, false).len(), 3);
        assert_eq!(reads(&mut large, 5 << 21, false).len(), 1, "the second level caches entries of 1 GB");
    }

    #[test]
    fn what_is_cached_for_one_guest_serves_no_other_and_is_dropped_alone() {
        let mut all = nested(12, 2, &[4, 2, 1]);
        let find = |all: &mut Nested, guest: u32| {
            all.enter_guest(guest);
            lookup_or_insert(&mut all.tlb, all.guest | 1)
        };
        assert_eq!([0, 1, 0, 1].map(|guest| find(&mut all, guest)), [false, false, true, true]);
        all.clear(1);
        assert_eq!([0, 1].map(|guest| find(&mut all, guest)), [true, false]);
        all.clear(0);
        assert_eq!([1, 0].map(|guest| find(&mut all, guest)), [true, false]);
    }

    #[test]
    fn guests_lie_in_different_lines_of_the_caches() {
        let mut frames = HostFrames::new(PageShift(12));
        let mut seen = std::collections::BTreeSet::new();
        for guest in 0..MOST_GUESTS {
            frames.enter_guest(guest);
            seen.extend((0..2000).map(|page| frames.of(PhysAddr(page << 12)).0));
        }
        assert_eq!(seen.len(), 2000 * MOST_GUESTS as usize);
    }

    #[test]
    fn no_two_pages_share_a_frame() {
        for shift in [12, 21, 30] {
            let frames = HostFrames::new(PageShift(shift));
            let mut seen = std::collections::BTreeSet::new();
            for page in 0..20_000u64 {
                let at = frames.of(PhysAddr(((page % (1 << (BITS - u32::from(shift)))) << shift) | 77));
                assert_eq!(at.0 & ((1 << shift) - 1), 77);
                assert!(at.0 < 1 << BITS);
                seen.insert(at.0);
            }
            assert_eq!(seen.len(), 20_000);
        }
    }
}
