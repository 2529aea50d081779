//! References that use a walk assist ([`reach_core::WalkAssist`] states the rules).

use super::Mmu;
use super::filler::Filler;
use super::observer::Observer;
use super::{StepRefs, physical};
use crate::cache::{Access, Caches};
use crate::counters::Counters;
use crate::permission::{self, Effect, permits};
use crate::tlb::{Context, TlbObserver, Tlbs};
use crate::walk::host_vpn;
use reach_core::{
    Asid, AssistAnswer, AssistPort, FinishedWalk, Kind, Label, PageShift, PageTable, Pfn, PhysAddr, Pte, Ref, Slot,
    StopReason, TlbMiss, Vpn, WalkAssist,
};
use std::ops::Range;

/// Bytes of the line that a walk reads, as a shift.
const LINE_SHIFT: u32 = 6;

/// A walk assist, as a unit has it.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    assist: Box<dyn WalkAssist>,
    reads_instructions: bool,
    /// The number of the last instruction ([`TlbMiss::instruction`]).
    instruction: u64,
    /// Where in its base page the last reference began.
    offset: u32,
    /// Data that is read for the present reference: the frame, and the byte in it.
    data: Vec<(Pfn, u32)>,
    /// The address of the program's last fetch before the current step; 0 before the first. A block may go on in another step.
    last_fetch: u64,
    /// The page that the last fill evicted from the last level, and its size.
    evicted: Option<(Context, Vpn, PageShift)>,
}

/// How a reference that missed in all arrays goes on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Assisted {
    /// There is no walk.
    Done(Result<Pte, StopReason>),
    /// There is a walk, which verifies the prediction if there is one: the frame of the base page, and the cycles that an
    /// error costs.
    Walk(Option<(Pfn, u32)>),
}

/// The rest of a unit.
struct Port<'a> {
    filler: &'a mut Filler,
    tlbs: &'a mut Tlbs,
    counters: &'a mut Counters,
    space: (Asid, Context),
    base: PageShift,
    table: &'a mut PageTable,
    caches: Option<&'a mut Caches>,
    data: &'a mut Vec<(Pfn, u32)>,
    /// Cycles that the reference waits for the assist.
    waited: u64,
}

impl AssistPort for Port<'_> {
    fn base(&self) -> PageShift {
        self.base
    }

    fn wait(&mut self, cycles: u32) {
        self.waited += u64::from(cycles);
    }

    fn read(&mut self, at: PhysAddr) -> u32 {
        self.counters.assist_reads += 1;
        match self.caches.as_deref_mut() {
            Some(caches) => caches.access(Access::Walk, at).0,
            None => self.filler.walk_access,
        }
    }

    fn hasten(&mut self, vpn: Vpn, level: usize) {
        let path = self.table.walk(vpn);
        let Some(step) = path.iter().find(|step| step.level == level) else { return };
        let cycles = self.read(step.at);
        self.counters.assist_hastened += 1;
        self.filler.hasten(step.at, u64::from(cycles));
    }

    fn read_data(&mut self, frame: Pfn, offset: u32) {
        if self.caches.is_some() {
            self.counters.assist_reads += 1;
            self.data.push((frame, offset));
        }
    }

    fn find(&mut self, line: PhysAddr) -> Option<u32> {
        self.caches.as_deref_mut()?.find_in_second_level(line)
    }

    fn hold(&mut self, line: PhysAddr) {
        if let Some(caches) = self.caches.as_deref_mut() {
            caches.hold_in_second_level(line);
        }
    }

    fn entry(&self, vpn: Vpn) -> Option<Pte> {
        let pte = self.table.lookup(vpn).filter(|&pte| self.exists(vpn) && self.is_backed(pte, vpn))?;
        Some(self.within_host_page(pte, vpn))
    }

    fn line_of_entries(&self, vpn: Vpn) -> Range<u64> {
        let layout = self.table.layout();
        let entries = if layout.kind.clusters() { 8.min(1 << layout.bits[0]) } else { 1 };
        let first = vpn.0 / entries * entries;
        first..first + entries
    }

    fn leaf_entries(&self, vpn: Vpn) -> Vec<PhysAddr> {
        let found = self.table.find(vpn).filter(|_| self.exists(vpn));
        let Some((node, index)) = found else { return Vec::new() };
        let Slot::Leaf(pte) = self.table.slot(node, index) else { return Vec::new() };
        if !self.is_backed(pte, vpn) {
            return Vec::new();
        }
        let page = physical(pte, vpn.addr(self.base).0, self.base);
        let own = self.table.entry_addr_of(vpn, node, index);
        [Some(own), self.filler.host_leaf_entry(page, self.table)].into_iter().flatten().collect()
    }

    fn walk(&mut self, vpn: Vpn) -> Option<FinishedWalk> {
        if !self.exists(vpn) {
            return None;
        }
        let fetched = self.filler.fetch(self.tlbs, self.table, self.space, vpn, self.caches.as_deref_mut());
        let c = &mut *self.counters;
        c.assist_walks += 1;
        c.assist_walk_accesses += fetched.cost.accesses;
        c.assist_walk_cycles += fetched.cost.cycles;
        c.host_accesses += fetched.cost.host_accesses;
        let Slot::Leaf(pte) = fetched.slot else { return None };
        if fetched.host_fault.is_some() {
            return None;
        }
        self.table.mark(fetched.node, fetched.index, Pte::ACCESSED);
        let pte = self.within_host_page(Pte(pte.0 | Pte::ACCESSED), vpn);
        Some(fetched.cost.finished(pte))
    }
}

