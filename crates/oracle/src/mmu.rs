//! The twin of `reach_hardware::Mmu`: every reference, page by page, as the head of that module says.

use crate::cache::Caches;
use crate::cluster_tlb::ClusterTlb;
use crate::nested::Nested;
use crate::range_tlb::RangeTlb;
use crate::tlb::Tlbs;
use crate::walk_caches::WalkCaches;
use reach_core::{
    Asid, AuxLookup, AuxTlbOptions, Fault, FaultCause, Kind, Label, Ledger, PageShift, PageTable, PhysAddr, Pte,
    RangeTranslation, Ref, Shootdown, Slot, StopReason, VirtAddr, Vpn, WalkStep,
};
use reach_hardware::config::{self, Sharing, Walker};
use reach_hardware::{Access, Counters};
use std::collections::BTreeSet;

/// So many address spaces can be told apart at most; one more, and everything is flushed.
const CONTEXTS: usize = 1 << 13;
/// Far beyond the number of any address space.
const OFFSET: u32 = 1 << 24;
/// Where handlers keep their data: 128 bytes for each process, loads from the first half on, stores from the second.
const KERNEL_DATA: u64 = 1 << 45;

/// What stands beside the last level.
#[derive(Clone, Debug)]
enum AuxTlb {
    Ranges(AuxLookup, u32, RangeTlb),
    Clusters(AuxLookup, u32, ClusterTlb),
    Segments,
}

/// One core's translation hardware.
#[derive(Clone, Debug)]
pub struct Machine {
    config: config::Machine,
    tlbs: Tlbs,
    walk_caches: WalkCaches,
    nested: Option<Nested>,
    perfect: bool,
    aux_tlb: Option<AuxTlb>,
    asid: Asid,
    known: BTreeSet<Asid>,
    /// How many address spaces it can tell apart.
    contexts: usize,
    /// Added to the numbers of address spaces in what it holds: threads of a core do not find each other's entries.
    offset: u32,
    /// What was counted so far.
    pub counters: Counters,
    /// Where the cycles went.
    pub ledger: Ledger,
}

impl Machine {
    /// Hardware thread number `thread` of `threads` of a core.
    pub fn of_thread(config: &config::Machine, thread: usize, threads: usize, seed: u64) -> Machine {
        let mut machine = Machine::new(config, false, seed);
        machine.contexts = machine.contexts.min(CONTEXTS / threads);
        machine.offset = thread as u32 * OFFSET;
        machine
    }

    /// What threads of a core share is as the sibling that ran last has left it.
    pub fn copy_shared(&mut self, sibling: &Machine, sharing: &[Sharing]) {
        let arrays = self.tlbs.arrays.iter_mut().zip(&sibling.tlbs.arrays).zip(sharing);
        for ((mine, theirs), _) in arrays.filter(|(_, sharing)| **sharing == Sharing::Shared) {
            *mine = theirs.clone();
        }
        self.walk_caches = sibling.walk_caches.clone();
        self.nested = sibling.nested.clone();
        self.aux_tlb = sibling.aux_tlb.clone();
    }

    /// Whether it may hold anything of this address space.
    pub fn knows(&self, asid: Asid) -> bool {
        self.known.contains(&asid)
    }

    /// Whether it runs in this address space.
    pub fn runs_in(&self, asid: Asid) -> bool {
        self.asid == asid
    }

    /// The address space that runs, as it stands in what is held.
    fn own(&self) -> Asid {
        Asid(self.asid.0 + self.offset)
    }

    /// An empty machine. `perfect`: translation costs nothing and never misses.
    pub fn new(config: &config::Machine, perfect: bool, seed: u64) -> Machine {
        let walk_caches = match &config.walker {
            Walker::Hardware { caches, .. } => caches.as_slice(),
            Walker::Software { .. } => &[],
        };
        Machine {
            tlbs: Tlbs::new(config, seed),
            walk_caches: WalkCaches::new(config, walk_caches),
            nested: config.nested.clone().map(|nested| Nested::new(nested, config.layout.clone())),
            config: config.clone(),
            perfect,
            aux_tlb: None,
            asid: Asid(0),
            known: BTreeSet::from([Asid(0)]),
            contexts: CONTEXTS.min(config.core.asids as usize),
            offset: 0,
            counters: Counters::default(),
            ledger: Ledger::default(),
        }
    }

