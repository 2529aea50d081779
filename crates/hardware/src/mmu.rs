//! The memory-management unit of one core: walks references until it needs the operating system.
//!
//! What a reference does, exactly (`oracle` restates it naively):
//! 1. The arrays of its kind are asked level by level. A hit in level 0 or 1 is a first-level hit; a later one costs
//!    that array's latency.
//! 2. A hit that forbids the reference is a protection fault; nothing is filled.
//! 3. Without a hit there is a walk, or a handler run. What it reads goes through walk caches and data caches. A missing
//!    or forbidding entry is a fault.
//! 4. A store through a clean entry stops with `FirstWrite` where the entry is watched; otherwise the dirty bit is set
//!    in the page table and the entry found is refreshed in place.
//! 5. What a system puts beside the last level of arrays is asked, and learns, as `beside.rs` says.
//! 6. The translation is filled into all levels before the one that held it (all, after a walk), and a walk's sets the
//!    accessed bit.
//!
//! A reference that crosses a page boundary does this for both pages, in order.

use crate::aux_tlb::AuxTlb;
use crate::cache::{Access, Caches};
use crate::config::{self, Walker};
use crate::counters::Counters;
use crate::curve::{Copies, Curve};
use crate::tlb::{CONTEXTS, Context, Tlbs};
use crate::walk::{Nested, WalkCaches};
use event_log::Telling;
use reach_core::{
    Asid, Fault, FaultCause, Kind, Label, Ledger, PageShift, PageTable, PhysAddr, Pte, Shootdown, Slot, StopReason, Vpn,
};

mod event_log;
mod observer;
mod pte_prefetch;
mod run;
mod thread;
mod wrong_path;
pub(crate) use run::physical;
#[cfg(feature = "testing")]
mod testing;

pub use run::{Cursor, Segment};

/// Kernel data that a software handler reads and writes for each process lies here, outside all frames.
const KERNEL_DATA: u64 = 1 << 45;

#[derive(Clone, Debug)]
enum Filler {
    Hardware { caches: WalkCaches, lookup: u32, nested: Option<Box<Nested>> },
    Software { cycles: u32, loads: u32, stores: u32, caches: WalkCaches },
}

/// The memory-management unit of one core.
#[derive(Clone, Debug)]
pub struct Mmu {
    pub(crate) tlbs: Tlbs,
    filler: Filler,
    pub(crate) base: PageShift,
    pub(crate) walk_access: u32,
    /// Entries that walks have read from memory since the window was last told.
    pub(crate) far_entries: u32,
    foldable: bool,
    /// Never misses: translation is free, faults remain.
    perfect: bool,
    pub(crate) asid: Asid,
    pub(crate) context: Context,
    /// Where the operating system keeps account of the entries.
    pub(crate) telling: Option<Box<Telling>>,
    /// What stands beside the last level of arrays.
    pub(crate) aux_tlb: Option<Box<AuxTlb>>,
    /// What shadows an array, to count what others in its place would have missed: one of these two.
    curve: Option<Box<Curve>>,
    copies: Option<Box<Copies>>,
    contexts: Vec<Option<Context>>,
    /// The first of this unit's contexts: those of threads that share arrays are others.
    first_context: u64,
    used_contexts: u64,
    /// How many there are.
    all_contexts: u64,
    /// Something was invalidated, or the address space has changed, since the last run.
    pub(crate) shot: bool,
    /// Since then, not both sides have left the pages they were on: runs may not be skipped.
    unfolded: bool,
    memo: Memo,
    /// What was counted so far.
    pub counters: Counters,
    /// Where this core's cycles went.
    pub ledger: Ledger,
}

/// The page each side is on, for references that need a physical address but no look-up.
#[derive(Clone, Copy, Debug)]
struct Memo {
    code: Vpn,
    code_pte: Pte,
    data: Vpn,
    data_pte: Pte,
    loaded: bool,
    stored: bool,
}

