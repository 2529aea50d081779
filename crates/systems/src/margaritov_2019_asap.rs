//! `margaritov-2019-asap`: the entries at the end of a walk are prefetched when it begins.
//!
//! After: Margaritov, Ustiugov, Bugnion and Grot, "Prefetched Address Translation", MICRO 2019. The text was not at hand; what
//! is said of it here is from its abstract and from later papers.
//!
//! | design | here |
//! |---|---|
//! | a TLB miss prefetches the entries of the two lowest levels while the walk begins as usual | [`Asap::search`] |
//! | the operating system keeps tables in the order of the pages that they map, so that their addresses follow from a base | see below |
//! | the walk waits for a prefetch under way, and uses nothing that it has not read | `mmu/filler.rs` of `reach-hardware` |
//!
//! Readings: the prefetches begin with the walk, both at once. The paper's range registers hold the largest mappings, which are
//! nearly all of a program's memory; here every page that has a table is covered.
//!
//! Deviations: tables lie where the allocator puts them, and the prefetcher is told where. The lines that are read are the same,
//! but their sets in the caches differ. In a guest only the guest's entries are prefetched, not the host's.

use crate::assisted::{Assisted, POLICY};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit};
use reach_core::{Asid, AssistAnswer, AssistPort, PageTableKind, Pte, TlbMiss, Vpn, WalkAssist};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "margaritov-2019-asap",
    summary: "prefetches the last entries of a walk when it begins (ASAP)",
    role: Role::Design,
    compared: false,
    published: Some("Margaritov, Ustiugov, Bugnion and Grot: Prefetched Address Translation, MICRO 2019"),
    criterion: Criterion::new(Evidence::AssistedWalks, "prefetched no entry of a walk"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings: &Settings| {
        let levels = settings.number("levels") as usize;
        Box::new(Assisted::new(DESCRIPTION.name, settings, move |_| Box::new(Asap { levels })))
    },
};

const SETTINGS: &[Setting] = &[
    Setting::new("levels", Accepts::number(1, 4, Unit::Count), "2", "how many of the lowest levels are prefetched"),
    POLICY,
];

/// The prefetcher. It has no state.
#[derive(Clone, Copy, Debug)]
struct Asap {
    levels: usize,
}

impl WalkAssist for Asap {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        (0..self.levels).for_each(|level| port.hasten(miss.vpn, level));
        AssistAnswer::Walk
    }

    fn invalidate(&mut self, _: Asid, _: Vpn, _: u64) {}

    fn translations(&self, _: Asid) -> Vec<(Vpn, Pte)> {
        Vec::new()
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(*self)
    }
}
