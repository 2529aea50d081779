//! `romer-1995`: online promotion by copying, at fixed costs.
//!
//! After: Romer, Ohlrich, Karlin and Bershad, "Reducing TLB and Memory Overhead Using Online Superpage Promotion", ISCA
//! 1995, as Fang et al. 1999 describe it (sections 2, 3.1 and 5.3): traces without caches, so that a promotion costs so
//! many cycles for each KB and disturbs nothing, and a threshold of 100.
//!
//! | section of Fang et al. | here |
//! |---|---|
//! | 3.1 policies | `online/` of `reach-os` |
//! | 5.3 3000 cycles for each KB copied, threshold 100 | `SETTINGS` |
//!
//! Readings. `bookkeeping` makes a miss under approx-online some four times as dear as without a policy, which Navarro et
//! al. 2002 quote of it; its counters, too, disturb no cache. Everything else is as in `fang-1999`.

use crate::online::{self, Online, Promoter};
use crate::{Accepts, Setting, Settings, System, SystemError, superpage};
use reach_core::{Cycles, Event, Fault, TlbEvent};
use reach_os::online::Policy;
use reach_os::{Mechanism, OutOfMemory, Paging, Vm};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "policy",
        summary: "when pages become one: asap, approx-online (aol), or the full online policy",
        accepts: Accepts::Choice(&["asap", "aol", "online"]),
        default: "aol",
    },
    Setting { default: "100", ..online::THRESHOLD },
    Setting {
        name: "copy",
        summary: "cycles for each KB copied",
        accepts: Accepts::Number { least: 0, most: 1_000_000 },
        default: "3000",
    },
    Setting {
        summary: "cycles for each candidate's counters that the handler looks at, their memory references included",
        default: "7",
        ..online::BOOKKEEPING
    },
    online::PAGING,
    superpage::LOW,
    online::DEMOTE,
];

/// Online promotion at fixed costs.
pub(crate) struct Romer {
    policy: Option<Policy>,
    copy: u64,
    bookkeeping: u64,
    paging: Option<Paging>,
    online: Online,
}

impl Romer {
    pub(crate) fn new(settings: &Settings) -> Romer {
        Romer {
            policy: online::policy(settings, true),
            copy: settings.number("copy"),
            bookkeeping: settings.number("bookkeeping"),
            paging: (settings.choice("paging") == "daemon").then(|| online::paging(settings)),
            online: Online::default(),
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
        vm.copy_at(self.copy);
        let promoter = |policy| Promoter::new(policy, Mechanism::Copy, self.bookkeeping, vm).without_caches();
        let promoter = self.policy.map(promoter);
        self.online = Online::new(promoter, self.paging.as_ref(), vm);
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

    fn sees_misses(&self) -> bool {
        true
    }

    fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.handle(events, vm)
    }

    fn wake(&self) -> Option<Cycles> {
        self.online.wake()
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.tick(now, vm)
    }
}
