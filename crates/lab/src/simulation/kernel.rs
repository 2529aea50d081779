//! The operating system's side: a system, and the memory that it manages.

use crate::conditions::Conditions;
use crate::machine;
use reach_core::{Cycles, Millicycles, TlbEvent};
use reach_os::{Costs, Fragmentation, FreeMemory, Monitor, Vm};
use reach_systems::{Paging, System};

/// What is wrong with a system that asks for a kind of paging that guests have.
pub(super) const NO_GUEST: &str = "its option guest_paging is for guests, and this machine is none; add nested.host_page to the machine, \
                                   as in skylake-sp:nested.host_page=4K";

/// A booted operating system.
pub(super) struct Kernel {
    /// The system: its policies.
    pub system: Box<dyn System>,
    /// The memory that it manages.
    pub vm: Vm,
    /// Whether the system reads performance counters, and may turn the auxiliary TLB off.
    pub reads_counters: bool,
    /// Scratch buffer of policy call-backs, reused between calls.
    pub tlb_events: Vec<TlbEvent>,
    /// How often the clock woke a daemon.
    pub wakes: u64,
}

impl Kernel {
    /// Boots `system` on `machine`. The error says what does not fit.
    pub fn boot(
        machine: &machine::Resolved,
        system: &reach_systems::Resolved,
        conditions: &Conditions,
    ) -> Result<Kernel, String> {
        let hardware = &machine.hardware;
        let mut options = reach_os::Options::linux(hardware.layout.clone(), hardware.sizes.clone(), conditions.memory);
        options.costs = costs(machine, conditions);
        options.caches_modelled = conditions.timing.has_caches();
        options.hertz = hardware.core.hertz;
        options.warm = conditions.warm;
        options.monitor = monitor(machine, system.paging())?;
        let mut vm = Vm::new(options).map_err(|error| error.to_string())?;
        let measured = || Fragmentation::scattering(machine.os.scatter?, conditions.memory).map(FreeMemory::Broken);
        if let Some(free) = conditions.fragmentation.clone().or_else(measured) {
            free.apply(vm.frames_mut()).map_err(|error| error.to_string())?;
        }
        let mut system = system.build();
        system.boot(&mut vm).map_err(|error| error.to_string())?;
        let reads_counters = system.reads_counters();
        Ok(Kernel { system, vm, reads_counters, tlb_events: Vec::new(), wakes: 0 })
    }

    /// Returns whether a daemon wants to run by `now`, and counts it as woken.
    pub fn wakes_by(&mut self, now: Cycles) -> bool {
        let due = self.system.next_tick().is_some_and(|wake| wake <= now);
        self.wakes += u64::from(due);
        due
    }

    /// Returns whether the auxiliary TLB is on for the address space that runs.
    pub fn enables_aux_tlb(&self) -> bool {
        self.system.enables_aux_tlb(&self.vm)
    }
}

/// Returns the monitor that shadows page tables, if one does. The error says that there is no guest.
fn monitor(machine: &machine::Resolved, paging: Paging) -> Result<Option<Monitor>, String> {
    let agile = match paging {
        Paging::Nested | Paging::Native => return Ok(None),
        Paging::Shadow => false,
        Paging::Agile => true,
    };
    if machine.hardware.nested.is_none() {
        return Err(NO_GUEST.into());
    }
    let Some(costs) = machine.os.monitor else {
        return Err("its machine file does not tell what a monitor costs; add nested.trap and nested.interval_ms \
                    (docs/machines.md)"
            .into());
    };
    Ok(Some(Monitor { agile, trap: costs.trap.into(), interval: costs.interval }))
}

/// Returns the machine file's costs in the operating system's terms. Where the kernel's own code is simulated, it takes the time
/// of the paths that it executes.
fn costs(machine: &machine::Resolved, conditions: &Conditions) -> Costs {
    let os = &machine.os;
    // A run on one hardware thread has no other processor to interrupt.
    let interrupt = if conditions.placement.hardware_threads() > 1 { os.interrupt } else { 0 };
    let all = Costs {
        trap: u64::from(os.trap),
        fault: u64::from(os.fault),
        file_fault: u64::from(os.file_fault),
        fault_around_page: u64::from(os.fault_around_page),
        zero_per_byte: Millicycles(os.zero_per_byte.into()),
        copy_per_byte: Millicycles(os.copy_per_byte.into()),
        pte_write: u64::from(os.pte_write),
        shootdown: u64::from(os.shootdown),
        interrupt: u64::from(interrupt),
        fork: u64::from(os.fork),
        fork_per_pte: u64::from(os.fork_per_pte),
        exit_per_pte: u64::from(os.exit_per_pte),
        free_page: u64::from(os.free_page),
        table_page: u64::from(os.table_page),
        file_read: u64::from(os.file_read),
        file_read_per_byte: Millicycles(os.file_read_per_byte.into()),
        scan_per_page: u64::from(os.scan_per_page),
    };
    match conditions.kernel {
        true => Costs { fault: 0, file_fault: 0, fault_around_page: 0, fork: 0, ..all },
        false => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Placement, Timing};
    use reach_os::{FrameKind, ObjectId, Scatter};

    #[test]
    fn base_pages_lie_as_scattered_as_the_machine_says_and_huge_pages_are_left() {
        let system = reach_systems::resolve("base").unwrap();
        let conditions = Conditions::new(2 << 30);
        let mut machine = machine::resolve("zen4").unwrap();
        for (groups, expected) in [(None, 125.0), (Some(0.84), 840.0)] {
            machine.os.scatter = groups.map(|groups| Scatter { groups, jumps: None });
            let mut kernel = Kernel::boot(&machine, &system, &conditions).unwrap();
            let frames = kernel.vm.frames_mut();
            let given = (0..8000).map(|at| frames.allocate(0, FrameKind::Anonymous, ObjectId::NONE, at).unwrap().0 / 8);
            let groups = given.collect::<std::collections::BTreeSet<_>>().len() as f64 / 8.0;
            assert!((groups / expected - 1.0).abs() < 0.05, "{groups} for {expected}");
            assert!(frames.buddy().free_by_order()[9..].iter().any(|&blocks| blocks > 0));
        }
    }

    #[test]
    fn processors_are_interrupted_only_where_there_are_others_that_run_the_program() {
        let costs = |machine: &str, placement| {
            let machine = machine::resolve(machine).unwrap();
            let costs = costs(&machine, &Conditions { placement, timing: Timing::Ooo, ..Conditions::new(1 << 30) });
            (costs.shootdown, costs.interrupt)
        };
        for (machine, own, others) in [("zen4", 0, 3000), ("neoverse-v2", 500, 0), ("alpha-21264", 100, 0)] {
            assert_eq!(costs(machine, Placement::ONE), (own, 0), "{machine}");
            assert_eq!(costs(machine, Placement::of(2, 1)), (own, others), "{machine}");
        }
    }
}
