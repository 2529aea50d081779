//! `mirbagher-2020-chirp`: the last level of TLBs replaces first what the control flow before its use predicts dead (CHiRP).
//!
//! After: Mirbagher-Ajorpaz, Garza, Pokam and Jiménez, "CHiRP: Control-Flow History Reuse Prediction", MICRO 2020. Only the abstract
//! was at hand; the numbers of its introduction, the parts of the signature and the selective update are recalled. Virtuoso has the
//! policy too (Kanellopoulos et al., ASPLOS 2025), without branches in its TLBs; what it leaves to a stored bit is so here.
//!
//! | design | here |
//! |---|---|
//! | signature of instruction, path, conditional and unconditional indirect branches; one table of two-bit counters; dead bits; victims; selective update | `array/reuse_predicted.rs` of `reach-hardware`, whose head states the rules |
//! | the histories of branches | `mmu/control_flow.rs` |
//!
//! The policy replaces that of the machine; a machine file can also name it (`chirp`). With `histories=off` (`chirp-instruction`) it predicts by
//! the instruction alone, as SHiP does, to which the paper compares it. All timings see the same control flow: where a system
//! reads branches, the program is decoded under `counts` and `inorder`, too.
//!
//! Readings.
//! - The table has 4,096 counters (1 KB); its index is the signature folded to 12 bits. Counters of 2 and 3 predict death.
//! - The paper's traces have instructions of four bytes, and it leaves the last two bits of their addresses out. Instructions of x86 have any
//!   length, and are numbered here by block and place, so all bits count. It takes bits 4 to 11 of branches, as here.
//! - Returns are indirect branches, as in the traces of CVP-1. Histories have the addresses of all conditional branches, taken or not.
//! - Evicting an entry that was reused teaches nothing: with one update for each first reuse, counters of reused entries could only rise.
//!
//! Deviations. A branch has the address of its last byte. A block whose instructions are not known, as in many synthetic programs, ends in a
//! conditional branch, so that these have no indirect ones. Fetches and loads on the wrong path have the instruction and
//! histories of the branch. Between the intervals of a sample that leaves references out, histories stand still. Where several arrays make up
//! the last level, each has a table and a path of its own; entries that a walk cache has there are predicted like translations.

use crate::assisted::{Assisted, POLICY};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings};
use reach_core::{PageTableKind, ReplacementOptions, ReuseSignature};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "mirbagher-2020-chirp",
    summary: "TLB replacement that predicts reuse by the control flow before it (CHiRP)",
    role: Role::Design,
    compared: false,
    published: Some(
        "Mirbagher-Ajorpaz, Garza, Pokam and Jiménez: CHiRP: Control-Flow History Reuse Prediction, MICRO 2020",
    ),
    criterion: Criterion::new(Evidence::Walks, "made no walk: the TLBs replaced nothing that was wanted again"),
    page_table: PageTableKind::Radix,
    settings: &[
        POLICY,
        Setting::new(
            "histories",
            Accepts::Switch,
            "on",
            "whether reuse is predicted by path and branches, too, or by the instruction alone",
        ),
    ],
    build: |settings: &Settings| {
        let all = settings.is_on("histories");
        let signature = if all { ReuseSignature::ControlFlow } else { ReuseSignature::Instruction };
        let options = ReplacementOptions { reuse: Some(signature), ..ReplacementOptions::default() };
        Box::new(Assisted::replacing(DESCRIPTION.name, settings, options))
    },
};
