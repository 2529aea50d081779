//! Laws that tests check while a simulation runs.

use super::Simulation;

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
