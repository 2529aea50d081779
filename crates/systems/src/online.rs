//! What systems share whose miss handler promotes: it hears of misses, keeps the candidates' counters in the kernel's
//! memory, pays for that, and builds what is due. Where memory is short, a page daemon takes superpages apart.

mod promoter;

use crate::superpage::Daemon;
use crate::{Accepts, Setting, Settings};
pub(crate) use promoter::Promoter;
use reach_core::{Cycles, Event, Fault, TlbEvent};
use reach_os::online::Policy;
use reach_os::{OutOfMemory, Paging, Vm};

/// Of approx-online and online.
pub(crate) const THRESHOLD: Setting = Setting {
    name: "threshold",
    summary: "misses that are charged to two base pages before they become one (aol, online); doubled with each size",
    accepts: Accepts::Number { least: 1, most: 1 << 20 },
    default: "16",
};

/// What the handler's look at a candidate takes.
pub(crate) const BOOKKEEPING: Setting = Setting {
    name: "bookkeeping",
    summary: "cycles for each candidate's counters that the handler looks at, besides its loads and stores",
    accepts: Accepts::Number { least: 0, most: 100_000 },
    default: "20",
};

/// What happens when memory is short.
pub(crate) const PAGING: Setting = Setting {
    name: "paging",
    summary: "when memory is short: a page daemon pages out and takes superpages apart for it (daemon), or nothing (off)",
    accepts: Accepts::Choice(&["daemon", "off"]),
    default: "daemon",
};

/// Which superpages are taken apart.
pub(crate) const DEMOTE: Setting = Setting {
    name: "demote",
    summary: "percent of superpages in use that the daemon takes apart to see which of their pages are; others when a page goes",
    accepts: Accepts::Number { least: 0, most: 100 },
    default: "0",
};

/// The policy that `settings` name, with its threshold; `None` for others.
pub(crate) fn policy(settings: &Settings, every_level: bool) -> Option<Policy> {
    let threshold = settings.number(THRESHOLD.name) as u32;
    match settings.choice("policy") {
        "asap" => Some(Policy::Asap { every_level }),
        "aol" => Some(Policy::ApproxOnline { threshold }),
        "online" => Some(Policy::Online { threshold }),
        _ => None,
    }
}

/// How memory is reclaimed, after [`PAGING`], [`DEMOTE`] and [`superpage::LOW`](crate::superpage::LOW).
pub(crate) fn paging(settings: &Settings) -> Paging {
    Paging {
        contiguity: false,
        last_close: false,
        cluster_wired: false,
        cache: false,
        demote: settings.number(DEMOTE.name),
        low: settings.number(crate::superpage::LOW.name),
        seed: 1999,
    }
}

/// A miss handler that promotes, and the daemon that undoes it, where there are any.
#[derive(Default)]
pub(crate) struct Online {
    promoter: Option<Promoter>,
    daemon: Option<Daemon>,
}

impl Online {
    /// At boot, before any process.
    pub fn new(promoter: Option<Promoter>, paging: Option<&Paging>, vm: &mut Vm) -> Online {
        if promoter.is_some() {
            vm.log_mapping_changes();
        }
        if let Some(paging) = paging {
            vm.use_paging(paging.clone());
        }
        Online { promoter, daemon: paging.map(|_| Daemon::default()) }
    }

    /// `event` has been applied.
    pub fn applied(&mut self, event: &Event, vm: &mut Vm) {
        let Some(promoter) = &mut self.promoter else { return };
        // What was left by then is nobody's; a child of vfork leaves its parent's memory alone.
        if let Event::Exit | Event::Exec { .. } = event {
            promoter.forget(vm.current(), vm);
        }
        promoter.apply_mapping_changes(vm);
    }

    /// Answers a fault with base pages.
    pub fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.demand_fault(fault)?;
        let done = self.daemon.as_mut().map_or(Ok(()), |daemon| daemon.fault(vm));
        self.apply_mapping_changes(vm);
        done
    }

    /// The miss handler, after its miss.
    pub fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.promoter.as_mut().map_or(Ok(()), |promoter| promoter.handle(events, vm))
    }

    /// When the daemon is wanted next.
    pub fn wake(&self) -> Option<Cycles> {
        self.daemon.as_ref().and_then(|daemon| daemon.wake)
    }

    /// The time for the daemon has come.
    pub fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let done = self.daemon.as_mut().map_or(Ok(()), |daemon| daemon.tick(now, vm));
        self.apply_mapping_changes(vm);
        done
    }

    fn apply_mapping_changes(&mut self, vm: &mut Vm) {
        if let Some(promoter) = &mut self.promoter {
            promoter.apply_mapping_changes(vm);
        }
    }
}
