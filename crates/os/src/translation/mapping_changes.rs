//! What became of pages that a policy remembers: superpages that were taken apart, and pages that are gone.

use crate::Vm;
use reach_core::{Asid, Label, Vpn};

/// Base pages that are no longer part of the page that they were, or are no longer mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingChange {
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
    /// From now on [`Vm::take_mapping_changes`] tells.
    pub fn log_mapping_changes(&mut self) {
        self.mapping_changes = Some(Vec::new());
    }

    /// What was demoted or unmapped since the last call, in order; what is promoted or moved stays as it is.
    pub fn take_mapping_changes(&mut self) -> Vec<MappingChange> {
        self.mapping_changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn log_mapping_change(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        let Some(mapping_changes) = &mut self.mapping_changes else { return };
        match mapping_changes.last_mut() {
            Some(last) if (last.asid, last.vpn + last.pages, last.label) == (asid, vpn, label) => last.pages += pages,
            _ => mapping_changes.push(MappingChange { asid, vpn, pages, label }),
        }
    }
}