    /// Puts `beside` beside the last level.
    pub fn place(&mut self, beside: AuxTlbOptions) {
        self.aux_tlb = Some(match beside {
            AuxTlbOptions::Ranges(options) => {
                AuxTlb::Ranges(options.lookup, options.latency, RangeTlb::new(options.entries))
            }
            AuxTlbOptions::Clusters(options) => {
                AuxTlb::Clusters(options.lookup, options.latency, ClusterTlb::new(options))
            }
            AuxTlbOptions::Segments => AuxTlb::Segments,
        });
    }

    fn base(&self) -> PageShift {
        self.config.sizes[0]
    }

    /// Goes over to another address space.
    pub fn switch(&mut self, asid: Asid) {
        if !self.known.contains(&asid) && self.known.len() == self.contexts.max(1) {
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
        let asid = Asid(asid.0 + self.offset);
        self.tlbs.invalidate(asid, vpn, pages);
        self.walk_caches.invalidate(asid);
        match &mut self.aux_tlb {
            Some(AuxTlb::Ranges(.., ranges)) => ranges.invalidate(asid, vpn, pages),
            Some(AuxTlb::Clusters(.., clusters)) => clusters.invalidate(asid, vpn, pages),
            Some(AuxTlb::Segments) | None => {}
        }
    }

    /// Runs references until they end or the operating system is needed. Returns why, and how many were done.
    pub fn run(&mut self, refs: &[Ref], table: &mut PageTable, mut caches: Option<&mut Caches>) -> (StopReason, usize) {
        for (done, &r) in refs.iter().enumerate() {
            if let Err(why) = self.reference(r, table, caches.as_deref_mut()) {
                return (why, done);
            }
        }
        (StopReason::End, refs.len())
    }

    /// Every translation held for it: array, address space, first base page.
    pub fn contents(&self) -> Vec<(usize, Asid, Vpn, Pte)> {
        let mut held = self.tlbs.contents();
        held.retain(|(_, asid, ..)| asid.0 / OFFSET == self.offset / OFFSET);
        held.iter_mut().for_each(|(_, asid, ..)| asid.0 -= self.offset);
        held
    }

    /// Every range held.
    pub fn ranges(&self) -> Vec<(Asid, RangeTranslation)> {
        if let Some(AuxTlb::Ranges(.., ranges)) = &self.aux_tlb { ranges.held() } else { Vec::new() }
    }

    /// Every page held beside the arrays.
    pub fn pages_aux_tlb(&self) -> Vec<(Asid, Vpn, Pte)> {
        if let Some(AuxTlb::Clusters(.., clusters)) = &self.aux_tlb { clusters.held() } else { Vec::new() }
    }

    /// One reference: for each page that it touches, the translation, then the caches line by line.
    fn reference(&mut self, r: Ref, table: &mut PageTable, mut caches: Option<&mut Caches>) -> Result<(), StopReason> {
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
    ) -> Result<Pte, StopReason> {
        let asid = self.own();
        if self.perfect {
            let leaf = table.walk(vpn).last().map(|step| step.slot);
            return use_entry(kind, vpn, leaf, table);
        }
        if let Some(AuxTlb::Segments) = self.aux_tlb
            && let Some(segment) = table.segments().iter().find(|segment| segment.vpn <= vpn && vpn < segment.end())
        {
            let pte = segment.pte.with_pfn(segment.pte.pfn() + (vpn - segment.vpn));
            let fault = StopReason::Fault(Fault { vpn, kind, cause: FaultCause::Protection });
            return if allows(pte, kind) { Ok(pte) } else { Err(fault) };
        }
        let (found, probing) = self.tlbs.lookup(kind, asid, vpn);
        self.ledger.charge(Label::L2TlbHit, probing);
        let levels = self.tlbs.levels(kind);
        let Some(found) = found else {
            return match self.search_aux_tlb(kind, vpn) {
                Some(pte) => self.use_aux_tlb(kind, vpn, pte, table, caches),
                None => self.miss(kind, vpn, table, caches),
            };
        };
        let hit = self.tlbs.arrays[found.array].config.clone();
        let last = hit.level >= 2 && levels.len() > 1 && levels.last() == Some(&hit.level);
        if last && self.asked().is_some_and(|(asked, _)| asked == AuxLookup::InParallel) {
            self.search_aux_tlb(kind, vpn);
        }
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
            return Err(StopReason::Fault(Fault { vpn, kind, cause: FaultCause::Protection }));
        }
        if kind == Kind::Store && !pte.dirty() {
            if pte.watched() {
                return Err(StopReason::FirstWrite(vpn));
            }
            pte = pte.with_dirty(true);
            let (node, index) = table.find(vpn).expect("what a TLB holds, the page table holds");
            table.mark(node, index, Pte::ACCESSED | Pte::DIRTY);
            self.counters.dirty_updates += 1;
            if let Some(caches) = caches {
                caches.access(Access::Store, table.entry_addr(node, index));
            }
            self.tlbs.refresh(&found, pte);
        }
        for level in levels.into_iter().filter(|&level| level < hit.level) {
            self.tlbs.fill(kind, level, asid, vpn, pte);
        }
        Ok(pte)
    }

