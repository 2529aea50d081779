//! The auxiliary TLB: ranges, clusters or segments.

use super::{Mmu, rights};
use crate::cache::Caches;
use crate::cluster_tlb::ClusterTlb;
use crate::nested;
use crate::range_tlb::RangeTlb;
use reach_core::{Asid, AuxLookup, AuxTlbOptions, Kind, Label, PageTable, Pfn, Pte, RangeTranslation, StopReason, Vpn};
use reach_hardware::Access;

/// An auxiliary TLB. `latency` is that of a hit where the machine has one level of arrays.
#[derive(Clone, Debug)]
pub(super) enum AuxTlb {
    Ranges { lookup: AuxLookup, latency: u32, tlb: RangeTlb },
    Clusters { lookup: AuxLookup, latency: u32, tlb: ClusterTlb },
    Segments,
}

impl AuxTlb {
    pub fn new(options: AuxTlbOptions) -> AuxTlb {
        match options {
            AuxTlbOptions::Ranges(options) => {
                AuxTlb::Ranges { lookup: options.lookup, latency: options.latency, tlb: RangeTlb::new(options.entries) }
            }
            AuxTlbOptions::Clusters(options) => {
                AuxTlb::Clusters { lookup: options.lookup, latency: options.latency, tlb: ClusterTlb::new(options) }
            }
            AuxTlbOptions::Segments => AuxTlb::Segments,
        }
    }

    /// Returns when it is looked up. `None` for segments, which come before all arrays.
    pub fn lookup(&self) -> Option<AuxLookup> {
        match self {
            AuxTlb::Ranges { lookup, .. } | AuxTlb::Clusters { lookup, .. } => Some(*lookup),
            AuxTlb::Segments => None,
        }
    }

    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        match self {
            AuxTlb::Ranges { tlb, .. } => tlb.invalidate(asid, vpn, pages),
            AuxTlb::Clusters { tlb, .. } => tlb.invalidate(asid, vpn, pages),
            AuxTlb::Segments => {}
        }
    }

    /// Returns every range that it holds.
    pub fn ranges(&self) -> Vec<(Asid, RangeTranslation)> {
        if let AuxTlb::Ranges { tlb, .. } = self { tlb.contents() } else { Vec::new() }
    }

    /// Returns every page that its clusters hold.
    pub fn pages(&self) -> Vec<(Asid, Vpn, Pte)> {
        if let AuxTlb::Clusters { tlb, .. } = self { tlb.contents() } else { Vec::new() }
    }
}

impl Mmu {
    /// Searches ranges or clusters for `vpn`, and counts.
    pub(super) fn search_aux_tlb(&mut self, kind: Kind, vpn: Vpn) -> Option<Pte> {
        let asid = self.tagged_asid();
        let found = match self.aux_tlb.as_mut()? {
            AuxTlb::Ranges { tlb, .. } => {
                let found = tlb.search(asid, vpn, |pte| rights::permits(kind, pte));
                let pte = |range: RangeTranslation| range.pte.with_pfn(range.pte.pfn() + (vpn.0 - range.vpn.0));
                found.map(|(range, was_last)| (pte(range), was_last))
            }
            AuxTlb::Clusters { tlb, .. } => tlb.search(asid, vpn),
            AuxTlb::Segments => return None,
        };
        self.counters.aux_tlb_lookups += 1;
        let (pte, was_last) = found?;
        self.counters.aux_tlb_hits += 1;
        if was_last {
            self.counters.aux_tlb_mru_hits += 1;
        }
        Some(pte)
    }

