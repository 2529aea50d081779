//! `navarro-2002`: superpages by reservation.
//!
//! After: Navarro, Iyer, Druschel and Cox, "Practical, Transparent Operating System Support for Superpages", OSDI 2002.
//!
//! | section | here |
//! |---|---|
//! | 4.1 reservation-based allocation | `Vm::page_frame`, `Vm::reserved_fault` |
//! | 4.2 preferred superpage size | `preferred.rs` of `reach-os` |
//! | 4.3 preemption, 4.8 multi-list scheme | `reservation/preempt.rs` |
//! | 4.5 incremental promotion, 4.6 demotion | `Vm::promote_around`, the door's own cuts, `promotion.rs` |
//! | 4.7 clean superpages demoted by the first write | `Vm::first_write` |
//! | 4.9 population maps | `reservation/map.rs` |
//!
//! Deviations: addresses of captured programs cannot be moved, so instead of choosing addresses that suit an object
//! (5.3), an object's reservations are placed to suit the address at which it is first used. Private copies of a
//! file's pages are not reserved. After a fork, a parent's copy of a page whose frame its child keeps is not reserved.

use crate::{Accepts, Setting, Settings, System, SystemError, superpage};
use reach_core::{Fault, PageShift, Vpn};
use reach_os::{OutOfMemory, PastEnd, Superpages, Vm};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "sizes",
        summary: "which of the machine's superpages are used",
        accepts: Accepts::Sizes,
        default: "all",
    },
    Setting {
        name: "bookkeeping",
        summary: "cycles for each page allocated that population maps and reservation lists cost",
        accepts: Accepts::Number { least: 0, most: 1_000_000 },
        default: "80",
    },
];

/// Reservations on all page sizes.
pub(crate) struct Navarro {
    sizes: Option<Vec<PageShift>>,
    bookkeeping: u64,
}

impl Navarro {
    pub(crate) fn new(settings: &Settings) -> Navarro {
        Navarro { sizes: settings.sizes("sizes"), bookkeeping: settings.number("bookkeeping") }
    }
}

impl System for Navarro {
    fn name(&self) -> &str {
        "navarro-2002"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let sizes = superpage::chosen(self.name(), &self.sizes, vm)?;
        vm.use_superpages(Superpages {
            sizes,
            renewed_by_freeing: false,
            past_end: PastEnd::Growing,
            bookkeeping: self.bookkeeping,
            partly_dirty: false,
            watch_all: true,
            map_full: false,
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
