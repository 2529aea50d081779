//! A processor of several cores, each with one or more hardware threads.
//!
//! Every hardware thread has an [`Mmu`] of its own, and its window where there is one. What hardware threads share stands
//! with the one that ran last, and goes over when another runs: the shared TLB arrays, walk caches and what stands beside
//! the last level from thread to thread of a core, the shared caches and the memory controller from core to core. So
//! nothing that runs references knows of others, and a single thread pays nothing.
//!
//! Threads of a core compete for the entries of what they share, but each finds only its own: address-space numbers are
//! given out by each logical processor for itself, so that hardware must tell its entries from its sibling's.

use crate::cache::Caches;
use crate::config::{self, Sharing};
use crate::mmu::Mmu;
use crate::ooo::OooCore;
use reach_core::{Label, PhysAddr, Shootdown};

/// How many cores, and how their hardware threads divide what they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Cores, at least 1.
    pub cores: usize,
    /// Hardware threads of each core, at least 1.
    pub threads: usize,
    /// How the threads of a core divide each TLB array of the machine, in its order; not asked for with one thread.
    pub sharing: Vec<Sharing>,
}

impl Shape {
    /// One core with one thread.
    pub const ONE: Shape = Shape { cores: 1, threads: 1, sharing: Vec::new() };

    /// All hardware threads.
    pub fn hardware_threads(&self) -> usize {
        self.cores * self.threads
    }

    /// The machine as a thread finds it: what is partitioned is smaller.
    fn machine(&self, whole: &config::Machine) -> config::Machine {
        let mut machine = whole.clone();
        if self.threads > 1 {
            let parts = machine.tlbs.iter_mut().zip(&self.sharing);
            parts.filter(|(_, sharing)| **sharing == Sharing::Partitioned).for_each(|(tlb, _)| {
                tlb.entries /= self.threads as u32;
                // By sets where there are enough of them.
                if tlb.entries % tlb.ways != 0 {
                    tlb.ways = tlb.entries;
                }
            });
        }
        machine
    }
}

/// What runs on one hardware thread.
#[derive(Clone, Debug)]
struct Unit {
    mmu: Mmu,
    ooo: Option<Box<OooCore>>,
    /// It has run something.
    begun: bool,
}

/// Cores and what they share.
#[derive(Clone, Debug)]
pub struct Processor {
    /// Those of the first core first.
    units: Vec<Unit>,
    /// One hierarchy for each core, where caches are modelled.
    caches: Vec<Caches>,
    threads: usize,
    /// Which TLB arrays the threads of a core share.
    shared: Vec<bool>,
    /// The hardware thread that runs.
    on: usize,
    /// For each core the thread that holds what its threads share.
    holders: Vec<usize>,
    /// The core that holds what all cores share.
    holder: usize,
}

impl Processor {
    /// An empty processor of `machine`, which has been checked. `perfect`: translation costs nothing and never misses.
    pub fn new(machine: &config::Machine, shape: &Shape, cached: bool, perfect: bool, seed: u64) -> Processor {
        let each = shape.machine(machine);
        let own_seed = |n: usize| seed ^ (n as u64) << 40;
        let unit = |hw: usize| {
            let mut mmu = Mmu::new(&each, perfect, own_seed(hw));
            mmu.be_thread(hw % shape.threads, shape.threads);
            Unit { mmu, ooo: None, begun: false }
        };
        Processor {
            units: (0..shape.hardware_threads()).map(unit).collect(),
            caches: (0..if cached { shape.cores } else { 0 }).map(|n| Caches::new(machine, own_seed(n))).collect(),
            threads: shape.threads,
            shared: shape.sharing.iter().map(|sharing| *sharing == Sharing::Shared).collect(),
            on: 0,
            holders: (0..shape.cores).map(|core| core * shape.threads).collect(),
            holder: 0,
        }
    }

