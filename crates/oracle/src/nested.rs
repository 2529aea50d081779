//! Nested walks: the host's table as a list of levels, and what is kept of it as lists in order of use.

use reach_core::{Layout, PageShift, PhysAddr};
use reach_hardware::config;

/// The host's side of walks.
#[derive(Clone, Debug)]
pub struct Nested {
    config: config::Nested,
    layout: Layout,
    /// Guest pages whose place is known, the least recently used first.
    tlb: Vec<u64>,
    /// Entries of the host's table by level, the same way.
    upper: Vec<Vec<u64>>,
}

/// Uses `number`, of which at most `most` are kept. Returns whether it was there.
fn used(kept: &mut Vec<u64>, number: u64, most: u32) -> bool {
    let there = kept.contains(&number);
    kept.retain(|other| *other != number);
    kept.push(number);
    if kept.len() > most as usize {
        kept.remove(0);
    }
    there
}

impl Nested {
    pub fn new(config: config::Nested, layout: Layout) -> Nested {
        Nested { upper: vec![Vec::new(); layout.levels()], tlb: Vec::new(), config, layout }
    }

    /// The entries of the host's table that are read to translate the guest's `at`, the highest first.
    pub fn translate(&mut self, at: PhysAddr, table: bool) -> Vec<PhysAddr> {
        let host = self.config.host_page;
        if table && used(&mut self.tlb, at.0 >> host.0, self.config.tlb_entries) {
            return Vec::new();
        }
        let lowest = self.layout.placement(host).0;
        let mut read = Vec::new();
        for level in lowest..self.layout.levels() {
            let number = at.0 >> self.layout.span(level).0;
            if level > lowest {
                let most = self.config.walk_cache_entries.get(level - 1).copied().unwrap_or(0);
                if used(&mut self.upper[level], number, most) {
                    break;
                }
            }
            read.insert(0, PhysAddr((1 << 46) + ((level - lowest) as u64) * (1 << 40) + number * 8));
        }
        read
    }

    /// What of a page of size `whole` is one of the host's too.
    pub fn size(&self, whole: PageShift) -> PageShift {
        whole.min(self.config.host_page)
    }
}

/// In which frame of the host a page of the guest is.
pub fn frame(host: PageShift, at: PhysAddr) -> PhysAddr {
    let bits = 48 - u32::from(host.0);
    let pages = 1u128 << bits;
    let mut page = u128::from(at.0 >> host.0) % pages;
    for odd in [0x9e37_79b9_7f4a_7c15u128, 0xd6e8_feb8_6659_fd93] {
        page = (page ^ page >> (bits / 2)) * odd % pages;
    }
    page ^= page >> (bits / 2);
    PhysAddr(((page as u64) << host.0) | (at.0 % host.bytes()))
}
