//! `gosakan-2023-mosaic`: TLB entries for several neighbouring pages, wherever their frames are.
//!
//! After: Gosakan, Han, Kuszmaul, Mubarek, Mukherjee, Sriram, Tagliavini, West, Bender, Bhattacharjee, Conway, Farach-Colton,
//! Gandhi, Johnson, Kannan and Porter, "Mosaic Pages: Big TLB Reach with Small Pages", ASPLOS 2023. What is said of it here is from
//! its abstract and from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | a page may lie in few frames, which hashes of its number select, so that a few bits name the one | see below |
//! | an entry has those bits of each page of an aligned group, the mosaic page | `aux_tlb/cluster_tlb.rs` of `reach-hardware`, with frames anywhere |
//! | the last level of TLBs holds such entries | an auxiliary TLB of the same shape, into which base pages go instead |
//!
//! Readings: an entry has the pages of its group that have the same rights as the one that missed, since a walk reads them all in one
//! line.
//!
//! Deviations: frames are not restricted. The paper sees no conflict before memory is 98 % full, so that the restriction alone changes
//! nothing here. Groups have up to eight pages, those of a line of entries; the paper has up to 64. An entry is dropped when one
//! of its pages changes.

use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings};
use crate::system::System;
use reach_core::{AuxLookup, AuxTlbOptions, ClusterFrames, ClusterTlbOptions, PageTableKind};
use reach_os::Vm;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "gosakan-2023-mosaic",
    summary: "last-level TLB entries for eight pages, wherever their frames are (Mosaic)",
    role: Role::Design,
    compared: false,
    published: Some(
        "Gosakan, Han, Kuszmaul, Mubarek, Mukherjee, Sriram, Tagliavini, West, Bender, Bhattacharjee, Conway, Farach-Colton, \
         Gandhi, Johnson, Kannan and Porter: Mosaic Pages: Big TLB Reach with Small Pages, ASPLOS 2023",
    ),
    criterion: Criterion::new(Evidence::CoalescedEntries, "made no entry of several pages"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Mosaic::new(settings)),
};

const SETTINGS: &[Setting] =
    &[Setting::new("pages", Accepts::Choice(&["2", "4", "8"]), "8", "pages of an entry (the paper's arity)")];

/// Entries of several pages.
pub(crate) struct Mosaic {
    pages: u32,
}

impl Mosaic {
    pub(crate) fn new(settings: &Settings) -> Mosaic {
        Mosaic { pages: settings.number32("pages") }
    }
}

impl System for Mosaic {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn aux_tlb(&self, _: &Vm) -> Option<AuxTlbOptions> {
        Some(AuxTlbOptions::Clusters(ClusterTlbOptions {
            entries: 0,
            ways: 0,
            pages: self.pages,
            frames: ClusterFrames::Anywhere,
            min_pages: 1,
            lookup: AuxLookup::InParallel,
            latency: 7,
        }))
    }
}
