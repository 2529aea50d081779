//! `pham-2014-clustered`: TLB entries for eight pages whose frames lie in one group.
//!
//! After: Pham, Bhattacharjee, Eckert and Loh, "Increasing TLB Reach by Exploiting Clustering in Page Translations", HPCA
//! 2014; and as Karakostas et al. 2015 (section 8) configured it: 512 fully associative entries, asked after a miss of the
//! second-level TLB, with memory paged eagerly.
//!
//! | | here |
//! |---|---|
//! | clusters of aligned pages in aligned groups of frames, in any order | `cluster_tlb.rs` of `reach-hardware` |
//! | filled from the line of eight entries that a walk has read | `ClusterTlb::learn` |
//! | eager paging, in the comparison only | `eager.rs` of `reach-os` |
//!
//! Deviations. As published, one array's room is divided between clusters and single pages, and only pages that have
//! neighbours in their group get a cluster; `as=published` puts as many clusters as the last level has entries beside a whole last
//! level, which is larger. Pages share an entry only if their rights and their accessed and dirty bits are equal; an entry ends
//! when a page of it changes.

use crate::{Accepts, Setting, Settings, System, SystemError};
use reach_core::{AuxLookup, AuxTlbOptions, ClusterTlbOptions};
use reach_os::{Ranging, Translated, Vm};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "as",
        summary: "as compared with in 2015 (512 entries, fully associative, after a miss), or as published in 2014",
        accepts: Accepts::Choice(&["compared", "published"]),
        default: "compared",
    },
    Setting {
        name: "entries",
        summary: "as=compared: entries, all of which are searched",
        accepts: Accepts::Number { least: 1, most: 4096 },
        default: "512",
    },
    Setting {
        name: "block",
        summary: "eager=1: the allocator's largest block in MB; Linux has 4, the paper 2048",
        accepts: Accepts::Number { least: 1, most: 2048 },
        default: "2048",
    },
    Setting {
        name: "eager",
        summary: "memory is paged eagerly (1), as in the comparison, or on demand (0); as-compared: with as=compared only",
        accepts: Accepts::Choice(&["as-compared", "0", "1"]),
        default: "as-compared",
    },
];

/// Clustered TLB.
pub(crate) struct Clustered {
    tlb: ClusterTlbOptions,
    eager: bool,
    block: u64,
}

impl Clustered {
    pub(crate) fn new(settings: &Settings) -> Clustered {
        let compared = settings.choice("as") == "compared";
        let entries = if compared { settings.number("entries") as u32 } else { 0 };
        Clustered {
            tlb: ClusterTlbOptions {
                entries,
                ways: entries,
                pages: 8,
                contiguous: false,
                min_pages: if compared { 1 } else { 2 },
                lookup: if compared { AuxLookup::AfterMiss } else { AuxLookup::InParallel },
                latency: 7,
            },
            block: settings.number("block") << 20,
            eager: match settings.choice("eager") {
                "as-compared" => compared,
                given => given == "1",
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
                fragmented: 750,
                larger: false,
                sorted: false,
                block: self.block,
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
