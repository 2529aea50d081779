//! What may stand beside the last level of TLB arrays, at a system's wish: asked where the levels before have missed.
//!
//! What a reference does then, exactly (`oracle` restates it naively):
//! 1. A page of a segment is translated before anything is asked, at no cost.
//! 2. Where the first levels miss, the structure is asked at the same time as the last, or after a miss there ([`AuxLookup`]).
//! 3. If only it knows the page, that is a hit as any other: it may forbid the reference, it takes the time of the last
//!    level, and it fills the levels before it with a base page. (Asked after a miss, it fills the last one too.)
//! 4. If neither knows the page, there is a walk as ever, and the structure learns from what the walk found, in the
//!    background: what it reads goes through the data caches, but nothing waits for it (Karakostas §4.3).

use crate::cache::{Access, Caches};
use crate::config;
use crate::mmu::{Mmu, allows};
use crate::tlb::Context;
use cluster_tlb::ClusterTlb;
use range_tlb::RangeTlb;
use reach_core::{
    AuxLookup, AuxTlbOptions, Fault, FaultCause, Kind, Label, PageTable, Pte, RangeTranslation, StopReason, Vpn,
};

mod cluster_tlb;
mod range_tlb;

/// A line of a range table's node; each has two.
const LINE: u64 = 64;

#[derive(Clone, Debug)]
enum AuxKind {
    Ranges(RangeTlb),
    Clusters(ClusterTlb),
    Segments,
}

/// What stands there.
#[derive(Clone, Debug)]
pub(crate) struct AuxTlb {
    structure: AuxKind,
    asked: AuxLookup,
    latency: u32,
    /// It is asked, and learns.
    enabled: bool,
}

impl AuxTlb {
    fn new(beside: AuxTlbOptions) -> AuxTlb {
        let (structure, asked, latency) = match beside {
            AuxTlbOptions::Ranges(o) => {
                (AuxKind::Ranges(RangeTlb::new(o.entries as usize, o.sweep_entries as usize)), o.lookup, o.latency)
            }
            AuxTlbOptions::Clusters(o) => (AuxKind::Clusters(ClusterTlb::new(o)), o.lookup, o.latency),
            AuxTlbOptions::Segments => (AuxKind::Segments, AuxLookup::AfterMiss, 0),
        };
        AuxTlb { structure, asked, latency, enabled: true }
    }

    /// What it holds of the ranges of `context`, the last used first.
    pub fn ranges_of(&self, context: Context) -> Vec<RangeTranslation> {
        if let AuxKind::Ranges(ranges) = &self.structure { ranges.ranges(context) } else { Vec::new() }
    }

    /// The single pages that it holds of `context`.
    pub fn pages_of(&self, context: Context) -> Vec<(Vpn, Pte)> {
        if let AuxKind::Clusters(clusters) = &self.structure { clusters.pages(context) } else { Vec::new() }
    }

    /// Forgets everything.
    fn clear(&mut self) {
        match &mut self.structure {
            AuxKind::Ranges(ranges) => ranges.clear(),
            AuxKind::Clusters(clusters) => clusters.clear(),
            AuxKind::Segments => {}
        }
    }

    /// Forgets what it knows of these pages.
    pub fn invalidate(&mut self, context: Context, vpn: Vpn, pages: u64) {
        match &mut self.structure {
            AuxKind::Ranges(ranges) => ranges.invalidate(context, vpn, pages),
            AuxKind::Clusters(clusters) => clusters.invalidate(context, vpn, pages),
            AuxKind::Segments => {}
        }
    }
}

/// `beside`, with the numbers that it leaves to `machine`.
pub fn fit(beside: AuxTlbOptions, machine: &config::Machine) -> AuxTlbOptions {
    match beside {
        AuxTlbOptions::Clusters(mut options) if options.entries == 0 => {
            let holds = |tlb: &&config::Tlb| tlb.level >= 2 && tlb.sizes.contains(&machine.sizes[0]);
            let last = machine.tlbs.iter().filter(holds).max_by_key(|tlb| tlb.level);
            (options.entries, options.ways) = last.map_or((512, 4), |tlb| (tlb.entries, tlb.ways));
            AuxTlbOptions::Clusters(options)
        }
        _ => beside,
    }
}

impl Mmu {
    /// Puts `beside` in its place. Call it before the first reference.
    pub fn attach_aux_tlb(&mut self, options: AuxTlbOptions) {
        self.aux_tlb = Some(Box::new(AuxTlb::new(options)));
    }

    /// Turns what stands there on or off. What is off is not asked, learns nothing and holds nothing.
    pub fn enable_aux_tlb(&mut self, enabled: bool) {
        let Some(aux_tlb) = &mut self.aux_tlb else { return };
        if aux_tlb.enabled && !enabled {
            aux_tlb.clear();
        }
        aux_tlb.enabled = enabled;
    }

    /// Whether a segment holds the page, and what then becomes of the reference.
    #[inline(never)]
    pub(crate) fn in_segment(&self, kind: Kind, vpn: Vpn, table: &PageTable) -> Option<Result<Pte, StopReason>> {
        if !matches!(self.aux_tlb.as_ref()?.structure, AuxKind::Segments) {
            return None;
        }
        let segment = table.segments().get(table.segments().partition_point(|segment| segment.end() <= vpn))?;
        let pte = segment.contains(vpn).then(|| segment.pte_at(vpn))?;
        Some(match allows(pte, kind) {
            true => Ok(pte),
            false => Err(StopReason::Fault(Fault { vpn, kind, cause: FaultCause::Protection })),
        })
    }

