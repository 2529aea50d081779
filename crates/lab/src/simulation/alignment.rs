//! Superpages of guests and of their host, side by side: how many are aligned with each other.

use super::Simulation;
use super::kernel::Kernel;
use reach_core::{Event, PageShift, PhysAddr, VirtAddr};
use reach_hardware::GUEST_MEMORY;
use reach_os::FrameKind;

/// Superpages of all guests and of their host, before the last exit of a process that had any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlignedSuperpages {
    /// Superpages of guests.
    pub guest: u64,
    /// Superpages by which the host maps the memory of guests.
    pub host: u64,
    /// Superpages of guests that lie in one of the host's.
    pub aligned: u64,
}

/// Returns the superpages of a guest by the place of their memory, each once, and without those of zeroes.
fn superpages_of(Kernel { vm, .. }: &Kernel) -> Vec<(PhysAddr, PageShift)> {
    let pages = vm.processes().flat_map(|(_, process)| vm.superpages(process));
    let real = pages.filter(|page| vm.kind_of(page.pte) != FrameKind::Zero);
    let mut found: Vec<_> = real.map(|page| (page.pte.pfn().addr(vm.base()), page.pte.shift())).collect();
    found.sort_unstable();
    found.dedup();
    found
}

impl Simulation {
    /// Compares superpages before `event`, where that ends a process of a guest.
    pub(super) fn note_alignment(&mut self, event: &Event) {
        if self.host.is_some() && matches!(event, Event::Exit) {
            self.compare_superpages();
        }
    }

    /// Compares the superpages of guests with those of their host.
    pub(super) fn compare_superpages(&mut self) {
        let Some(host) = &self.host else { return };
        let mut now = AlignedSuperpages::default();
        for (number, guest) in (0..).zip(self.kernels()) {
            now.host += host.superpages_of(number).len() as u64;
            let Some(table) = host.table_of(number) else { continue };
            for (at, shift) in superpages_of(guest) {
                let backing = table.lookup(VirtAddr(GUEST_MEMORY.0 + at.0).vpn(guest.vm.base()));
                now.guest += 1;
                now.aligned += u64::from(backing.is_some_and(|pte| pte.shift() >= shift));
            }
        }
        if now.guest > 0
            && let Some(host) = &mut self.host
        {
            host.aligned = now;
        }
    }
}
