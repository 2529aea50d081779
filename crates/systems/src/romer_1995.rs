//! `romer-1995`: online promotion by copying, at fixed costs.
//!
//! After: Romer, Ohlrich, Karlin and Bershad, "Reducing TLB and Memory Overhead Using Online Superpage Promotion", ISCA
//! 1995, as Fang et al. 1999 describe it (sections 2, 3.1 and 5.3). Its traces have no caches: a promotion costs a fixed
//! number of cycles for each KB and disturbs nothing. The threshold is 100.
//!
//! | section of Fang et al. | here |
//! |---|---|
//! | 3.1 policies | `online.rs` and `online/` of `reach-os` |
//! | 5.3 3000 cycles for each KB copied, threshold 100 | `SETTINGS` |
//!
//! Readings. `bookkeeping` makes a miss under approx-online about four times as expensive as without a policy, as Navarro
//! et al. 2002 quote the paper. Its counters disturb no cache either. Everything else is as in `fang-1999`.

use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::online::{self, OnlinePromotion, Promoter, Reclaim};
use crate::settings::{Accepts, Setting, Settings, Unit, choice};
use crate::superpage;
use crate::system::System;
use reach_core::{Cycles, Event, Fault, PageTableKind, TlbEvent};
use reach_os::online::Policy;
use reach_os::{Mechanism, OutOfMemory, Paging, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "romer-1995",
    summary: "online promotion in the TLB miss handler, by copying at a fixed cost",
    role: Role::Design,
    compared: true,
    published: Some(
        "Romer, Ohlrich, Karlin and Bershad: Reducing TLB and Memory Overhead Using Online Superpage Promotion, ISCA \
         1995",
    ),
    criterion: Criterion::new(Evidence::Superpages, "never promoted: no superpage's misses reached the threshold"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Romer::new(settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new(
        "policy",
        RomerPolicy::ACCEPTS,
        "aol",
        "the promotion policy: asap, approx-online (aol), or the full online policy",
    ),
    Setting { default: "100", ..online::THRESHOLD },
    Setting::new("copy_cost", Accepts::number(0, 1_000_000, Unit::Cycles), "3000", "cycles for each KB copied")
        .formerly("copy"),
    Setting {
        summary: "cycles for each candidate whose counters the handler updates, its loads and stores included",
        default: "7",
        ..online::BOOKKEEPING
    },
    online::PAGING,
    superpage::LOW,
    online::DEMOTE,
];

choice! {
    /// The promotion policy.
    enum RomerPolicy {
        /// A superpage as soon as all its pages have been referenced.
        Asap = "asap",
        /// Approx-online: misses are charged to candidates that hold a page in the TLB.
        ApproxOnline = "aol",
        /// The full online policy.
        Online = "online",
    }
}

/// Online promotion at fixed costs.
pub(crate) struct Romer {
    policy: Policy,
    copy_cost: u64,
    bookkeeping: u64,
    paging: Option<Paging>,
    online: OnlinePromotion,
}

impl Romer {
    pub(crate) fn new(settings: &Settings) -> Romer {
        Romer {
            policy: match settings.choice("policy") {
                RomerPolicy::Asap => Policy::Asap { every_level: true },
                RomerPolicy::ApproxOnline => online::approx_online(settings),
                RomerPolicy::Online => online::full_online(settings),
            },
            copy_cost: settings.number("copy_cost"),
            bookkeeping: settings.number(online::BOOKKEEPING.name),
            paging: match settings.choice(online::PAGING.name) {
                Reclaim::Daemon => Some(online::paging(settings)),
                Reclaim::Off => None,
            },
            online: OnlinePromotion::default(),
        }
    }
}

impl System for Romer {
    fn name(&self) -> &str {
        "romer-1995"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        superpage::largest(self.name(), vm)?;
        vm.share_zeroes(false);
        vm.use_flat_copy_cost(self.copy_cost);
        let promoter = Promoter::new(self.policy, Mechanism::Copy, self.bookkeeping, vm).without_caches();
        self.online = OnlinePromotion::new(Some(promoter), self.paging.as_ref(), vm);
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Some(populate) = vm.apply(event)? {
            self.populate(&populate, vm)?;
        }
        self.online.applied(event, vm);
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.fault(fault, vm)
    }

    fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.handle(events, vm)
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.tick(now, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.online.next_tick()
    }

    fn handles_misses(&self) -> bool {
        true
    }
}
