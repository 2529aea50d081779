//! `talluri-hill-1994`: page reservation with one medium-sized superpage, the ancestor of Navarro et al. (OSDI 2002).
//!
//! After: Talluri and Hill, "Surpassing the TLB Performance of Superpages with Less Operating System Support", ASPLOS
//! 1994, as Navarro et al. describe it in their section 3.1. A first touch reserves an aligned block of 64 KB. When
//! enough of its frames are in use, the block becomes a superpage. Under memory pressure reservations are preempted.
//!
//! | design | here |
//! |---|---|
//! | page reservation, and preemption under pressure | `reservation.rs` of `reach-os`, with a ladder of one superpage |
//! | promotion threshold | `Vm::reserved_fault`: the kernel populates the rest of private memory, then promotes |
//!
//! The threshold of one half is that of the policy of Talluri, Kong, Hill and Patterson, "Tradeoffs in Supporting Two
//! Page Sizes", ISCA 1992. A superpage has one dirty bit, and which part of it was written is not tracked.
//!
//! Deviations: the superpage TLB only; no machine here has the partial-subblock TLB, which is hardware. Pages of files
//! and shared memory are promoted only when all of them are in use. A machine without a 64 KB page takes its smallest
//! larger size, else its largest.

use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use crate::system::System;
use reach_core::{Fault, PageShift, PageTableKind, Vpn};
use reach_os::{OutOfMemory, PastEnd, Superpages, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "talluri-hill-1994",
    summary: "reservations of 64 KB, promoted when half of their pages are in use",
    role: Role::Design,
    compared: true,
    published: Some(
        "Talluri and Hill: Surpassing the TLB Performance of Superpages with Less Operating System Support, \
         ASPLOS 1994",
    ),
    criterion: Criterion::new(Evidence::Superpages, "never promoted: no reservation was populated to the threshold"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(TalluriHill::new(settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new(
        "threshold",
        Accepts::number(1, 100, Unit::Percent),
        "50",
        "the share of a reservation that must be in use for its promotion",
    ),
    superpage::STEP,
];

/// Reservations of one medium size.
pub(crate) struct TalluriHill {
    threshold: u64,
    step: u64,
}

impl TalluriHill {
    pub(crate) fn new(settings: &Settings) -> TalluriHill {
        TalluriHill { threshold: settings.number("threshold"), step: settings.number(superpage::STEP.name) }
    }
}

impl System for TalluriHill {
    fn name(&self) -> &str {
        "talluri-hill-1994"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let size = superpage::nearest(self.name(), PageShift(16), vm)?;
        vm.use_superpages(Superpages {
            sizes: vec![vm.base(), size],
            renewed_by_freeing: false,
            past_end: PastEnd::Growing,
            step: self.step,
            partly_dirty: true,
            digest: None,
            promote: true,
            first_full: false,
            demote_to_unmap: false,
            watch_all: false,
            map_full: false,
            threshold: self.threshold,
        });
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.reserved_fault(fault)
    }

    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.first_write(vpn)
    }
}
