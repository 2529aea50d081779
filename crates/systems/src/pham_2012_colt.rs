//! `pham-2012-colt`: TLB entries for up to four pages that follow one another in memory.
//!
//! After: Pham, Vaidyanathan, Jaleel and Bhattacharjee, "CoLT: Coalesced Large-Reach TLBs", MICRO 2012: its set-associative
//! form, CoLT-SA, in the last level, whose index leaves out the two lowest bits of the page number.
//!
//! | | here |
//! |---|---|
//! | up to four contiguous translations of an aligned group, from the line that the walk has read | `ClusterTlb::learn` |
//! | the last level's base pages, coalesced | an array of the same shape, which base pages enter instead |
//!
//! Deviations. The first level coalesces nothing, and there is no CoLT-FA, which keeps longer runs among superpages. Where
//! the last level is shared by page sizes, superpages have it for themselves. An entry ends when a page of it changes.

use crate::{Setting, Settings, System};
use reach_core::{AuxLookup, AuxTlbOptions, ClusterTlbOptions};
use reach_os::Vm;

pub(crate) const SETTINGS: &[Setting] = &[];

/// Coalesced TLB.
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
            contiguous: true,
            min_pages: 1,
            lookup: AuxLookup::InParallel,
            latency: 7,
        }))
    }
}
