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
//! | `vm.reserv.{broken,freed,fullpop,partpopq,reclaimed}` | results under these names; `fullpop` and `partpopq` at their greatest |
//!
//! Reservations are preempted for single pages only, never for another reservation; breaking one frees all that is
//! empty in it, and nothing of it stays reserved.
//!
//! Deviations: no page daemon; on machines without a 2 MB page the smallest larger size, else the largest; no
//! superpages of 1 GB, which FreeBSD gives to those who ask for them only. After a fork, FreeBSD puts a new object in
//! front of both sides', with reservations of its own; here the parent keeps its object, and its copies of pages
//! whose frames the child keeps are not reserved.

use crate::{Accepts, Setting, Settings, System, SystemError, superpage};
use reach_core::{Fault, PageShift, Vpn};
use reach_os::{OutOfMemory, PastEnd, Superpages, Vm};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "bookkeeping",
        summary: "cycles for each page allocated that population maps and the queue cost",
        accepts: Accepts::Number { least: 0, most: 1_000_000 },
        default: "40",
    },
    superpage::PREEMPTION,
];

/// One size, one queue.
pub(crate) struct FreeBsd {
    bookkeeping: u64,
    preemption: u64,
}

impl FreeBsd {
    pub(crate) fn new(settings: &Settings) -> FreeBsd {
        FreeBsd { bookkeeping: settings.number("bookkeeping"), preemption: settings.number("preemption") }
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
            bookkeeping: self.bookkeeping,
            preemption: self.preemption,
            partly_dirty: false,
            digest: None,
            promote: true,
            demote_to_unmap: false,
            watch_all: false,
            map_full: true,
            threshold: 100,
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
