//! Parts that systems with superpages share: the choice among the machine's page sizes, the cost of an elementary step
//! of reservations, and the schedule of the page daemon.

use crate::error::SystemError;
use crate::settings::{Accepts, Setting, Unit};
use reach_core::{Cycles, PageShift};
use reach_os::{OutOfMemory, Vm};

/// The cost of a step of population maps, reservation lists and the allocator.
///
/// The default is five instructions at 0.8 cycles each and a load that the second cache answers, in 14 cycles: numbers
/// of the machine alpha-21264.
pub(crate) const STEP: Setting = Setting::new(
    "step_cycles",
    Accepts::number(0, 1_000_000, Unit::Cycles),
    "18",
    "cycles for each node, list element or block that population maps, lists and the allocator visit",
)
.formerly("step");

/// The share of available memory below which the page daemon runs.
///
/// The default is FreeBSD 4's `v_free_reserved + v_cache_min` for 512 MB of 8 KB pages, by its formulae as recalled:
/// 2018 pages.
pub(crate) const LOW: Setting = Setting::new(
    "low_watermark",
    Accepts::number(0, 500, Unit::Permille),
    "31",
    "the share of memory, in thousandths, below which available memory makes the page daemon run",
)
.formerly("low");

/// How often a second the page daemon retries what it could not do the last time.
const RUNS_A_SECOND: u64 = 10;

/// The schedule of the page daemon.
#[derive(Default)]
pub(crate) struct Daemon {
    /// When the daemon runs next. `None`: it has nothing to do.
    pub(crate) next: Option<Cycles>,
    /// The daemon rests until this time, because the last run did what it could.
    rest: Cycles,
    /// The last run on a memory shortage did not help; the next one waits for a tick.
    exhausted: bool,
    /// The ledger's total at the last run. Time has advanced at least as much as the ledger.
    ran: Cycles,
}

impl Daemon {
    /// Wakes the daemon when memory or contiguity has become short. Call after each fault.
    pub(crate) fn fault(&mut self, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if !self.exhausted {
            self.exhausted = !vm.wake_daemon()?;
        }
        let rested = vm.ledger().total() >= self.ran + vm.options().hertz / RUNS_A_SECOND;
        if vm.daemon_wanted() && rested {
            vm.page_daemon()?;
            self.ran = vm.ledger().total();
        }
        self.next = vm.daemon_wanted().then_some(self.rest);
        Ok(())
    }

    /// Runs the daemon. Call when [`next`](Daemon::next) has come.
    pub(crate) fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.page_daemon()?;
        self.exhausted = false;
        self.ran = vm.ledger().total();
        self.rest = now + vm.options().hertz / RUNS_A_SECOND;
        self.next = vm.daemon_wanted().then_some(self.rest);
        Ok(())
    }
}

/// Returns the cycles in `milliseconds` of simulated time; saturates.
pub(crate) fn cycles_in(milliseconds: u64, vm: &Vm) -> u64 {
    (u128::from(milliseconds) * u128::from(vm.options().hertz) / 1000) as u64
}

/// Returns the machine's smallest superpage of at least `wanted`, or its largest where none is so large.
///
/// # Errors
/// When the machine has no superpages.
pub(crate) fn nearest(system: &str, wanted: PageShift, vm: &Vm) -> Result<PageShift, SystemError> {
    let sizes = &vm.options().sizes[1..];
    sizes.iter().copied().find(|&size| size >= wanted).or(sizes.last().copied()).ok_or_else(|| SystemError::Machine {
        system: system.into(),
        what: format!("its only page size is {}; take a machine with superpages, or the system base", vm.base()),
    })
}

/// Returns the machine's largest page size.
///
/// # Errors
/// When the machine has no superpages.
pub(crate) fn largest(system: &str, vm: &Vm) -> Result<PageShift, SystemError> {
    nearest(system, PageShift(u8::MAX), vm)
}

/// Returns the page sizes to use, base page first: those in `wanted`, or all of the machine for `None`.
///
/// # Errors
/// When the machine has no superpages, or lacks one of `wanted`.
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
