//! The host of a guest, where it has an operating system of its own: a second kernel, for which the guest's memory is one mapping
//! of one process.

use super::Simulation;
use super::error::SimulationError;
use super::hardware::Detail;
use super::kernel::Kernel;
use crate::conditions::Conditions;
use crate::machine;
use reach_core::{
    Asid, Cycles, Event, Fault, FaultCause, Kind, Label, Map, PageTable, PageTableKind, PhysAddr, StopReason, ThreadId,
    VirtAddr, Vpn,
};
use reach_hardware::{Cursor, GUEST_MEMORY, StepRefs};
use reach_os::{Counters, OutOfMemory, Vm};
use reach_systems::{Paging, System};

/// The host's process that is the guest.
const GUEST: Asid = Asid(1);

/// A host's kernel, and what stands in for its table while the processor has it.
pub(super) struct Host {
    kernel: Kernel,
    stand_in: Option<Box<PageTable>>,
}

/// Returns whether the system is more than an operating system.
fn has_hardware(kernel: &Kernel) -> bool {
    let Kernel { system, vm, .. } = kernel;
    system.perfect_tlb()
        || system.replacement().is_some()
        || system.aux_tlb(vm).is_some()
        || system.walk_assist(vm).is_some()
        || system.back_side(vm).is_some()
}

impl Host {
    /// Boots the host of a guest with `conditions.memory` bytes. Its own memory is a quarter larger. The error says what does not
    /// fit.
    pub fn boot(machine: &machine::Resolved, spec: &str, conditions: &Conditions) -> Result<Host, String> {
        let system = reach_systems::resolve(spec).map_err(|error| format!("--host: {error}"))?;
        let guest = Map::anonymous(GUEST_MEMORY, conditions.memory);
        let own = conditions.memory / 4 * 5 + (64 << 20);
        let fragmentation =
            conditions.fragmentation.map(|recipe| reach_os::Fragmentation { seed: recipe.seed + 1, ..recipe });
        let conditions = Conditions { memory: own, fragmentation, kernel: false, host: None, ..conditions.clone() };
        let mut kernel = Kernel::boot(machine, &system, &conditions)?;
        if kernel.system.handles_misses() {
            return Err(format!("the host {spec} runs in a TLB miss handler; use another system"));
        }
        if has_hardware(&kernel) {
            return Err(format!(
                "the host {spec} needs hardware of its own, which hosts do not have; use an operating system"
            ));
        }
        if system.paging() != Paging::Nested {
            return Err(format!("the host {spec} is no guest; give the option guest_paging to the guest's system"));
        }
        if system.page_table() != PageTableKind::Radix {
            return Err(format!("the host {spec} has no radix page table, which hosts need; use page_table=radix"));
        }
        let Kernel { system, vm, .. } = &mut kernel;
        let boots = |event: &Event, system: &mut Box<dyn System>, vm: &mut Vm| {
            system.event(event, vm).map_err(|error| format!("--host {spec}: {error}"))
        };
        boots(&Event::Switch { asid: GUEST, thread: ThreadId(0) }, system, vm)?;
        boots(&Event::Map(guest), system, vm)?;
        let layout = vm.options().layout.clone();
        Ok(Host { kernel, stand_in: Some(Box::new(PageTable::stand_in(layout))) })
    }

    /// Exchanges the host's table with what stands in for it.
    fn exchange(&mut self, lent: &mut PageTable) -> Result<(), OutOfMemory> {
        std::mem::swap(self.kernel.vm.running()?.table, lent);
        Ok(())
    }

    /// Returns what the host has counted.
    pub fn counters(&self) -> Counters {
        self.kernel.vm.counters().clone()
    }
}

