//! The mapping-change log: superpages that were demoted and pages that were unmapped, for policies that remember pages.

use super::state::MappingChange;
use crate::Vm;
use reach_core::{Asid, Label, Vpn};

impl Vm {
    /// Enables the mapping-change log. Call at boot.
    pub fn log_mapping_changes(&mut self) {
        self.translation.changes = Some(Vec::new());
    }

    /// Returns what was demoted or unmapped since the last call, in order. Promotions and migrations are not logged. Empty
    /// unless the log is enabled.
    pub fn take_mapping_changes(&mut self) -> Vec<MappingChange> {
        self.translation.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Logs that `pages` base pages from `vpn` on changed, joined with the last entry where they continue it.
    pub(super) fn log_mapping_change(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        let Some(changes) = &mut self.translation.changes else { return };
        match changes.last_mut() {
            Some(last) if (last.asid, last.vpn + last.pages, last.label) == (asid, vpn, label) => last.pages += pages,
            _ => changes.push(MappingChange { asid, vpn, pages, label }),
        }
    }
}
