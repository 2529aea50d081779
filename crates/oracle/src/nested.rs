//! The twin of nested walks: the host's page table as a list of levels, and what is cached of it as lists in order of
//! use.

use reach_core::{Layout, PageShift, PageTableKind, PhysAddr, Random};
use reach_hardware::config;

/// The host's page table, and the processor's caches of it.
#[derive(Clone, Debug)]
pub struct Nested {
    config: config::Nested,
    layout: Layout,
    /// The guest pages of page tables whose host addresses are cached, the least recently used first.
    nested_tlb: Vec<u64>,
    /// By level, the cached entries of the host's table, the least recently used first.
    walk_caches: Vec<Vec<u64>>,
}

/// Uses `number` in an LRU cache of `entries` entries. Returns whether it was a hit.
fn access(cache: &mut Vec<u64>, number: u64, entries: u32) -> bool {
    let hit = cache.contains(&number);
    cache.retain(|other| *other != number);
    cache.push(number);
    if cache.len() > entries as usize {
        cache.remove(0);
    }
    hit
}

impl Nested {
    pub fn new(config: config::Nested, layout: Layout) -> Nested {
        Nested { walk_caches: vec![Vec::new(); layout.levels()], nested_tlb: Vec::new(), config, layout }
    }

    /// Returns the same table with empty caches.
    pub fn without_caches(&self) -> Nested {
        Nested::new(self.config.clone(), self.layout.clone())
    }

    /// Returns the entries of the host's table that are read to translate the guest's `at`, in groups that are read at the
    /// same time, the highest first. Only pages of the guest's page tables use the nested TLB.
    pub fn translate(&mut self, at: PhysAddr, is_table: bool) -> Vec<Vec<PhysAddr>> {
        let host = self.config.host_page;
        if is_table && access(&mut self.nested_tlb, at.0 >> host.0, self.config.tlb_entries) {
            return Vec::new();
        }
        let lowest = self.layout.placement(host).0;
        let region = |number: u64| (1 << 46) + (number << 40);
        let hashed = |way: u64, cluster: u64| {
            let page = at.0 >> host.0;
            let line = Random::new((page / cluster) ^ (way << 60)).below(1 << 34);
            PhysAddr(region(way) + line * 64 + page % cluster * 8)
        };
        let (first, step) = match self.layout.kind {
            PageTableKind::Hashed => return vec![vec![hashed(0, 8)]],
            PageTableKind::Chained => return vec![vec![hashed(0, 1)]],
            PageTableKind::Cuckoo if lowest == 0 => return vec![(0..3).map(|way| hashed(way, 8)).collect()],
            PageTableKind::Cuckoo => return vec![vec![hashed(0, 8)]],
            PageTableKind::Radix => (lowest, 1),
            PageTableKind::Flattened => (lowest - lowest % 2, 2),
            PageTableKind::Learned => (lowest, self.layout.levels()),
        };
        let mut read = Vec::new();
        for (above, level) in (first..self.layout.levels()).step_by(step).enumerate() {
            let number = at.0 >> self.layout.span(level).0;
            if above > 0 {
                let entries = match self.layout.kind {
                    PageTableKind::Flattened => self.layout.kind.walk_caches().get(level / 2 - 1),
                    _ => self.config.walk_cache_entries.get(level - 1),
                };
                if access(&mut self.walk_caches[level], number, entries.copied().unwrap_or(0)) {
                    break;
                }
            }
            read.insert(0, vec![PhysAddr(region(above as u64) + number * 8)]);
        }
        read
    }

    /// Returns the size of what is one page to both guest and host, for a guest page of size `whole`.
    pub fn smaller_size(&self, whole: PageShift) -> PageShift {
        whole.min(self.config.host_page)
    }
}

/// Returns the host address that backs the guest's `at`: host frames are a permutation of the guest's pages.
pub fn host_address(host: PageShift, at: PhysAddr) -> PhysAddr {
    let bits = 48 - u32::from(host.0);
    let pages = 1u128 << bits;
    let mut page = u128::from(at.0 >> host.0) % pages;
    for odd in [0x9e37_79b9_7f4a_7c15u128, 0xd6e8_feb8_6659_fd93] {
        page = (page ^ page >> (bits / 2)) * odd % pages;
    }
    page ^= page >> (bits / 2);
    PhysAddr(((page as u64) << host.0) | (at.0 % host.bytes()))
}
