//! `freebsd`: FreeBSD's reservations as they are today, the descendant of Navarro et al. (OSDI 2002).
//!
//! After: FreeBSD, `sys/vm/vm_reserv.c` and `sys/amd64/amd64/pmap.c`, main branch.
//!
//! | FreeBSD | here |
//! |---|---|
//! | `vm_reserv_alloc_page`: one size, 2 MB; not beyond the object's end unless it is anonymous | `preferred.rs` of `reach-os`, [`PastEnd::Anonymous`] |
//! | `vm_reserv_populate`, `vm_reserv_depopulate`: population map; each renews | `reservation/` |
//! | the queue of partially populated reservations, `vm_reserv_reclaim_inactive` | the one list of a ladder of one superpage |
//! | `pmap_promote_pde`: when the 512th page is mapped; clean pages lose the right to be written | `Vm::promote_around`, [`reach_core::Pte::watched`] |
//! | `pmap_demote_pde`: at the first write to a clean superpage, and when a part is changed | `Vm::first_write`, the door's own cuts |
//! | `vm_fault_soft_fast`: a fault maps the whole superpage of a full reservation | `Vm::reserved_fault` |
//! | clusters of 64 KB read in and mapped around a fault | `read_in` and `fault_around` of `Options` |
//! | `vm_pageout_scan`: inactive pages that were not used go, active ones become inactive; no superpage is demoted for it | `paging/scan.rs` |
//! | the kernel's memory comes by superpages (`KVA_QUANTUM`) | `paging/wired.rs` |
//! | `vm.reserv.{broken,freed,fullpop,partpopq,reclaimed}` | results under these names; `fullpop` and `partpopq` at their greatest |
//!
//! Reservations are preempted for single pages only, never for another reservation; breaking one frees all that is
//! empty in it, and nothing of it stays reserved.
//!
//! Deviations: dirty pages have no laundry queue; on machines without a 2 MB page the smallest larger size, else the largest; no
//! superpages of 1 GB, which FreeBSD gives to those who ask for them only. After a fork, FreeBSD puts a new object in
//! front of both sides', with reservations of its own; here the parent keeps its object, and its copies of pages
//! whose frames the child keeps are not reserved.

use crate::{Setting, Settings, System, SystemError, superpage};
use reach_core::{Cycles, Fault, PageShift, Vpn};
use reach_os::{OutOfMemory, Paging, PastEnd, Superpages, Vm};

pub(crate) const SETTINGS: &[Setting] = &[superpage::STEP, superpage::LOW];

/// One size, one queue.
pub(crate) struct FreeBsd {
    step: u64,
    low: u64,
    /// [`Superpages::threshold`].
    threshold: u64,
    daemon: superpage::Daemon,
}

impl FreeBsd {
    pub(crate) fn new(settings: &Settings) -> FreeBsd {
        FreeBsd::with_threshold(settings, 100)
    }

    /// With another threshold for private memory, for systems that descend from this one.
    pub(crate) fn with_threshold(settings: &Settings, threshold: u64) -> FreeBsd {
        let (step, low) = (settings.number("step"), settings.number("low"));
        FreeBsd { step, low, threshold, daemon: superpage::Daemon::default() }
    }

    /// A fault has been answered.
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
            low: self.low,
            seed: 0,
        });
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.reserved_fault(fault)?;
        self.after_fault(vm)
    }

    fn wake(&self) -> Option<Cycles> {
        self.daemon.wake
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.daemon.tick(now, vm)
    }

    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.first_write(vpn)
    }
}
