//! The twin of [`reach_hardware::Mmu`]: every reference, page by page, as the head of that module states.

mod aux_tlb;
mod rights;
mod translate;
mod walk;
mod walk_assist;

use crate::cache::Caches;
use crate::nested::Nested;
use crate::organized::Organized;
use crate::reuse_predictor::ControlFlow;
use crate::tlb::Tlbs;
use crate::walk_caches::WalkCaches;
use aux_tlb::AuxTlb;
use reach_core::{
    Asid, AuxTlbOptions, Kind, Label, Ledger, PageShift, PageTable, Pfn, PhysAddr, Pte, RangeTranslation, Ref,
    Shootdown, StopReason, VirtAddr, Vpn, WalkAssist,
};
use reach_hardware::config::{self, Sharing, Walker};
use reach_hardware::{Access, Counters};
use std::collections::BTreeSet;

/// The most address spaces that an MMU tells apart, the kernel's included. One more flushes everything but the kernel's.
const MAX_ASIDS: usize = 1 << 13;
/// Added to address spaces once for each hardware thread. Greater than the number of any address space.
const THREAD_OFFSET: u32 = 1 << 24;

/// The MMU of one hardware thread.
#[derive(Clone, Debug)]
pub struct Mmu {
    config: config::Machine,
    tlbs: Tlbs,
    walk_caches: WalkCaches,
    organized: Organized,
    nested: Option<Nested>,
    perfect: bool,
    aux_tlb: Option<AuxTlb>,
    assist: Option<Box<dyn WalkAssist>>,
    /// Lines that the assist reads ahead of a walk, each with the cycle of the walk in which it is there.
    hastened: Vec<(u64, u64)>,
    /// What the assist reads for the present reference: the frame, and the byte in it.
    data: Vec<(Pfn, u32)>,
    /// Cycles in which the first line of the present reference was read during its walk.
    ahead: u64,
    /// The address of the last fetch.
    fetched: u64,
    /// The number of the present instruction.
    instruction: u64,
    /// The last byte of the block that was fetched last.
    ends: Option<u64>,
    /// The addresses of the branches so far.
    branches: Vec<u64>,
    /// The last reference stopped, so that the next one is the same.
    stopped: bool,
    /// Where in its page the present reference begins.
    offset: u32,
    /// The current address space.
    asid: Asid,
    /// The address spaces of which it may hold entries.
    known: BTreeSet<Asid>,
    max_asids: usize,
    /// Added to address spaces in all entries, so that threads of a core do not hit each other's.
    thread_offset: u32,
    /// The counts so far.
    pub counters: Counters,
    /// The cycles so far, by label.
    pub ledger: Ledger,
}

impl Mmu {
    /// Creates an empty MMU. If it is `perfect`, translation never misses and costs nothing.
    pub fn new(config: &config::Machine, perfect: bool, seed: u64) -> Mmu {
        let walk_caches = match &config.walker {
            Walker::Hardware { caches, .. } => caches.as_slice(),
            Walker::Software { .. } => &[],
        };
        Mmu {
            tlbs: Tlbs::new(config, seed),
            walk_caches: WalkCaches::new(config, walk_caches),
            organized: Organized::new(config.layout.kind),
            nested: config.nested.clone().map(|nested| Nested::new(nested, config.layout.clone())),
            config: config.clone(),
            perfect,
            aux_tlb: None,
            assist: None,
            hastened: Vec::new(),
            data: Vec::new(),
            ahead: 0,
            offset: 0,
            fetched: 0,
            instruction: 0,
            ends: None,
            branches: Vec::new(),
            stopped: false,
            asid: Asid(0),
            known: BTreeSet::from([Asid(0)]),
            max_asids: (MAX_ASIDS - 1).min(config.core.asids as usize),
            thread_offset: 0,
            counters: Counters::default(),
            ledger: Ledger::default(),
        }
    }

    /// Creates the empty MMU of hardware thread number `thread` of `threads` of a core.
    pub fn of_thread(config: &config::Machine, thread: usize, threads: usize, seed: u64) -> Mmu {
        let mut mmu = Mmu::new(config, false, seed);
        mmu.max_asids = mmu.max_asids.min(MAX_ASIDS / threads - 1);
        mmu.thread_offset = thread as u32 * THREAD_OFFSET;
        mmu
    }

    /// Adds an auxiliary TLB.
    pub fn attach_aux_tlb(&mut self, options: AuxTlbOptions) {
        self.aux_tlb = Some(AuxTlb::new(options));
    }

    /// Adds a walk assist.
    pub fn attach_walk_assist(&mut self, assist: Box<dyn WalkAssist>) {
        self.assist = Some(assist);
    }

    /// Copies what threads of a core share from `sibling`, which ran last.
    pub fn copy_shared(&mut self, sibling: &Mmu, sharing: &[Sharing]) {
        let arrays = self.tlbs.arrays.iter_mut().zip(&sibling.tlbs.arrays).zip(sharing);
        for ((mine, theirs), _) in arrays.filter(|(_, sharing)| **sharing == Sharing::Shared) {
            *mine = theirs.clone();
        }
        self.walk_caches = sibling.walk_caches.clone();
        self.organized = sibling.organized.clone();
        self.nested = sibling.nested.clone();
        self.aux_tlb = sibling.aux_tlb.clone();
        self.assist = sibling.assist.clone();
    }

    /// Returns whether it may hold entries of `asid`.
    pub fn knows(&self, asid: Asid) -> bool {
        asid == Asid::KERNEL || self.known.contains(&asid)
    }

