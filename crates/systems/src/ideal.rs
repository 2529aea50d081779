//! `ideal`: base pages and a TLB that never misses, the bound for translation alone. A system that also takes fewer page
//! faults can be faster.
//!
//! Page faults and all other work of the operating system are those of `base`; only translation is free
//! (Karakostas et al. §6 and Lindsay and Bhattacharjee §II measure overhead against such a machine). It takes the option
//! of `base`.

use crate::base;
use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::settings::Settings;
use crate::system::System;
use reach_core::PageTableKind;
use reach_os::Vm;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "ideal",
    summary: "base pages and a TLB that never misses: the bound for translation alone; fewer page faults can beat it",
    role: Role::Bound,
    compared: true,
    published: None,
    criterion: None,
    page_table: PageTableKind::Radix,
    settings: base::SETTINGS,
    build: |settings| Box::new(Ideal::new(settings)),
};

/// Base pages and a perfect TLB.
pub(crate) struct Ideal {
    zero_page: bool,
}

impl Ideal {
    pub(crate) fn new(settings: &Settings) -> Ideal {
        Ideal { zero_page: settings.is_on("zero_page") }
    }
}

impl System for Ideal {
    fn name(&self) -> &str {
        "ideal"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        vm.share_zeroes(self.zero_page);
        Ok(())
    }

    fn perfect_tlb(&self) -> bool {
        true
    }
}
