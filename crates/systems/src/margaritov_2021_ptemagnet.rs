//! `margaritov-2021-ptemagnet`: frames are reserved in groups of eight, so that the translations of eight neighbouring pages
//! lie in one line of the host's page table (PTEMagnet).
//!
//! After: Margaritov, Ustiugov, Shahab and Grot, "PTEMagnet: Fine-Grained Physical Memory Reservation for Faster Page Walks in
//! Public Clouds", ASPLOS 2021. The text was not at hand; what is said of it here is from its abstract and from what is generally
//! known of the design.
//!
//! | design | here |
//! |---|---|
//! | the guest's first touch of a group of pages reserves an aligned group of frames; later touches take theirs | `reservation.rs` of `reach-os`, with a ladder of one size |
//! | reservations are given up when memory runs out | the same, as Navarro et al. preempt them |
//! | pages stay base pages | [`Superpages::promote`] is off, and faults are those of demand paging |
//!
//! Where programs of a guest take turns, frames that follow each other belong to different programs, and neighbouring pages of one
//! have far frames. The guest's page table is found by pages, but the host's by those frames, so that each of its lines holds
//! one entry that is of use. On a machine without a host (`nested.host_page`), it changes only where data lies.
//!
//! Readings: pages of files in the page cache have reservations, too. A first load takes a frame, as in all systems with
//! reservations: compare with `base:zero_page=off`.

use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use crate::system::System;
use reach_core::{PageShift, PageTableKind};
use reach_os::{PastEnd, Superpages, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "margaritov-2021-ptemagnet",
    summary: "frames reserved in groups of eight, whose translations share a line of the host's page table (PTEMagnet)",
    role: Role::Design,
    compared: false,
    published: Some(
        "Margaritov, Ustiugov, Shahab and Grot: PTEMagnet: Fine-Grained Physical Memory Reservation for Faster Page Walks in \
         Public Clouds, ASPLOS 2021",
    ),
    criterion: Criterion::new(Evidence::Reservations, "reserved no frames"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(PteMagnet::new(settings)),
};

const SETTINGS: &[Setting] = &[
    Setting::new(
        "order",
        Accepts::number(1, 9, Unit::Count),
        "3",
        "the binary logarithm of a group's base pages; a line of 64 bytes holds the entries of eight",
    ),
    superpage::STEP,
];

/// Demand paging from small reservations.
pub(crate) struct PteMagnet {
    order: u8,
    step: u64,
}

impl PteMagnet {
    pub(crate) fn new(settings: &Settings) -> PteMagnet {
        let order = u8::try_from(settings.number("order")).expect("at most 9");
        PteMagnet { order, step: settings.number(superpage::STEP.name) }
    }
}

impl System for PteMagnet {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        vm.use_superpages(Superpages {
            sizes: vec![vm.base(), PageShift(vm.base().0 + self.order)],
            renewed_by_freeing: false,
            past_end: PastEnd::Anonymous,
            step: self.step,
            partly_dirty: true,
            digest: None,
            promote: false,
            first_full: false,
            demote_to_unmap: false,
            watch_all: false,
            map_full: false,
            threshold: 100,
        });
        Ok(())
    }
}
