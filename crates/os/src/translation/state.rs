//! What the translation room remembers besides the page tables themselves.

use super::shared_tables::SharedTables;
use crate::ranges::Ranging;
use reach_core::{Asid, Label, TlbPreload, Vpn};

/// Base pages that are no longer mapped, or no longer part of the page that they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingChange {
    /// The address space.
    pub asid: Asid,
    /// First base page.
    pub vpn: Vpn,
    /// Number of base pages.
    pub pages: u64,
    /// The label that was charged for the change.
    pub label: Label,
}

/// Range translations, shared leaf tables, the mapping-change log, and translations on their way to the TLB.
#[derive(Default)]
pub(crate) struct TranslationState {
    /// Shared leaf tables. `None` where processes share none.
    pub(super) shared_tables: Option<SharedTables>,
    /// How ranges are made. `None` where address spaces have neither range tables nor segments.
    pub(super) ranging: Option<Ranging>,
    /// Access rights are being changed page by page; ranges are formed anew when all have changed.
    pub(super) ranges_deferred: bool,
    /// The mapping-change log. `None` where no policy reads it.
    pub(super) changes: Option<Vec<MappingChange>>,
    /// Intervals of the monitor that have ended, as of its last look.
    pub(super) monitor_intervals: u64,
    /// Translations to be entered into the TLB. The run loop takes them.
    pub(crate) preloads: Vec<TlbPreload>,
}

impl TranslationState {
    /// Returns how ranges are made. `None` where the system keeps none.
    pub(crate) fn ranging(&self) -> Option<Ranging> {
        self.ranging
    }

    /// Keeps ranges from now on. Call at boot, before any process.
    pub(crate) fn set_ranging(&mut self, ranging: Ranging) {
        self.ranging = Some(ranging);
    }

    /// Lets processes share leaf tables, or not. Call at boot.
    pub(crate) fn set_shared_tables(&mut self, on: bool) {
        self.shared_tables = on.then(SharedTables::default);
    }

    /// Defers the forming of ranges while access rights are changed page by page.
    pub(crate) fn defer_ranges(&mut self, on: bool) {
        self.ranges_deferred = on;
    }
}