impl Port<'_> {
    /// Returns whether the address space has such a page.
    fn exists(&self, vpn: Vpn) -> bool {
        let layout = self.table.layout();
        vpn.0 >> (layout.address_bits() - layout.base.0) == 0
    }

    /// Returns whether the host has memory for page `vpn`, whose entry is `pte`: not always, if it has an operating system.
    fn is_backed(&self, pte: Pte, vpn: Vpn) -> bool {
        let page = physical(pte, vpn.addr(self.base).0, self.base);
        self.table.host().is_none_or(|host| host.lookup(host_vpn(page, host)).is_some())
    }

    fn within_host_page(&self, pte: Pte, vpn: Vpn) -> Pte {
        self.filler.within_host_page(pte, vpn, self.base, self.table)
    }
}

/// Returns the address of the last fetch in `refs`.
fn last_fetch(refs: &[Ref]) -> Option<u64> {
    refs.iter().rev().find(|r| r.kind() == Kind::Fetch).map(|fetch| fetch.addr().0)
}

impl Attached {
    /// Returns the number of the instruction of reference number `at` of a step.
    fn instruction_of(&self, refs: &[Ref], at: usize) -> u64 {
        let Some(&r) = refs.get(at) else { return 0 };
        match r.kind() {
            Kind::Fetch => r.addr().0,
            Kind::Load | Kind::Store => last_fetch(&refs[..at]).unwrap_or(self.last_fetch) + u64::from(r.index()),
        }
    }

    /// Returns the assist's translations of `asid`.
    pub fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        self.assist.translations(asid)
    }
}

impl Mmu {
    /// Adds a walk assist. Call before the first reference.
    pub fn attach_walk_assist(&mut self, assist: Box<dyn WalkAssist>) {
        let reads_instructions = assist.reads_instructions();
        self.assist = Some(Box::new(Attached {
            assist,
            reads_instructions,
            instruction: 0,
            offset: 0,
            data: Vec::new(),
            last_fetch: 0,
            evicted: None,
        }));
    }

    /// Returns whether an assist, or a TLB array that predicts reuse, needs to know the instruction of each miss.
    #[inline(always)]
    pub(crate) fn reads_instructions(&self) -> bool {
        self.control_flow.is_some() || self.assist.as_ref().is_some_and(|attached| attached.reads_instructions)
    }

    /// Tells the assist, and TLB arrays that predict reuse, that reference number `at` is looked up next, if they want to know.
    #[inline(always)]
    pub(crate) fn note_instruction(&mut self, step: &StepRefs, at: usize) {
        if let Some(attached) = &mut self.assist
            && attached.reads_instructions
        {
            attached.instruction = attached.instruction_of(step.refs, at);
            let page = (1 << self.base.0) - 1;
            attached.offset = step.refs.get(at).map_or(0, |r| (r.addr().0 & page) as u32);
        }
        if self.control_flow.is_some() {
            self.note_control_flow(step, at);
        }
    }

    /// Ends a step of the program, whose last block may go on in the next step. Code that runs in between, such as the
    /// kernel's, ends no step.
    pub fn end_step(&mut self, step: StepRefs) {
        if let Some(attached) = &mut self.assist
            && attached.reads_instructions
        {
            attached.last_fetch = last_fetch(step.refs).unwrap_or(attached.last_fetch);
        }
        self.end_control_flow(step);
    }

    /// Makes the assist forget pages of `asid`.
    pub(super) fn invalidate_assist(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        if let Some(attached) = &mut self.assist {
            attached.assist.invalidate(asid, vpn, pages);
        }
    }