    /// The last level knows the page of a reference of `kind`, in the array of level number `depth` of its path: what
    /// was asked at the same time notes the use.
    #[inline(never)]
    pub(crate) fn search_aux_tlb(&mut self, kind: Kind, vpn: Vpn, depth: usize) {
        let last = self.tlbs.last_level(kind).is_some_and(|(last, _)| last == depth);
        if last && self.aux_tlb.as_ref().is_some_and(|aux_tlb| aux_tlb.asked == AuxLookup::InParallel) {
            self.search(kind, vpn);
        }
    }

    fn search(&mut self, kind: Kind, vpn: Vpn) -> Option<Pte> {
        let aux_tlb = self.aux_tlb.as_mut()?;
        if !aux_tlb.enabled {
            self.counters.aux_tlb_unasked += 1;
            return None;
        }
        let found = match &mut aux_tlb.structure {
            AuxKind::Ranges(ranges) => ranges.search(self.context, vpn, kind),
            AuxKind::Clusters(clusters) => clusters.search(self.context, vpn),
            AuxKind::Segments => return None,
        };
        self.counters.aux_tlb_searches += 1;
        let (pte, used_last) = found?;
        self.counters.aux_tlb_hits += 1;
        self.counters.aux_tlb_mru_hits += u64::from(used_last);
        Some(pte)
    }

    /// No array knows the page. `None`: nor does what stands beside them.
    #[inline(never)]
    pub(crate) fn find_aux_tlb(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Option<Result<Pte, StopReason>> {
        let mut pte = self.search(kind, vpn)?;
        let aux_tlb = self.aux_tlb.as_mut()?;
        let (depth, latency) = self.tlbs.last_level(kind).unwrap_or((1, aux_tlb.latency));
        let all = self.tlbs.depth(kind);
        let depth = if aux_tlb.asked == AuxLookup::AfterMiss { all } else { depth.min(all) };
        let c = &mut self.counters;
        match kind {
            Kind::Fetch => c.l1i_tlb_misses += 1,
            _ => c.l1d_tlb_misses += 1,
        }
        c.aux_tlb_spared += 1;
        self.ledger.charge(Label::L2TlbHit, u64::from(latency));
        if !allows(pte, kind) {
            return Some(Err(StopReason::Fault(Fault { vpn, kind, cause: FaultCause::Protection })));
        }
        if kind == Kind::Store && !pte.dirty() {
            if pte.watched() {
                return Some(Err(StopReason::FirstWrite(vpn)));
            }
            // The page is no longer like those that share its entry.
            aux_tlb.invalidate(self.context, vpn, 1);
            pte = pte.with_dirty(true);
            self.set_dirty(vpn, table, caches);
        }
        self.tlbs.fill(kind, self.context, vpn, pte, depth);
        Some(Ok(pte))
    }

    /// A walk for a reference of `kind` has found `pte` for `vpn`. Returns how many levels of arrays are to be filled.
    #[inline(never)]
    pub(crate) fn learn_aux_tlb(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        pte: Pte,
        table: &PageTable,
        mut caches: Option<&mut Caches>,
    ) -> usize {
        let all = self.tlbs.depth(kind);
        let Some(aux_tlb) = self.aux_tlb.as_mut().filter(|aux_tlb| aux_tlb.enabled) else { return all };
        let c = &mut self.counters;
        match (&mut aux_tlb.structure, table.ranges()) {
            (AuxKind::Ranges(tlb), Some(ranges)) if pte.range() => {
                let walk_access = self.walk_access;
                let range = ranges.walk(vpn, |node| {
                    for line in [node, node + LINE] {
                        c.range_walk_accesses += 1;
                        c.range_walk_cycles += u64::from(match caches.as_deref_mut() {
                            Some(caches) => caches.access(Access::Walk, line).0,
                            None => walk_access,
                        });
                    }
                });
                c.range_walks += 1;
                if let Some(range) = range {
                    c.aux_tlb_fills += 1;
                    tlb.enter(self.context, &range);
                }
                all
            }
            (AuxKind::Clusters(clusters), _) if pte.shift() == self.base => {
                let learnt = clusters.learn(self.context, vpn, pte, table);
                c.aux_tlb_fills += u64::from(learnt);
                let instead = learnt && aux_tlb.asked == AuxLookup::InParallel;
                self.tlbs.last_level(kind).filter(|_| instead).map_or(all, |(last, _)| last)
            }
            _ => all,
        }
    }

    /// How many of all searches range TLBs of each number of entries, from 1 on, would have answered.
    pub fn range_hits_by_entries(&self) -> Vec<u64> {
        match self.aux_tlb.as_deref() {
            Some(AuxTlb { structure: AuxKind::Ranges(ranges), .. }) => ranges.hits_by_entries(),
            _ => Vec::new(),
        }
    }

    /// Checks that every range held for the current address space stands in its range table, and says what the page table
    /// says, page by page; so do entries for several pages.
    pub(crate) fn check_aux_tlb(&self, table: &PageTable) {
        let Some(aux_tlb) = &self.aux_tlb else { return };
        let check = |vpn: Vpn, held: Pte| {
            let of = |pte: Pte| (pte.pfn(), pte.shift(), pte.writable(), pte.executable());
            let real = table.lookup(vpn);
            assert_eq!(real.map(of), Some(of(held)), "{held:?} is held for {vpn:?}, the page table says {real:?}");
        };
        for range in aux_tlb.ranges_of(self.context) {
            let known = table.ranges().and_then(|ranges| ranges.walk(range.vpn, |_| {}));
            assert_eq!(known, Some(range), "a range that the range table does not have");
            (range.vpn.0..range.end().0).map(Vpn).for_each(|vpn| check(vpn, range.pte_at(vpn)));
        }
        aux_tlb.pages_of(self.context).into_iter().for_each(|(vpn, pte)| check(vpn, pte));
    }
}
