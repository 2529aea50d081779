//! The twin of `reach_hardware::Processor`: one core's hardware after another, and whatever hardware threads share is
//! copied to the one that runs next.

use crate::cache::Caches;
use crate::machine::Machine;
use reach_core::{Label, PageTable, Ref, Shootdown, Why};
use reach_hardware::Shape;
use reach_hardware::config::{self, Sharing};

/// Cores with their hardware threads.
#[derive(Clone, Debug)]
pub struct Processor {
    shape: Shape,
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
    pub fn new(config: &config::Machine, shape: &Shape, cached: bool, seed: u64) -> Processor {
        let mut each = config.clone();
        for (at, tlb) in each.tlbs.iter_mut().enumerate() {
            if shape.threads > 1 && shape.sharing[at] == Sharing::Partitioned {
                let (sets, threads) = (tlb.entries / tlb.ways, shape.threads as u32);
                let ways = if sets % threads == 0 { tlb.ways } else { tlb.entries / threads };
                (tlb.entries, tlb.ways) = (tlb.entries / threads, ways);
            }
        }
        let seed = |n: usize| seed ^ ((n as u64) << 40);
        let machine = |lane| Machine::of_thread(&each, lane % shape.threads, shape.threads, seed(lane));
        let cores = if cached { shape.cores } else { 0 };
        Processor {
            machines: (0..shape.lanes()).map(machine).collect(),
            caches: (0..cores).map(|core| Caches::new(config, seed(core))).collect(),
            on: 0,
            begun: vec![false; shape.lanes()],
            last: (0..shape.cores).map(|core| core * shape.threads).collect(),
            shape: shape.clone(),
        }
    }

    /// From here on this hardware thread runs.
    pub fn run_on(&mut self, lane: usize) {
        let (core, before) = (lane / self.shape.threads, self.on / self.shape.threads);
        if let Some(caches) = self.caches.get(before).cloned() {
            self.caches[core].copy_shared(&caches);
        }
        let sibling = self.machines[self.last[core]].clone();
        self.machines[lane].copy_shared(&sibling, &self.shape.sharing);
        (self.on, self.last[core]) = (lane, lane);
    }

    /// Runs references on the thread that runs.
    pub fn run(&mut self, refs: &[Ref], table: &mut PageTable) -> (Why, usize) {
        let core = self.on / self.shape.threads;
        self.begun[self.on] = true;
        self.machines[self.on].run(refs, table, self.caches.get_mut(core))
    }

    /// Everybody forgets. Who runs there now pays for it.
    pub fn invalidate(&mut self, shootdown: &Shootdown, invalidate: u64, interrupt: u64) {
        let on = self.on;
        for lane in 0..self.machines.len() {
            self.run_on(lane);
            let machine = &mut self.machines[lane];
            if lane != on && !(self.begun[lane] && machine.knows(shootdown.asid)) {
                continue;
            }
            machine.invalidate(shootdown);
            if lane == on {
                machine.ledger.charge(Label::Remap, invalidate);
            } else if machine.runs_in(shootdown.asid) {
                machine.ledger.charge(Label::Remap, invalidate + interrupt);
            }
        }
        self.run_on(on);
    }
}
