//! `base`: demand paging with base pages only, as Linux does it with transparent huge pages off.
//!
//! Models: first touch of anonymous memory (zero page for loads), of files (64 KB fault-around) and of shared memory,
//! copy on write, fork, mremap and the rest of [`Vm::demand_fault`] and [`Vm::apply`]. With `zero_page=0` a first load
//! gets a page of its own, as in BSD: the system to compare those with whose superpages come from reservations.
//! Deviations: no swap and no reclaim but of unmapped file pages; page counts of the page cache follow 64 KB read-in.

use crate::{Accepts, Setting, Settings, System, SystemError};
use reach_os::Vm;

pub(crate) const SETTINGS: &[Setting] = &[Setting {
    name: "zero_page",
    summary: "first loads from untouched memory share a page of zeroes (1), or get one of their own (0)",
    accepts: Accepts::Number { least: 0, most: 1 },
    default: "1",
}];

/// Base pages only.
pub(crate) struct Base {
    zero_page: bool,
}

impl Base {
    pub(crate) fn new(settings: &Settings) -> Base {
        Base { zero_page: settings.number("zero_page") == 1 }
    }
}

impl System for Base {
    fn name(&self) -> &str {
        "base"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        vm.share_zeroes(self.zero_page);
        Ok(())
    }
}
