//! Pages that the kernel itself touches when a process replaces its image.
//!
//! No capture of user-mode references sees these pages, yet Linux counts their faults. It writes the arguments and the
//! environment to the top of the new stack (`get_arg_page`), and below them, after a random gap, the tables that the program
//! starts with (`create_elf_tables`). It also maps the vDSO, whose header the C library reads as it starts. Observed with the
//! `exceptions:page_fault_*` tracepoints of Linux 6.18.

use crate::{OutOfMemory, Populate, Region, Vm};
use reach_core::{Fault, FaultCause, Kind, Protection, Role, Vpn};

impl Vm {
    /// Starts the new image of the running process, which just got `stack`, its first stack since exec. Returns the stack
    /// pages that the kernel writes.
    pub(super) fn start_image(&mut self, stack: &Region) -> Result<Populate, OutOfMemory> {
        let base = self.base();
        if self.options().vdso {
            self.touch_vdso(stack)?;
        }
        let end = stack.end.div_ceil(base.bytes());
        let pages = self.options().exec_arguments.div_ceil(base.bytes());
        Ok(Populate { pages: end.saturating_sub(pages).max(stack.start >> base.0)..end, write: true })
    }

    /// Maps the vDSO, a page of kernel code, at the first free place above the stack, and takes the fault of its first use.
    fn touch_vdso(&mut self, stack: &Region) -> Result<(), OutOfMemory> {
        let asid = self.current();
        let base = self.base();
        let mut start = stack.end.next_multiple_of(base.bytes());
        while let Some(other) = self.at(asid).space.overlapping(start, start + base.bytes()).last() {
            start = other.end.next_multiple_of(base.bytes());
        }
        let end = start + base.bytes();
        if end > 1 << self.options().layout.address_bits() {
            return Ok(());
        }
        let region = Region {
            object: self.objects.vdso(),
            offset: 0,
            shared: true,
            role: Role::Image,
            ..Region::anonymous_at(start, end, Protection::READ_EXECUTE)
        };
        self.add_region(asid, region);
        self.demand_fault(Fault { vpn: Vpn(start >> base.0), kind: Kind::Load, cause: FaultCause::NotPresent })
    }
}
