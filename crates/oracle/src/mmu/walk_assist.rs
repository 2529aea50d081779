//! The rest of an MMU, as a walk assist sees it, and references that use the assist.

use super::{Mmu, rights};
use crate::cache::Caches;
use reach_core::{
    Asid, AssistAnswer, AssistPort, FinishedWalk, Kind, Label, PageShift, PageTable, Pfn, PhysAddr, Pte, StopReason,
    TlbMiss, Vpn,
};
use reach_hardware::Access;
use std::ops::Range;

/// An MMU whose assist has been taken out.
struct Port<'a> {
    mmu: &'a mut Mmu,
    table: &'a mut PageTable,
    caches: Option<&'a mut Caches>,
    waited: u64,
}

impl AssistPort for Port<'_> {
    fn base(&self) -> PageShift {
        self.mmu.base()
    }

    fn wait(&mut self, cycles: u32) {
        self.waited += u64::from(cycles);
    }

    fn read(&mut self, at: PhysAddr) -> u32 {
        self.mmu.counters.assist_reads += 1;
        match self.caches.as_deref_mut() {
            Some(caches) => caches.access(Access::Walk, at),
            None => self.mmu.config.core.walk_access,
        }
    }

    fn hasten(&mut self, vpn: Vpn, level: usize) {
        if let Some(step) = self.table.walk(vpn).into_iter().find(|step| step.level == level) {
            let cycles = self.read(step.at);
            self.mmu.counters.assist_hastened += 1;
            self.mmu.hastened.push((step.at.0 / 64, cycles.into()));
        }
    }

    fn read_data(&mut self, frame: Pfn, offset: u32) {
        if self.caches.is_some() {
            self.mmu.counters.assist_reads += 1;
            self.mmu.data.push((frame, offset));
        }
    }

    fn find(&mut self, line: PhysAddr) -> Option<u32> {
        self.caches.as_deref_mut()?.find_in_second_level(line)
    }

    fn hold(&mut self, line: PhysAddr) {
        self.caches.iter_mut().for_each(|caches| caches.hold_in_second_level(line));
    }

    fn entry(&self, vpn: Vpn) -> Option<Pte> {
        let pte = if self.exists(vpn) { self.table.lookup(vpn) } else { None };
        pte.map(|pte| self.mmu.smaller_page(vpn, pte))
    }

    fn line_of_entries(&self, vpn: Vpn) -> Range<u64> {
        let in_node = 1 << self.mmu.config.layout.bits[0];
        let entries = if self.mmu.config.layout.kind.clusters() { 8.min(in_node) } else { 1 };
        let first = vpn.0 - vpn.0 % entries;
        first..first + entries
    }

    fn leaf_entries(&self, vpn: Vpn) -> Vec<PhysAddr> {
        let (true, Some((node, index)), Some(pte)) = (self.exists(vpn), self.table.find(vpn), self.table.lookup(vpn))
        else {
            return Vec::new();
        };
        let within = vpn.addr(self.base()).0 % pte.shift().bytes();
        let page = PhysAddr(pte.pfn().addr(self.base()).0 + within);
        // The host's walk, without its caches, ends at the last group.
        let host = self.mmu.nested.as_ref().map(|nested| nested.without_caches().translate(page, false));
        let host = host.and_then(|groups| groups.last().map(|group| group[0]));
        [Some(self.table.entry_addr_of(vpn, node, index)), host].into_iter().flatten().collect()
    }

    fn walk(&mut self, vpn: Vpn) -> Option<FinishedWalk> {
        if !self.exists(vpn) {
            return None;
        }
        let (leaf, cost) = self.mmu.walk_for(vpn, self.table, self.caches.as_deref_mut());
        self.mmu.counters.assist_walks += 1;
        self.mmu.counters.assist_walk_accesses += cost.accesses;
        self.mmu.counters.assist_walk_cycles += cost.cycles;
        let leaf = leaf?;
        let (node, index) = self.table.find(vpn)?;
        self.table.mark(node, index, Pte::ACCESSED);
        let pte = self.mmu.smaller_page(vpn, Pte(leaf.0 | Pte::ACCESSED));
        Some(cost.finished(pte))
    }
}

