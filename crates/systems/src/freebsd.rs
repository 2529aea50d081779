//! `freebsd`: FreeBSD's reservations as they are today, the descendant of Navarro et al. (OSDI 2002).
//!
//! After: FreeBSD, `sys/vm/vm_reserv.c` and `sys/amd64/amd64/pmap.c`, main branch.
//!
//! | FreeBSD | here |
//! |---|---|
//! | `vm_reserv_alloc_page`: one size, 2 MB; not beyond the object's end unless the object is anonymous | `fault/preferred.rs` of `reach-os`, [`PastEnd::Anonymous`] |
//! | `vm_reserv_populate`, `vm_reserv_depopulate`: population map; each moves the reservation to the queue's tail | `reservation.rs` |
//! | the queue of partially populated reservations, `vm_reserv_reclaim_inactive` | the single list of a ladder of one superpage |
//! | `pmap_promote_pde`: when the 512th page is mapped; clean pages lose write permission | `Vm::promote_around`, [`reach_core::Pte::watched`] |
//! | `pmap_demote_pde`: at the first write to a clean superpage, and when a part changes | `Vm::first_write`, the translation API |
//! | `vm_fault_soft_fast`: a fault maps the whole superpage of a full reservation | `Vm::reserved_fault` |
//! | clusters of 64 KB read and mapped around a fault | `Options` of `reach-os` |
//! | `vm_pageout_scan`: unused inactive pages are evicted, active pages become inactive; no superpage is demoted for it | `paging/scan.rs` |
//! | the kernel allocates its memory in superpages (`KVA_QUANTUM`) | `memory/wired.rs` |
//! | `vm.reserv.{broken,freed,fullpop,partpopq,reclaimed}` | results under these names; `fullpop` and `partpopq` are peaks |
//!
//! A reservation is preempted only for a single page, never for another reservation. Breaking it frees all its
//! unpopulated pages and leaves nothing reserved.
//!
//! Deviations: dirty pages have no laundry queue. A machine without a 2 MB page takes its smallest larger size, else its
//! largest. There are no 1 GB superpages, which FreeBSD gives only on request. After a fork, FreeBSD puts a new object
//! with reservations of its own in front of both sides' object. Here the parent keeps its object, and its copies of
//! pages whose frames the child keeps are not reserved.

use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Setting, Settings};
use crate::superpage;
use crate::system::System;
use reach_core::{Cycles, Fault, PageShift, PageTableKind, Permille, Vpn};
use reach_os::{OutOfMemory, Paging, PastEnd, Superpages, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "freebsd",
    summary: "FreeBSD's reservations of 2 MB, promoted when fully populated",
    role: Role::Design,
    compared: false,
    published: None,
    criterion: Criterion::new(Evidence::Superpages, "never promoted: no reservation of 2 MB was fully populated"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(FreeBsd::new(settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[superpage::STEP, superpage::LOW];

/// Reservations of one size on one queue.
pub(crate) struct FreeBsd {
    step: u64,
    low: u64,
    /// [`Superpages::threshold`], in percent.
    threshold: u64,
    daemon: superpage::Daemon,
}

impl FreeBsd {
    pub(crate) fn new(settings: &Settings) -> FreeBsd {
        FreeBsd::with_threshold(settings, 100)
    }

    /// FreeBSD with another promotion threshold for private memory, in percent, for systems that build on this one.
    pub(crate) fn with_threshold(settings: &Settings, threshold: u64) -> FreeBsd {
        let (step, low) = (settings.number(superpage::STEP.name), settings.number(superpage::LOW.name));
        FreeBsd { step, low, threshold, daemon: superpage::Daemon::default() }
    }

    /// Wakes the page daemon where memory is short. Call after each fault.
    pub(crate) fn after_fault(&mut self, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.daemon.fault(vm)
    }
}

impl System for FreeBsd {
    fn name(&self) -> &str {
        "freebsd"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let size = superpage::nearest(self.name(), PageShift(21), vm)?;
        vm.use_superpages(Superpages {
            sizes: vec![vm.base(), size],
            renewed_by_freeing: true,
            past_end: PastEnd::Anonymous,
            step: self.step,
            partly_dirty: false,
            digest: None,
            promote: true,
            first_full: false,
            demote_to_unmap: false,
            watch_all: false,
            map_full: true,
            threshold: self.threshold,
        });
        vm.use_paging(Paging {
            contiguity: false,
            last_close: false,
            cluster_wired: true,
            cache: false,
            demote: 0,
            low: Permille(self.low),
            seed: 0,
        });
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.reserved_fault(fault)?;
        self.after_fault(vm)
    }

    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.first_write(vpn)
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.daemon.tick(now, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.daemon.next
    }
}
