//! Translation of one page: TLB arrays level by level, the auxiliary TLB, and a walk.

use super::aux_tlb::AuxTlb;
use super::rights::{self, Outcome};
use super::walk_assist::Assisted;
use super::{Mmu, rights::leaf};
use crate::cache::Caches;
use reach_core::{AuxLookup, Kind, Label, PageTable, PhysAddr, Pte, StopReason, Vpn};
use reach_hardware::Access;

impl Mmu {
    /// Translates one page, or returns why the operating system is needed.
    pub(super) fn translate(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        let asid = self.tagged_asid();
        if self.perfect {
            let leaf = leaf(table.walk(vpn).last().map(|step| step.slot));
            return use_walked(kind, vpn, leaf, table);
        }
        if let Some(AuxTlb::Segments) = self.aux_tlb
            && let Some(segment) = table.segments().iter().find(|segment| segment.vpn <= vpn && vpn < segment.end())
        {
            let pte = segment.pte.with_pfn(segment.pte.pfn() + (vpn - segment.vpn));
            return match rights::outcome(kind, Some(pte)) {
                fault @ Outcome::Fault(_) => fault.bits_or_stop(kind, vpn).map(|_| pte),
                Outcome::FirstWrite | Outcome::Proceed { .. } => Ok(pte),
            };
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
        let in_last_level = hit.level >= 2 && levels.len() > 1 && levels.last() == Some(&hit.level);
        let lookup = self.aux_tlb.as_ref().and_then(AuxTlb::lookup);
        if in_last_level && lookup == Some(AuxLookup::InParallel) {
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
        let sets = rights::outcome(kind, Some(pte)).bits_or_stop(kind, vpn)?;
        if sets & Pte::DIRTY != 0 {
            pte = self.set_dirty(vpn, pte, table, caches);
            self.tlbs.refresh(&found, pte);
        }
        for level in levels.into_iter().filter(|&level| level < hit.level) {
            self.tlbs.fill(kind, level, asid, vpn, pte);
        }
        Ok(pte)
    }

    /// Sets the dirty bit in the page table, on the first store through a clean TLB entry. Returns the dirty entry.
    pub(super) fn set_dirty(&mut self, vpn: Vpn, pte: Pte, table: &mut PageTable, caches: Option<&mut Caches>) -> Pte {
        let (node, index) = table.find(vpn).expect("what a TLB holds, the page table holds");
        table.mark(node, index, Pte::ACCESSED | Pte::DIRTY);
        self.counters.dirty_updates += 1;
        if let Some(caches) = caches {
            caches.access(Access::Store, table.entry_addr_of(vpn, node, index));
        }
        pte.with_dirty(true)
    }

    /// Uses the assist for a page that no TLB holds, or walks, and fills them.
    fn miss(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        mut caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        let asid = self.tagged_asid();
        self.ledger.charge(Label::L2TlbHit, self.tlbs.miss_latency(kind));
        if let Some(caches) = caches.as_deref_mut() {
            caches.walks_for_data = kind != Kind::Fetch;
        }
        let prediction = match self.search_assist(kind, vpn, table, caches.as_deref_mut()) {
            Assisted::Done(outcome) => return outcome,
            Assisted::Walk(prediction) => prediction,
        };
        self.count_first_level_miss(kind);
        match kind {
            Kind::Fetch => self.counters.walks_fetch += 1,
            Kind::Load | Kind::Store => self.counters.walks_data += 1,
        }
        let (leaf, cost) = self.walk_for(vpn, table, caches.as_deref_mut());
        let real = leaf.map(|pte| pte.pfn() + vpn.0 % pte.shift().base_pages(self.base()));
        let is_right = prediction.is_some_and(|(frame, _)| real == Some(frame));
        self.count_walk(kind, cost, is_right);
        if let Some((_, penalty)) = prediction {
            self.counters.assist_predictions += 1;
            if !is_right {
                self.counters.assist_mispredictions += 1;
                self.charge_assist(kind, penalty.into());
            }
        }
        let pte = use_walked(kind, vpn, leaf, table).inspect_err(|_| self.counters.walks_faulting += 1)?;
        let read = std::mem::take(&mut self.data);
        if let (false, Some(caches)) = (read.is_empty(), caches.as_deref_mut()) {
            self.counters.assist_predictions += 1;
            match read.iter().any(|(frame, _)| real == Some(*frame)) {
                true => self.ahead = cost.cycles,
                false => self.counters.assist_mispredictions += 1,
            }
            for (frame, offset) in read.into_iter().filter(|(frame, _)| real != Some(*frame)) {
                caches.fetch_ahead(PhysAddr(frame.0 * self.config.layout.base.bytes() + u64::from(offset)));
            }
        }
        let pte = self.smaller_page(vpn, pte);
        let mut levels = self.tlbs.levels(kind);
        if self.learn_cluster(vpn, pte, table) == Some(AuxLookup::InParallel) && levels.len() > 1 {
            levels.pop();
        }
        let entered = self.coalesced(vpn, pte, table).inspect(|_| self.counters.walks_coalesced += 1).unwrap_or(pte);
        let mut evicted = None;
        for level in levels {
            evicted = self.tlbs.fill(kind, level, asid, vpn, entered).unwrap_or(evicted);
        }
        self.walk_ranges(vpn, pte, table, caches.as_deref_mut());
        self.tell_assist(kind, vpn, Some(cost.finished(pte)), evicted, table, caches);
        Ok(pte)
    }
}

/// Uses the entry at which a walk ended: sets its accessed and dirty bits, or returns why the reference stops.
fn use_walked(kind: Kind, vpn: Vpn, leaf: Option<Pte>, table: &mut PageTable) -> Result<Pte, StopReason> {
    let sets = rights::outcome(kind, leaf).bits_or_stop(kind, vpn)?;
    let (node, index) = table.find(vpn).expect("the walk ended there");
    table.mark(node, index, sets);
    Ok(Pte(leaf.expect("a page without an entry faults").0 | sets))
}
