//! `yaniv-2016-hashed`: hashed page tables with open addressing, without walk caches.
//!
//! After: Yaniv and Tsafrir, "Hash, Don't Cache (the Page Table)", SIGMETRICS 2016. The text was not at hand; what is said of
//! it here is from its abstract, from Yaniv's talk of 2015, and from later papers that describe it.
//!
//! | design | here |
//! |---|---|
//! | open addressing, clusters of eight entries, at most half full | `organization/hashed.rs` of `reach-core` |
//! | walks without walk caches | `walk/organized.rs` of `reach-hardware` |
//!
//! The operating system is `base`. The same table serves any other system by its option `page_table=hashed`; the table of
//! Itanium and PowerPC, against which the paper argues, is `page_table=chained`. Readings are in `organization/hashed.rs`:
//! tables are of one process, and a table of each page size is searched at the same time.

use crate::base::{self, Base};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::Settings;
use crate::system::System;
use reach_core::PageTableKind;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "yaniv-2016-hashed",
    summary: "hashed page tables with open addressing, without walk caches",
    role: Role::Design,
    compared: false,
    published: Some("Yaniv and Tsafrir: Hash, Don't Cache (the Page Table), SIGMETRICS 2016"),
    criterion: Criterion::new(Evidence::Walks, "walked no page table"),
    page_table: PageTableKind::Hashed,
    settings: base::SETTINGS,
    build,
};

fn build(settings: &Settings) -> Box<dyn System> {
    Box::new(Base::new("yaniv-2016-hashed", settings))
}
