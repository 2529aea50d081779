//! References that use the auxiliary TLB ([`crate::aux_tlb`] states the rules).

use super::Mmu;
use crate::aux_tlb::AuxTlb;
use crate::cache::{Access, Caches};
use crate::permission::{self, Effect, Refusal, permits};
use reach_core::{AuxTlbOptions, Kind, Label, PageTable, Pte, StopReason, Vpn};

impl Mmu {
    /// Adds an auxiliary TLB. Call before the first reference.
    pub fn attach_aux_tlb(&mut self, options: AuxTlbOptions) {
        self.aux_tlb = Some(Box::new(AuxTlb::new(options)));
    }

    /// Enables or disables the auxiliary TLB, if there is one. While disabled it is not searched, learns nothing and holds
    /// nothing.
    pub fn set_aux_tlb_enabled(&mut self, enabled: bool) {
        if let Some(aux_tlb) = &mut self.aux_tlb {
            aux_tlb.set_enabled(enabled);
        }
    }

    /// Returns the outcome of a reference to a page of a direct segment; `None` if no segment holds the page. A segment
    /// checks rights only: it has no dirty bits.
    #[inline(never)]
    pub(super) fn reference_segment(&self, kind: Kind, vpn: Vpn, table: &PageTable) -> Option<Result<Pte, StopReason>> {
        let pte = self.aux_tlb.as_ref()?.segment_entry(vpn, table)?;
        Some(if permits(pte, kind) { Ok(pte) } else { Err(Refusal::Protection.stop(vpn, kind)) })
    }

    /// Records the use of a page of which level `depth` of the path of `kind` has answered, if the auxiliary TLB is searched
    /// in parallel with that level.
    #[inline(never)]
    pub(super) fn search_aux_in_parallel(&mut self, kind: Kind, vpn: Vpn, depth: usize) {
        let last = self.tlbs.last_level(kind).is_some_and(|(last, _)| last == depth);
        if last && let Some(aux_tlb) = self.aux_tlb.as_mut().filter(|aux_tlb| aux_tlb.is_parallel()) {
            aux_tlb.search(self.spaces.context, vpn, kind, &mut self.counters);
        }
    }

    /// Returns the outcome of a reference that missed in all arrays; `None` if it misses in the auxiliary TLB too. Fills the
    /// arrays of `kind`, with a translation that `checked` permits: a load, for stores that will not retire.
    #[inline(never)]
    pub(super) fn reference_aux(
        &mut self,
        kind: Kind,
        checked: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Option<Result<Pte, StopReason>> {
        let context = self.spaces.context;
        let aux_tlb = self.aux_tlb.as_mut()?;
        let mut pte = aux_tlb.search(context, vpn, checked, &mut self.counters)?;
        let (depth, latency) = self.tlbs.last_level(kind).unwrap_or((1, aux_tlb.latency));
        let all = self.tlbs.depth(kind);
        let depth = if aux_tlb.is_parallel() { depth.min(all) } else { all };
        self.counters.count_first_level_miss(kind);
        self.counters.aux_tlb_walks_avoided += 1;
        self.ledger.charge(Label::L2TlbHit, u64::from(latency));
        match permission::check(pte, checked) {
            Ok(Effect::None) => {}
            Ok(Effect::SetDirty) => {
                // The page no longer equals those that share its entry.
                aux_tlb.invalidate(context, vpn, 1);
                pte = pte.with_dirty(true);
                self.set_dirty(vpn, table, caches);
            }
            Err(refusal) => return Some(Err(refusal.stop(vpn, kind))),
        }
        self.fill(kind, vpn, pte, depth);
        Some(Ok(pte))
    }

    /// Lets the auxiliary TLB learn from a walk for a reference of `kind` that found `pte` for `vpn`. Returns the number of
    /// levels to fill.
    #[inline(never)]
    pub(super) fn learn_aux(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        pte: Pte,
        table: &PageTable,
        mut caches: Option<&mut Caches>,
    ) -> usize {
        let all = self.tlbs.depth(kind);
        let Some(aux_tlb) = &mut self.aux_tlb else { return all };
        let walk_access = self.filler.walk_access;
        let backing = self.filler.backing(table, self.base);
        let read_line = |line| match caches.as_deref_mut() {
            Some(caches) => caches.access(Access::Walk, line).0,
            None => walk_access,
        };
        let replaces_last =
            aux_tlb.learn(self.spaces.context, vpn, pte, (table, backing), &mut self.counters, read_line);
        self.tlbs.last_level(kind).filter(|_| replaces_last).map_or(all, |(last, _)| last)
    }

    /// Returns, for range TLBs of each number of entries from 1 on, how many searches would have hit. Empty without a range
    /// TLB.
    pub fn range_hits_by_entries(&self) -> Vec<u64> {
        self.aux_tlb.as_ref().map(|aux_tlb| aux_tlb.range_hits_by_entries()).unwrap_or_default()
    }

    /// Sets the counts of [`Mmu::range_hits_by_entries`] to 0. The range TLB keeps its contents.
    pub fn reset_range_hits(&mut self) {
        self.aux_tlb.iter_mut().for_each(|aux_tlb| aux_tlb.reset_range_hits());
    }
}