impl Port<'_> {
    fn exists(&self, vpn: Vpn) -> bool {
        vpn.addr(self.base()).0 < 1 << self.mmu.config.layout.address_bits()
    }
}

/// What has come of the search in an assist.
pub(super) enum Assisted {
    Done(Result<Pte, StopReason>),
    Walk(Option<(Pfn, u32)>),
}

impl Mmu {
    /// Searches the assist for a reference that no array answers, and uses what it finds.
    pub(super) fn search_assist(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        mut caches: Option<&mut Caches>,
    ) -> Assisted {
        let Some(mut assist) = self.assist.take() else { return Assisted::Walk(None) };
        self.hastened.clear();
        self.data.clear();
        let miss = TlbMiss { asid: self.asid, vpn, kind, instruction: self.instruction, offset: self.offset };
        let mut port = Port { mmu: self, table, caches: caches.as_deref_mut(), waited: 0 };
        let answer = assist.search(miss, &mut port);
        let waited = port.waited;
        self.assist = Some(assist);
        self.counters.assist_searches += 1;
        self.charge_assist(kind, waited);
        let pte = match answer {
            AssistAnswer::Walk => return Assisted::Walk(None),
            AssistAnswer::Predicted { frame, penalty } => return Assisted::Walk(Some((frame, penalty))),
            AssistAnswer::Hit(pte) => pte,
        };
        self.counters.assist_hits += 1;
        self.count_first_level_miss(kind);
        let sets = match rights::outcome(kind, Some(pte)).bits_or_stop(kind, vpn) {
            Ok(sets) => sets,
            Err(stop) => return Assisted::Done(Err(stop)),
        };
        let pte = Pte(pte.0 | Pte::ACCESSED);
        let pte = match sets & Pte::DIRTY != 0 && !pte.dirty() {
            true => self.set_dirty(vpn, pte, table, caches.as_deref_mut()),
            false => pte,
        };
        let (node, index) = table.find(vpn).expect("what an assist has, the page table has");
        table.mark(node, index, Pte::ACCESSED);
        let evicted = self.fill_all(kind, vpn, pte);
        self.tell_assist(kind, vpn, None, evicted, table, caches);
        Assisted::Done(Ok(pte))
    }

    /// Charges cycles that a reference waits for the assist.
    pub(super) fn charge_assist(&mut self, kind: Kind, cycles: u64) {
        self.ledger.charge(Label::Walk, cycles);
        self.counters.assist_cycles += cycles;
        self.counters.walk_cycles += cycles;
        if kind == Kind::Fetch {
            self.counters.walk_cycles_fetch += cycles;
        }
    }

    /// Fills every level. Returns the page that left the last one.
    pub(super) fn fill_all(&mut self, kind: Kind, vpn: Vpn, pte: Pte) -> Option<(Asid, Vpn, PageShift)> {
        let asid = self.tagged_asid();
        let levels = self.tlbs.levels(kind);
        levels.into_iter().fold(None, |before, level| match self.tlbs.fill(kind, level, asid, vpn, pte) {
            None => before,
            Some(evicted) => evicted,
        })
    }

    /// Tells the assist what has come of a miss.
    pub(super) fn tell_assist(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        walk: Option<FinishedWalk>,
        evicted: Option<(Asid, Vpn, PageShift)>,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) {
        let Some(mut assist) = self.assist.take() else { return };
        self.hastened.clear();
        let miss = TlbMiss { asid: self.asid, vpn, kind, instruction: self.instruction, offset: self.offset };
        let own = self.tagged_asid();
        let mut port = Port { mmu: self, table, caches, waited: 0 };
        if let Some(walk) = walk {
            assist.walked(miss, walk, &mut port);
        }
        if let Some((asid, first, size)) = evicted
            && asid == own
        {
            assist.evicted(miss.asid, first, size, &mut port);
        }
        self.assist = Some(assist);
    }

    /// Returns the assist's translations of the current address space.
    pub fn assist_translations(&self) -> Vec<(Vpn, Pte)> {
        self.assist.as_ref().map_or(Vec::new(), |assist| assist.translations(self.asid))
    }
}