    /// Uses a translation that the auxiliary TLB has and no array holds: fills the arrays with it.
    pub(super) fn use_aux_tlb(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        mut pte: Pte,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Result<Pte, StopReason> {
        let asid = self.tagged_asid();
        let (lookup, own_latency) = match self.aux_tlb.as_ref().expect("it was just searched") {
            AuxTlb::Ranges { lookup, latency, .. } | AuxTlb::Clusters { lookup, latency, .. } => (*lookup, *latency),
            AuxTlb::Segments => unreachable!("segments are not searched"),
        };
        self.count_first_level_miss(kind);
        self.counters.aux_tlb_walks_avoided += 1;
        let levels = self.tlbs.levels(kind);
        let latency_of = |level: u8| {
            let mut arrays = self.tlbs.arrays.iter().map(|tlb| &tlb.config);
            arrays.find(|array| array.level == level && self.tlbs.serves(array, kind)).map_or(0, |array| array.latency)
        };
        let latency = if levels.len() > 1 { latency_of(levels[levels.len() - 1]) } else { own_latency };
        self.ledger.charge(Label::L2TlbHit, u64::from(latency));
        let sets = rights::outcome(kind, Some(pte)).bits_or_stop(kind, vpn)?;
        if sets & Pte::DIRTY != 0 {
            if let Some(AuxTlb::Clusters { tlb, .. }) = &mut self.aux_tlb {
                tlb.invalidate(asid, vpn, 1);
            }
            pte = self.set_dirty(vpn, pte, table, caches);
        }
        let filled = match lookup {
            AuxLookup::InParallel => levels.len().saturating_sub(1).max(1).min(levels.len()),
            AuxLookup::AfterMiss => levels.len(),
        };
        for level in levels.into_iter().take(filled) {
            self.tlbs.fill(kind, level, asid, vpn, pte);
        }
        Ok(pte)
    }

    /// After a walk: lets clusters learn the page and its neighbours. Returns when clusters are looked up, if they
    /// learned it.
    pub(super) fn learn_cluster(&mut self, vpn: Vpn, pte: Pte, table: &PageTable) -> Option<AuxLookup> {
        let (asid, base) = (self.tagged_asid(), self.base());
        let host = self.config.nested.as_ref().map(|nested| nested.host_page);
        let memory = |pfn: Pfn| host.map_or(pfn, |host| nested::host_address(host, pfn.addr(base)).pfn(base));
        let Some(AuxTlb::Clusters { lookup, tlb, .. }) = &mut self.aux_tlb else { return None };
        let pages = if pte.shift() == base { tlb.learn(asid, vpn, pte, table, memory) } else { 0 };
        if pages == 0 {
            return None;
        }
        self.counters.aux_tlb_fills += 1;
        self.counters.aux_tlb_coalesced += if pages > 1 { 1 } else { 0 };
        Some(*lookup)
    }

    /// After a walk: walks the range table, where the entry's range bit is set, and fills the range TLB.
    pub(super) fn walk_ranges(&mut self, vpn: Vpn, pte: Pte, table: &PageTable, mut caches: Option<&mut Caches>) {
        let (asid, base) = (self.tagged_asid(), self.base());
        let (Some(AuxTlb::Ranges { tlb, .. }), Some(range_table), true) =
            (&mut self.aux_tlb, table.ranges(), pte.range())
        else {
            return;
        };
        let mut nodes = Vec::new();
        range_table.walk(vpn, |node| nodes.push(node));
        self.counters.range_walks += 1;
        for line in nodes.into_iter().flat_map(|node| [node, node + 64]) {
            self.counters.range_walk_accesses += 1;
            self.counters.range_walk_cycles += u64::from(match caches.as_deref_mut() {
                Some(caches) => caches.access(Access::Walk, line),
                None => self.config.core.walk_access,
            });
        }
        if let Some(range) = range_table.ranges().into_iter().find(|range| range.vpn <= vpn && vpn < range.end()) {
            self.counters.aux_tlb_fills += 1;
            // In a guest, one page of the host.
            let host_page = |page: Vpn| {
                let at = range.pte_at(page).pfn().addr(base);
                self.config.nested.as_ref().map(|nested| at.0 / nested.host_page.bytes())
            };
            let together = |page: &Vpn| host_page(*page) == host_page(vpn);
            let pages: Vec<Vpn> = (range.vpn.0..range.end().0).map(Vpn).filter(together).collect();
            tlb.insert(asid, range.subrange(pages[0], pages.len() as u64));
        }
    }
}
