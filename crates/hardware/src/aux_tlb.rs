//! The auxiliary TLB: a range TLB, a cluster TLB or direct segments, which a system may add to the TLB arrays.
//!
//! A reference uses it as follows (`oracle` restates it naively):
//! 1. A page of a segment is translated before any array is probed, at no cost.
//! 2. When the first levels miss, it is searched in parallel with the last level, or after a miss there ([`AuxLookup`]).
//! 3. If only the auxiliary TLB has the page, that is a hit like any other. It may forbid the reference, it takes the
//!    latency of the last level, and it fills the levels before that with a base page. (Searched after a miss, it fills the
//!    last level too.)
//! 4. If neither has the page, there is a walk, and the auxiliary TLB learns from the result in the background. Its reads go
//!    through the data caches, but nothing waits for them (Karakostas §4.3).
//!
//! In a guest, what it learns is the part that lies together in the host's memory ([`Backing`]).
//!
//! `mmu/aux_lookup.rs` applies these rules; this file holds the structures.

use crate::config;
use crate::counters::Counters;
use crate::tlb::Context;
use crate::walk::Backing;
use cluster_tlb::ClusterTlb;
use range_tlb::RangeTlb;
use reach_core::{AuxLookup, AuxTlbOptions, Kind, PageTable, Pte, RangeTranslation, Vpn};

mod cluster_tlb;
mod range_tlb;

/// Bytes of a line of a range-table node; each node has two.
const LINE: u64 = 64;

#[derive(Clone, Debug)]
enum Structure {
    Ranges(RangeTlb),
    Clusters(ClusterTlb),
    Segments,
}

/// An auxiliary TLB.
#[derive(Clone, Debug)]
pub(crate) struct AuxTlb {
    structure: Structure,
    lookup: AuxLookup,
    /// Cycles of a hit if the TLB has one level only.
    pub latency: u32,
    /// While disabled it is not searched, learns nothing and holds nothing.
    enabled: bool,
}

impl AuxTlb {
    /// Creates an empty auxiliary TLB. `options` have been resolved ([`resolve_aux_tlb`]).
    pub fn new(options: AuxTlbOptions) -> AuxTlb {
        let (structure, lookup, latency) = match options {
            AuxTlbOptions::Ranges(o) => {
                (Structure::Ranges(RangeTlb::new(o.entries as usize, o.sweep_entries as usize)), o.lookup, o.latency)
            }
            AuxTlbOptions::Clusters(o) => (Structure::Clusters(ClusterTlb::new(o)), o.lookup, o.latency),
            AuxTlbOptions::Segments => (Structure::Segments, AuxLookup::AfterMiss, 0),
        };
        AuxTlb { structure, lookup, latency, enabled: true }
    }

    /// Returns whether it is searched in parallel with the last level.
    pub fn is_parallel(&self) -> bool {
        self.lookup == AuxLookup::InParallel
    }

    /// Enables or disables it. Disabling drops all entries.
    pub fn set_enabled(&mut self, enabled: bool) {
        if self.enabled && !enabled {
            match &mut self.structure {
                Structure::Ranges(ranges) => ranges.clear(),
                Structure::Clusters(clusters) => clusters.clear(),
                Structure::Segments => {}
            }
        }
        self.enabled = enabled;
    }

    /// Returns the entry of `vpn` in a direct segment of `table`; `None` if no segment holds the page.
    pub fn segment_entry(&self, vpn: Vpn, table: &PageTable) -> Option<Pte> {
        if !matches!(self.structure, Structure::Segments) {
            return None;
        }
        let segment = table.segments().get(table.segments().partition_point(|segment| segment.end() <= vpn))?;
        segment.contains(vpn).then(|| segment.pte_at(vpn))
    }

    /// Searches for `vpn`, and counts the search. Returns its entry as a base page.
    pub fn search(&mut self, context: Context, vpn: Vpn, kind: Kind, counters: &mut Counters) -> Option<Pte> {
        if !self.enabled {
            counters.aux_tlb_disabled_lookups += 1;
            return None;
        }
        let found = match &mut self.structure {
            Structure::Ranges(ranges) => ranges.search(context, vpn, kind),
            Structure::Clusters(clusters) => clusters.search(context, vpn),
            Structure::Segments => return None,
        };
        counters.aux_tlb_lookups += 1;
        let (pte, most_recent) = found?;
        counters.aux_tlb_hits += 1;
        counters.aux_tlb_mru_hits += u64::from(most_recent);
        Some(pte)
    }

