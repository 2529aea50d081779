//! `zhang-2024-dmt`: a TLB miss reads the last entry of its walk directly.
//!
//! After: Zhang, Jia, Chai, Liu, Kim and Xu, "Direct Memory Translation for Virtualized Clouds", ASPLOS 2024. What is said of it
//! here is from its abstract.
//!
//! | design | here |
//! |---|---|
//! | the operating system keeps the last entries of a mapping in one area of memory (TEA), in the order of its pages | see below |
//! | registers have the areas of the few large mappings of a process, so a miss computes where its entry is | [`Dmt::search`] |
//! | one read natively, two in a guest, whose areas lie in the host's memory | `AssistPort::leaf_entries` |
//!
//! Readings: the registers cover every page that is mapped, since a few mappings are nearly all of a program's memory.
//!
//! Deviations: tables lie where the allocator puts them, and the hardware is told where. The lines that are read are the same, but
//! their sets in the caches differ. The cost of moving areas when mappings grow is left out.

use crate::assisted::{Assisted, POLICY};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Setting, Settings};
use reach_core::{Asid, AssistAnswer, AssistPort, PageTableKind, Pte, TlbMiss, Vpn, WalkAssist};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "zhang-2024-dmt",
    summary: "a miss reads the last entry of its walk directly, whose place is computed (DMT)",
    role: Role::Design,
    compared: false,
    published: Some("Zhang, Jia, Chai, Liu, Kim and Xu: Direct Memory Translation for Virtualized Clouds, ASPLOS 2024"),
    criterion: Criterion::new(Evidence::AssistedWalks, "read no entry directly"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings: &Settings| Box::new(Assisted::new(DESCRIPTION.name, settings, |_| Box::new(Dmt))),
};

const SETTINGS: &[Setting] = &[POLICY];

/// The registers. They have no state here.
#[derive(Clone, Copy, Debug)]
struct Dmt;

impl WalkAssist for Dmt {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        for at in port.leaf_entries(miss.vpn) {
            let cycles = port.read(at);
            port.wait(cycles);
        }
        port.entry(miss.vpn).map_or(AssistAnswer::Walk, AssistAnswer::Hit)
    }

    fn invalidate(&mut self, _: Asid, _: Vpn, _: u64) {}

    fn translations(&self, _: Asid) -> Vec<(Vpn, Pte)> {
        Vec::new()
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(*self)
    }
}