    /// Gives every hardware thread its part of a core's window, `core` with so many page walkers: of all that is counted
    /// in it, at least one each. Buffers are partitioned so in hardware; width, ports, misses under way and walkers are
    /// competed for there, and are divided here as if both threads always wanted them; as the memory's bandwidth is among the
    /// threads of all cores.
    pub fn with_ooo_cores(&mut self, core: config::OooCore, walkers: u32) {
        let part = |all: u32| all.div_ceil(self.threads as u32);
        let own = config::OooCore {
            rob: part(core.rob),
            width: part(core.width),
            load_ports: part(core.load_ports),
            store_ports: part(core.store_ports),
            load_queue: part(core.load_queue),
            store_queue: part(core.store_queue),
            l1_mshrs: part(core.l1_mshrs),
            line_interval: core.line_interval * self.units.len() as u32,
            itlb_walkers: part(core.itlb_walkers),
            fetch_queue: part(core.fetch_queue),
            ..core
        };
        let walkers = part(walkers);
        for unit in &mut self.units {
            unit.ooo = Some(Box::new(OooCore::new(own, walkers)));
        }
    }

    /// How many hardware threads there are.
    pub fn hardware_threads(&self) -> usize {
        self.units.len()
    }

    /// Hardware threads of a core.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The hardware thread that runs.
    pub fn on(&self) -> usize {
        self.on
    }

    /// From here on hardware thread `hw` runs.
    pub fn run_on(&mut self, hw: usize) {
        let core = hw / self.threads;
        if self.holder != core {
            if let Ok([last, next]) = self.caches.get_disjoint_mut([self.holder, core]) {
                next.take_shared(last);
            }
            self.holder = core;
        }
        let last = self.holders[core];
        if last != hw {
            let [last, next] = self.units.get_disjoint_mut([last, hw]).expect("two threads of a core");
            next.mmu.take_shared(&mut last.mmu, &self.shared);
            self.holders[core] = hw;
        }
        if self.on != hw || self.units.len() > 1 {
            self.units[hw].mmu.resume();
        }
        self.on = hw;
    }

    /// The unit of the thread that runs.
    #[inline(always)]
    pub fn mmu(&mut self) -> &mut Mmu {
        &mut self.units[self.on].mmu
    }

    /// The unit of hardware thread `hw`.
    pub fn mmu_of(&self, hw: usize) -> &Mmu {
        &self.units[hw].mmu
    }

    /// All units, to be set up; of each core the first thread comes first, and holds what its threads share.
    pub fn mmus(&mut self) -> impl Iterator<Item = &mut Mmu> {
        self.units.iter_mut().map(|unit| &mut unit.mmu)
    }

    /// What references that run need.
    #[inline(always)]
    pub fn parts(&mut self) -> (&mut Mmu, Option<&mut OooCore>, Option<&mut Caches>) {
        let unit = &mut self.units[self.on];
        unit.begun = true;
        (&mut unit.mmu, unit.ooo.as_deref_mut(), self.caches.get_mut(self.on / self.threads))
    }

    /// The caches of the core that runs, where they are modelled.
    pub fn caches(&mut self) -> Option<&mut Caches> {
        self.caches.get_mut(self.on / self.threads)
    }

    /// The caches of each core. What is shared stands with one of them, and counts nothing elsewhere.
    pub fn all_caches(&self) -> &[Caches] {
        &self.caches
    }

    /// Forgets what `shootdown` names, everywhere. The thread that runs pays `invalidate` cycles; so does every other that
    /// runs in this address space now, and `interrupt` for being told. Others will have forgotten it when they come back.
    pub fn invalidate(&mut self, shootdown: &Shootdown, invalidate: u64, interrupt: u64) {
        let on = self.on;
        self.units[on].mmu.invalidate(shootdown);
        self.units[on].mmu.ledger.charge(Label::Remap, invalidate);
        if self.units.len() == 1 {
            return;
        }
        for hw in (0..self.units.len()).filter(|&hw| hw != on) {
            if !self.units[hw].begun || !self.units[hw].mmu.knows(shootdown.asid) {
                continue;
            }
            self.run_on(hw);
            let mmu = &mut self.units[hw].mmu;
            mmu.invalidate(shootdown);
            if mmu.runs_in(shootdown.asid) {
                mmu.ledger.charge(Label::Remap, invalidate + interrupt);
            }
        }
        self.run_on(on);
    }

    /// Drops every line of these bytes from the data caches of all cores, and sends what is dirty to memory.
    pub fn flush(&mut self, at: PhysAddr, bytes: u64) {
        let on = self.on;
        for core in 0..self.caches.len() {
            if core != on / self.threads {
                self.run_on(core * self.threads);
                self.caches[core].flush(at, bytes);
            }
        }
        self.run_on(on);
        if let Some(caches) = self.caches() {
            caches.flush(at, bytes);
        }
    }
}
