//! `chasapis-2025-itp`: the last level of TLBs keeps translations of instructions, and the second-level cache keeps page-table entries
//! of data.
//!
//! After: Chasapis, Vavouliotis, Jiménez and Casas, "Instruction-Aware Cooperative TLB and Cache Replacement Policies", ASPLOS 2025.
//! The text was not at hand: the policies follow its abstract; their details and constants are recalled, to be checked against it.
//!
//! | design | here |
//! |---|---|
//! | iTP: a miss for instructions stalls the front end, so their translations stay longer, at the cost of walks for data | `array/instruction_aware.rs` of `reach-hardware` |
//! | xPTP: the second-level cache keeps the entries that these walks read | `cache/protecting.rs` |
//!
//! The policies replace those of the machine; a machine file can also name them (`itp`, `xptp`).
//!
//! Deviations. xPTP is always on; the paper turns it off while few references miss in the last level of TLBs. Where arrays of the last
//! level hold instructions or data only, iTP treats each alike.

use crate::assisted::{Assisted, POLICY};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings};
use reach_core::{PageTableKind, ReplacementOptions};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "chasapis-2025-itp",
    summary: "TLB replacement that keeps instructions, cache replacement that keeps page-table entries (iTP+xPTP)",
    role: Role::Design,
    compared: false,
    published: Some(
        "Chasapis, Vavouliotis, Jiménez and Casas: Instruction-Aware Cooperative TLB and Cache Replacement Policies, ASPLOS 2025",
    ),
    criterion: Criterion::new(Evidence::Walks, "made no walk: the TLBs replaced nothing that was wanted again"),
    page_table: PageTableKind::Radix,
    settings: &[
        POLICY,
        Setting::new("itp", Accepts::Switch, "on", "instruction-aware replacement in the last level of TLBs"),
        Setting::new("xptp", Accepts::Switch, "on", "page-table-aware replacement in the second-level data cache"),
    ],
    build: |settings: &Settings| {
        let (instructions, page_tables) = (settings.is_on("itp"), settings.is_on("xptp"));
        let options = ReplacementOptions { instructions, page_tables, ..ReplacementOptions::default() };
        Box::new(Assisted::replacing(DESCRIPTION.name, settings, options))
    },
};
