//! `navarro-2002`: superpages by reservation.
//!
//! After: Navarro, Iyer, Druschel and Cox, "Practical, Transparent Operating System Support for Superpages", OSDI 2002.
//!
//! | section | here (files of `reach-os`) |
//! |---|---|
//! | 4.1 reservation-based allocation | `Vm::reserved_fault`, `reservation.rs` |
//! | 4.2 preferred superpage size | `fault/preferred.rs` |
//! | 4.3 preemption, 4.8 multi-list scheme | `reservation/preempt.rs` |
//! | 4.5 incremental promotion, 4.6 demotion | `Vm::promote_around`, the translation API, `promotion/demote.rs` |
//! | 4.6 speculative demotion, repromotion | `paging/reference.rs` |
//! | 4.7 clean superpages demoted by the first write; hash digests instead | `Vm::first_write`, `Vm::write_out` |
//! | 4.9 population maps | `reservation/map.rs` |
//! | 5.1 contiguity-aware page daemon, cache pages | `paging/daemon.rs`, `memory/cache_pages.rs` |
//! | 5.1 FreeBSD 4's own scans | `paging/scan.rs` |
//! | 5.2 wired page clustering, and the kernel's wired pages | `memory/wired.rs`, `paging/kernel.rs` |
//! | 6.5 contiguity over time | `accounting/sample.rs` |
//! | 6.8 steps of each operation | `accounting/work.rs` |
//!
//! The cost of reservations is counted in elementary steps (`accounting/work.rs`), each of which costs `step_cycles`.
//! Replicated entries that are rewritten go through the caches. No constant is calibrated to section 6.6, so 6.6 tests
//! the model. `promote=off` is the measurement of overhead without benefit of 6.6, `dirty=whole` the penalty of 6.7.
//!
//! Deviations: a digest is taken to differ for each page whose first write was seen; of a clean superpage that is the
//! first page written only. A fault promotes the largest extent that is full and mapped alike, not only the first full one from
//! the root, as 4.9 says (`attempt=first`): where another process, or clean pages, fill the larger one, 4.5 and 4.7 promote the
//! smaller one still. The daemon rests a tenth of a second between runs for contiguity, so that not every failed reservation
//! scans the inactive list, and takes only pages of regions that it can complete; 5.1 leaves both open. Pages are not coloured:
//! frames come from large blocks, in which neighbours have different colours. No frames are zeroed beforehand, as in the
//! paper. The addresses of captured programs cannot be moved; instead of choosing addresses that suit an object (5.3),
//! reservations are placed to suit the address at which the object is first used. Private copies of a file's pages are not reserved. After a fork, a parent's copy of a
//! page whose frame its child keeps is not reserved.

