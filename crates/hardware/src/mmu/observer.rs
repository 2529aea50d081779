//! The observer of a unit's TLBs: a miss curve, an event log, a note of ITLB victims, or several of them.

use super::Mmu;
use super::event_log::EventLog;
use super::itlb_victim::ItlbVictim;
use crate::cache::Caches;
use crate::config;
use crate::curve::{CurveCounts, Geometry, MissCurve};
use crate::tlb::{Context, Filled, Lookup, PageSizes, TlbObserver, Tlbs};
use reach_core::fold::PageRef;
use reach_core::{Asid, Kind, PageTable, Pte, Slot, StopReason, TlbEvent, TlbPreload, Vpn};

/// All observers of one unit.
#[derive(Clone, Debug, Default)]
pub(super) struct Observer {
    curve: Option<MissCurve>,
    log: Option<EventLog>,
    itlb_victim: Option<ItlbVictim>,
}

/// Passes an event to every part that there is.
macro_rules! each_part {
    ($observer:ident, $part:ident => $call:expr) => {
        if let Some($part) = &mut $observer.curve {
            $call;
        }
        if let Some($part) = &mut $observer.log {
            $call;
        }
        if let Some($part) = &mut $observer.itlb_victim {
            $call;
        }
    };
}

impl TlbObserver for Observer {
    fn before_lookup(&mut self, lookup: &Lookup, tlbs: &Tlbs, table: &PageTable) {
        each_part!(self, part => part.before_lookup(lookup, tlbs, table));
    }

    fn after_lookup(&mut self, lookup: &Lookup, outcome: &Result<Pte, StopReason>, tlbs: &Tlbs, table: &PageTable) {
        each_part!(self, part => part.after_lookup(lookup, outcome, tlbs, table));
    }

    fn front_hits(&mut self, context: Context, refs: &[PageRef], tlbs: &Tlbs) {
        each_part!(self, part => part.front_hits(context, refs, tlbs));
    }

    fn walked(&mut self, asid: Asid, kind: Kind, vpn: Vpn, pte: Pte) {
        each_part!(self, part => part.walked(asid, kind, vpn, pte));
    }

    fn before_fill(&mut self, kind: Kind) {
        each_part!(self, part => part.before_fill(kind));
    }

    fn filled(&mut self, kind: Kind, sizes: &PageSizes, filled: Filled) {
        each_part!(self, part => part.filled(kind, sizes, filled));
    }

    fn before_invalidate(&mut self, tlbs: &Tlbs, context: Context, vpn: Vpn, pages: u64) {
        each_part!(self, part => part.before_invalidate(tlbs, context, vpn, pages));
    }

    fn assigned(&mut self, context: Context, asid: Asid) {
        each_part!(self, part => part.assigned(context, asid));
    }
}

impl Observer {
    /// Returns whether each look-up has to be observed.
    #[inline(always)]
    pub fn observes_lookups(&self) -> bool {
        self.curve.is_some()
    }

    /// Returns whether references that hit in the first level have to be observed too.
    pub fn observes_front_hits(&self) -> bool {
        self.curve.as_ref().is_some_and(MissCurve::needs_front_hits)
    }

    /// Returns whether fills for references of `kind` have to be observed.
    #[inline(always)]
    pub fn observes_fills(&self, kind: Kind) -> bool {
        self.log.is_some() || self.itlb_victim.is_some() && kind == Kind::Fetch
    }

    /// Returns whether the operating system sees every miss, so that a run stops after each.
    pub fn logs_events(&self) -> bool {
        self.log.is_some()
    }
}

impl Mmu {
    /// Enables a miss curve: counts the misses of arrays of these geometries in place of array number `array` of `machine`,
    /// from which this unit was made with `seed`. Call before the first reference.
    ///
    /// # Errors
    /// Says why the misses cannot be counted exactly; completes "no curve of NAME: ".
    pub fn enable_curve(
        &mut self,
        machine: &config::Machine,
        array: usize,
        geometries: &[Geometry],
        seed: u64,
    ) -> Result<(), String> {
        if self.perfect {
            return Err("translation never misses under this system".into());
        }
        if self.logs_events() {
            return Err("the system acts on misses and on evictions from the TLB, which depend on its geometry".into());
        }
        if self.aux_tlb.is_some() {
            return Err("the system adds an auxiliary TLB, which answers and learns from misses".into());
        }
        if self.coalesces.is_some() {
            return Err(
                "the machine coalesces pages, and whether an entry holds several depends on when it was walked".into(),
            );
        }
        let curve = MissCurve::new(machine, &self.tlbs, array, geometries, seed)?;
        self.observer.get_or_insert_default().curve = Some(curve);
        Ok(())
    }

