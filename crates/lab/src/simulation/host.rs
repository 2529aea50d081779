//! The host of a guest, where it has an operating system of its own: a second kernel, for which the guest's memory is one mapping
//! of one process.

use super::Simulation;
use super::alignment::AlignedSuperpages;
use super::error::SimulationError;
use super::hardware::Detail;
use super::kernel::Kernel;
use crate::conditions::Conditions;
use crate::machine;
use reach_core::{
    Asid, AuxTlbOptions, Cycles, Event, Fault, FaultCause, Kind, Label, Map, MappedPage, PageShift, PageTable,
    PageTableKind, PhysAddr, StopReason, ThreadId, VirtAddr, Vpn,
};
use reach_hardware::{Cursor, GUEST_MEMORY, StepRefs};
use reach_os::{Counters, OutOfMemory, Vm};
use reach_systems::{Paging, System};

/// Returns the host's process that is guest number `number`.
fn process_of(number: u32) -> Asid {
    Asid(1 + number)
}

/// A host's kernel, and what stands in for its table while the processor has it.
pub(super) struct Host {
    kernel: Kernel,
    stand_in: Option<Box<PageTable>>,
    /// What was last seen of superpages.
    pub aligned: AlignedSuperpages,
}

/// Returns whether the system is more than an operating system. One that keeps a range table is not: the guest's range TLB reads it.
fn has_hardware(kernel: &Kernel) -> bool {
    let Kernel { system, vm, .. } = kernel;
    system.perfect_tlb()
        || system.replacement().is_some()
        || system.aux_tlb(vm).is_some_and(|options| !matches!(options, AuxTlbOptions::Ranges(_)))
        || system.walk_assist(vm).is_some()
        || system.back_side(vm).is_some()
}

impl Host {
    /// Boots the host of `conditions.guests` guests with `conditions.memory` bytes each. Its own memory is a quarter larger. The error
    /// says what does not fit.
    pub fn boot(machine: &machine::Resolved, spec: &str, conditions: &Conditions) -> Result<Host, String> {
        let system = reach_systems::resolve(spec).map_err(|error| format!("--host: {error}"))?;
        let guest = Map::anonymous(GUEST_MEMORY, conditions.memory);
        let guests = conditions.guests;
        let own = conditions.memory / 4 * 5 * u64::from(guests) + (64 << 20);
        let fragmentation = conditions.fragmentation.as_ref().map(|free| free.of_another(1));
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
        // The first guest is the one that runs.
        for number in (0..guests).rev() {
            boots(&switch_to(number), system, vm)?;
            boots(&Event::Map(guest), system, vm)?;
        }
        let layout = vm.options().layout.clone();
        let stand_in = Some(Box::new(PageTable::stand_in(layout)));
        Ok(Host { kernel, stand_in, aligned: AlignedSuperpages::default() })
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

    /// Returns what the host has counted for each of several guests, by number; nothing for one.
    pub fn counters_by_guest(&self) -> Vec<Counters> {
        let guests: Vec<Counters> = self.kernel.vm.live_counters().map(|(_, counters)| counters.clone()).collect();
        if guests.len() > 1 { guests } else { Vec::new() }
    }

    /// Returns when the scanner of superpages runs next; `None` if the host has none.
    pub fn next_scan(&self) -> Option<Cycles> {
        self.kernel.system.next_scan()
    }

    /// Returns the superpages by which the host maps the memory of guest number `number`, by places in that memory.
    pub fn superpages_of(&self, number: u32) -> Vec<(PhysAddr, PageShift)> {
        let vm = &self.kernel.vm;
        let Some(process) = vm.process(process_of(number)) else { return Vec::new() };
        let place = |page: MappedPage| (PhysAddr(page.vpn.addr(vm.base()).0 - GUEST_MEMORY.0), page.pte.shift());
        vm.superpages(process).into_iter().map(place).collect()
    }

    /// Returns the host's page table for guest number `number`, which is not lent; `None` if there is no such guest.
    pub fn table_of(&self, number: u32) -> Option<&PageTable> {
        self.kernel.vm.process(process_of(number)).map(|process| process.table())
    }
}

/// The host's switch to guest number `number`.
fn switch_to(number: u32) -> Event {
    Event::Switch { asid: process_of(number), thread: ThreadId(number) }
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

    /// Lets the host run guest number `number` from here on.
    pub(super) fn switch_host(&mut self, number: u32) -> Result<(), SimulationError> {
        self.call_host(|system, vm| system.event(&switch_to(number), vm))
    }

    /// Lets the host's daemons run, if one is due, and the monitor that shadows page tables.
    pub(super) fn tick_host(&mut self, now: Cycles) -> Result<(), SimulationError> {
        self.kernel.vm.tick_monitor(now);
        if self.host.as_mut().is_some_and(|host| host.kernel.wakes_by(now)) {
            self.hardware.serialise(false);
            self.call_host(|system, vm| system.tick(now, vm))?;
        }
        self.scan_guests(now)
    }

    /// Tells the host of the superpages of guest number `number`.
    pub(super) fn tell_host(
        &mut self,
        number: u32,
        superpages: &[(Vpn, PageShift)],
        now: Cycles,
    ) -> Result<(), SimulationError> {
        self.call_host(|system, vm| system.guest_superpages(process_of(number), superpages, now, vm))
    }

    /// Calls the host's system, charges its cycles to the guest, whose time they are, and applies what it queued for the
    /// processor.
    fn call_host(
        &mut self,
        act: impl FnOnce(&mut dyn System, &mut Vm) -> Result<(), OutOfMemory>,
    ) -> Result<(), SimulationError> {
        let (traffic_in_caches, now) = (self.detail() != Detail::Translation, self.now().0);
        let Simulation { kernel, host, hardware, names, .. } = self;
        let Some(host) = host else { return Ok(()) };
        if host.kernel.reads_counters {
            host.kernel.vm.set_performance(hardware.performance(now));
        }
        let before = host.kernel.vm.ledger().clone();
        let Kernel { system, vm, .. } = &mut host.kernel;
        act(&mut **system, vm).map_err(|source| names.out_of_memory(source))?;
        let mut changed: Vec<u32> = vm.drain_shootdowns().map(|shootdown| shootdown.asid.0 - process_of(0).0).collect();
        changed.sort_unstable();
        changed.dedup();
        changed.iter().for_each(|&guest| hardware.processor.mmu().flush_guest(guest));
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
