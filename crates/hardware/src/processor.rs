//! A processor of several cores, each with one or more hardware threads.
//!
//! Every hardware thread has an [`Mmu`] of its own, and its part of an out-of-order core under that timing. The structures
//! that hardware threads share are with the one that ran last, and are swapped when another runs: the shared TLB arrays, walk
//! caches and the auxiliary TLB between the threads of a core, the shared caches and the memory controller between cores. So
//! the code that runs references needs to know no other thread, and a single thread pays nothing.
//!
//! The threads of a core compete for the entries of shared structures, but each hits only its own: each logical processor
//! assigns address-space numbers by itself, so that hardware must distinguish its entries from its sibling's.

use crate::cache::Caches;
use crate::config::{self, Sharing};
use crate::mmu::Mmu;
use crate::ooo::{LineStream, OooCore};
use reach_core::{Label, PhysAddr, Shootdown};

/// The number of cores and hardware threads, and the division of TLB arrays among threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Number of cores, at least 1.
    pub cores: usize,
    /// Number of hardware threads of each core, at least 1.
    pub threads: usize,
    /// How the threads of a core divide each TLB array of the machine, in its order. Unused with one thread.
    pub sharing: Vec<Sharing>,
}

impl Topology {
    /// One core with one hardware thread.
    pub const ONE: Topology = Topology { cores: 1, threads: 1, sharing: Vec::new() };

    /// Returns the number of hardware threads of all cores.
    pub fn hardware_threads(&self) -> usize {
        self.cores * self.threads
    }

    /// Returns the machine of one thread: `whole` with smaller partitioned arrays.
    fn thread_machine(&self, whole: &config::Machine) -> config::Machine {
        let mut machine = whole.clone();
        if self.threads > 1 {
            let parts = machine.tlbs.iter_mut().zip(&self.sharing);
            parts.filter(|(_, sharing)| **sharing == Sharing::Partitioned).for_each(|(tlb, _)| {
                tlb.entries /= self.threads as u32;
                // The sets are divided if there are enough of them.
                if tlb.entries % tlb.ways != 0 {
                    tlb.ways = tlb.entries;
                }
            });
        }
        machine
    }
}

/// One hardware thread.
#[derive(Clone, Debug)]
struct HardwareThread {
    mmu: Mmu,
    /// Its part of an out-of-order core; `None` in other timings.
    ooo: Option<Box<OooCore>>,
    /// It has run references.
    begun: bool,
}

/// A processor: cores, hardware threads, and what they share.
///
/// ```
/// # let machine = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/small_machine.rs"));
/// use reach_hardware::config::Sharing;
/// use reach_hardware::{Processor, Topology};
///
/// let topology = Topology { cores: 2, threads: 2, sharing: vec![Sharing::Shared; 3] };
/// let mut processor = Processor::new(&machine, &topology, true, false, 0);
/// processor.run_on(3);
/// let (mmu, ooo, caches) = processor.running();
/// assert!(ooo.is_none() && caches.is_some());
/// assert_eq!(mmu.counters.walks(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Processor {
    /// The hardware threads, by core.
    units: Vec<HardwareThread>,
    /// One cache hierarchy for each core; empty if caches are not modelled.
    caches: Vec<Caches>,
    /// Hardware threads of each core.
    threads: usize,
    /// How a core that executes out of order streams lines; `None` in other timings.
    line_stream: Option<LineStream>,
    /// By TLB array: whether the threads of a core share it.
    shared: Vec<bool>,
    /// The hardware thread that runs.
    on: usize,
    /// By core: the thread that has the structures that its threads share.
    core_holders: Vec<usize>,
    /// The core that has the structures that all cores share.
    holder: usize,
}

impl Processor {
    /// Creates an empty processor of `machine`, which has been checked. It has data caches if `cached`. If `perfect`,
    /// translation costs nothing and never misses. `seed` is for random replacement.
    pub fn new(machine: &config::Machine, topology: &Topology, cached: bool, perfect: bool, seed: u64) -> Processor {
        let each = topology.thread_machine(machine);
        let own_seed = |n: usize| seed ^ (n as u64) << 40;
        let unit = |hw: usize| {
            let mut mmu = Mmu::new(&each, perfect, own_seed(hw));
            mmu.set_thread(hw % topology.threads, topology.threads);
            HardwareThread { mmu, ooo: None, begun: false }
        };
        Processor {
            units: (0..topology.hardware_threads()).map(unit).collect(),
            caches: (0..if cached { topology.cores } else { 0 }).map(|n| Caches::new(machine, own_seed(n))).collect(),
            threads: topology.threads,
            line_stream: None,
            shared: topology.sharing.iter().map(|sharing| *sharing == Sharing::Shared).collect(),
            on: 0,
            core_holders: (0..topology.cores).map(|core| core * topology.threads).collect(),
            holder: 0,
        }
    }