const NOWHERE: Memo =
    Memo { code: Vpn(!0), code_pte: Pte(0), data: Vpn(!0), data_pte: Pte(0), loaded: false, stored: false };

impl Mmu {
    /// An empty unit of `machine`, which has been checked. `perfect`: translation costs nothing and never misses.
    pub fn new(machine: &config::Machine, perfect: bool, seed: u64) -> Mmu {
        let mut tlbs = Tlbs::new(machine, seed);
        let filler = match &machine.walker {
            Walker::Hardware { lookup, caches, .. } => {
                let nested = machine.nested.as_ref().map(|nested| Box::new(Nested::new(machine, nested)));
                Filler::Hardware { caches: WalkCaches::new(machine, caches, &mut tlbs), lookup: *lookup, nested }
            }
            Walker::Software { cycles, loads, stores, .. } => Filler::Software {
                cycles: *cycles,
                loads: *loads,
                stores: *stores,
                caches: WalkCaches::new(machine, &[], &mut tlbs),
            },
        };
        Mmu {
            foldable: tlbs.keep_what_was_just_used(),
            tlbs,
            filler,
            base: machine.sizes[0],
            walk_access: machine.core.walk_access,
            far_entries: 0,
            perfect,
            asid: Asid(0),
            context: Context::new(0),
            telling: None,
            aux_tlb: None,
            curve: None,
            copies: None,
            contexts: vec![Some(Context::new(0))],
            first_context: 0,
            used_contexts: 1,
            all_contexts: u64::from(machine.core.asids).clamp(1, CONTEXTS),
            shot: false,
            unfolded: false,
            memo: NOWHERE,
            counters: Counters::default(),
            ledger: Ledger::default(),
        }
    }

    /// From now on the window hears which entries leave the first-level ITLB.
    pub fn note_victims(&mut self) {
        self.tlbs.note_victims();
    }

    /// Goes over to another address space. Contexts are given out once; when they are used up, everything is flushed.
    pub fn switch(&mut self, asid: Asid) {
        self.asid = asid;
        // What a side skipped was a page of the other address space.
        self.shot = true;
        let index = asid.0 as usize;
        if self.contexts.len() <= index {
            self.contexts.resize(index + 1, None);
        }
        if self.contexts[index].is_none() {
            if self.used_contexts == self.all_contexts {
                for n in 0..self.all_contexts {
                    self.forget(Context::new(self.first_context + n), Vpn(0), u64::MAX);
                }
                self.contexts.fill(None);
                self.used_contexts = 0;
            }
            let context = Context::new(self.first_context + self.used_contexts);
            self.contexts[index] = Some(context);
            self.used_contexts += 1;
            if let Some(telling) = &mut self.telling {
                telling.owns(context, asid);
            }
        }
        self.context = self.contexts[index].expect("given above");
    }

    /// Forgets what `shootdown` names.
    pub fn invalidate(&mut self, shootdown: &Shootdown) {
        self.counters.shootdowns += 1;
        self.shot = true;
        if let Some(&Some(context)) = self.contexts.get(shootdown.asid.0 as usize) {
            self.forget(context, shootdown.vpn, shootdown.pages);
        }
    }

    fn forget(&mut self, context: Context, vpn: Vpn, pages: u64) {
        if pages == 0 {
            return;
        }
        if let Some(telling) = &mut self.telling {
            telling.leaving(&self.tlbs, context, vpn, pages);
        }
        self.tlbs.invalidate(context, vpn, pages);
        if let Some(curve) = &mut self.curve {
            self.tlbs.forget_in(curve, context, vpn, pages);
        }
        if let Some(copies) = &mut self.copies {
            copies.forget(context, vpn, pages);
        }
        if let Some(aux_tlb) = &mut self.aux_tlb {
            aux_tlb.invalidate(context, vpn, pages);
        }
        match &mut self.filler {
            Filler::Hardware { caches, .. } | Filler::Software { caches, .. } => caches.invalidate(context),
        }
    }

