//! The memory-management unit of one hardware thread: translates references until it needs the operating system.
//!
//! A reference to a page does the following, exactly (`oracle` restates it naively):
//! 1. It looks up the arrays of its kind, level by level. A hit in level 0 or 1 is a first-level hit; a later hit costs that
//!    array's latency.
//! 2. A hit whose entry forbids the reference is a protection fault; nothing is filled.
//! 3. A miss costs the latency of the last level, then a walk, or a handler run. Its reads go through walk caches and data caches. A missing or forbidding
//!    entry is a fault.
//! 4. A store through a clean entry stops with `FirstWrite` if the entry is watched. Otherwise it sets the dirty bit in the
//!    page table and refreshes the TLB entry in place.
//! 5. The auxiliary TLB, if a system adds one, is searched and learns as `aux_tlb.rs` says, and a walk assist as
//!    [`reach_core::WalkAssist`] says.
//! 6. The translation fills all levels before the one that hit (all levels, after a walk), and a walk sets the accessed bit.
//!    A walk may fill them with one entry for several base pages (`coalesce.rs`).
//!
//! A reference that crosses a page boundary does this for both pages, in order.
//!
//! Module and parts are one idea: this file defines [`Mmu`] and a single reference; `run.rs` runs sequences of them;
//! `aux_lookup.rs`, `walk_assist.rs`, `host.rs`, `coalesce.rs`, `control_flow.rs`, `cost_log.rs`, `wrong_path.rs`, `thread.rs` and `observer.rs` extend it. Its state is in
//! parts that know nothing of it: `address_spaces.rs`, `same_page.rs`, `filler.rs`, and the observers.

use crate::aux_tlb::AuxTlb;
use crate::cache::{Access, Caches};
use crate::config;
use crate::counters::Counters;
use crate::permission::{self, Effect, walk_bits};
use crate::tlb::{Context, TlbObserver, Tlbs};
use address_spaces::AddressSpaces;
use cost_log::CostLog;
use filler::Filler;
pub(crate) use filler::WalkReads;
use observer::Observer;
use reach_core::{
    Asid, Fault, FaultCause, Kind, Label, Ledger, PageShift, PageTable, Pte, Shootdown, Slot, StopReason, Vpn,
};
use same_page::SamePageFilter;
use walk_assist::{Assisted, Attached};

mod address_spaces;
mod aux_lookup;
mod coalesce;
mod control_flow;
mod cost_log;
mod event_log;
mod filler;
mod host;
mod itlb_victim;
mod observer;
mod physical;
mod pte_prefetch;
mod run;
mod same_page;
mod step_refs;
#[cfg(feature = "testing")]
mod testing;
mod thread;
mod walk_assist;
mod wrong_path;

pub use control_flow::ProgramPosition;
pub use cost_log::{CostEntry, TranslationSpent};
pub(crate) use physical::physical;
pub(crate) use step_refs::Confirmation;
pub use step_refs::{Cursor, StepRefs};
pub(crate) use wrong_path::EarlyLookup;

/// The memory-management unit of one hardware thread.
///
/// ```
/// # let machine = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/small_machine.rs"));
/// use reach_core::{Chunk, EditablePageTable, FrameSource, PageShift, Pfn, PhysAddr, Pte, Ref, StopReason, VirtAddr};
/// use reach_hardware::{Mmu, StepRefs};
///
/// /// Hands out physical memory from address 0 on.
/// struct Memory(u64);
/// impl FrameSource for Memory {
///     fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
///         self.0 += bytes;
///         Some(PhysAddr(self.0 - bytes))
///     }
///     fn free_table(&mut self, _: PhysAddr, _: u64) {}
/// }
///
/// let mut memory = Memory(0);
/// let mut table = EditablePageTable::new(machine.layout.clone(), &mut memory).unwrap();
/// let mut mmu = Mmu::new(&machine, false, 0);
///
/// let mut chunk = Chunk { refs: vec![Ref::load(VirtAddr(0x7000)), Ref::load(VirtAddr(0x7008))], ..Chunk::default() };
/// chunk.fold();
/// let step = StepRefs::whole(&chunk);
/// let mut cursor = step.begin();
/// // The first load stops: its page is unmapped.
/// let stop = mmu.run(step, &mut cursor, table.hardware_view(), None);
/// let StopReason::Fault(fault) = stop else { panic!("{stop:?}") };
/// // The operating system maps the page, and the run goes on where it stopped.
/// table.set(fault.vpn, Pte::new(Pfn(9), PageShift(12)), &mut memory).unwrap();
/// assert_eq!(mmu.run(step, &mut cursor, table.hardware_view(), None), StopReason::End);
/// assert_eq!((mmu.counters.walks(), mmu.counters.walks_faulting), (2, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Mmu {
    pub(crate) tlbs: Tlbs,
    filler: Filler,
    /// The auxiliary TLB; `None` unless the system adds one.
    aux_tlb: Option<Box<AuxTlb>>,
    /// The walk assist; `None` unless the system adds one.
    assist: Option<Box<Attached>>,
    /// Observes the TLBs; `None` if nothing does.
    observer: Option<Box<Observer>>,
    /// What translation costs each reference; `None` if nobody asks.
    cost_log: Option<Box<CostLog>>,
    /// The control flow of the program; `None` unless TLB arrays predict reuse by it.
    control_flow: Option<Box<control_flow::Tracker>>,
    /// The base page.
    pub(crate) base: PageShift,
    /// The span of coalesced entries; `None` if walks enter single pages.
    coalesces: Option<PageShift>,
    /// Translation is free and never misses; faults remain.
    pub(crate) perfect: bool,
    spaces: AddressSpaces,
    pub(crate) same_page: SamePageFilter,
    /// What walks have read since out-of-order timing last took it.
    pub(crate) walk_reads: WalkReads,
    /// Counts since the start.
    pub counters: Counters,
    /// Cycles since the start, by label.
    pub ledger: Ledger,
}

