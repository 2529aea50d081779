//! What a guest's unit has to do with the table of its host, where the host has an operating system ([`PageTable::host`]).

use super::{Mmu, physical};
use crate::walk::host_vpn;
use reach_core::{Asid, PageShift, PageTable, Pte, Vpn};

/// Sets the accessed bit of the host's page for page `vpn` of the guest, whose entry is `pte`.
#[inline(always)]
pub(super) fn mark_accessed(table: &mut PageTable, pte: Pte, vpn: Vpn, base: PageShift) {
    if table.host().is_some() {
        mark_accessed_by(table, pte, vpn, base);
    }
}

#[inline(never)]
fn mark_accessed_by(table: &mut PageTable, pte: Pte, vpn: Vpn, base: PageShift) {
    let at = physical(pte, vpn.addr(base).0, base);
    if let Some(host) = table.host_mut()
        && let Some((node, index)) = host.find(host_vpn(at, host))
    {
        host.mark(node, index, Pte::ACCESSED);
    }
}

impl Mmu {
    /// Enters guest number `guest`, from 0. Address spaces that run from here on are its own, and so is what is cached of the host's
    /// table, as tags of virtual processors keep them apart. Call [`Mmu::switch`] next.
    pub fn enter_guest(&mut self, guest: u32) {
        self.spaces.enter_guest(guest);
        self.filler.enter_guest(guest);
    }

    /// Drops all translations of guest number `guest`, because the host has changed its table: a processor does not know which of
    /// the guest's they are.
    pub fn flush_guest(&mut self, guest: u32) {
        self.same_page.set_stale();
        self.filler.clear_host(guest);
        for asid in self.spaces.programs_of(guest).into_iter().chain([Asid::KERNEL]) {
            if let Some(context) = self.spaces.context_of(asid) {
                self.drop_translations(context, Vpn(0), u64::MAX);
            }
            self.invalidate_assist(asid, Vpn(0), u64::MAX);
        }
    }
}
