//! `skarlatos-2020-ecpt`: elastic cuckoo page tables.
//!
//! After: Skarlatos, Kokolis, Xu and Torrellas, "Elastic Cuckoo Page Tables: Rethinking Virtual Memory Translation for
//! Parallelism", ASPLOS 2020.
//!
//! | section | here |
//! |---|---|
//! | 4 elastic cuckoo hashing | `organization/cuckoo/elastic.rs` of `reach-core` |
//! | 5 a table for each page size, cuckoo walk tables | `organization/cuckoo.rs`, `organization/cuckoo/sections.rs` |
//! | 5 walks in parallel, cuckoo walk caches | `walk/organized.rs` of `reach-hardware` |
//! | 5 sharing pages, process-private tables | each process has its own tables, as with radix trees |
//!
//! The operating system is `base`. The same tables serve any other system by its option `page_table=cuckoo`; the paper's
//! second configuration, with huge pages, is `linux-thp:page_table=cuckoo`. Readings are in `organization/cuckoo.rs`.

use crate::base::{self, Base};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::Settings;
use crate::system::System;
use reach_core::PageTableKind;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "skarlatos-2020-ecpt",
    summary: "elastic cuckoo page tables, walked in parallel",
    role: Role::Design,
    compared: false,
    published: Some(
        "Skarlatos, Kokolis, Xu and Torrellas: Elastic Cuckoo Page Tables: Rethinking Virtual Memory Translation for \
         Parallelism, ASPLOS 2020",
    ),
    criterion: Criterion::new(Evidence::Walks, "walked no page table"),
    page_table: PageTableKind::Cuckoo,
    settings: base::SETTINGS,
    build,
};

fn build(settings: &Settings) -> Box<dyn System> {
    Box::new(Base::new("skarlatos-2020-ecpt", settings))
}
