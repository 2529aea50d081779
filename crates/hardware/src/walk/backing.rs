//! Finds what lies together in memory, for TLBs whose entries hold several pages.
//!
//! In a guest, a page table names the guest's frames, and the host may have put neighbouring frames anywhere. An entry of the
//! processor leads to the host's memory. So it holds only pages that lie together there.

use super::nested::{GUEST_MEMORY, HostFrames, Nested, host_vpn};
use reach_core::{PageShift, PageTable, Pfn, PhysAddr, RangeTranslation, Vpn};

/// Finds the memory behind the frames of a page table. Outside a guest, frames are memory.
#[derive(Clone, Copy)]
pub(crate) struct Backing<'a> {
    /// The host; `None` outside a guest.
    pub nested: Option<&'a Nested>,
    /// The host's table. `None` if it has no operating system: a fixed permutation then places the guest's pages.
    pub host: Option<&'a PageTable>,
    /// The base page.
    pub base: PageShift,
}

impl Backing<'_> {
    /// Returns the frame of memory that is behind frame `pfn` of the page table; `None` if the host has given none.
    #[inline]
    pub fn frame(&self, pfn: Pfn) -> Option<Pfn> {
        let Some(nested) = self.nested else { return Some(pfn) };
        let at = pfn.addr(self.base);
        let Some(host) = self.host else { return Some(HostFrames::new(nested.host).of(at).pfn(self.base)) };
        let vpn = host_vpn(at, host);
        let pte = host.lookup(vpn)?;
        Some(pte.pfn() + (vpn.0 & (pte.shift().base_pages(self.base) - 1)))
    }

    /// Returns the part of `range` around its page `vpn` that lies together in memory: in a guest, what one range of the
    /// host's range table holds, or one of its pages. Calls `read` with the nodes of the host's range table that are read.
    pub fn part_of(&self, range: RangeTranslation, vpn: Vpn, read: impl FnMut(PhysAddr)) -> RangeTranslation {
        let Some(nested) = self.nested else { return range };
        let frame = range.pte_at(vpn).pfn();
        let (first, frames) = self.run_around(nested, frame, read);
        let before = (frame.0 - first.0).min(vpn - range.vpn);
        let behind = (first.0 + frames - frame.0).min(range.end() - vpn);
        range.subrange(Vpn(vpn.0 - before), before + behind)
    }

    /// Returns the first frame of the guest, and the number of frames, that lie together in the host's memory around `pfn`.
    fn run_around(&self, nested: &Nested, pfn: Pfn, read: impl FnMut(PhysAddr)) -> (Pfn, u64) {
        let at = pfn.addr(self.base);
        let ranges = self.host.and_then(|host| Some((host, host.ranges()?)));
        if let Some(range) = ranges.and_then(|(host, ranges)| ranges.walk(host_vpn(at, host), read)) {
            let memory = GUEST_MEMORY.vpn(self.base);
            return (Pfn(range.vpn - memory), range.pages);
        }
        let pages = nested.page_size(self.host, at).base_pages(self.base);
        (Pfn(pfn.0 & !(pages - 1)), pages)
    }
}
