//! `zhao-2025-lvm`: page tables that are a learned index (LVM).
//!
//! After: Zhao, Chen, Xu, Schatzberg, Hajinazar, Vakharwala, Anderson and Skarlatos, "Learning to Walk: Architecting Learned
//! Virtual Memory Translation", MICRO 2025. The text was not at hand; what is said of it here is from its abstract.
//!
//! | design | here |
//! |---|---|
//! | a learned index that adapts to the address space | `organization/learned/train.rs` of `reach-core` |
//! | single access by fixed-point arithmetic, insertions | `organization/learned/model.rs` |
//! | multiple page sizes | `organization/learned.rs`: an index for each |
//! | models cached in the MMU | a walk cache of 16 models, `walk/organized.rs` of `reach-hardware` |
//! | extensions of Linux | not modelled |
//!
//! The operating system is `base`. The same index serves any other system by its option `page_table=learned`; huge pages are
//! `linux-thp:page_table=learned`. Readings are in `organization/learned.rs`. Deviations that are known: training takes no time
//! of its own besides the lines that it copies, and arrays may be in chunks of memory whose addresses hardware knows, as those of
//! the other tables that are not radix trees.

use crate::base::{self, Base};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::Settings;
use crate::system::System;
use reach_core::PageTableKind;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "zhao-2025-lvm",
    summary: "page tables that are a learned index",
    role: Role::Design,
    compared: false,
    published: Some(
        "Zhao, Chen, Xu, Schatzberg, Hajinazar, Vakharwala, Anderson and Skarlatos: Learning to Walk: Architecting Learned \
         Virtual Memory Translation, MICRO 2025",
    ),
    criterion: Criterion::new(Evidence::Walks, "walked no page table"),
    page_table: PageTableKind::Learned,
    settings: base::SETTINGS,
    build,
};

fn build(settings: &Settings) -> Box<dyn System> {
    Box::new(Base::new("zhao-2025-lvm", settings))
}
