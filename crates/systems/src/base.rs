//! `base`: demand paging with base pages only, as Linux does it with transparent huge pages off.
//!
//! Models: first touch of anonymous memory (zero page for loads), of files (64 KB fault-around) and of shared memory,
//! copy on write, fork, mremap and the rest of [`Vm::demand_fault`] and [`Vm::apply`]. With `zero_page=off` a first load
//! gets a page of its own, as in BSD. Compare systems whose superpages come from reservations with that.
//!
//! Deviations: no swap; only unmapped file pages are reclaimed; the page cache reads files 64 KB at a time, and its page
//! counts follow that.

use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::settings::{Accepts, Setting, Settings};
use crate::system::System;
use reach_core::PageTableKind;
use reach_os::Vm;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "base",
    summary: "demand paging with base pages only",
    role: Role::Base,
    compared: true,
    published: None,
    criterion: None,
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Base::new("base", settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[Setting::new(
    "zero_page",
    Accepts::Switch,
    "on",
    "whether first loads from untouched memory share a page of zeroes",
)];

/// Demand paging with base pages.
pub(crate) struct Base {
    name: &'static str,
    zero_page: bool,
}

impl Base {
    /// Creates the system called `name`: `base`, or a design that differs from it in its page table only.
    pub(crate) fn new(name: &'static str, settings: &Settings) -> Base {
        Base { name, zero_page: settings.is_on("zero_page") }
    }
}

impl System for Base {
    fn name(&self) -> &str {
        self.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        vm.share_zeroes(self.zero_page);
        Ok(())
    }
}