use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit, choice};
use crate::superpage;
use crate::system::System;
use reach_core::{Cycles, Fault, Millicycles, PageShift, PageTableKind, Permille, Vpn};
use reach_os::{OutOfMemory, Paging, PastEnd, Superpages, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "navarro-2002",
    summary: "reservations for all superpage sizes, promoted and demoted one size at a time",
    role: Role::Design,
    compared: true,
    published: Some(
        "Navarro, Iyer, Druschel and Cox: Practical, Transparent Operating System Support for Superpages, OSDI 2002",
    ),
    criterion: Criterion::new(Evidence::Superpages, "never promoted: no reservation was fully populated"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Navarro::new(settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new("sizes", Accepts::Sizes, "all", "the superpage sizes in use, of those that the machine has"),
    superpage::STEP,
    Setting::new(
        "dirty",
        Dirty::ACCEPTS,
        "demote",
        "a write to a clean superpage demotes it (demote), dirties all of it (whole), or dirties all but pages whose \
         hash digest is unchanged (digest)",
    ),
    Setting::new(
        "digest_cost",
        Accepts::number(0, 1_000_000, Unit::Millicycles),
        "15000",
        "dirty=digest: the cost of each byte hashed",
    ),
    Setting::new(
        "promote",
        Accepts::Switch,
        "on",
        "whether superpages are made; off: all work is done and charged as if they were (6.6 of the paper)",
    ),
    Setting::new(
        "attempt",
        Attempt::ACCEPTS,
        "largest",
        "the extent that a fault promotes: the largest that is full and mapped alike (largest), or the first full one from \
         the root of the population map, if that is mapped alike (first; 4.9)",
    ),
    Setting::new(
        "paging",
        PageDaemon::ACCEPTS,
        "daemon",
        "contiguity-aware page daemon (daemon), FreeBSD's own with cache pages as free memory (cache), or none (off)",
    ),
    superpage::LOW,
    Setting::new(
        "sample_period",
        Accepts::number(0, 1_000_000, Unit::Milliseconds),
        "0",
        "the time between two samples of memory's state, for Figure 5; 0: no samples",
    )
    .formerly("sample"),
    Setting::new(
        "demotion_percent",
        Accepts::number(0, 100, Unit::Percent),
        "100",
        "the share of superpages demoted when memory pressure clears their reference bit (p of 4.6)",
    )
    .formerly("demote"),
];

choice! {
    /// The effect of a write to a clean superpage (4.7).
    enum Dirty {
        /// It is demoted, so that only one page becomes dirty.
        Demote = "demote",
        /// All of it becomes dirty.
        Whole = "whole",
        /// All of it becomes dirty, and hash digests find the pages that need not be written out.
        Digest = "digest",
    }
}

choice! {
    /// The extent at which a promotion is attempted.
    enum Attempt {
        /// The largest that is full and mapped alike.
        Largest = "largest",
        /// The first full one from the root (4.9).
        First = "first",
    }
}

choice! {
    /// The page daemon.
    enum PageDaemon {
        /// Contiguity-aware (5.1), with cache pages and wired page clustering.
        Daemon = "daemon",
        /// FreeBSD's own, with cache pages as free memory.
        Cache = "cache",
        /// None: memory that is used stays used.
        Off = "off",
    }
}

/// Reservations for all page sizes.
pub(crate) struct Navarro {
    sizes: Option<Vec<PageShift>>,
    step: u64,
    dirty: Dirty,
    digest_cost: u64,
    promote: bool,
    attempt: Attempt,
    paging: Option<Paging>,
    daemon: superpage::Daemon,
    /// Milliseconds between two samples; 0 for no samples.
    sample_period: u64,
    next_sample: Cycles,
}

impl Navarro {
    pub(crate) fn new(settings: &Settings) -> Navarro {
        let reclaim: PageDaemon = settings.choice("paging");
        let aware = reclaim == PageDaemon::Daemon;
        let paging = Paging {
            contiguity: aware,
            last_close: aware,
            cluster_wired: aware,
            cache: true,
            demote: settings.number("demotion_percent"),
            low: Permille(settings.number(superpage::LOW.name)),
            seed: 2002,
        };
        Navarro {
            sizes: settings.sizes("sizes"),
            step: settings.number(superpage::STEP.name),
            dirty: settings.choice("dirty"),
            digest_cost: settings.number("digest_cost"),
            promote: settings.is_on("promote"),
            attempt: settings.choice("attempt"),
            paging: (reclaim != PageDaemon::Off).then_some(paging),
            daemon: superpage::Daemon::default(),
            sample_period: settings.number("sample_period"),
            next_sample: Cycles(0),
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
            partly_dirty: self.dirty != Dirty::Demote,
            digest: (self.dirty == Dirty::Digest).then_some(Millicycles(self.digest_cost)),
            promote: self.promote,
            first_full: self.attempt == Attempt::First,
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

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if self.sample_period > 0 && now >= self.next_sample {
            vm.sample(now);
            self.next_sample = now + vm.options().hertz / 1000 * self.sample_period;
            if self.daemon.next.is_none_or(|next| now < next) {
                return Ok(());
            }
        }
        self.daemon.tick(now, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        let sample = (self.sample_period > 0).then_some(self.next_sample);
        [self.daemon.next, sample].into_iter().flatten().min()
    }
}
