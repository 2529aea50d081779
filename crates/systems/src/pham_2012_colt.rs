//! `pham-2012-colt`: coalesced TLB entries for up to four contiguous pages.
//!
//! After: Pham, Vaidyanathan, Jaleel and Bhattacharjee, "CoLT: Coalesced Large-Reach TLBs", MICRO 2012: its
//! set-associative form, CoLT-SA, in the last level, whose index leaves out the two lowest bits of the page number.
//!
//! | design | here |
//! |---|---|
//! | up to four contiguous translations of an aligned group, from the line that the walk has read | `ClusterTlb::learn` of `reach-hardware` |
//! | the last level's base pages, coalesced | an auxiliary TLB of the same shape, into which base pages go instead |
//!
//! Deviations. The first level coalesces nothing, and there is no CoLT-FA, which keeps longer runs among superpages. Where
//! page sizes share the last level, superpages have it to themselves. An entry is dropped when one of its pages changes.

use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Setting, Settings};
use crate::system::System;
use reach_core::{AuxLookup, AuxTlbOptions, ClusterFrames, ClusterTlbOptions, PageTableKind};
use reach_os::Vm;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "pham-2012-colt",
    summary: "coalesced last-level TLB entries for up to four contiguous pages",
    role: Role::Design,
    compared: true,
    published: Some("Pham, Vaidyanathan, Jaleel and Bhattacharjee: CoLT: Coalesced Large-Reach TLBs, MICRO 2012"),
    criterion: Criterion::new(
        Evidence::CoalescedEntries,
        "coalesced no entries: no neighbouring pages had neighbouring frames",
    ),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Colt::new(settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[];

/// A coalesced TLB.
pub(crate) struct Colt;

impl Colt {
    pub(crate) fn new(_: &Settings) -> Colt {
        Colt
    }
}

impl System for Colt {
    fn name(&self) -> &str {
        "pham-2012-colt"
    }

    fn aux_tlb(&self, _: &Vm) -> Option<AuxTlbOptions> {
        Some(AuxTlbOptions::Clusters(ClusterTlbOptions {
            entries: 0,
            ways: 0,
            pages: 4,
            frames: ClusterFrames::Consecutive,
            min_pages: 1,
            lookup: AuxLookup::InParallel,
            latency: 7,
        }))
    }
}