    /// Learns from a walk of `table`, behind whose frames is `backing`, that found `pte` for `vpn`. `read_line` reads a line of
    /// a range table and returns its cycles. Returns whether the entry learned replaces that of the last level.
    pub fn learn(
        &mut self,
        context: Context,
        vpn: Vpn,
        pte: Pte,
        (table, backing): (&PageTable, Backing),
        counters: &mut Counters,
        mut read_line: impl FnMut(reach_core::PhysAddr) -> u32,
    ) -> bool {
        if !self.enabled {
            return false;
        }
        match (&mut self.structure, table.ranges()) {
            (Structure::Ranges(tlb), Some(ranges)) if pte.range() => {
                let mut read_node = |node| {
                    for line in [node, node + LINE] {
                        counters.range_walk_accesses += 1;
                        counters.range_walk_cycles += u64::from(read_line(line));
                    }
                };
                let range = ranges.walk(vpn, &mut read_node);
                let range = range.map(|range| backing.part_of(range, vpn, read_node));
                counters.range_walks += 1;
                if let Some(range) = range {
                    counters.aux_tlb_fills += 1;
                    tlb.insert(context, &range);
                }
                false
            }
            (Structure::Clusters(clusters), _) if pte.shift() == table.layout().base => {
                let pages = clusters.learn(context, vpn, pte, (table, backing));
                counters.aux_tlb_fills += u64::from(pages > 0);
                counters.aux_tlb_coalesced += u64::from(pages > 1);
                pages > 0 && self.lookup == AuxLookup::InParallel
            }
            _ => false,
        }
    }

    /// Drops all entries of `context` that overlap the `pages` base pages from `vpn` on.
    pub fn invalidate(&mut self, context: Context, vpn: Vpn, pages: u64) {
        match &mut self.structure {
            Structure::Ranges(ranges) => ranges.invalidate(context, vpn, pages),
            Structure::Clusters(clusters) => clusters.invalidate(context, vpn, pages),
            Structure::Segments => {}
        }
    }

    /// Returns the ranges held of `context`, the most recently used first.
    pub fn ranges_of(&self, context: Context) -> Vec<RangeTranslation> {
        if let Structure::Ranges(ranges) = &self.structure { ranges.ranges(context) } else { Vec::new() }
    }

    /// Returns the pages held of `context` in cluster entries.
    pub fn pages_of(&self, context: Context) -> Vec<(Vpn, Pte)> {
        if let Structure::Clusters(clusters) = &self.structure { clusters.pages(context) } else { Vec::new() }
    }

    /// Returns, for range TLBs of each number of entries from 1 on, how many searches would have hit. Empty unless this is
    /// a range TLB.
    pub fn range_hits_by_entries(&self) -> Vec<u64> {
        if let Structure::Ranges(ranges) = &self.structure { ranges.hits_by_entries() } else { Vec::new() }
    }

    /// Sets the counts of [`AuxTlb::range_hits_by_entries`] to 0.
    pub fn reset_range_hits(&mut self) {
        if let Structure::Ranges(ranges) = &mut self.structure {
            ranges.reset_hits();
        }
    }

    /// Checks that every range held of `context` is in the range table of `table`, unless in a guest, and that the page table
    /// has every page held.
    ///
    /// # Panics
    /// If not.
    pub fn check(&self, context: Context, table: &PageTable, in_guest: bool) {
        let check = |vpn: Vpn, held: Pte| {
            let of = |pte: Pte| (pte.pfn(), pte.shift(), pte.writable(), pte.executable());
            let real = table.lookup(vpn);
            assert_eq!(real.map(of), Some(of(held)), "{held:?} is held for {vpn:?}, but the page table has {real:?}");
        };
        for range in self.ranges_of(context) {
            // A part of a range outlives it where the operating system drops another part.
            if !in_guest {
                let known = table.ranges().and_then(|ranges| ranges.walk(range.vpn, |_| {}));
                assert_eq!(known, Some(range), "the range TLB holds a range that the range table lacks");
            }
            (range.vpn.0..range.end().0).map(Vpn).for_each(|vpn| check(vpn, range.pte_at(vpn)));
        }
        self.pages_of(context).into_iter().for_each(|(vpn, pte)| check(vpn, pte));
    }
}

/// Completes `options` with the values that they leave to `machine`: a cluster TLB of 0 entries gets the entries and ways
/// of the last level for base pages.
pub fn resolve_aux_tlb(options: AuxTlbOptions, machine: &config::Machine) -> AuxTlbOptions {
    match options {
        AuxTlbOptions::Clusters(mut options) if options.entries == 0 => {
            let holds = |tlb: &&config::Tlb| tlb.level >= 2 && tlb.sizes.contains(&machine.sizes[0]);
            let last = machine.tlbs.iter().filter(holds).max_by_key(|tlb| tlb.level);
            (options.entries, options.ways) = last.map_or((512, 4), |tlb| (tlb.entries, tlb.ways));
            AuxTlbOptions::Clusters(options)
        }
        _ => options,
    }
}

/// Says why [`reach_core::RangeTlbOptions::sweep_entries`] would not count exactly on `machine`; `None` if it does. A search
/// that misses walks, so nothing but the translation that a walk finds may change the TLB.
pub fn cannot_sweep(machine: &config::Machine) -> Option<&'static str> {
    if machine.coalesces().is_some() {
        return Some("its TLBs coalesce pages that are walked and not those that are found in a range");
    }
    if machine.nested.is_some() {
        return Some("its host decides which parts of a range lie together");
    }
    let lent = machine.walk_caches().iter().any(|cache| cache.within.is_some());
    lent.then_some("its walks fill a TLB with their own entries")
}
