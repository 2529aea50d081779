//! Laws that tests check while a simulation runs.

use super::Simulation;
use super::kernel::Kernel;
use reach_core::{VirtAddr, Vpn};
use reach_hardware::GUEST_MEMORY;
use std::collections::BTreeMap;

impl Simulation {
    /// From now on checks laws whenever another hardware thread goes on. For tests.
    pub fn check_often(&mut self) {
        self.checks_laws = true;
    }

    /// Checks laws that must hold between steps: every TLB entry agrees with the page table. For tests.
    ///
    /// # Panics
    /// When a law is broken.
    pub fn check(&mut self) {
        if self.kernel.vm.running().is_ok() {
            self.with_host(Simulation::check_translations);
        }
        if self.guests.is_some() {
            self.check_guests();
        }
    }

    /// Checks that no frame of the host backs two pages of its guests, by way of both page tables.
    fn check_guests(&self) {
        let Some(host) = &self.host else { return };
        let mut backs = BTreeMap::new();
        for (guest, Kernel { vm, .. }) in (0..).zip(self.kernels()) {
            let table = host.table_of(guest).expect("the host has a process for each guest");
            let (base, limit) = (vm.base(), 1 << (vm.options().layout.address_bits() - vm.base().0));
            for page in vm.processes().flat_map(|(_, process)| process.table().iter_pages(Vpn(0), limit)) {
                for own in page.pte.pfn().0..(page.pte.pfn() + page.pte.shift().base_pages(base)).0 {
                    let vpn = VirtAddr(GUEST_MEMORY.0 + (own << base.0)).vpn(base);
                    let Some(pte) = table.lookup(vpn) else { continue };
                    let frame = pte.pfn() + (vpn.0 & (pte.shift().base_pages(base) - 1));
                    let other = backs.insert(frame, (guest, own));
                    assert!(other.is_none_or(|other| other == (guest, own)), "{frame:?}: {:?} {other:?}", (guest, own));
                }
            }
        }
    }

    fn check_translations(&mut self) {
        let on = self.hardware.processor.on();
        for hw in 0..self.hardware.processor.hardware_threads() {
            self.go_to(hw);
            let mmu = self.hardware.processor.mmu();
            let Some((_, process)) = self.kernel.vm.processes().find(|(asid, _)| mmu.runs_in(*asid)) else { continue };
            process.table().check();
            mmu.check(process.table());
        }
        self.go_to(on);
    }
}
