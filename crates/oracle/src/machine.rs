//! The twin of `reach_hardware::Mmu`: every reference, page by page, as the head of that module says.

use crate::cache::Caches;
use crate::tlb::Tlbs;
use crate::walk::WalkCaches;
use reach_core::{
    Asid, Cause, Fault, Kind, Label, Ledger, PageShift, PageTable, PhysAddr, Pte, Ref, Shootdown, Slot, VirtAddr, Vpn,
    WalkStep, Why,
};
use reach_hardware::config::{self, Walker};
use reach_hardware::{Access, Counters};
use std::collections::BTreeSet;

/// So many address spaces can be told apart at most; one more, and everything is flushed.
const CONTEXTS: usize = 1 << 13;
/// Where handlers keep their data: 128 bytes for each process, loads from the first half on, stores from the second.
const KERNEL_DATA: u64 = 1 << 45;

/// One core's translation hardware.
#[derive(Clone, Debug)]
pub struct Machine {
    config: config::Machine,
    tlbs: Tlbs,
    walk_caches: WalkCaches,
    perfect: bool,
    asid: Asid,
    known: BTreeSet<Asid>,
    /// What was counted so far.
    pub counters: Counters,
    /// Where the cycles went.
    pub ledger: Ledger,
}

impl Machine {
    /// An empty machine. `perfect`: translation costs nothing and never misses.
    pub fn new(config: &config::Machine, perfect: bool, seed: u64) -> Machine {
        let walk_caches = match &config.walker {
            Walker::Hardware { caches, .. } => caches.as_slice(),
            Walker::Software { .. } => &[],
        };
        Machine {
            tlbs: Tlbs::new(config, seed),
            walk_caches: WalkCaches::new(config, walk_caches),
            config: config.clone(),
            perfect,
            asid: Asid(0),
            known: BTreeSet::from([Asid(0)]),
            counters: Counters::default(),
            ledger: Ledger::default(),
        }
    }

    fn base(&self) -> PageShift {
        self.config.sizes[0]
    }

    /// Goes over to another address space.
    pub fn switch(&mut self, asid: Asid) {
        if !self.known.contains(&asid) && self.known.len() == CONTEXTS.min(self.config.core.contexts as usize) {
            for old in std::mem::take(&mut self.known) {
                self.forget(old, Vpn(0), u64::MAX);
            }
        }
        self.known.insert(asid);
        self.asid = asid;
    }

    /// Forgets what `shootdown` names.
    pub fn invalidate(&mut self, shootdown: &Shootdown) {
        self.counters.shootdowns += 1;
        self.forget(shootdown.asid, shootdown.vpn, shootdown.pages);
    }

    fn forget(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        self.tlbs.invalidate(asid, vpn, pages);
        self.walk_caches.invalidate(asid);
    }

    /// Runs references until they end or the operating system is needed. Returns why, and how many were done.
    pub fn run(&mut self, refs: &[Ref], table: &mut PageTable, mut caches: Option<&mut Caches>) -> (Why, usize) {
        for (done, &r) in refs.iter().enumerate() {
            if let Err(why) = self.reference(r, table, caches.as_deref_mut()) {
                return (why, done);
            }
        }
        (Why::End, refs.len())
    }

    /// Every translation held: array, address space, first base page.
    pub fn contents(&self) -> Vec<(usize, Asid, Vpn, Pte)> {
        self.tlbs.contents()
    }

    /// One reference: for each page that it touches, the translation, then the caches line by line.
    fn reference(&mut self, r: Ref, table: &mut PageTable, mut caches: Option<&mut Caches>) -> Result<(), Why> {
        let bytes = if r.kind() == Kind::Fetch { r.len().max(1) } else { r.size() };
        let (mut at, end) = (r.addr().0, r.addr().0 + bytes);
        while at < end {
            let vpn = VirtAddr(at).vpn(self.base());
            let page_end = (vpn + 1).addr(self.base()).0;
            let pte = self.translate(r.kind(), vpn, table, caches.as_deref_mut())?;
            if let Some(caches) = caches.as_deref_mut() {
                self.access_lines(r.kind(), pte, at, end.min(page_end), caches);
            }
            at = page_end;
        }
        Ok(())
    }

    /// Sends the bytes from `at` to `end`, in one page, through the caches. The program waits for what exceeds a hit
    /// in the nearest cache, but never for stores.
    fn access_lines(&mut self, kind: Kind, pte: Pte, at: u64, end: u64, caches: &mut Caches) {
        if kind == Kind::Fetch && !caches.models_fetches() {
            return;
        }
        let access = match kind {
            Kind::Fetch => Access::Fetch,
            Kind::Load => Access::Load,
            Kind::Store => Access::Store,
        };
        let line = caches.line(access);
        let mut byte = at;
        while byte < end {
            let physical = PhysAddr(pte.pfn().addr(self.base()).0 + byte % pte.shift().bytes());
            let cycles = caches.access(access, physical);
            if kind != Kind::Store {
                self.ledger.charge(Label::Cache, u64::from(cycles.saturating_sub(caches.near_latency(access))));
            }
            byte = (byte / line + 1) * line;
        }
    }

