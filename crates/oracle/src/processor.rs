//! The twin of `reach_hardware::Processor`: one core's hardware after another, and whatever hardware threads share is
//! copied to the one that runs next.

use crate::cache::Caches;
use crate::mmu::Machine;
use reach_core::{Label, PageTable, Ref, Shootdown, StopReason};
use reach_hardware::Topology;
use reach_hardware::config::{self, Sharing};

/// Cores with their hardware threads.
#[derive(Clone, Debug)]
pub struct Processor {
    shape: Topology,
    /// One for each hardware thread, those of the first core first.
    pub machines: Vec<Machine>,
    /// One for each core, or none.
    pub caches: Vec<Caches>,
    /// Who ran last: of all, and of each core.
    on: usize,
    last: Vec<usize>,
    /// Who has run something.
    begun: Vec<bool>,
}

impl Processor {
    /// An empty processor.
    pub fn new(config: &config::Machine, shape: &Topology, cached: bool, seed: u64) -> Processor {
        let mut each = config.clone();
        for (at, tlb) in each.tlbs.iter_mut().enumerate() {
            if shape.threads > 1 && shape.sharing[at] == Sharing::Partitioned {
                let (sets, threads) = (tlb.entries / tlb.ways, shape.threads as u32);
                let ways = if sets % threads == 0 { tlb.ways } else { tlb.entries / threads };
                (tlb.entries, tlb.ways) = (tlb.entries / threads, ways);
            }
        }
        let seed = |n: usize| seed ^ ((n as u64) << 40);
        let machine = |hw| Machine::of_thread(&each, hw % shape.threads, shape.threads, seed(hw));
        let cores = if cached { shape.cores } else { 0 };
        Processor {
            machines: (0..shape.hardware_threads()).map(machine).collect(),
            caches: (0..cores).map(|core| Caches::new(config, seed(core))).collect(),
            on: 0,
            begun: vec![false; shape.hardware_threads()],
            last: (0..shape.cores).map(|core| core * shape.threads).collect(),
            shape: shape.clone(),
        }
    }

    /// From here on this hardware thread runs.
    pub fn run_on(&mut self, hw: usize) {
        let (core, before) = (hw / self.shape.threads, self.on / self.shape.threads);
        if let Some(caches) = self.caches.get(before).cloned() {
            self.caches[core].copy_shared(&caches);
        }
        let sibling = self.machines[self.last[core]].clone();
        self.machines[hw].copy_shared(&sibling, &self.shape.sharing);
        (self.on, self.last[core]) = (hw, hw);
    }

    /// Runs references on the thread that runs.
    pub fn run(&mut self, refs: &[Ref], table: &mut PageTable) -> (StopReason, usize) {
        let core = self.on / self.shape.threads;
        self.begun[self.on] = true;
        self.machines[self.on].run(refs, table, self.caches.get_mut(core))
    }

    /// Everybody forgets. Who runs there now pays for it.
    pub fn invalidate(&mut self, shootdown: &Shootdown, invalidate: u64, interrupt: u64) {
        let on = self.on;
        for hw in 0..self.machines.len() {
            self.run_on(hw);
            let machine = &mut self.machines[hw];
            if hw != on && !(self.begun[hw] && machine.knows(shootdown.asid)) {
                continue;
            }
            machine.invalidate(shootdown);
            if hw == on {
                machine.ledger.charge(Label::Remap, invalidate);
            } else if machine.runs_in(shootdown.asid) {
                machine.ledger.charge(Label::Remap, invalidate + interrupt);
            }
        }
        self.run_on(on);
    }
}