    /// Calls the assist, with the rest of this unit. Returns its answer and the cycles that the reference waits.
    fn call_assist<T>(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
        call: impl FnOnce(&mut dyn WalkAssist, TlbMiss, &mut Port) -> T,
    ) -> Option<(T, u64)> {
        let Mmu { tlbs, filler, counters, spaces, assist, base, .. } = self;
        let attached = assist.as_mut()?;
        let Attached { instruction, offset, .. } = **attached;
        let miss = TlbMiss { asid: spaces.asid, vpn, kind, instruction, offset };
        let space = (spaces.asid, spaces.context);
        let data = &mut attached.data;
        let mut port = Port { filler, tlbs, counters, space, base: *base, table, caches, data, waited: 0 };
        let answer = call(&mut *attached.assist, miss, &mut port);
        let waited = port.waited;
        Some((answer, waited))
    }

    /// Searches the assist for a reference that missed in all arrays.
    fn search_assist(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> (AssistAnswer, u64) {
        self.filler.forget_hastened();
        self.assist.iter_mut().for_each(|attached| attached.data.clear());
        let found = self.call_assist(kind, vpn, table, caches, |assist, miss, port| assist.search(miss, port));
        let (answer, waited) = found.unwrap_or((AssistAnswer::Walk, 0));
        self.counters.assist_searches += 1;
        self.count_assist(kind, waited);
        (answer, waited)
    }

    /// Charges cycles that a reference waits for the assist.
    fn charge_assist(&mut self, kind: Kind, cycles: u64) {
        self.ledger.charge(Label::Walk, cycles);
        self.count_assist(kind, cycles);
    }

    /// Counts cycles that a reference waits for the assist.
    fn count_assist(&mut self, kind: Kind, cycles: u64) {
        self.counters.assist_cycles += cycles;
        self.counters.walk_cycles += cycles;
        if kind == Kind::Fetch {
            self.counters.walk_cycles_fetch += cycles;
        }
    }

    /// Runs a reference that missed in all arrays through the assist.
    #[inline(never)]
    pub(super) fn reference_assist(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        mut caches: Option<&mut Caches>,
    ) -> Assisted {
        let (answer, waited) = self.search_assist(kind, vpn, table, caches.as_deref_mut());
        self.ledger.charge(Label::Walk, waited);
        let mut pte = match answer {
            AssistAnswer::Walk => return Assisted::Walk(None),
            AssistAnswer::Predicted { frame, penalty } => return Assisted::Walk(Some((frame, penalty))),
            AssistAnswer::Hit(pte) => pte,
        };
        self.counters.count_first_level_miss(kind);
        self.counters.assist_hits += 1;
        match permission::check(pte, kind) {
            Ok(Effect::None) => mark_accessed(vpn, table),
            Ok(Effect::SetDirty) => {
                pte = pte.with_dirty(true);
                self.set_dirty(vpn, table, caches.as_deref_mut());
            }
            Err(refusal) => return Assisted::Done(Err(refusal.stop(vpn, kind))),
        }
        let pte = Pte(pte.0 | Pte::ACCESSED);
        self.fill_assisted(kind, vpn, pte, self.tlbs.depth(kind));
        self.tell_assist(kind, vpn, None, table, caches);
        Assisted::Done(Ok(pte))
    }

    /// Returns whether the prediction of a frame for `vpn` was right, which the walk of `cycles` that ended at `slot` shows.
    /// Counts it, and charges an error.
    #[inline(never)]
    pub(super) fn verify(
        &mut self,
        kind: Kind,
        (frame, penalty): (Pfn, u32),
        slot: Slot,
        vpn: Vpn,
        cycles: u64,
    ) -> bool {
        self.counters.assist_predictions += 1;
        let right = matches!(slot, Slot::Leaf(pte) if {
            let within = vpn.0 & (pte.shift().base_pages(self.base) - 1);
            pte.pfn() + within == frame
        });
        if right {
            self.counters.assist_hidden_cycles += cycles;
        } else {
            self.counters.assist_mispredictions += 1;
            self.charge_assist(kind, penalty.into());
        }
        right
    }

    /// Ends the reads of data for a reference that a walk of `cycles` has translated to `pte`. Those of wrong frames only take room in
    /// the second level of data caches.
    #[inline(never)]
    pub(super) fn end_data_reads(&mut self, vpn: Vpn, pte: Pte, cycles: u64, caches: Option<&mut Caches>) {
        let (Some(attached), Some(caches)) = (&mut self.assist, caches) else { return };
        if attached.data.is_empty() {
            return;
        }
        let frame = pte.pfn() + (vpn.0 & (pte.shift().base_pages(self.base) - 1));
        let mut right = false;
        for (read, offset) in attached.data.drain(..) {
            right |= read == frame;
            if read != frame {
                caches.fetch_ahead(PhysAddr(read.addr(self.base).0 + u64::from(offset)));
            }
        }
        self.counters.assist_predictions += 1;
        if right {
            self.walk_reads.ahead = cycles as u32;
        } else {
            self.counters.assist_mispredictions += 1;
        }
    }

    /// Searches the assist for a reference that will not retire. Returns the entry that it permits, and the cycles; `None`
    /// if there has to be a walk.
    #[inline(never)]
    pub(super) fn search_assist_early(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: &mut Caches,
    ) -> (Option<Option<Pte>>, u64) {
        let (answer, waited) = self.search_assist(kind, vpn, table, Some(caches));
        let AssistAnswer::Hit(pte) = answer else { return (None, waited) };
        self.counters.count_first_level_miss(kind);
        self.counters.assist_hits += 1;
        if !permits(pte, kind) {
            return (Some(None), waited);
        }
        mark_accessed(vpn, table);
        let pte = Pte(pte.0 | Pte::ACCESSED);
        self.fill_assisted(kind, vpn, pte, self.tlbs.depth(kind));
        self.tell_assist(kind, vpn, None, table, Some(caches));
        (Some(Some(pte)), waited)
    }

    /// Tells the assist what has come of a miss: the walk, if there was one, and the page that left the last level.
    #[inline(never)]
    pub(super) fn tell_assist(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        walk: Option<FinishedWalk>,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) {
        self.filler.forget_hastened();
        let context = self.spaces.context;
        let evicted = self.assist.as_mut().and_then(|attached| attached.evicted.take());
        self.call_assist(kind, vpn, table, caches, |assist, miss, port| {
            walk.into_iter().for_each(|walk| assist.walked(miss, walk, port));
            // The page table is that of the current address space.
            if let Some((_, first, shift)) = evicted.filter(|&(of, ..)| of == context) {
                assist.evicted(miss.asid, first, shift, port);
            }
        });
    }

    /// Fills the first `depth` levels with `pte`, which translates `vpn`, and notes the page that leaves the last level.
    #[inline(never)]
    pub(super) fn fill_assisted(&mut self, kind: Kind, vpn: Vpn, pte: Pte, depth: usize) {
        let Mmu { tlbs, observer, spaces, assist: Some(attached), .. } = self else { return };
        let mut observer = observer.as_deref_mut().filter(|observer: &&mut Observer| observer.observes_fills(kind));
        observer.iter_mut().for_each(|observer| observer.before_fill(kind));
        attached.evicted = None;
        // Levels are filled one by one, so the last array is that of the last level.
        tlbs.fill(kind, spaces.context, vpn, pte, depth, |sizes, filled| {
            attached.evicted = filled.evicted.and_then(|tag| sizes.page_of(tag));
            observer.iter_mut().for_each(|observer| observer.filled(kind, sizes, filled));
        });
    }

    /// Checks that the page table has every translation of the assist.
    pub(super) fn check_assist(&self, table: &PageTable) {
        let Some(attached) = &self.assist else { return };
        let of = |pte: Pte| (pte.pfn(), pte.shift(), pte.writable(), pte.executable());
        for (vpn, held) in attached.translations(self.spaces.asid) {
            let real = table.lookup(vpn);
            let real = real.map(|pte| self.filler.within_host_page(pte, vpn, self.base, table));
            assert_eq!(real.map(of), Some(of(held)), "the assist has {held:?} for {vpn:?}, the page table {real:?}");
        }
    }
}

/// Sets the accessed bit of the entry of `vpn`, which hardware sets when it uses what was read ahead.
fn mark_accessed(vpn: Vpn, table: &mut PageTable) {
    let (node, index) = table.find(vpn).expect("the page table has every page that the assist has");
    table.mark(node, index, Pte::ACCESSED);
}

/// Entries that are being read ahead of a walk, each as its line and the cycle of the walk in which it is there.
#[derive(Clone, Debug, Default)]
pub(super) struct Hastened(Vec<(u64, u64)>);

impl Hastened {
    /// Adds the entry at `at`, which takes `cycles`.
    pub fn add(&mut self, at: PhysAddr, cycles: u64) {
        self.0.push((at.0 >> LINE_SHIFT, cycles));
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the cycle in which the entry at `at` is there; `None` if nobody reads it ahead.
    #[inline(always)]
    pub fn ready(&self, at: PhysAddr) -> Option<u64> {
        self.0.iter().find(|&&(line, _)| line == at.0 >> LINE_SHIFT).map(|&(_, cycles)| cycles)
    }
}