impl Mmu {
    /// Creates an empty unit of `machine`, which has been checked. If `perfect`, translation costs nothing and never misses.
    /// `seed` is for random replacement.
    pub fn new(machine: &config::Machine, perfect: bool, seed: u64) -> Mmu {
        let mut tlbs = Tlbs::new(machine, seed);
        let filler = Filler::new(machine, &mut tlbs);
        Mmu {
            same_page: SamePageFilter::new(tlbs.keeps_last_page()),
            control_flow: tlbs.control_flow().map(|_| Box::default()),
            tlbs,
            filler,
            aux_tlb: None,
            assist: None,
            observer: None,
            cost_log: None,
            coalesces: coalesce::span(machine),
            base: machine.sizes[0],
            perfect,
            spaces: AddressSpaces::new(machine.core.asids),
            walk_reads: WalkReads::default(),
            counters: Counters::default(),
            ledger: Ledger::default(),
        }
    }

    /// Returns the current address space.
    pub(crate) fn asid(&self) -> Asid {
        self.spaces.asid
    }

    /// Switches to another address space. Each hardware context is assigned once; when all are used, everything is flushed
    /// but what is of the kernel ([`Asid::KERNEL`]).
    pub fn switch(&mut self, asid: Asid) {
        // The filter has pages of the old address space.
        self.same_page.set_stale();
        if self.spaces.needs_flush(asid) {
            for context in self.spaces.contexts() {
                self.drop_translations(context, Vpn(0), u64::MAX);
            }
            for asid in self.spaces.programs() {
                self.invalidate_assist(asid, Vpn(0), u64::MAX);
            }
            self.spaces.release_all();
        }
        if (self.spaces.switch(asid) || asid == Asid::KERNEL)
            && let Some(observer) = &mut self.observer
        {
            observer.assigned(self.spaces.context, asid);
        }
    }

    /// Drops the translations that `shootdown` names.
    pub fn invalidate(&mut self, shootdown: &Shootdown) {
        self.counters.shootdowns += 1;
        self.same_page.set_stale();
        if let Some(context) = self.spaces.context_of(shootdown.asid) {
            self.drop_translations(context, shootdown.vpn, shootdown.pages);
            if shootdown.pages > 0 {
                self.invalidate_assist(shootdown.asid, shootdown.vpn, shootdown.pages);
            }
        }
    }

    fn drop_translations(&mut self, context: Context, vpn: Vpn, pages: u64) {
        if pages == 0 {
            return;
        }
        if let Some(observer) = &mut self.observer {
            observer.before_invalidate(&self.tlbs, context, vpn, pages);
        }
        self.tlbs.invalidate(context, vpn, pages);
        if let Some(aux_tlb) = &mut self.aux_tlb {
            aux_tlb.invalidate(context, vpn, pages);
        }
        self.filler.invalidate(context);
    }

    /// Returns whether a miss runs no software handler.
    pub(crate) fn walks_in_hardware(&self) -> bool {
        self.filler.is_hardware()
    }

    /// Returns whether references may come as an outline, without caches: whether the references that folding omits change
    /// nothing.
    pub fn takes_outlines(&self) -> bool {
        self.same_page.enabled && !self.logs_events() && !self.logs_costs() && !self.reads_instructions()
    }

