//! One file per published operating-system design. Each composes parts of `reach-os` (and names the hardware that it
//! needs beside an ordinary machine); its head says what is modelled, after which source, and with what deviations.
//!
//! To add a system: write its file, implement [`System`], and add one line to the table in `registry.rs`.

mod base;
mod basu_2013_direct_segment;
mod fang_1999;
mod freebsd;
mod hugetlb;
mod ideal;
mod karakostas_2015_rmm;
mod linux_thp;
mod navarro_2002;
mod online;
mod pham_2012_colt;
mod pham_2014_clustered;
mod registry;
mod romer_1995;
mod settings;
mod superpage;
mod talluri_hill_1994;
mod zhou_2023;

pub use registry::{Description, Resolved, Role, list, resolve};
pub use settings::{Accepts, Setting, Settings};

use reach_core::{AuxTlbOptions, ControllerOptions, Cycles, Event, Fault, FaultCause, Kind, TlbEvent, Vpn};
use reach_os::{OutOfMemory, Populate, Vm};

/// An operating-system design. The run loop calls its hooks; they act on the [`Vm`], whose door charges for it.
pub trait System: Send {
    /// Its name, as in `--system`.
    fn name(&self) -> &str;

    /// Called once, before the first event: fits the system to the machine, or refuses.
    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let _ = vm;
        Ok(())
    }

    /// Something happened between references.
    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        match vm.apply(event)? {
            Some(populate) => self.populate(&populate, vm),
            None => Ok(()),
        }
    }

    /// A reference of the running process could not be translated. Afterwards it can. Unless the system says otherwise,
    /// by a base page that is given its memory now.
    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.demand_fault(fault)
    }

    /// The first write to a clean page that the system watches ([`reach_core::Pte::watched`]).
    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let asid = vm.current();
        vm.protect(asid, vpn, 1, reach_core::Label::Fault, |_, entry| entry.pte.with_watched(false))
    }

    /// Its miss handler keeps account of the TLB: [`System::handle`] hears of every miss, at no cost but its own. Only
    /// TLBs that software fills have a miss handler; other machines are refused.
    fn sees_misses(&self) -> bool {
        false
    }

    /// The miss handler has found a translation. `events` end with the miss and the change that followed; before them
    /// stands what else became of the TLB's entries since the last call.
    fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        let _ = (events, vm);
        Ok(())
    }

    /// The memory controller that it needs, asked after [`System::boot`]; `None`: an ordinary one.
    fn controller(&self, vm: &Vm) -> Option<ControllerOptions> {
        let _ = vm;
        None
    }

    /// What it puts beside the last level of TLB arrays, asked after [`System::boot`]; `None`: nothing, at no cost.
    fn aux_tlb(&self, vm: &Vm) -> Option<AuxTlbOptions> {
        let _ = vm;
        None
    }

    /// It reads the processor's performance counters ([`Vm::performance`]), which are then kept up to date, and may turn
    /// what stands beside the last level off ([`System::enables_aux_tlb`]).
    fn reads_counters(&self) -> bool {
        false
    }

    /// Whether what stands beside the last level is on for the address space that runs now; where it
    /// [reads counters](System::reads_counters).
    fn enables_aux_tlb(&self, vm: &Vm) -> bool {
        let _ = vm;
        true
    }

    /// When [`System::tick`] is wanted next, in cycles since the start; `None`: never.
    fn wake(&self) -> Option<Cycles> {
        None
    }

    /// The time for daemons has come.
    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let _ = (now, vm);
        Ok(())
    }

    /// Translation is to cost nothing: the hardware never misses.
    fn perfect_tlb(&self) -> bool {
        false
    }

    /// Faults in pages that the program asked for at once.
    fn populate(&mut self, populate: &Populate, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.populating(true);
        let kind = if populate.write { Kind::Store } else { Kind::Load };
        let mut at = populate.pages.start;
        while at < populate.pages.end {
            let asid = vm.current();
            let page = vm.process(asid).and_then(|process| process.table().page(Vpn(at)));
            match page {
                Some(page) if !populate.write || page.pte.writable() => {
                    at = page.vpn.0 + page.pte.shift().base_pages(vm.base());
                }
                Some(_) => {
                    self.fault(Fault { vpn: Vpn(at), kind, cause: FaultCause::Protection }, vm)?;
                    at += 1;
                }
                None => {
                    self.fault(Fault { vpn: Vpn(at), kind, cause: FaultCause::NotPresent }, vm)?;
                    at += 1;
                }
            }
        }
        vm.populating(false);
        Ok(())
    }
}

/// Why a system cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SystemError {
    /// No system has this name.
    #[error("there is no system {name:?}{near}; `reach system list` shows all")]
    Name {
        /// As given.
        name: String,
        /// `: did you mean …?` or nothing.
        near: String,
    },
    /// The system has no such option.
    #[error("system {system} has no option {option:?}{near}; {known}")]
    Option {
        /// Which system.
        system: String,
        /// As given.
        option: String,
        /// `: did you mean …?` or nothing.
        near: String,
        /// The options that there are.
        known: String,
    },
    /// The option does not take this value.
    #[error("{system}: {option}={value} is no value for it; give {accepts}")]
    Value {
        /// Which system.
        system: String,
        /// Which option.
        option: String,
        /// As given.
        value: String,
        /// What it takes.
        accepts: String,
    },
    /// Something other than `key=value` after the colon.
    #[error("{system}: {text:?} is not of the form key=value; write {system}:key=value,key=value")]
    Form {
        /// Which system.
        system: String,
        /// As given.
        text: String,
    },
    /// The machine lacks what the system needs.
    #[error("{system} cannot run on this machine: {what}")]
    Machine {
        /// Which system.
        system: String,
        /// What is missing, and what to do.
        what: String,
    },
}
