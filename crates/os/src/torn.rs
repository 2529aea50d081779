//! What became of pages that a policy remembers: superpages that were taken apart, and pages that are gone.

use crate::Vm;
use reach_core::{Asid, Label, Vpn};

/// Base pages that are no longer part of the page that they were, or are no longer mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Whose.
    pub asid: Asid,
    /// The first.
    pub vpn: Vpn,
    /// How many.
    pub pages: u64,
    /// On whose account.
    pub label: Label,
}

impl Vm {
    /// From now on [`Vm::take_torn`] tells.
    pub fn tell_torn(&mut self) {
        self.torn = Some(Vec::new());
    }

    /// What was demoted or unmapped since the last call, in order; what is promoted or moved stays as it is.
    pub fn take_torn(&mut self) -> Vec<Torn> {
        self.torn.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn tear(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        let Some(torn) = &mut self.torn else { return };
        match torn.last_mut() {
            Some(last) if (last.asid, last.vpn + last.pages, last.label) == (asid, vpn, label) => last.pages += pages,
            _ => torn.push(Torn { asid, vpn, pages, label }),
        }
    }
}
