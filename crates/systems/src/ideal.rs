//! `ideal`: the bound that no remedy can pass: a TLB that never misses, over base pages.
//!
//! Page faults and all other work of the operating system are those of `base`; only translation is free
//! (Karakostas et al. §6 and Lindsay and Bhattacharjee §II measure overhead against such a machine). Its option is that
//! of `base`, too.

use crate::{Settings, System, SystemError};
use reach_os::Vm;

/// Base pages and a perfect TLB.
pub(crate) struct Ideal {
    zero_page: bool,
}

impl Ideal {
    pub(crate) fn new(settings: &Settings) -> Ideal {
        Ideal { zero_page: settings.number("zero_page") == 1 }
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
