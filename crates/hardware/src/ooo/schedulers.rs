//! Schedulers (reservation stations), which hold instructions from dispatch until they start.

mod scheduler;

use super::instruction::{Inst, OpClass};
use crate::config;
use crate::config::Operation;
use scheduler::Scheduler;

/// The cycles in which the parts of an instruction start. A part that it lacks, or that never comes, starts in cycle 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Starts {
    /// Its last load.
    pub load: u64,
    /// Its last store: address and data.
    pub store: u64,
    /// Its operation.
    pub operation: u64,
}

/// All schedulers of a core.
///
/// An instruction has one entry in each scheduler that serves any of its parts: its operation, its loads, its stores. It
/// holds an entry from dispatch until the last of these parts starts.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedulers {
    schedulers: Vec<Scheduler>,
    /// A bit for each that may be full.
    full: u8,
    /// By [`Operation`], the scheduler that serves it.
    of: [u8; Operation::ALL],
}

impl Schedulers {
    pub fn new(config: &config::Schedulers) -> Schedulers {
        let used = 1 + config.of.into_iter().max().unwrap_or(0);
        let schedulers = config.entries.iter().take(used.into()).map(|&entries| Scheduler::new(entries)).collect();
        Schedulers { schedulers, full: 0, of: config.of }
    }

    /// Makes `self` a copy of `other`, without allocating.
    pub fn copy_from(&mut self, other: &Schedulers) {
        self.schedulers.clone_from(&other.schedulers);
        (self.full, self.of) = (other.full, other.of);
    }

    /// Returns the first cycle, at or after `earliest`, in which `inst` finds a free entry in all its schedulers. It is the
    /// next in program order.
    #[inline(always)]
    pub fn free_for(&mut self, inst: &Inst, earliest: u64) -> u64 {
        if self.full == 0 { earliest } else { self.wait_for_entries(inst, earliest) }
    }

    fn wait_for_entries(&mut self, inst: &Inst, earliest: u64) -> u64 {
        let mut free = earliest;
        for operation in parts(inst).into_iter().flatten() {
            let scheduler = self.of[operation as usize];
            free = self.schedulers[usize::from(scheduler)].free_from(free);
            self.full &= !(1 << scheduler);
        }
        free
    }

    /// Gives entries to `inst`, which is `dispatched` and `starts`.
    #[inline(always)]
    pub fn hold(&mut self, inst: &Inst, dispatched: u64, starts: Starts) {
        let parts = parts(inst);
        if let [_] = self.schedulers[..] {
            let starts = [starts.operation, starts.load, starts.store];
            let last = parts.iter().zip(starts).map(|(part, start)| if part.is_some() { start } else { 0 });
            return self.hold_in(0, dispatched, last.fold(0, u64::max));
        }
        let [operation, load, store] = parts.map(|part| part.map(|part| self.of[part as usize]));
        let Starts { load: loads, store: mut stores, operation: mut operates } = starts;
        // Parts in one scheduler share an entry.
        if let Some(load) = load {
            if operation == Some(load) {
                operates = operates.max(loads);
            } else if store == Some(load) {
                stores = stores.max(loads);
            } else {
                self.hold_in(load, dispatched, loads);
            }
        }
        if let Some(store) = store {
            if operation == Some(store) {
                operates = operates.max(stores);
            } else {
                self.hold_in(store, dispatched, stores);
            }
        }
        if let Some(operation) = operation {
            self.hold_in(operation, dispatched, operates);
        }
    }

    #[inline(always)]
    fn hold_in(&mut self, scheduler: u8, dispatched: u64, starts: u64) {
        let is_full = self.schedulers[usize::from(scheduler)].hold(dispatched, starts);
        self.full |= u8::from(is_full) << scheduler;
    }
}

/// Returns the parts of `inst`: its operation, unless it only moves between memory and registers, its loads and its stores.
#[inline(always)]
fn parts(inst: &Inst) -> [Option<Operation>; 3] {
    let operation = match inst.class {
        OpClass::Move if inst.loads + inst.stores > 0 => None,
        OpClass::Float | OpClass::FloatDivide => Some(Operation::Float),
        _ => Some(Operation::Integer),
    };
    [operation, (inst.loads > 0).then_some(Operation::Load), (inst.stores > 0).then_some(Operation::Store)]
}
