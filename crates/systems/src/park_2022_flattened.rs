//! `park-2022-flattened`: radix page tables of which two levels at a time are one node of 2 MB.
//!
//! After: Park, Vougioukas, Sandberg and Black-Schaffer, "Every Walk's a Hit: Making Page Walks Single-Access Cache Hits",
//! ASPLOS 2022. The text was not at hand; what is said of it here is from its abstract and from later papers.
//!
//! | design | here |
//! |---|---|
//! | flattened nodes, and 4 KB nodes where memory has no block of 2 MB | `organization/flattened.rs` of `reach-core` |
//! | walks of one or two reads | `walk/organized.rs` of `reach-hardware` |
//! | caches that prefer page-table entries while misses are frequent | not modelled |
//!
//! The operating system is `base`. The same tables serve any other system by its option `page_table=flattened`. Readings are
//! in `organization/flattened.rs`.

use crate::base::{self, Base};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::Settings;
use crate::system::System;
use reach_core::PageTableKind;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "park-2022-flattened",
    summary: "radix page tables of which two levels at a time are one node",
    role: Role::Design,
    compared: false,
    published: Some(
        "Park, Vougioukas, Sandberg and Black-Schaffer: Every Walk's a Hit: Making Page Walks Single-Access Cache Hits, \
         ASPLOS 2022",
    ),
    criterion: Criterion::new(Evidence::Walks, "walked no page table"),
    page_table: PageTableKind::Flattened,
    settings: base::SETTINGS,
    build,
};

fn build(settings: &Settings) -> Box<dyn System> {
    Box::new(Base::new("park-2022-flattened", settings))
}
