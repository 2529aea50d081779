//! What systems with superpages share: which of a machine's page sizes stands for a size that a system was made for,
//! what an elementary step of reservations costs, and when the page daemon runs.

use crate::{Accepts, Setting, SystemError};
use reach_core::{Cycles, PageShift};
use reach_os::{OutOfMemory, Vm};

/// What population maps, reservation lists and the allocator cost. Five instructions, at 0.8 cycles each, and a load that the
/// next cache answers, in 14 cycles: of the machine alpha-21264, whose numbers these are.
pub(crate) const STEP: Setting = Setting {
    name: "step",
    summary: "cycles for each node, list element or block that population maps, lists and the allocator visit",
    accepts: Accepts::Number { least: 0, most: 1_000_000 },
    default: "18",
};

/// The daemon runs for memory when less than this is available.
pub(crate) const LOW: Setting = Setting {
    name: "low",
    summary: "the daemon runs when less than this share of memory is available, in thousandths",
    accepts: Accepts::Number { least: 0, most: 500 },
    // FreeBSD 4's `v_free_reserved + v_cache_min` for 512 MB of 8 KB pages, by its formulae as recalled: 2018 pages.
    default: "31",
};

/// How often the page daemon runs at most for what it could not do the last time.
const RUNS_A_SECOND: u64 = 10;

/// When the page daemon is to run.
#[derive(Default)]
pub(crate) struct Daemon {
    /// It has something to do, from this time on.
    pub(crate) wake: Option<Cycles>,
    /// Not before this time, because it did what it could.
    rest: Cycles,
    /// Nor at once when memory is short.
    tired: bool,
    /// The kernel's own cycles when it last ran: time has passed at least as these have.
    ran: Cycles,
}

impl Daemon {
    /// After a fault: the daemon is woken when memory or contiguity has become short, and does what it can.
    pub(crate) fn fault(&mut self, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if !self.tired {
            self.tired = !vm.wake_daemon()?;
        }
        let rested = vm.ledger.total() >= self.ran + vm.options().hertz / RUNS_A_SECOND;
        if vm.daemon_wanted() && rested {
            vm.page_daemon()?;
            self.ran = vm.ledger.total();
        }
        self.wake = vm.daemon_wanted().then_some(self.rest);
        Ok(())
    }

    /// The time has come.
    pub(crate) fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.page_daemon()?;
        self.tired = false;
        self.ran = vm.ledger.total();
        self.rest = now + vm.options().hertz / RUNS_A_SECOND;
        self.wake = vm.daemon_wanted().then_some(self.rest);
        Ok(())
    }
}

/// The machine's size that is `wanted`, else its smallest larger one, else its largest. A machine whose only size is
/// the base page is refused.
pub(crate) fn nearest(system: &str, wanted: PageShift, vm: &Vm) -> Result<PageShift, SystemError> {
    let sizes = &vm.options().sizes[1..];
    sizes.iter().copied().find(|&size| size >= wanted).or(sizes.last().copied()).ok_or_else(|| SystemError::Machine {
        system: system.into(),
        what: format!("its only page size is {}; take a machine with superpages, or the system base", vm.base()),
    })
}

/// The machine's largest page. A machine whose only size is the base page is refused.
pub(crate) fn largest(system: &str, vm: &Vm) -> Result<PageShift, SystemError> {
    nearest(system, PageShift(u8::MAX), vm)
}

/// The machine's page sizes that are to be used: the base and `wanted`, or all. Refuses sizes that it has not.
pub(crate) fn chosen(system: &str, wanted: &Option<Vec<PageShift>>, vm: &Vm) -> Result<Vec<PageShift>, SystemError> {
    let sizes = &vm.options().sizes;
    nearest(system, vm.base(), vm)?;
    let Some(wanted) = wanted else { return Ok(sizes.clone()) };
    if let Some(absent) = wanted.iter().find(|size| !sizes[1..].contains(size)) {
        let has: Vec<String> = sizes[1..].iter().map(PageShift::to_string).collect();
        let what = format!("it has no superpages of {absent}; its sizes are {}", has.join(", "));
        return Err(SystemError::Machine { system: system.into(), what });
    }
    Ok(sizes.iter().copied().filter(|size| *size == vm.base() || wanted.contains(size)).collect())
}
