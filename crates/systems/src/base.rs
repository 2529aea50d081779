//! `base`: demand paging with base pages only, as Linux does it with transparent huge pages off.
//!
//! Models: first touch of anonymous memory (zero page for loads), of files (64 KB fault-around) and of shared memory,
//! copy on write, fork, mremap and the rest of [`Vm::demand_fault`] and [`Vm::apply`].
//! Deviations: no swap and no reclaim but of unmapped file pages; page counts of the page cache follow 64 KB read-in.

use crate::System;
use reach_core::Fault;
use reach_os::{OutOfMemory, Vm};

/// Base pages only.
pub(crate) struct Base;

impl System for Base {
    fn name(&self) -> &str {
        "base"
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.demand_fault(fault)
    }
}
