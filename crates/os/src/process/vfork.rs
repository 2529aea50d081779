//! vfork: a child that runs in its parent's memory until it execs or exits (`CLONE_VM`). Nothing is copied, nothing is
//! protected, and processors see one address space.

use crate::{OutOfMemory, Vm};
use reach_core::{Asid, Label};

impl Vm {
    /// The running process forks; `child` borrows its memory.
    pub(crate) fn lend(&mut self, child: Asid) -> Result<(), OutOfMemory> {
        let lender = self.current;
        self.ensure(lender)?;
        if child == lender || child == self.actor {
            return Ok(());
        }
        self.unshare(child);
        self.exit(child)?;
        self.ledger.charge(Label::Fault, self.options().costs.fork);
        self.tally(lender, |c| c.forks += 1);
        self.borrowed.insert(child, lender);
        Ok(())
    }

    /// `process` runs from here on: in memory of its own, or in what it borrows.
    pub(crate) fn switch_to(&mut self, process: Asid) -> Result<(), OutOfMemory> {
        self.actor = process;
        self.current = self.borrowed.get(&process).copied().unwrap_or(process);
        self.ensure(self.current)
    }

    /// The running process stops to share memory, be it its own or another's. Returns its own address space.
    pub(crate) fn leave_shared(&mut self) -> Asid {
        self.unshare(self.actor);
        self.current = self.actor;
        self.current
    }

    /// `process` gives back what it borrows, and is left alone by those who borrow from it. They have, as a rule,
    /// replaced their images by then and are only heard of later; if not, they start empty.
    pub(crate) fn unshare(&mut self, process: Asid) {
        self.borrowed.retain(|&borrower, &mut lender| borrower != process && lender != process);
    }
}
