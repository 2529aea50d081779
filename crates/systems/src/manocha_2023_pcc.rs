//! `manocha-2023-pcc`: the processor counts walks of large extents, and the operating system makes huge pages of those with the
//! most.
//!
//! After: Manocha, Yan, Tureci, Aragón, Nellans and Martonosi, "Architectural Support for Optimizing Huge Page Selection Within
//! the OS", MICRO 2023. What is said of it here is from its abstract and from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | the promotion candidate cache (PCC) counts walks of each extent of 2 MB | `walk_candidates.rs` |
//! | at intervals the operating system reads the candidates and promotes the most frequent ones | [`Pcc::tick`] |
//!
//! Readings: 128 candidates, counted up to 255; among equals the one counted longest ago makes room. The bit in the entry above
//! the leaves that tells a first walk is modelled as a set of extents.
//!
//! Deviations: faults map base pages, so that huge pages are those that candidates earn. Candidates are read, and copies made, on the
//! program's processor, as `daemon`. The paper's second cache, for extents of 1 GB, is left out. Each core has a cache of its own.

use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use crate::system::System;
use crate::walk_candidates::{Making, WalkCandidates};
use reach_core::{Cycles, PageShift, PageTableKind, WalkAssist};
use reach_os::{OutOfMemory, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "manocha-2023-pcc",
    summary: "huge pages for the extents that the processor walks for most (promotion candidate cache)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Manocha, Yan, Tureci, Aragón, Nellans and Martonosi: Architectural Support for Optimizing Huge Page Selection Within \
         the OS, MICRO 2023",
    ),
    criterion: Criterion::new(
        Evidence::Superpages,
        "never promoted: no extent was walked for twice before an interval's end",
    ),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Pcc::new(settings)),
};

const SETTINGS: &[Setting] = &[
    Setting::new("candidates", Accepts::number(1, 1 << 12, Unit::Count), "128", "entries of the cache"),
    Setting::new(
        "interval_millisecs",
        Accepts::number(1, 600_000, Unit::Milliseconds),
        "10",
        "the time between two readings of the cache",
    ),
    Setting::new(
        "promotions",
        Accepts::number(1, 1 << 12, Unit::Count),
        "16",
        "the most frequent candidates that are promoted after each reading, at most",
    ),
];

/// Huge pages by walks.
pub(crate) struct Pcc {
    capacity: usize,
    interval_millisecs: u64,
    promotions: u64,
    candidates: WalkCandidates,
    next: Cycles,
}

impl Pcc {
    pub(crate) fn new(settings: &Settings) -> Pcc {
        Pcc {
            capacity: settings.number("candidates") as usize,
            interval_millisecs: settings.number("interval_millisecs"),
            promotions: settings.number("promotions"),
            candidates: WalkCandidates::new(1, PageShift(21), PageShift(12)),
            next: Cycles(0),
        }
    }
}

impl System for Pcc {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let huge = superpage::nearest(DESCRIPTION.name, PageShift(21), vm)?;
        self.candidates = WalkCandidates::new(self.capacity, huge, vm.base());
        self.next = Cycles(superpage::cycles_in(self.interval_millisecs, vm));
        Ok(())
    }

    fn walk_assist(&self, _: &Vm) -> Option<Box<dyn WalkAssist>> {
        Some(self.candidates.hardware())
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if now < self.next {
            return Ok(());
        }
        self.next = now + superpage::cycles_in(self.interval_millisecs, vm);
        self.candidates.promote(self.promotions, Making::Copy, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        Some(self.next)
    }
}