    /// Resets the counts of the miss curve, if there is one; its shadow arrays keep their contents.
    pub fn reset_curve_counts(&mut self) {
        if let Some(curve) = self.observer.as_mut().and_then(|observer| observer.curve.as_mut()) {
            curve.reset_counts();
        }
    }

    /// Returns the counts of the miss curve, or an error that says what the curve could not count exactly. `None` without a
    /// curve.
    pub fn curve_counts(&self) -> Option<Result<CurveCounts, String>> {
        Some(self.observer.as_ref()?.curve.as_ref()?.counts())
    }

    /// Enables the event log. Every miss then stops the run with [`StopReason::PolicyCallback`] once it is handled, and
    /// [`Mmu::take_events`] returns the events. Call before the first reference.
    pub fn enable_event_log(&mut self) {
        let mut log = EventLog::new(&self.tlbs);
        log.assigned(self.spaces.context, self.spaces.asid);
        // The operating system sees pages of its own sizes enter and leave.
        self.coalesces = None;
        self.observer.get_or_insert_default().log = Some(log);
    }

    /// Moves the events since the last call, oldest first, to `events`, which is emptied before.
    pub fn take_events(&mut self, events: &mut Vec<TlbEvent>) {
        match self.observer.as_mut().and_then(|observer| observer.log.as_mut()) {
            Some(log) => log.take(events),
            None => events.clear(),
        }
    }

    /// Enables the note of entries that leave the first-level ITLB, for out-of-order timing. Call before the first
    /// reference.
    pub fn enable_itlb_victims(&mut self) {
        let victim = ItlbVictim::new(&self.tlbs);
        self.observer.get_or_insert_default().itlb_victim = Some(victim);
    }

    /// Returns the base pages, from the first to before the last, of the entry that the last fill for a fetch evicted from
    /// the first-level ITLB, and forgets them. `None` if it evicted none, or without [`Mmu::enable_itlb_victims`].
    #[inline]
    pub(crate) fn take_itlb_victim(&mut self) -> Option<(u64, u64)> {
        self.observer.as_mut()?.itlb_victim.as_mut()?.take()
    }

    /// Returns whether the event log is enabled.
    pub(crate) fn logs_events(&self) -> bool {
        self.observer.as_ref().is_some_and(|observer| observer.logs_events())
    }

    /// Loads a translation of `table`, the page table of the current address space, on behalf of the operating system. Does
    /// nothing if the TLB holds it, if the page is unmapped or unreferenced, or without an event log.
    pub fn preload(&mut self, preload: TlbPreload, table: &PageTable) {
        let TlbPreload { vpn, kind } = preload;
        let Some((node, index)) = table.find(vpn) else { return };
        let Slot::Leaf(pte) = table.slot(node, index) else { return };
        let absent = self.tlbs.lookup(kind, self.spaces.context, vpn, &mut 0).is_none();
        if absent && pte.accessed() && self.logs_events() {
            // The page that a side is on need no longer be the most recently used.
            self.same_page.set_stale();
            self.fill(kind, vpn, pte, self.tlbs.depth(kind));
        }
    }

    /// Passes the references of the hot loop to the observer.
    #[inline(never)]
    pub(super) fn observe_front_hits(&mut self, refs: &[PageRef]) {
        if let Some(observer) = &mut self.observer {
            observer.front_hits(self.spaces.context, refs, &self.tlbs);
        }
    }

    /// Runs one reference to one page, with an observed look-up.
    #[inline(never)]
    pub(super) fn reference_observed(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        let context = self.spaces.context;
        let found = self.tlbs.locate(kind, context, vpn);
        let lookup = Lookup { kind, context, vpn, found, host_page: self.filler.host_page() };
        if let Some(observer) = &mut self.observer {
            observer.before_lookup(&lookup, &self.tlbs, table);
        }
        let outcome = self.reference_unobserved(kind, vpn, table, caches);
        if let Some(observer) = &mut self.observer {
            observer.after_lookup(&lookup, &outcome, &self.tlbs, table);
        }
        outcome
    }

    /// Fills the first `depth` levels with `pte`, which translates `vpn`, and passes each fill to the observer.
    #[cold]
    #[inline(never)]
    pub(super) fn fill_observed(&mut self, kind: Kind, vpn: Vpn, pte: Pte, depth: usize) {
        let Mmu { tlbs, observer: Some(observer), spaces, .. } = self else { return };
        observer.before_fill(kind);
        tlbs.fill(kind, spaces.context, vpn, pte, depth, |sizes, filled| observer.filled(kind, sizes, filled));
    }
}