    /// The translation of a page that this side is on already, by the argument of `fold`.
    #[inline(always)]
    pub(crate) fn known(&self, kind: Kind, vpn: Vpn) -> Option<Pte> {
        let memo = &self.memo;
        let known = match kind {
            Kind::Fetch => (memo.code == vpn, memo.code_pte),
            Kind::Load => (memo.data == vpn && memo.loaded, memo.data_pte),
            Kind::Store => (memo.data == vpn && memo.stored, memo.data_pte),
        };
        known.0.then_some(known.1)
    }

    #[inline(always)]
    pub(crate) fn remember(&mut self, kind: Kind, vpn: Vpn, pte: Pte) {
        if !self.foldable {
            return;
        }
        let memo = &mut self.memo;
        if kind == Kind::Fetch {
            (memo.code, memo.code_pte) = (vpn, pte);
            return;
        }
        if memo.data != vpn {
            (memo.data, memo.loaded, memo.stored) = (vpn, false, false);
        }
        memo.data_pte = pte;
        memo.loaded |= kind == Kind::Load;
        memo.stored |= kind == Kind::Store;
    }

    /// Whether a walk disturbs nothing but what walks disturb.
    pub(crate) fn walks_in_hardware(&self) -> bool {
        matches!(self.filler, Filler::Hardware { .. })
    }

    /// Neither side is on a page that needs no look-up.
    pub(crate) fn forget_pages(&mut self) {
        self.memo = NOWHERE;
    }

    /// Loads and stores are on no page that needs no look-up.
    pub(crate) fn forget_data_page(&mut self) {
        (self.memo.data, self.memo.loaded, self.memo.stored) = (NOWHERE.data, false, false);
    }

