//! vfork: a child that runs in its parent's memory until it execs or exits (`CLONE_VM`). Nothing is copied and nothing is
//! write-protected; processors see one address space.

use crate::{OutOfMemory, Vm};
use reach_core::{Asid, Label};

impl Vm {
    /// Lets the running process vfork; `child` uses its memory.
    pub(crate) fn vfork(&mut self, child: Asid) -> Result<(), OutOfMemory> {
        let lender = self.current();
        self.ensure_process(lender)?;
        if child == lender || child == self.processes.running() {
            return Ok(());
        }
        self.processes.end_sharing(child);
        self.exit(child)?;
        self.charge(Label::Fault, self.options.costs.fork);
        self.tally(lender, |c| c.forks += 1);
        self.processes.lend(lender, child);
        Ok(())
    }
}