    /// When what stands beside the last level is asked, and what it takes where there is one level only.
    fn asked(&self) -> Option<(AuxLookup, u32)> {
        match self.aux_tlb.as_ref()? {
            AuxTlb::Ranges(asked, latency, _) | AuxTlb::Clusters(asked, latency, _) => Some((*asked, *latency)),
            AuxTlb::Segments => None,
        }
    }

    fn search_aux_tlb(&mut self, kind: Kind, vpn: Vpn) -> Option<Pte> {
        let asid = self.own();
        let found = match self.aux_tlb.as_mut()? {
            AuxTlb::Ranges(.., ranges) => {
                let found = ranges.search(asid, vpn, |pte| allows(pte, kind));
                found.map(|(range, last)| (range.pte.with_pfn(range.pte.pfn() + (vpn.0 - range.vpn.0)), last))
            }
            AuxTlb::Clusters(.., clusters) => clusters.search(asid, vpn),
            AuxTlb::Segments => return None,
        };
        self.counters.aux_tlb_lookups += 1;
        let (pte, used_last) = found?;
        self.counters.aux_tlb_hits += 1;
        if used_last {
            self.counters.aux_tlb_mru_hits += 1;
        }
        Some(pte)
    }

    /// No array knows the page, but what stands beside them.
    fn use_aux_tlb(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        mut pte: Pte,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        let asid = self.own();
        let (asked, alone) = self.asked().expect("it was just asked");
        self.count_first_level_miss(kind);
        self.counters.aux_tlb_walks_avoided += 1;
        let levels = self.tlbs.levels(kind);
        let of_level = |level: u8| {
            let mut arrays = self.tlbs.arrays.iter().map(|tlb| &tlb.config);
            arrays.find(|config| config.level == level && self.tlbs.serves(config, kind)).map_or(0, |c| c.latency)
        };
        let latency = if levels.len() > 1 { of_level(levels[levels.len() - 1]) } else { alone };
        self.ledger.charge(Label::L2TlbHit, u64::from(latency));
        if !allows(pte, kind) {
            return Err(StopReason::Fault(Fault { vpn, kind, cause: FaultCause::Protection }));
        }
        if kind == Kind::Store && !pte.dirty() {
            if pte.watched() {
                return Err(StopReason::FirstWrite(vpn));
            }
            if let Some(AuxTlb::Clusters(.., clusters)) = &mut self.aux_tlb {
                clusters.invalidate(asid, vpn, 1);
            }
            pte = pte.with_dirty(true);
            let (node, index) = table.find(vpn).expect("what a TLB holds, the page table holds");
            table.mark(node, index, Pte::ACCESSED | Pte::DIRTY);
            self.counters.dirty_updates += 1;
            if let Some(caches) = caches {
                caches.access(Access::Store, table.entry_addr(node, index));
            }
        }
        let filled = match asked {
            AuxLookup::InParallel => levels.len().saturating_sub(1).max(1).min(levels.len()),
            AuxLookup::AfterMiss => levels.len(),
        };
        for level in levels.into_iter().take(filled) {
            self.tlbs.fill(kind, level, asid, vpn, pte);
        }
        Ok(pte)
    }

    /// After a walk: the range table, where the entry's bit says that it knows more.
    fn walk_ranges(&mut self, vpn: Vpn, pte: Pte, table: &PageTable, mut caches: Option<&mut Caches>) {
        let asid = self.own();
        let (Some(AuxTlb::Ranges(.., ranges)), Some(known), true) = (&mut self.aux_tlb, table.ranges(), pte.range())
        else {
            return;
        };
        let mut nodes = Vec::new();
        known.walk(vpn, |node| nodes.push(node));
        self.counters.range_walks += 1;
        for line in nodes.into_iter().flat_map(|node| [node, node + 64]) {
            self.counters.range_walk_accesses += 1;
            self.counters.range_walk_cycles += u64::from(match caches.as_deref_mut() {
                Some(caches) => caches.access(Access::Walk, line),
                None => self.config.core.walk_access,
            });
        }
        if let Some(range) = known.ranges().into_iter().find(|range| range.vpn <= vpn && vpn < range.end()) {
            self.counters.aux_tlb_fills += 1;
            ranges.enter(asid, range);
        }
    }

