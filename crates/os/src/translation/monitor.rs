//! A virtual machine monitor that shadows the page tables of this operating system, a guest's: what makes it trap, and what traps
//! cost (Gandhi et al., ISCA 2016, §II-B and §III).
//!
//! It traps at writes of page-table entries in shadow mode, at accessed and dirty bits that it has to set there, and at page faults
//! and invalidations of pages that it shadows; and at each switch to another address space, because it loads the root.

use crate::{MonitorCounts, Vm};
use reach_core::{Asid, Cycles, Label, Vpn};

/// How a virtual machine monitor shadows a guest's page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// Nodes of page tables that change often are in nested mode (agile paging); otherwise none is (shadow paging).
    pub agile: bool,
    /// Cycles of a trap: exit, the monitor's work, entry.
    pub trap: u64,
    /// Cycles between two looks at which nodes go back to shadow mode, at least 1.
    pub interval: u64,
}

impl Vm {
    /// Charges for `traps`, and counts them by `count`. Does nothing without a monitor.
    fn trap(&mut self, traps: u64, label: Label, count: impl Fn(&mut MonitorCounts, u64)) {
        let Some(monitor) = self.options.monitor else { return };
        if traps > 0 {
            self.charge(label, traps * monitor.trap);
            count(self.accounting.total.monitor.get_or_insert_default(), traps);
        }
    }

    /// Charges for the traps that changes of the tables of `asid` have caused: its own to `label`, those of the program's
    /// references to page faults.
    pub(super) fn charge_traps(&mut self, asid: Asid, label: Label) {
        if self.options.monitor.is_some() {
            let traps = self.edit(asid).0.take_traps();
            self.trap(traps.writes, label, |counts, traps| counts.writes += traps);
            self.trap(traps.marks, Label::Fault, |counts, traps| counts.marks += traps);
        }
    }

    /// Charges for the traps that references of the running process have caused. The run loop calls this when the processor
    /// stops.
    pub fn charge_monitor(&mut self) {
        if self.options.monitor.is_some() && self.processes.get(self.current()).is_some() {
            self.charge_traps(self.current(), Label::Fault);
        }
    }

    /// Notes that the guest takes a page fault at `vpn`, which its monitor sees first.
    pub fn trap_fault(&mut self, vpn: Vpn) {
        let shadowed = self.options.monitor.is_some() && self.is_shadowed(self.current(), vpn);
        self.trap(shadowed.into(), Label::Fault, |counts, traps| counts.faults += traps);
    }

    /// Notes `count` invalidations of translations around `vpn`.
    pub(crate) fn trap_invalidations(&mut self, asid: Asid, vpn: Vpn, count: u64, label: Label) {
        let shadowed = self.options.monitor.is_some() && self.is_shadowed(asid, vpn);
        self.trap(if shadowed { count } else { 0 }, label, |counts, traps| counts.invalidations += traps);
    }

    /// Notes that another address space runs from now on.
    pub(crate) fn trap_switch(&mut self) {
        self.trap(1, Label::Fault, |counts, traps| counts.switches += traps);
    }

    fn is_shadowed(&self, asid: Asid, vpn: Vpn) -> bool {
        self.processes.get(asid).is_none_or(|process| process.table().is_shadowed_at(vpn))
    }

    /// Lets the monitor look, if its interval has ended, at which nodes the guest has not written; they go back to shadow mode, and
    /// each costs as much as a trap. `now` is the time since boot.
    pub fn tick_monitor(&mut self, now: Cycles) {
        let Some(monitor) = self.options.monitor.filter(|monitor| monitor.agile) else { return };
        if now.0 / monitor.interval == self.translation.monitor_intervals {
            return;
        }
        self.translation.monitor_intervals = now.0 / monitor.interval;
        let asids: Vec<Asid> = self.processes().map(|(asid, _)| asid).collect();
        let (mut returns, mut nested) = (0, 0);
        for asid in asids {
            let table = self.edit(asid).0;
            returns += table.end_shadow_interval();
            nested += table.shadowed().map_or(0, |shadowed| shadowed.nested_nodes());
        }
        self.charge(Label::Daemon, returns * monitor.trap);
        let counts = self.accounting.total.monitor.get_or_insert_default();
        counts.returns += returns;
        counts.nested_nodes = nested;
    }
}