impl Simulation {
    /// Lets the processor run. In a guest whose host has an operating system, the processor has the host's table meanwhile.
    pub(super) fn run_processor(
        &mut self,
        segment: StepRefs,
        cursor: &mut Cursor,
        detail: Detail,
    ) -> Result<StopReason, SimulationError> {
        let Simulation { kernel, host, hardware, names, .. } = self;
        let running = kernel.vm.running().map_err(|source| names.out_of_memory(source))?;
        let Some(host) = host else {
            let stop = hardware.run(segment, cursor, running.table, detail);
            kernel.vm.charge_monitor();
            return Ok(stop);
        };
        let mut lent = host.stand_in.take().expect("the table is not lent");
        host.exchange(&mut lent).map_err(|source| names.out_of_memory(source))?;
        running.table.lend_host(Some(lent));
        let stop = hardware.run(segment, cursor, running.table, detail);
        let mut lent = running.table.lend_host(None).expect("it was lent");
        host.exchange(&mut lent).map_err(|source| names.out_of_memory(source))?;
        host.stand_in = Some(lent);
        kernel.vm.charge_monitor();
        Ok(stop)
    }

    /// Lets the system answer a page fault, which a monitor that shadows the page tables sees first.
    pub(super) fn fault(&mut self, fault: Fault) -> Result<(), SimulationError> {
        self.stop(|system, vm| {
            vm.trap_fault(fault.vpn);
            system.fault(fault, vm)
        })
    }

    /// Lets the system answer the first write to a watched page, which is a fault to that monitor, too.
    pub(super) fn first_write(&mut self, vpn: Vpn) -> Result<(), SimulationError> {
        self.stop(|system, vm| {
            vm.trap_fault(vpn);
            system.first_write(vpn, vm)
        })
    }

    /// Lets the host give the guest's address `at` memory.
    pub(super) fn host_fault(&mut self, at: PhysAddr) -> Result<(), SimulationError> {
        let before = self.now().0;
        self.call_host(|system, vm| {
            let vpn = VirtAddr(GUEST_MEMORY.0 + at.0).vpn(vm.base());
            system.fault(Fault { vpn, kind: Kind::Store, cause: FaultCause::NotPresent }, vm)
        })?;
        self.stops.add(self.now().0 - before);
        Ok(())
    }

    /// Lets the host's daemons run, if one is due, and the monitor that shadows page tables.
    pub(super) fn tick_host(&mut self, now: Cycles) -> Result<(), SimulationError> {
        self.kernel.vm.tick_monitor(now);
        if self.host.as_mut().is_some_and(|host| host.kernel.wakes_by(now)) {
            self.hardware.serialise(false);
            self.call_host(|system, vm| system.tick(now, vm))?;
        }
        Ok(())
    }

    /// Calls the host's system, charges its cycles to the guest, whose time they are, and applies what it queued for the
    /// processor.
    fn call_host(
        &mut self,
        act: impl FnOnce(&mut dyn System, &mut Vm) -> Result<(), OutOfMemory>,
    ) -> Result<(), SimulationError> {
        let traffic_in_caches = self.detail() != Detail::Translation;
        let Simulation { kernel, host, hardware, names, .. } = self;
        let Some(host) = host else { return Ok(()) };
        let before = host.kernel.vm.ledger().clone();
        let Kernel { system, vm, .. } = &mut host.kernel;
        act(&mut **system, vm).map_err(|source| names.out_of_memory(source))?;
        let changed = vm.drain_shootdowns().count() > 0;
        if changed {
            hardware.processor.mmu().flush_guest();
        }
        hardware.apply(vm, traffic_in_caches).map_err(|source| names.out_of_memory(source))?;
        for label in Label::ALL {
            kernel.vm.charge(label, vm.ledger().charged(label).0 - before.charged(label).0);
        }
        Ok(())
    }

    /// Lends the host's table to the guest's while `check` runs.
    pub(super) fn with_host(&mut self, check: impl FnOnce(&mut Simulation)) {
        let Simulation { kernel, host: Some(host), .. } = self else { return check(self) };
        let mut lent = host.stand_in.take().expect("the table is not lent");
        if host.exchange(&mut lent).is_ok()
            && let Ok(running) = kernel.vm.running()
        {
            running.table.lend_host(Some(lent));
            check(self);
            let Simulation { kernel, host: Some(host), .. } = self else { return };
            let running = kernel.vm.running().expect("it ran before");
            let mut lent = running.table.lend_host(None).expect("it was lent");
            host.exchange(&mut lent).expect("it ran before");
            host.stand_in = Some(lent);
        }
    }
}
