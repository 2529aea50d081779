//! `navarro-2002`: superpages by reservation.
//!
//! After: Navarro, Iyer, Druschel and Cox, "Practical, Transparent Operating System Support for Superpages", OSDI 2002.
//!
//! | section | here |
//! |---|---|
//! | 4.1 reservation-based allocation | `Vm::page_frame`, `Vm::reserved_fault` |
//! | 4.2 preferred superpage size | `preferred.rs` of `reach-os` |
//! | 4.3 preemption, 4.8 multi-list scheme | `reservation/preempt.rs` |
//! | 4.5 incremental promotion, 4.6 demotion | `Vm::promote_around`, the door's own cuts, `promotion/demote.rs` |
//! | 4.7 clean superpages demoted by the first write; hash digests instead | `Vm::first_write`, `Vm::write_out` |
//! | 4.6 speculative demotion, repromotion | `paging/reference.rs` |
//! | 4.9 population maps | `reservation/map.rs` |
//! | 5.1 contiguity-aware page daemon, cache pages | `paging/daemon.rs`, `paging/cache.rs` |
//! | 5.1 FreeBSD 4's own scans | `paging/scan.rs` |
//! | 5.2 wired page clustering, and what the kernel wires | `paging/wired.rs`, `paging/kernel.rs` |
//! | 6.5 contiguity over time | `series.rs` |
//! | 6.8 steps of each operation | `work.rs` |
//!
//! What reservations cost is counted, in elementary steps (`work.rs`), each of which costs `step` cycles; replicated entries
//! that are rewritten go through the caches. None of it was set from 6.6, which so tests it.
//! `promote=0` is the measurement of overhead without benefit of 6.6, `dirty=whole` the penalty of 6.7.
//!
//! Deviations: digests are taken to differ for pages whose first write was seen, which of a clean superpage is the
//! first page written only; no frames are zeroed beforehand, as in the paper; addresses of captured programs cannot be
//! moved, so instead of choosing addresses that suit an object (5.3), an object's reservations are placed to suit the
//! address at which it is first used. Private copies of a file's pages are not reserved. After a fork, a parent's copy
//! of a page whose frame its child keeps is not reserved.

use crate::{Accepts, Setting, Settings, System, SystemError, superpage};
use reach_core::{Cycles, Fault, PageShift, Vpn};
use reach_os::{OutOfMemory, Paging, PastEnd, Superpages, Vm};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "sizes",
        summary: "which of the machine's superpages are used",
        accepts: Accepts::Sizes,
        default: "all",
    },
    superpage::STEP,
    Setting {
        name: "dirty",
        summary: "a write to a clean superpage demotes it (demote), makes all of it dirty (whole), or digests tell (digest)",
        accepts: Accepts::Choice(&["demote", "whole", "digest"]),
        default: "demote",
    },
    Setting {
        name: "digest_cost",
        summary: "thousandths of a cycle for each byte hashed, for dirty=digest",
        accepts: Accepts::Number { least: 0, most: 1_000_000 },
        default: "15000",
    },
    Setting {
        name: "promote",
        summary: "superpages are made (1), or all is done and charged as if they were (0; 6.6 of the paper)",
        accepts: Accepts::Number { least: 0, most: 1 },
        default: "1",
    },
    Setting {
        name: "paging",
        summary: "contiguity-aware page daemon (daemon), FreeBSD's own with cache pages as free memory (cache), or none",
        accepts: Accepts::Choice(&["daemon", "cache", "off"]),
        default: "daemon",
    },
    superpage::LOW,
    Setting {
        name: "sample",
        summary: "milliseconds from one sample of memory's state to the next, for Figure 5; 0: none",
        accepts: Accepts::Number { least: 0, most: 1_000_000 },
        default: "0",
    },
    Setting {
        name: "demote",
        summary: "percent of superpages demoted when their reference bit is cleared under memory pressure (p of 4.6)",
        accepts: Accepts::Number { least: 0, most: 100 },
        default: "100",
    },
];

/// Reservations on all page sizes.
pub(crate) struct Navarro {
    sizes: Option<Vec<PageShift>>,
    step: u64,
    dirty: String,
    digest_cost: u64,
    promote: bool,
    paging: Option<Paging>,
    daemon: superpage::Daemon,
    /// Milliseconds between samples, and when the next is due.
    sample: u64,
    due: Cycles,
}

impl Navarro {
    pub(crate) fn new(settings: &Settings) -> Navarro {
        let aware = settings.choice("paging") == "daemon";
        let paging = Paging {
            contiguity: aware,
            last_close: aware,
            cluster_wired: aware,
            cache: true,
            demote: settings.number("demote"),
            low: settings.number("low"),
            seed: 2002,
        };
        Navarro {
            sizes: settings.sizes("sizes"),
            step: settings.number("step"),
            dirty: settings.choice("dirty").to_owned(),
            digest_cost: settings.number("digest_cost"),
            promote: settings.number("promote") == 1,
            paging: (settings.choice("paging") != "off").then_some(paging),
            daemon: superpage::Daemon::default(),
            sample: settings.number("sample"),
            due: Cycles(0),
        }
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
            step: self.step,
            partly_dirty: self.dirty != "demote",
            digest: (self.dirty == "digest").then_some(self.digest_cost),
            promote: self.promote,
            demote_to_unmap: true,
            watch_all: true,
            map_full: false,
            threshold: 100,
        });
        if let Some(paging) = &self.paging {
            vm.use_paging(paging.clone());
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.reserved_fault(fault)?;
        self.daemon.fault(vm)
    }

    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.first_write(vpn)
    }

    fn wake(&self) -> Option<Cycles> {
        let due = (self.sample > 0).then_some(self.due);
        [self.daemon.wake, due].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if self.sample > 0 && now >= self.due {
            vm.sample(now);
            self.due = now + vm.options().hertz / 1000 * self.sample;
            if self.daemon.wake.is_none_or(|wake| now < wake) {
                return Ok(());
            }
        }
        self.daemon.tick(now, vm)
    }
}