    fn translate(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Result<Pte, Why> {
        if self.perfect {
            let leaf = table.walk(vpn).last().map(|step| step.slot);
            return use_entry(kind, vpn, leaf, table);
        }
        let (found, probing) = self.tlbs.lookup(kind, self.asid, vpn);
        self.ledger.charge(Label::L2TlbHit, probing);
        let Some(found) = found else { return self.miss(kind, vpn, table, caches) };
        let hit = self.tlbs.arrays[found.array].config.clone();
        let levels = self.tlbs.levels(kind);
        if hit.level != levels[0] {
            self.ledger.charge(Label::L2TlbHit, u64::from(hit.latency));
        }
        if hit.level >= 2 {
            self.count_first_level_miss(kind);
            match kind {
                Kind::Fetch => self.counters.l2_tlb_hits_fetch += 1,
                Kind::Load | Kind::Store => self.counters.l2_tlb_hits_data += 1,
            }
        }
        let mut pte = found.pte;
        if !allows(pte, kind) {
            return Err(Why::Fault(Fault { vpn, kind, cause: Cause::Protection }));
        }
        if kind == Kind::Store && !pte.dirty() {
            if pte.watched() {
                return Err(Why::FirstWrite(vpn));
            }
            pte = pte.with_dirty(true);
            let (node, index) = table.find(vpn).expect("what a TLB holds, the page table holds");
            table.mark(node, index, Pte::ACCESSED | Pte::DIRTY);
            self.counters.dirty_updates += 1;
            if let Some(caches) = caches {
                caches.access(Access::Store, table.entry_at(node, index));
            }
            self.tlbs.refresh(&found, pte);
        }
        for level in levels.into_iter().filter(|&level| level < hit.level) {
            self.tlbs.fill(kind, level, self.asid, vpn, pte);
        }
        Ok(pte)
    }

    fn count_first_level_miss(&mut self, kind: Kind) {
        match kind {
            Kind::Fetch => self.counters.l1i_tlb_misses += 1,
            Kind::Load | Kind::Store => self.counters.l1d_tlb_misses += 1,
        }
    }

    fn miss(&mut self, kind: Kind, vpn: Vpn, table: &mut PageTable, caches: Option<&mut Caches>) -> Result<Pte, Why> {
        self.count_first_level_miss(kind);
        match kind {
            Kind::Fetch => self.counters.walks_fetch += 1,
            Kind::Load | Kind::Store => self.counters.walks_data += 1,
        }
        let steps = self.walk_caches.walk(&mut self.tlbs, table, self.asid, vpn);
        self.pay_for_walk(&steps, caches);
        let leaf = steps.last().map(|step| step.slot);
        let pte = use_entry(kind, vpn, leaf, table).inspect_err(|_| self.counters.walks_faulting += 1)?;
        for level in self.tlbs.levels(kind) {
            self.tlbs.fill(kind, level, self.asid, vpn, pte);
        }
        Ok(pte)
    }

    fn pay_for_walk(&mut self, steps: &[WalkStep], caches: Option<&mut Caches>) {
        let (label, accesses, cycles) = match self.config.walker {
            Walker::Hardware { consult, .. } => {
                let mut cycles = u64::from(consult);
                match caches {
                    Some(caches) => steps.iter().for_each(|s| cycles += u64::from(caches.access(Access::Load, s.at))),
                    None => cycles += steps.len() as u64 * u64::from(self.config.core.walk_access),
                }
                (Label::Walk, steps.len(), cycles)
            }
            Walker::Software { cycles, loads, stores, .. } => {
                // The handler's loads are the lowest entries of the walk, then data of its own.
                let own = steps.len().min(loads as usize);
                let kernel = |n: u64| PhysAddr(KERNEL_DATA + u64::from(self.asid.0) * 128 + 8 * n);
                let mut cycles = u64::from(cycles);
                if let Some(caches) = caches {
                    let near = caches.near_latency(Access::Load);
                    let mut loaded: Vec<PhysAddr> = steps[steps.len() - own..].iter().map(|s| s.at).collect();
                    loaded.extend((own as u64..u64::from(loads)).map(kernel));
                    for at in loaded {
                        cycles += u64::from(caches.access(Access::Load, at).saturating_sub(near));
                    }
                    for n in 0..u64::from(stores) {
                        caches.access(Access::Store, kernel(8 + n));
                    }
                }
                (Label::Handler, own, cycles)
            }
        };
        self.counters.walk_accesses += accesses as u64;
        self.counters.walk_cycles += cycles;
        self.ledger.charge(label, cycles);
    }
}

/// Uses the entry at which a walk ended: a fault, a stop, or its translation with the bits set.
fn use_entry(kind: Kind, vpn: Vpn, leaf: Option<Slot>, table: &mut PageTable) -> Result<Pte, Why> {
    let fault = |cause| Err(Why::Fault(Fault { vpn, kind, cause }));
    let Some(Slot::Leaf(pte)) = leaf else { return fault(Cause::Missing) };
    if !allows(pte, kind) {
        return fault(Cause::Protection);
    }
    let store = kind == Kind::Store;
    if store && !pte.dirty() && pte.watched() {
        return Err(Why::FirstWrite(vpn));
    }
    let bits = Pte::ACCESSED | if store { Pte::DIRTY } else { 0 };
    let (node, index) = table.find(vpn).expect("the walk ended there");
    table.mark(node, index, bits);
    Ok(Pte(pte.0 | bits))
}

fn allows(pte: Pte, kind: Kind) -> bool {
    match kind {
        Kind::Fetch => pte.executable(),
        Kind::Load => true,
        Kind::Store => pte.writable(),
    }
}