    /// One reference to one page.
    #[inline]
    pub(crate) fn reference(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        if self.curve.is_some() || self.copies.is_some() {
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
            && let Some(done) = self.in_segment(kind, vpn, table)
        {
            return done;
        }
        let mut latency = 0;
        let found = self.tlbs.lookup(kind, self.context, vpn, &mut latency);
        let Some(found) = found else {
            self.ledger.charge(Label::L2TlbHit, latency);
            if self.aux_tlb.is_some()
                && let Some(known) = self.find_aux_tlb(kind, vpn, table, caches.as_deref_mut())
            {
                return known;
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
                self.search_aux_tlb(kind, vpn, found.depth);
            }
        }
        let mut pte = found.pte;
        if !allows(pte, kind) {
            return Err(StopReason::Fault(Fault { vpn, kind, cause: FaultCause::Protection }));
        }
        if kind == Kind::Store && !pte.dirty() {
            if pte.watched() {
                return Err(StopReason::FirstWrite(vpn));
            }
            pte = pte.with_dirty(true);
            self.set_dirty(vpn, table, caches);
            self.tlbs.refresh(found.array, self.context, vpn, pte);
        }
        if found.depth > 0 {
            self.tlbs.fill(kind, self.context, vpn, pte, found.depth);
        }
        Ok(pte)
    }

    /// The processor writes the dirty bit: one page-table entry read and written.
    #[cold]
    pub(crate) fn set_dirty(&mut self, vpn: Vpn, table: &mut PageTable, caches: Option<&mut Caches>) {
        let (node, index) = table.find(vpn).expect("what a TLB holds, the page table holds");
        table.mark(node, index, Pte::ACCESSED | Pte::DIRTY);
        self.counters.dirty_updates += 1;
        if let Some(caches) = caches {
            caches.access(Access::Store, table.entry_addr(node, index));
        }
    }

    /// No array knows the page.
    #[inline(never)]
    fn miss(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        mut caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        let c = &mut self.counters;
        match kind {
            Kind::Fetch => (c.l1i_tlb_misses, c.walks_fetch) = (c.l1i_tlb_misses + 1, c.walks_fetch + 1),
            _ => (c.l1d_tlb_misses, c.walks_data) = (c.l1d_tlb_misses + 1, c.walks_data + 1),
        }
        let before = self.counters.walk_cycles;
        let (node, index, slot) = self.fetch_entry(vpn, table, caches.as_deref_mut());
        if kind == Kind::Fetch {
            self.counters.walk_cycles_fetch += self.counters.walk_cycles - before;
        }
        let forbidden = |cause| Err(StopReason::Fault(Fault { vpn, kind, cause }));
        let Slot::Leaf(pte) = slot else {
            self.counters.walks_faulting += 1;
            return forbidden(FaultCause::NotPresent);
        };
        if !allows(pte, kind) {
            self.counters.walks_faulting += 1;
            return forbidden(FaultCause::Protection);
        }
        let store = kind == Kind::Store;
        if store && !pte.dirty() && pte.watched() {
            self.counters.walks_faulting += 1;
            return Err(StopReason::FirstWrite(vpn));
        }
        let bits = Pte::ACCESSED | if store { Pte::DIRTY } else { 0 };
        table.mark(node, index, bits);
        let pte = self.piece(Pte(pte.0 | bits), vpn);
        if self.telling.is_some() {
            return self.fill_and_tell(kind, vpn, pte);
        }
        let depth = match &self.aux_tlb {
            None => self.tlbs.depth(kind),
            Some(_) => self.learn_aux_tlb(kind, vpn, pte, table, caches),
        };
        self.tlbs.fill(kind, self.context, vpn, pte, depth);
        Ok(pte)
    }

    /// What of the page `pte` around `vpn` is a page of the host too: TLBs hold the smaller of the two.
    #[inline(always)]
    fn piece(&self, pte: Pte, vpn: Vpn) -> Pte {
        match &self.filler {
            Filler::Hardware { nested: Some(nested), .. } if nested.host < pte.shift() => {
                let pages = |shift: PageShift| shift.base_pages(self.base) - 1;
                let within = vpn.0 & pages(pte.shift()) & !pages(nested.host);
                pte.with_pfn(pte.pfn() + within).with_shift(nested.host)
            }
            _ => pte,
        }
    }

    /// A walk or a handler run, with its cost.
    fn fetch_entry(
        &mut self,
        vpn: Vpn,
        table: &PageTable,
        mut caches: Option<&mut Caches>,
    ) -> (reach_core::NodeId, usize, Slot) {
        let Mmu { tlbs, filler, context, counters, ledger, walk_access, asid, base, far_entries, .. } = self;
        match filler {
            Filler::Hardware { caches: walk_caches, lookup, nested } => {
                let mut cycles = u64::from(*lookup);
                let mut read = |at| {
                    cycles += match caches.as_deref_mut() {
                        Some(caches) => {
                            let (latency, _) = caches.access(Access::Walk, at);
                            *far_entries = far_entries.saturating_add((latency >= caches.memory()).into());
                            u64::from(latency)
                        }
                        None => u64::from(*walk_access),
                    };
                };
                let mut of_host = 0;
                let walked = walk_caches.walk(tlbs, table, *context, vpn, |at, known| {
                    if let Some(nested) = nested.as_deref_mut().filter(|_| !known) {
                        nested.translate(at, true, |at| (of_host += 1, read(at)).1);
                    }
                    read(at);
                });
                if let (Some(nested), Slot::Leaf(pte)) = (nested, walked.slot) {
                    nested.translate(physical(pte, vpn.addr(*base).0, *base), false, |at| (of_host += 1, read(at)).1);
                }
                counters.host_accesses += of_host;
                counters.walk_accesses += of_host;
                counters.walk_accesses += u64::from(walked.accesses);
                counters.walk_cycles += cycles;
                ledger.charge(Label::Walk, cycles);
                (walked.node, walked.index, walked.slot)
            }
            Filler::Software { cycles, loads, stores, caches: walk_caches } => {
                let mut path = [PhysAddr(0); 8];
                let mut depth = 0;
                let walked = walk_caches.walk(tlbs, table, *context, vpn, |at, _| {
                    path[depth % 8] = at;
                    depth += 1;
                });
                // A handler with fewer loads than levels finds the lower ones through its linear table.
                let own = depth.min(*loads as usize);
                let mut cycles = u64::from(*cycles);
                if let Some(caches) = caches {
                    let near = caches.near_latency(Access::Load);
                    let kernel = |n: usize| PhysAddr(KERNEL_DATA + u64::from(asid.0) * 128 + n as u64 * 8);
                    let entries = path[depth - own..depth].iter().copied();
                    for at in entries.chain((own..*loads as usize).map(kernel)) {
                        cycles += u64::from(caches.access(Access::Load, at).0.saturating_sub(near));
                    }
                    for n in 0..*stores as usize {
                        caches.access(Access::Store, kernel(8 + n));
                    }
                }
                counters.walk_accesses += own as u64;
                counters.walk_cycles += cycles;
                ledger.charge(Label::Handler, cycles);
                (walked.node, walked.index, walked.slot)
            }
        }
    }

    /// Translation without cost. Faults and first writes remain: the same work is left for the operating system.
    #[inline(never)]
    fn translate_free(&mut self, kind: Kind, vpn: Vpn, table: &mut PageTable) -> Result<Pte, StopReason> {
        let fault = |cause| Err(StopReason::Fault(Fault { vpn, kind, cause }));
        let Some((node, index)) = table.find(vpn) else { return fault(FaultCause::NotPresent) };
        let Slot::Leaf(pte) = table.slot(node, index) else { return fault(FaultCause::NotPresent) };
        if !allows(pte, kind) {
            return fault(FaultCause::Protection);
        }
        let store = kind == Kind::Store;
        if store && !pte.dirty() && pte.watched() {
            return Err(StopReason::FirstWrite(vpn));
        }
        let bits = Pte::ACCESSED | if store { Pte::DIRTY } else { 0 };
        table.mark(node, index, bits);
        Ok(Pte(pte.0 | bits))
    }

    /// Whether a translation without cost would change nothing.
    fn is_free(&self, kind: Kind, vpn: Vpn, table: &PageTable) -> bool {
        let bits = Pte::ACCESSED | if kind == Kind::Store { Pte::DIRTY } else { 0 };
        table.lookup(vpn).is_some_and(|pte| allows(pte, kind) && pte.0 & bits == bits)
    }

    /// Whether references may come as an outline, without caches: whether what folding leaves out changes nothing.
    pub fn takes_outlines(&self) -> bool {
        self.foldable && self.telling.is_none()
    }

    /// Checks that every translation held for the current address space is the page table's (law 4 of the tests).
    pub fn check(&self, table: &PageTable) {
        for (array, vpn, held) in self.tlbs.translations(self.context) {
            let real = table.lookup(vpn).unwrap_or_else(|| panic!("array {array} holds {vpn:?} {held:?}, unmapped"));
            let offset = vpn.0 & (real.shift().base_pages(self.base) - 1);
            assert_eq!(held.pfn(), real.pfn() + offset, "array {array} holds {vpn:?} {held:?} for {real:?}");
            assert!(held.shift() <= real.shift(), "array {array}: {vpn:?} {held:?} for {real:?}");
            assert_eq!(held.writable(), real.writable(), "array {array}: {vpn:?} {held:?} for {real:?}");
            assert!(!held.dirty() || table.page(vpn).is_some_and(|p| p.pte.dirty()), "array {array}: {vpn:?} dirty");
        }
        self.check_aux_tlb(table);
    }
}

/// Whether a page may be used so.
#[inline(always)]
pub(crate) fn allows(pte: Pte, kind: Kind) -> bool {
    match kind {
        Kind::Fetch => pte.executable(),
        Kind::Load => true,
        Kind::Store => pte.writable(),
    }
}
