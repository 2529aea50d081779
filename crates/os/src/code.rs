//! Superpages of code in files (Zhou et al. 2023, §5, 6 and 9): an extent of addresses becomes a superpage when enough of it is
//! in memory. Residual code is padded to whole superpages. As the comparator, code is copied to private memory.

mod census;
mod copying;
mod extent;
mod policy;
mod records;

pub(crate) use policy::CodeState;
pub use policy::{CLUSTER, CodePages};
pub use records::{CodeCensus, WrittenCode};

use crate::{OutOfMemory, PageView, Region, Vm};
use reach_core::{Fault, FaultCause, VirtAddr, Vpn};
use records::CodeRecords;

/// Returns whether a region holds code of a file.
fn is_code(region: &Region) -> bool {
    region.file && !region.shared && region.protection.execute && !region.protection.write
}

impl Vm {
    /// Makes superpages of code in files by `policy`, and of other memory as [`Vm::use_superpages`] was called before. With
    /// `only`, the rule holds for files of that name, whatever their directory. Call at boot.
    pub fn use_code_superpages(&mut self, policy: CodePages, only: Option<&str>) {
        self.code = Some(CodeState { policy, only: only.map(Into::into), records: CodeRecords::default() });
        self.translation.set_shared_tables(policy.share);
    }

    /// Answers a fault of the running process: faults on code of files by the rule for code, others as
    /// [`Vm::reserved_fault`] does. `data` says whether private memory without code may become superpages.
    ///
    /// # Errors
    /// When memory is used up.
    pub fn code_fault(&mut self, fault: Fault, data: bool) -> Result<(), OutOfMemory> {
        self.reserve_kernel_records()?;
        let view = self.fault_view(fault)?;
        if fault.cause == FaultCause::NotPresent && self.take_shared_table(fault.vpn)? {
            return Ok(());
        }
        self.code_fault_in(fault, data, view)?;
        self.map_for_others(fault.vpn)
    }

    fn code_fault_in(&mut self, fault: Fault, data: bool, view: PageView) -> Result<(), OutOfMemory> {
        let asid = self.current();
        let policy = self.code.as_ref().expect("the system set the rule for code at boot").policy;
        if fault.cause != FaultCause::NotPresent || !is_code(&view.region) {
            let reserve = match view.region.anonymous() {
                // Code that a program wrote itself follows the rule for private memory (§5).
                true if view.protection.execute => policy.threshold.is_some() || policy.copy,
                true => data,
                false => true,
            };
            return if reserve { self.reserved_fault_in(fault, view) } else { self.demand_fault_in(fault, view) };
        }
        let extent = self.code_extent(asid, fault.vpn, &view.region);
        if let Some(extent) = &extent {
            let pages = extent.pages(self.base());
            if extent.in_file < pages {
                let padded = &mut self.objects.get_mut(extent.object).padded;
                *padded = (*padded).max(extent.index + pages);
            }
            if self.map_code(asid, extent, Some((fault, &view)))? {
                return Ok(());
            }
        }
        let before = self.counters().bytes_read_in;
        self.demand_fault_in(fault, view)?;
        let read = self.counters().bytes_read_in > before || self.options().warm;
        if let Some(extent) = extent.filter(|_| read)
            && self.populated_enough(&extent)
            && self.complete(&extent)?
        {
            self.map_code(asid, &extent, None)?;
        }
        Ok(())
    }

    /// Prepares the code of a file that was just mapped at `start`: aligns the placement of the file's pages to it, because
    /// the file's data have other distances from their offsets and are often touched first. Where the policy wants that, it
    /// copies whole superpages of code to private memory (§9).
    pub(crate) fn code_mapped(&mut self, start: VirtAddr) -> Result<(), OutOfMemory> {
        let Some(code) = &self.code else { return Ok(()) };
        let (copy, asid, base) = (code.policy.copy, self.current(), self.base());
        let region = self.process(asid).and_then(|process| process.space().find(start)).copied();
        let Some(region) = region.filter(is_code) else { return Ok(()) };
        self.record_code(&region);
        let first = Vpn(region.start >> base.0);
        self.frames.align(region.object, region.index(first, base), first.0);
        if copy { self.copy_code(asid, &region) } else { Ok(()) }
    }
}