    /// Runs one reference to one page. Returns its translation.
    #[inline]
    pub(crate) fn reference(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        if self.observer.as_ref().is_some_and(|observer| observer.observes_lookups()) {
            return self.reference_observed(kind, vpn, table, caches);
        }
        self.reference_unobserved(kind, vpn, table, caches)
    }

    #[inline(always)]
    fn reference_unobserved(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        mut caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        if self.perfect {
            return self.translate_free(kind, vpn, table);
        }
        if self.aux_tlb.is_some()
            && let Some(outcome) = self.reference_segment(kind, vpn, table)
        {
            return outcome;
        }
        let mut latency = 0;
        let found = self.tlbs.lookup(kind, self.spaces.context, vpn, &mut latency);
        let Some(found) = found else {
            self.ledger.charge(Label::L2TlbHit, latency);
            if self.aux_tlb.is_some()
                && let Some(outcome) = self.reference_aux(kind, kind, vpn, table, caches.as_deref_mut())
            {
                return outcome;
            }
            return self.miss(kind, vpn, table, caches);
        };
        let array = &self.tlbs.arrays[found.array];
        let beyond_first = array.level >= 2;
        if found.depth > 0 {
            latency += u64::from(array.latency);
        }
        if latency > 0 {
            self.ledger.charge(Label::L2TlbHit, latency);
        }
        if beyond_first {
            self.counters.count_later_hit(kind);
            if self.aux_tlb.is_some() {
                self.search_aux_in_parallel(kind, vpn, found.depth);
            }
        }
        let mut pte = found.pte;
        match permission::check(pte, kind) {
            Ok(Effect::None) => {}
            Ok(Effect::SetDirty) => {
                pte = pte.with_dirty(true);
                self.set_dirty(vpn, table, caches);
                self.tlbs.refresh(found.array, self.spaces.context, vpn, pte);
            }
            Err(refusal) => return Err(refusal.stop(vpn, kind)),
        }
        if found.depth > 0 {
            self.fill(kind, vpn, pte, found.depth);
        }
        Ok(pte)
    }

    /// Fills the first `depth` levels with `pte`, which translates `vpn` and which they do not hold.
    #[inline(always)]
    fn fill(&mut self, kind: Kind, vpn: Vpn, pte: Pte, depth: usize) {
        if self.observer.as_ref().is_some_and(|observer| observer.observes_fills(kind)) {
            return self.fill_observed(kind, vpn, pte, depth);
        }
        self.tlbs.fill(kind, self.spaces.context, vpn, pte, depth, |_, _| {});
    }

    /// Sets the dirty bit in the page table, as the processor does: one entry is read and written.
    #[cold]
    fn set_dirty(&mut self, vpn: Vpn, table: &mut PageTable, caches: Option<&mut Caches>) {
        let (node, index) = table.find(vpn).expect("the page table holds every page that a TLB holds");
        table.mark(node, index, Pte::ACCESSED | Pte::DIRTY);
        self.counters.dirty_updates += 1;
        if let Some(caches) = caches {
            caches.access(Access::Store, table.entry_addr_of(vpn, node, index));
        }
    }

