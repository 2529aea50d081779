//! From a translation to a physical address.

use reach_core::{PageShift, PhysAddr, Pte};

/// Returns the physical address of `addr`, which the page `pte` translates. `base` is the base page.
#[inline(always)]
pub(crate) fn physical(pte: Pte, addr: u64, base: PageShift) -> PhysAddr {
    PhysAddr(pte.pfn().addr(base).0 | addr & (pte.shift().bytes() - 1))
}
