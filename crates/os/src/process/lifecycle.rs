//! Making and ending processes.

use crate::{Counters, OutOfMemory, Process, Vm};
use reach_core::{Asid, Label, Vpn};

impl Vm {
    /// Makes the process if there is none in this address space.
    ///
    /// # Errors
    /// When there is no memory for the root of its page table.
    pub(crate) fn ensure_process(&mut self, asid: Asid) -> Result<(), OutOfMemory> {
        if self.processes.get(asid).is_some() {
            return Ok(());
        }
        let translations = self.new_translations()?;
        let mut counters = Counters::new(&self.options().sizes);
        counters.around[0] = self.pager.as_ref().map(|_| self.sample_memory());
        self.accounting.open(asid, counters);
        self.processes.insert(asid, Process::new(translations));
        self.forget_dropped();
        self.gauge_memory(asid);
        Ok(())
    }

    /// Removes all regions and translations of an address space.
    pub(crate) fn clear_address_space(&mut self, asid: Asid) -> Result<(), OutOfMemory> {
        if self.processes.get(asid).is_none() {
            return Ok(());
        }
        let layout = &self.options().layout;
        let all = 1 << (layout.address_bits() - layout.base.0);
        self.charge_teardown(asid, all);
        let removed = self.at_mut(asid).space.carve(0, u64::MAX);
        self.unmap(asid, Vpn(0), all, Label::Fault)?;
        self.release_regions(&removed);
        Ok(())
    }

    /// Ends a process, if it exists.
    pub(crate) fn exit(&mut self, asid: Asid) -> Result<(), OutOfMemory> {
        self.keep_census(asid);
        self.clear_address_space(asid)?;
        if let Some(process) = self.processes.remove(asid) {
            self.release_translations(process.translations);
            let after = self.pager.as_ref().map(|_| self.sample_memory());
            self.accounting.close(asid, after);
            self.gauge_memory(asid);
        }
        Ok(())
    }
}