    /// Runs a reference that misses in all arrays: a walk or a handler run.
    #[inline(never)]
    fn miss(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        mut caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        self.ledger.charge(Label::L2TlbHit, self.tlbs.miss_latency(kind).into());
        if let Some(caches) = caches.as_deref_mut() {
            caches.walks_for_data = kind != Kind::Fetch;
        }
        let mut predicted = None;
        if self.assist.is_some() {
            match self.reference_assist(kind, vpn, table, caches.as_deref_mut()) {
                Assisted::Done(outcome) => return outcome,
                Assisted::Walk(prediction) => predicted = prediction,
            }
        }
        let space = (self.spaces.asid, self.spaces.context);
        let fetched = self.filler.fetch(&mut self.tlbs, table, space, vpn, caches.as_deref_mut());
        let c = &mut self.counters;
        c.count_walk(kind);
        c.host_accesses += fetched.cost.host_accesses;
        c.walk_accesses += fetched.cost.accesses;
        c.walk_cycles += fetched.cost.cycles;
        if kind == Kind::Fetch {
            c.walk_accesses_fetch += fetched.cost.accesses;
            c.walk_cycles_fetch += fetched.cost.cycles;
        }
        self.walk_reads.add(fetched.cost.reads);
        if predicted.is_some_and(|prediction| self.verify(kind, prediction, fetched.slot, vpn, fetched.cost.cycles)) {
            self.walk_reads.hidden = fetched.cost.cycles as u32;
        } else {
            self.ledger.charge(fetched.label, fetched.cost.cycles);
        }
        if let Some(at) = fetched.host_fault {
            self.counters.walks_faulting += 1;
            return Err(StopReason::HostFault(at));
        }
        let Slot::Leaf(pte) = fetched.slot else {
            self.counters.walks_faulting += 1;
            return Err(not_present(vpn, kind));
        };
        if let Err(refusal) = permission::check(pte, kind) {
            self.counters.walks_faulting += 1;
            return Err(refusal.stop(vpn, kind));
        }
        if self.assist.is_some() {
            self.end_data_reads(vpn, pte, fetched.cost.cycles, caches.as_deref_mut());
        }
        let bits = walk_bits(kind);
        table.mark(fetched.node, fetched.index, bits);
        host::mark_accessed(table, pte, vpn, self.base);
        let pte = self.within_host_page(Pte(pte.0 | bits), vpn, table);
        if let Some(observer) = &mut self.observer {
            observer.walked(self.spaces.asid, kind, vpn, pte);
        }
        let depth = match &self.aux_tlb {
            None => self.tlbs.depth(kind),
            Some(_) => self.learn_aux(kind, vpn, pte, table, caches.as_deref_mut()),
        };
        self.fill_walked(kind, vpn, pte, (fetched.node, fetched.index), table, depth);
        if self.assist.is_some() {
            self.tell_assist(kind, vpn, Some(fetched.cost.finished(pte)), table, caches);
        }
        if self.logs_events() { Err(StopReason::PolicyCallback) } else { Ok(pte) }
    }

    /// Returns the part of the guest page `pte` around `vpn` that one host page backs; `pte` itself without a guest. TLBs
    /// hold no larger page.
    #[inline(always)]
    fn within_host_page(&self, pte: Pte, vpn: Vpn, table: &PageTable) -> Pte {
        self.filler.within_host_page(pte, vpn, self.base, table)
    }

    /// Translates without cost, for a perfect unit. Faults and first writes remain, so that the operating system has the same
    /// work.
    #[inline(never)]
    fn translate_free(&mut self, kind: Kind, vpn: Vpn, table: &mut PageTable) -> Result<Pte, StopReason> {
        let Some((node, index)) = table.find(vpn) else { return Err(not_present(vpn, kind)) };
        let Slot::Leaf(pte) = table.slot(node, index) else { return Err(not_present(vpn, kind)) };
        permission::check(pte, kind).map_err(|refusal| refusal.stop(vpn, kind))?;
        let bits = walk_bits(kind);
        table.mark(node, index, bits);
        Ok(Pte(pte.0 | bits))
    }

    /// Returns whether [`Mmu::translate_free`] would succeed and change nothing.
    fn is_translated(&self, kind: Kind, vpn: Vpn, table: &PageTable) -> bool {
        table.lookup(vpn).is_some_and(|pte| permission::check(pte, kind) == Ok(Effect::None) && pte.accessed())
    }

    /// Checks that every translation held for the current address space is the page table's (law 4 of the tests).
    ///
    /// # Panics
    /// If one is not.
    pub fn check(&self, table: &PageTable) {
        for (array, vpn, held) in self.tlbs.pages(self.spaces.context) {
            let real = table.lookup(vpn).unwrap_or_else(|| panic!("array {array} holds {vpn:?} {held:?}, unmapped"));
            let offset = vpn.0 & (real.shift().base_pages(self.base) - 1);
            assert_eq!(held.pfn(), real.pfn() + offset, "array {array} holds {vpn:?} {held:?} for {real:?}");
            assert!(held.shift() <= real.shift(), "array {array}: {vpn:?} {held:?} for {real:?}");
            assert_eq!(held.writable(), real.writable(), "array {array}: {vpn:?} {held:?} for {real:?}");
            assert!(!held.dirty() || table.page(vpn).is_some_and(|p| p.pte.dirty()), "array {array}: {vpn:?} dirty");
        }
        if let Some(aux_tlb) = &self.aux_tlb {
            aux_tlb.check(self.spaces.context, table, self.filler.host_page().is_some());
        }
        self.check_assist(table);
    }
}

/// The fault of a reference of `kind` to `vpn`, which is unmapped.
fn not_present(vpn: Vpn, kind: Kind) -> StopReason {
    StopReason::Fault(Fault { vpn, kind, cause: FaultCause::NotPresent })
}