    /// Gives every hardware thread its part of an out-of-order core `core` with `walkers` page walkers: an equal share of
    /// each resource, at least 1. Hardware partitions the buffers in this way. Threads compete for width, ports, schedulers,
    /// physical and miss registers, the filling of the first level and walkers; here these are divided as if all threads always used them.
    /// So is memory bandwidth, among the threads of all cores.
    pub fn add_ooo_cores(&mut self, core: config::OooCore, walkers: u32) {
        let part = |all: u32| all.div_ceil(self.threads as u32);
        let own = config::OooCore {
            rob: part(core.rob),
            schedulers: config::Schedulers { entries: core.schedulers.entries.map(part), ..core.schedulers },
            registers: config::RegisterFiles {
                integer: part(core.registers.integer).max(config::RegisterFiles::LEAST),
                vector: part(core.registers.vector).max(config::RegisterFiles::LEAST),
                ..core.registers
            },
            width: part(core.width),
            load_ports: part(core.load_ports),
            store_ports: part(core.store_ports),
            load_queue: part(core.load_queue),
            store_queue: part(core.store_queue),
            l1_mshrs: part(core.l1_mshrs),
            l1_fill: core.l1_fill * self.threads as u32,
            line_interval: core.line_interval * self.units.len() as u32,
            fetch_queue: part(core.fetch_queue),
            ..core
        };
        self.line_stream = Some(LineStream::of(&config::OooCore { line_interval: own.line_interval, ..core }));
        let walkers = part(walkers);
        for unit in &mut self.units {
            unit.ooo = Some(Box::new(OooCore::new(own, walkers)));
        }
    }

    /// Returns the kind of branch predictor that the cores have; `None` unless they execute out of order.
    pub fn predictor_config(&self) -> Option<config::Predictor> {
        self.units[0].ooo.as_ref().map(|ooo| ooo.predictor_config())
    }

    /// Returns how a core streams lines of memory; `None` unless it executes out of order.
    pub fn line_stream(&self) -> Option<LineStream> {
        self.line_stream
    }

    /// Returns the number of hardware threads.
    pub fn hardware_threads(&self) -> usize {
        self.units.len()
    }

    /// Returns the number of hardware threads of each core.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Lets `cycles` cycles pass for the caches of the thread that runs.
    pub fn pass(&mut self, cycles: u64) {
        if let Some(caches) = self.caches.get_mut(self.holder) {
            caches.pass(cycles);
        }
    }

    /// Returns the hardware thread that runs.
    pub fn on(&self) -> usize {
        self.on
    }

    /// Switches to hardware thread `hw`.
    pub fn run_on(&mut self, hw: usize) {
        let core = hw / self.threads;
        if self.holder != core {
            if let Ok([last, next]) = self.caches.get_disjoint_mut([self.holder, core]) {
                next.take_shared(last);
            }
            self.holder = core;
        }
        let last = self.core_holders[core];
        if last != hw {
            let [last, next] =
                self.units.get_disjoint_mut([last, hw]).expect("`last` and `hw` are two threads of one core");
            next.mmu.take_shared(&mut last.mmu, &self.shared);
            self.core_holders[core] = hw;
        }
        if self.on != hw || self.units.len() > 1 {
            self.units[hw].mmu.resume();
        }
        self.on = hw;
    }

    /// Returns the MMU of the thread that runs.
    #[inline(always)]
    pub fn mmu(&mut self) -> &mut Mmu {
        &mut self.units[self.on].mmu
    }

    /// Enters guest number `guest`, from 0 and less than [`crate::MOST_GUESTS`], on the thread that runs. Call [`Mmu::switch`] next.
    pub fn enter_guest(&mut self, guest: u32) {
        let (mmu, _, caches) = self.running();
        mmu.enter_guest(guest);
        caches.into_iter().for_each(|caches| caches.enter_guest(guest));
    }

    /// Returns the MMU of hardware thread `hw`.
    pub fn mmu_of(&self, hw: usize) -> &Mmu {
        &self.units[hw].mmu
    }

    /// Returns all MMUs, by core, for setup. Before the first run, the first thread of each core has the structures that its
    /// threads share.
    pub fn mmus(&mut self) -> impl Iterator<Item = &mut Mmu> {
        self.units.iter_mut().map(|unit| &mut unit.mmu)
    }

    /// Returns the parts that references of the running thread use: its MMU, its part of an out-of-order core, and the caches
    /// of its core. The latter are `None` if they are not modelled.
    #[inline(always)]
    pub fn running(&mut self) -> (&mut Mmu, Option<&mut OooCore>, Option<&mut Caches>) {
        let unit = &mut self.units[self.on];
        unit.begun = true;
        (&mut unit.mmu, unit.ooo.as_deref_mut(), self.caches.get_mut(self.on / self.threads))
    }

    /// Returns the caches of the core that runs; `None` if they are not modelled.
    pub fn caches(&mut self) -> Option<&mut Caches> {
        self.caches.get_mut(self.on / self.threads)
    }

    /// Returns the caches of each core; none if they are not modelled. One core has the shared caches with their counts; the
    /// shared caches of the others are unused.
    pub fn all_caches(&self) -> &[Caches] {
        &self.caches
    }

    /// Drops the translations that `shootdown` names in all hardware threads. The running thread pays `invalidate` cycles.
    /// Every other thread that is in this address space pays `invalidate` and `interrupt` cycles; threads in other address
    /// spaces invalidate lazily, at no cost.
    pub fn invalidate(&mut self, shootdown: &Shootdown, invalidate: u64, interrupt: u64) {
        let on = self.on;
        self.units[on].mmu.invalidate(shootdown);
        self.units[on].mmu.ledger.charge(Label::Remap, invalidate);
        if self.units.len() == 1 {
            return;
        }
        for hw in (0..self.units.len()).filter(|&hw| hw != on) {
            if !self.units[hw].begun || !self.units[hw].mmu.may_hold(shootdown.asid) {
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

    /// Drops every line of the `bytes` bytes at `at` from the data caches of all cores, and sends dirty lines to memory.
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
