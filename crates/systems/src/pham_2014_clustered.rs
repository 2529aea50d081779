//! `pham-2014-clustered`: clustered TLB entries for eight pages whose frames lie in one group.
//!
//! After: Pham, Bhattacharjee, Eckert and Loh, "Increasing TLB Reach by Exploiting Clustering in Page Translations", HPCA
//! 2014; and as Karakostas et al. 2015 (section 8) configured it: 512 fully associative entries, looked up after a miss in
//! the second-level TLB, with memory paged eagerly.
//!
//! | design | here |
//! |---|---|
//! | clusters of aligned pages in aligned groups of frames, in any order | `aux_tlb/cluster_tlb.rs` of `reach-hardware` |
//! | filled from the line of eight entries that a walk has read | `ClusterTlb::learn` |
//! | eager paging, in the comparison only | `ranges/eager.rs` of `reach-os` |
//!
//! Deviations. As published, clusters and single pages divide the capacity of one array, and only pages with neighbours in
//! their group get a cluster. `variant=published` adds as many clusters as the last level has entries to a whole last
//! level, which is larger. Pages share an entry only if their rights and their accessed and dirty bits are equal. An
//! entry is dropped when one of its pages changes.

use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit, choice};
use crate::system::System;
use reach_core::{AuxLookup, AuxTlbOptions, Bytes, ClusterFrames, ClusterTlbOptions, PageTableKind, Permille};
use reach_os::{Ranging, Translated, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "pham-2014-clustered",
    summary: "clustered TLB entries for up to eight pages in one group of frames",
    role: Role::Design,
    compared: true,
    published: Some(
        "Pham, Bhattacharjee, Eckert and Loh: Increasing TLB Reach by Exploiting Clustering in Page Translations, HPCA \
         2014",
    ),
    criterion: Criterion::new(
        Evidence::CoalescedEntries,
        "clustered no entries: no neighbouring pages had frames in one group",
    ),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Clustered::new(settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new(
        "variant",
        Variant::ACCEPTS,
        "compared",
        "as compared with in 2015 (512 entries, fully associative, after a miss), or as published in 2014",
    )
    .formerly("as"),
    Setting::new(
        "entries",
        Accepts::number(1, 4096, Unit::Count),
        "512",
        "variant=compared: entries, all of which are searched",
    ),
    Setting::new(
        "max_block",
        Accepts::number(1, 2048, Unit::Megabytes),
        "2048",
        "eager=on: the allocator's largest block; Linux has 4 MB, the paper 2048 MB",
    )
    .formerly("block"),
    Setting::new(
        "eager",
        Eager::ACCEPTS,
        "as-compared",
        "whether memory is paged eagerly, as in the comparison, or on demand; as-compared: with variant=compared only",
    ),
];

choice! {
    /// The configuration of the TLB.
    enum Variant {
        /// That of Karakostas et al. 2015.
        Compared = "compared",
        /// That of the paper.
        Published = "published",
    }
}

choice! {
    /// Whether memory is paged eagerly.
    enum Eager {
        /// `on` with `variant=compared`, else `off`.
        AsCompared = "as-compared",
        /// It is.
        On = "on",
        /// It is paged on demand.
        Off = "off",
    }
}

/// A clustered TLB.
pub(crate) struct Clustered {
    tlb: ClusterTlbOptions,
    eager: bool,
    max_block: Bytes,
}

impl Clustered {
    pub(crate) fn new(settings: &Settings) -> Clustered {
        let variant: Variant = settings.choice("variant");
        let (entries, min_pages, lookup) = match variant {
            Variant::Compared => (settings.number32("entries"), 1, AuxLookup::AfterMiss),
            Variant::Published => (0, 2, AuxLookup::InParallel),
        };
        Clustered {
            tlb: ClusterTlbOptions {
                entries,
                ways: entries,
                pages: 8,
                frames: ClusterFrames::SameGroup,
                min_pages,
                lookup,
                latency: 7,
            },
            max_block: settings.megabytes("max_block"),
            eager: match settings.choice("eager") {
                Eager::AsCompared => variant == Variant::Compared,
                Eager::On => true,
                Eager::Off => false,
            },
        }
    }
}

impl System for Clustered {
    fn name(&self) -> &str {
        "pham-2014-clustered"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        if self.eager {
            vm.use_ranges(Ranging {
                least: 8,
                fragmented: Permille(750),
                larger: false,
                sorted: false,
                block: self.max_block.0,
                translated: Translated::ByPages,
                heap: 0,
            });
        }
        Ok(())
    }

    fn aux_tlb(&self, _: &Vm) -> Option<AuxTlbOptions> {
        Some(AuxTlbOptions::Clusters(self.tlb))
    }
}
