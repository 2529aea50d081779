//! Parts that systems with promotion in the miss handler share (`fang-1999`, `romer-1995`).
//!
//! [`Promoter`] reads the TLB event log after each miss, keeps the candidates' counters in kernel memory, pays for that,
//! and builds the superpages that are due. [`OnlinePromotion`] adds a page daemon that demotes
//! superpages when memory is short.

mod promoter;

use crate::settings::{Accepts, Setting, Settings, Unit, choice};
use crate::superpage::{self, Daemon};
pub(crate) use promoter::Promoter;
use reach_core::{Cycles, Event, Fault, Permille, TlbEvent};
use reach_os::online::Policy;
use reach_os::{OutOfMemory, Paging, Vm};

/// The promotion threshold of approx-online and online.
pub(crate) const THRESHOLD: Setting = Setting::new(
    "threshold",
    Accepts::number(1, 1 << 20, Unit::Count),
    "16",
    "aol, online: misses charged to two base pages before they are promoted; doubled with each size",
);

/// The cost of a candidate's counters.
pub(crate) const BOOKKEEPING: Setting = Setting::new(
    "bookkeeping",
    Accepts::number(0, 100_000, Unit::Cycles),
    "20",
    "cycles for each candidate whose counters the handler updates, without its loads and stores",
);

/// The page daemon of systems that always promote.
pub(crate) const PAGING: Setting = Setting::new(
    "paging",
    Reclaim::ACCEPTS,
    "daemon",
    "when memory is short: a page daemon evicts pages and demotes their superpages (daemon), or nothing (off)",
);

/// The superpages that the page daemon demotes before it knows which of their pages are in use.
pub(crate) const DEMOTE: Setting = Setting::new(
    "demotion_percent",
    Accepts::number(0, 100, Unit::Percent),
    "0",
    "the share of superpages in use that the daemon demotes to see which of their pages are; the rest when a page goes",
)
.formerly("demote");

choice! {
    /// The response to memory pressure.
    pub(crate) enum Reclaim {
        /// A page daemon evicts pages, and demotes the superpages that they belong to.
        Daemon = "daemon",
        /// None.
        Off = "off",
    }
}

/// Reads the page daemon's parameters from [`DEMOTE`] and [`superpage::LOW`].
pub(crate) fn paging(settings: &Settings) -> Paging {
    Paging {
        contiguity: false,
        last_close: false,
        cluster_wired: false,
        cache: false,
        demote: settings.number(DEMOTE.name),
        low: Permille(settings.number(superpage::LOW.name)),
        seed: 1999,
    }
}

/// Returns approx-online with the [`THRESHOLD`] of `settings`.
pub(crate) fn approx_online(settings: &Settings) -> Policy {
    Policy::ApproxOnline { threshold: settings.number32(THRESHOLD.name) }
}

/// Returns the full online policy with the [`THRESHOLD`] of `settings`.
pub(crate) fn full_online(settings: &Settings) -> Policy {
    Policy::Online { threshold: settings.number32(THRESHOLD.name) }
}

/// A miss handler that promotes and a page daemon that demotes; either may be absent.
#[derive(Default)]
pub(crate) struct OnlinePromotion {
    promoter: Option<Promoter>,
    daemon: Option<Daemon>,
}

impl OnlinePromotion {
    /// Enables the mapping-change log and the page daemon. Call from `boot`.
    pub fn new(promoter: Option<Promoter>, paging: Option<&Paging>, vm: &mut Vm) -> OnlinePromotion {
        if promoter.is_some() {
            vm.log_mapping_changes();
        }
        if let Some(paging) = paging {
            vm.use_paging(paging.clone());
        }
        OnlinePromotion { promoter, daemon: paging.map(|_| Daemon::default()) }
    }

    /// Forgets what `event` has unmapped. Call after it was applied.
    pub fn applied(&mut self, event: &Event, vm: &mut Vm) {
        let Some(promoter) = &mut self.promoter else { return };
        // The address space is gone, or empty. A child of vfork leaves its parent's memory alone.
        if let Event::Exit | Event::Exec { .. } = event {
            promoter.forget(vm.current(), vm);
        }
        promoter.apply_mapping_changes(vm);
    }

    /// Handles a fault by demand paging with base pages.
    pub fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.demand_fault(fault)?;
        let done = self.daemon.as_mut().map_or(Ok(()), |daemon| daemon.fault(vm));
        self.apply_mapping_changes(vm);
        done
    }

    /// Runs the policy after a miss. `events` is the TLB event log.
    pub fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.promoter.as_mut().map_or(Ok(()), |promoter| promoter.handle(events, vm))
    }

    /// Runs the page daemon.
    pub fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let done = self.daemon.as_mut().map_or(Ok(()), |daemon| daemon.tick(now, vm));
        self.apply_mapping_changes(vm);
        done
    }

    /// Returns the time of the daemon's next run. `None`: it has nothing to do.
    pub fn next_tick(&self) -> Option<Cycles> {
        self.daemon.as_ref().and_then(|daemon| daemon.next)
    }

    fn apply_mapping_changes(&mut self, vm: &mut Vm) {
        if let Some(promoter) = &mut self.promoter {
            promoter.apply_mapping_changes(vm);
        }
    }
}