    fn count_first_level_miss(&mut self, kind: Kind) {
        match kind {
            Kind::Fetch => self.counters.l1i_tlb_misses += 1,
            Kind::Load | Kind::Store => self.counters.l1d_tlb_misses += 1,
        }
    }

    fn miss(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        mut caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        let asid = self.own();
        self.count_first_level_miss(kind);
        match kind {
            Kind::Fetch => self.counters.walks_fetch += 1,
            Kind::Load | Kind::Store => self.counters.walks_data += 1,
        }
        let steps = self.walk_caches.walk(&mut self.tlbs, table, asid, vpn);
        self.pay_for_walk(kind, vpn, &steps, caches.as_deref_mut());
        let leaf = steps.last().map(|step| step.slot);
        let pte = use_entry(kind, vpn, leaf, table).inspect_err(|_| self.counters.walks_faulting += 1)?;
        let pte = self.piece(vpn, pte);
        let mut levels = self.tlbs.levels(kind);
        if let Some(AuxTlb::Clusters(asked, _, clusters)) = &mut self.aux_tlb
            && pte.shift() == self.config.sizes[0]
            && clusters.learn(asid, vpn, pte, table)
        {
            self.counters.aux_tlb_fills += 1;
            if *asked == AuxLookup::InParallel && levels.len() > 1 {
                levels.pop();
            }
        }
        for level in levels {
            self.tlbs.fill(kind, level, asid, vpn, pte);
        }
        self.walk_ranges(vpn, pte, table, caches);
        Ok(pte)
    }

    /// TLBs hold what is one page to guest and host.
    fn piece(&self, vpn: Vpn, pte: Pte) -> Pte {
        let Some(nested) = &self.nested else { return pte };
        let size = nested.size(pte.shift());
        let within = vpn.0 % pte.shift().base_pages(self.config.sizes[0]);
        let first = within - within % size.base_pages(self.config.sizes[0]);
        pte.with_pfn(pte.pfn() + first).with_shift(size)
    }

    /// All entries that a walk reads, of the guest's table and the host's.
    fn reads(&mut self, vpn: Vpn, steps: &[WalkStep]) -> Vec<PhysAddr> {
        let Some(nested) = &mut self.nested else { return steps.iter().map(|step| step.at).collect() };
        let mut all = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            // Where a walk cache knows a table, it knows the host's address.
            if number > 0 || step.level == self.config.layout.levels() - 1 {
                all.extend(nested.translate(step.at, true));
            }
            all.push(step.at);
        }
        if let Some(Slot::Leaf(pte)) = steps.last().map(|step| step.slot) {
            let base = self.config.sizes[0];
            let within = vpn.addr(base).0 % pte.shift().bytes();
            all.extend(nested.translate(PhysAddr(pte.pfn().addr(base).0 + within), false));
        }
        self.counters.host_accesses += (all.len() - steps.len()) as u64;
        all
    }

    fn pay_for_walk(&mut self, kind: Kind, vpn: Vpn, steps: &[WalkStep], caches: Option<&mut Caches>) {
        let (label, accesses, cycles) = match self.config.walker {
            Walker::Hardware { lookup, .. } => {
                let mut cycles = u64::from(lookup);
                let reads = self.reads(vpn, steps);
                match caches {
                    Some(caches) => reads.iter().for_each(|at| cycles += u64::from(caches.access(Access::Walk, *at))),
                    None => cycles += reads.len() as u64 * u64::from(self.config.core.walk_access),
                }
                (Label::Walk, reads.len(), cycles)
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
        if kind == Kind::Fetch {
            self.counters.walk_cycles_fetch += cycles;
        }
        self.ledger.charge(label, cycles);
    }
}

/// Uses the entry at which a walk ended: a fault, a stop, or its translation with the bits set.
fn use_entry(kind: Kind, vpn: Vpn, leaf: Option<Slot>, table: &mut PageTable) -> Result<Pte, StopReason> {
    let fault = |cause| Err(StopReason::Fault(Fault { vpn, kind, cause }));
    let Some(Slot::Leaf(pte)) = leaf else { return fault(FaultCause::NotPresent) };
    if !allows(pte, kind) {
        return fault(FaultCause::Protection);
    }
    let store = kind == Kind::Store;
    if store && !pte.dirty() && pte.watched() {
        return Err(StopReason::FirstWrite(vpn));
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
