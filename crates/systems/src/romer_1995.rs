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

use crate::online::Promoter;
use crate::{Accepts, Setting, Settings, System, SystemError, superpage};
use reach_core::{Event, Fault, TlbEvent};
use reach_os::online::Policy;
use reach_os::{Mechanism, OutOfMemory, Vm};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "policy",
        summary: "when pages become one: asap, approx-online (aol), or the full online policy",
        accepts: Accepts::Choice(&["asap", "aol", "online"]),
        default: "aol",
    },
    Setting {
        name: "threshold",
        summary: "misses that are charged to two base pages before they become one; doubled with each size",
        accepts: Accepts::Number { least: 1, most: 1 << 20 },
        default: "100",
    },
    Setting {
        name: "copy",
        summary: "cycles for each KB copied",
        accepts: Accepts::Number { least: 0, most: 1_000_000 },
        default: "3000",
    },
    Setting {
        name: "bookkeeping",
        summary: "cycles for each candidate's counters that the handler looks at, their memory references included",
        accepts: Accepts::Number { least: 0, most: 100_000 },
        default: "7",
    },
];

/// Online promotion at fixed costs.
pub(crate) struct Romer {
    policy: Policy,
    copy: u64,
    bookkeeping: u64,
    promoter: Option<Promoter>,
}

impl Romer {
    pub(crate) fn new(settings: &Settings) -> Romer {
        let threshold = settings.number("threshold") as u32;
        Romer {
            policy: match settings.choice("policy") {
                "asap" => Policy::Asap { every_level: true },
                "online" => Policy::Online { threshold },
                _ => Policy::ApproxOnline { threshold },
            },
            copy: settings.number("copy"),
            bookkeeping: settings.number("bookkeeping"),
            promoter: None,
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
        self.promoter = Some(Promoter::new(self.policy, Mechanism::Copy, self.bookkeeping, vm).without_caches());
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let asid = vm.current();
        if let Some(populate) = vm.apply(event)? {
            self.populate(&populate, vm)?;
        }
        if let Some(promoter) = &mut self.promoter {
            promoter.note(event, asid, vm);
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.demand_fault(fault)
    }

    fn sees_misses(&self) -> bool {
        true
    }

    fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        match &mut self.promoter {
            Some(promoter) => promoter.handle(events, vm),
            None => Ok(()),
        }
    }
}
