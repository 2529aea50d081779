//! The twin of [`reach_hardware::Processor`]: an MMU for each hardware thread. What threads share is copied to the next
//! one that runs.

use crate::cache::Caches;
use crate::mmu::Mmu;
use reach_core::{Label, PageTable, Ref, Shootdown, StopReason};
use reach_hardware::Topology;
use reach_hardware::config::{self, Sharing};

/// A processor: cores with their hardware threads.
#[derive(Clone, Debug)]
pub struct Processor {
    topology: Topology,
    /// By hardware thread; those of the first core come first.
    pub mmus: Vec<Mmu>,
    /// By core. Empty where caches are not modelled.
    pub caches: Vec<Caches>,
    /// The hardware thread that runs.
    on: usize,
    /// By core, the hardware thread that ran last.
    last: Vec<usize>,
    /// By hardware thread, whether it has run something.
    begun: Vec<bool>,
}

impl Processor {
    /// Creates a processor with empty TLBs and caches.
    pub fn new(config: &config::Machine, topology: &Topology, cached: bool, seed: u64) -> Processor {
        let mut each = config.clone();
        for (at, tlb) in each.tlbs.iter_mut().enumerate() {
            if topology.threads > 1 && topology.sharing[at] == Sharing::Partitioned {
                let (sets, threads) = (tlb.entries / tlb.ways, topology.threads as u32);
                let ways = if sets % threads == 0 { tlb.ways } else { tlb.entries / threads };
                (tlb.entries, tlb.ways) = (tlb.entries / threads, ways);
            }
        }
        let seed = |n: usize| seed ^ ((n as u64) << 40);
        let mmu = |hw| Mmu::of_thread(&each, hw % topology.threads, topology.threads, seed(hw));
        let cores = if cached { topology.cores } else { 0 };
        Processor {
            mmus: (0..topology.hardware_threads()).map(mmu).collect(),
            caches: (0..cores).map(|core| Caches::new(config, seed(core))).collect(),
            on: 0,
            begun: vec![false; topology.hardware_threads()],
            last: (0..topology.cores).map(|core| core * topology.threads).collect(),
            topology: topology.clone(),
        }
    }

    /// Switches to hardware thread `hw`.
    pub fn run_on(&mut self, hw: usize) {
        let (core, previous) = (hw / self.topology.threads, self.on / self.topology.threads);
        if let Some(caches) = self.caches.get(previous).cloned() {
            self.caches[core].copy_shared(&caches);
        }
        let sibling = self.mmus[self.last[core]].clone();
        self.mmus[hw].copy_shared(&sibling, &self.topology.sharing);
        (self.on, self.last[core]) = (hw, hw);
    }

    /// Runs references on the current hardware thread.
    pub fn run(&mut self, refs: &[Ref], table: &mut PageTable) -> (StopReason, usize) {
        let core = self.on / self.topology.threads;
        self.begun[self.on] = true;
        self.mmus[self.on].run(refs, table, self.caches.get_mut(core))
    }

    /// Drops translations on all hardware threads. Those that run in the address space pay: `invalidate` cycles, and
    /// all but the current one also `interrupt` cycles.
    pub fn invalidate(&mut self, shootdown: &Shootdown, invalidate: u64, interrupt: u64) {
        let on = self.on;
        for hw in 0..self.mmus.len() {
            self.run_on(hw);
            let mmu = &mut self.mmus[hw];
            if hw != on && !(self.begun[hw] && mmu.knows(shootdown.asid)) {
                continue;
            }
            mmu.invalidate(shootdown);
            if hw == on {
                mmu.ledger.charge(Label::Remap, invalidate);
            } else if mmu.runs_in(shootdown.asid) {
                mmu.ledger.charge(Label::Remap, invalidate + interrupt);
            }
        }
        self.run_on(on);
    }
}
