//! Superpages of guests and of their host, side by side: how many are aligned with each other, and what a host's scanner tells both.

use super::guests::Guests;
use super::kernel::Kernel;
use super::{Simulation, SimulationError};
use reach_core::{Cycles, Event, PageShift, Pfn, PhysAddr, VirtAddr};
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
    /// Returns the number of guests.
    fn guest_count(&self) -> u32 {
        self.guests.as_deref().map_or(1, Guests::count)
    }

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

    /// Lets the host's scanner tell guests and host of each other's superpages, if it is due.
    pub(super) fn scan_guests(&mut self, now: Cycles) -> Result<(), SimulationError> {
        let next = self.host.as_ref().and_then(|host| host.next_scan());
        if next.is_none_or(|next| now < next) {
            return Ok(());
        }
        self.hardware.serialise(false);
        for number in 0..self.guest_count() {
            let (Some(guest), Some(host)) = (self.kernels().nth(number as usize), &self.host) else { continue };
            let base = guest.vm.base();
            let theirs: Vec<(Pfn, PageShift)> =
                host.superpages_of(number).into_iter().map(|(at, shift)| (Pfn(at.0 >> base.0), shift)).collect();
            let own: Vec<_> = superpages_of(guest)
                .into_iter()
                .map(|(at, shift)| (VirtAddr(GUEST_MEMORY.0 + at.0).vpn(base), shift))
                .collect();
            self.tell_host(number, &own, now)?;
            match self.guests.as_mut().filter(|guests| guests.current != number) {
                None => self.call(|system, vm| system.host_superpages(&theirs, vm))?,
                Some(guests) => {
                    let told = guests.tell(number, &theirs);
                    told.map_err(|source| self.names.out_of_memory(source))?;
                }
            }
        }
        Ok(())
    }
}