    /// Returns whether `asid` is the current address space.
    pub fn runs_in(&self, asid: Asid) -> bool {
        self.asid == asid
    }

    /// The current address space as entries have it.
    fn tagged_asid(&self) -> Asid {
        Asid(self.asid.0 + self.thread_offset)
    }

    fn base(&self) -> PageShift {
        self.config.sizes[0]
    }

    /// Switches to another address space.
    pub fn switch(&mut self, asid: Asid) {
        if asid == Asid::KERNEL {
            self.asid = asid;
            return;
        }
        if !self.known.contains(&asid) && self.known.len() == self.max_asids.max(1) {
            for old in self.known.clone() {
                self.forget(old, Vpn(0), u64::MAX);
            }
            self.known.clear();
        }
        self.known.insert(asid);
        self.asid = asid;
    }

    /// Drops the entries that `shootdown` names.
    pub fn invalidate(&mut self, shootdown: &Shootdown) {
        self.counters.shootdowns += 1;
        self.forget(shootdown.asid, shootdown.vpn, shootdown.pages);
    }

    fn forget(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        if self.knows(asid)
            && pages > 0
            && let Some(assist) = &mut self.assist
        {
            assist.invalidate(asid, vpn, pages);
        }
        let asid = Asid(asid.0 + self.thread_offset);
        self.tlbs.invalidate(asid, vpn, pages);
        self.walk_caches.invalidate(asid);
        self.organized.invalidate(asid);
        if let Some(aux_tlb) = &mut self.aux_tlb {
            aux_tlb.invalidate(asid, vpn, pages);
        }
    }

    /// Runs references until they end or the operating system is needed. Returns why it stopped, and how many were run.
    pub fn run(&mut self, refs: &[Ref], table: &mut PageTable, mut caches: Option<&mut Caches>) -> (StopReason, usize) {
        for (done, &r) in refs.iter().enumerate() {
            if let Err(reason) = self.reference(r, table, caches.as_deref_mut()) {
                self.stopped = true;
                return (reason, done);
            }
        }
        (StopReason::End, refs.len())
    }

    /// Returns every translation in the TLB arrays: index of the array, address space, first base page, entry.
    pub fn contents(&self) -> Vec<(usize, Asid, Vpn, Pte)> {
        let mut held = self.tlbs.contents();
        held.retain(|(_, asid, ..)| asid.0 / THREAD_OFFSET == self.thread_offset / THREAD_OFFSET);
        held.iter_mut().for_each(|(_, asid, ..)| asid.0 -= self.thread_offset);
        held
    }

    /// Returns every range in the auxiliary TLB.
    pub fn ranges(&self) -> Vec<(Asid, RangeTranslation)> {
        self.aux_tlb.as_ref().map_or(Vec::new(), AuxTlb::ranges)
    }

    /// Returns every page in the clusters of the auxiliary TLB.
    pub fn aux_tlb_pages(&self) -> Vec<(Asid, Vpn, Pte)> {
        self.aux_tlb.as_ref().map_or(Vec::new(), AuxTlb::pages)
    }

    /// Runs one reference: translates each page that it touches, and accesses the page's lines.
    fn reference(&mut self, r: Ref, table: &mut PageTable, mut caches: Option<&mut Caches>) -> Result<(), StopReason> {
        let again = std::mem::take(&mut self.stopped);
        if r.kind() == Kind::Fetch {
            self.fetched = r.addr().0;
            if !again {
                let last_byte = r.addr().0 + r.len().max(1) - 1;
                self.branches.extend(self.ends.replace(last_byte));
            }
        }
        let index = if r.kind() == Kind::Fetch { 0 } else { u64::from(r.index()) };
        let predictors = self.tlbs.arrays.iter_mut().filter_map(|tlb| tlb.array.reuse.as_mut());
        predictors.for_each(|predictor| {
            predictor.control_flow = ControlFlow { instruction: self.fetched + index, branches: self.branches.clone() };
        });
        if self.assist.as_ref().is_some_and(|assist| assist.reads_instructions()) {
            self.instruction = self.fetched + index;
            self.offset = (r.addr().0 % self.base().bytes()) as u32;
        }
        let bytes = if r.kind() == Kind::Fetch { r.len().max(1) } else { r.size() };
        let (mut at, end) = (r.addr().0, r.addr().0 + bytes);
        while at < end {
            let vpn = VirtAddr(at).vpn(self.base());
            let page_end = (vpn + 1).addr(self.base()).0;
            self.ahead = 0;
            let pte = self.translate(r.kind(), vpn, table, caches.as_deref_mut())?;
            if let Some(caches) = caches.as_deref_mut() {
                self.access_lines(r.kind(), pte, at, end.min(page_end), caches);
            }
            at = page_end;
        }
        Ok(())
    }

    /// Accesses the lines from `at` to before `end`, which lie in one page. Charges what exceeds a hit in the nearest
    /// cache, but nothing for stores.
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
                let beyond = u64::from(cycles.saturating_sub(caches.near_latency(access)));
                self.ledger.charge(Label::Cache, beyond.saturating_sub(std::mem::take(&mut self.ahead)));
            }
            byte = (byte / line + 1) * line;
        }
    }

    fn count_first_level_miss(&mut self, kind: Kind) {
        match kind {
            Kind::Fetch => self.counters.l1i_tlb_misses += 1,
            Kind::Load | Kind::Store => self.counters.l1d_tlb_misses += 1,
        }
    }
}
