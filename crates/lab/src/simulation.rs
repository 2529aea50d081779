//! One machine under one system: the run loop, and the accounting of what it did.

use crate::machine;
use crate::prepare::Batch;
use crate::traffic::{obey, send};
use reach_core::{Asid, Beside, Chunk, Counts, Cycles, Event, Label, Ledger, Performance, Step, TlbEvent, Why};
use reach_hardware::config::{Serves, Walker};
use reach_hardware::window::{Code, Core, Window};
use reach_hardware::{CacheCounters, Caches, Controller, ControllerCounters, Counters, Mmu, Segment};
use reach_os::{Costs, Fragmentation, OutOfMemory, Vm};
use reach_systems::System;
use std::collections::BTreeMap;

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Translation is counted; cycles follow from counts and fixed costs. No caches.
    Counts,
    /// A blocking core that executes in order, with caches: every reference and everything that the operating system
    /// and the walker read and write goes through them.
    InOrder,
    /// A core that executes out of order, with caches ([`reach_hardware::window`]).
    Window,
}

impl Timing {
    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Timing::Counts => "counts",
            Timing::InOrder => "inorder",
            Timing::Window => "window",
        }
    }

    /// All timings.
    pub const ALL: [Timing; 3] = [Timing::Counts, Timing::InOrder, Timing::Window];

    /// Whether data and instruction caches are modelled.
    pub fn has_caches(self) -> bool {
        self != Timing::Counts
    }
}

/// What all simulations of an experiment share.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// How time passes.
    pub timing: Timing,
    /// Physical memory in bytes.
    pub memory: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// What state memory is in at boot.
    pub fragmentation: Option<Fragmentation>,
    /// Files are in the page cache before the program starts.
    pub warm: bool,
}

/// Why a simulation stopped before its program's end.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// Memory is used up.
    #[error("{machine}, {system}: {source}")]
    OutOfMemory {
        /// On which machine.
        machine: String,
        /// Under which system.
        system: String,
        /// How much was wanted.
        source: OutOfMemory,
    },
    /// The machine or the system refused at boot.
    #[error("{machine}, {system}: {what}")]
    Boot {
        /// Which machine.
        machine: String,
        /// Which system.
        system: String,
        /// Why.
        what: String,
    },
    /// The operating system's acts in the middle of a step make a difference that an outline does not tell. With
    /// references instead, the simulation does not fail so.
    #[error("an outline of the program does not suffice; this is a defect of whoever asked for one")]
    NeedsReferences,
    /// A system that answers a fault without removing its cause.
    #[error("{machine}, {system}: {why:?} remains after it was handled; this is a defect of the system")]
    Livelock {
        /// On which machine.
        machine: String,
        /// Under which system.
        system: String,
        /// The stop that keeps coming.
        why: Why,
    },
}

/// What was counted of a process, or of all together.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Instructions and references.
    pub counts: Counts,
    /// What the translation hardware did.
    pub hardware: Counters,
    /// Where the cycles went.
    pub ledger: Ledger,
}

impl Tally {
    fn absorb(&mut self, other: &Tally) {
        self.counts.absorb(&other.counts);
        self.hardware.absorb(&other.hardware);
        self.ledger.absorb(&other.ledger);
    }
}

/// One machine under one system.
pub struct Simulation {
    machine: String,
    system_name: String,
    system: Box<dyn System>,
    vm: Vm,
    mmu: Mmu,
    caches: Option<Caches>,
    window: Option<Box<Window>>,
    /// The instructions of all blocks, for the window.
    code: Code,
    /// What the miss handler is to hear next.
    told: Vec<TlbEvent>,
    millicycles_per_instruction: u64,
    /// Millicycles of instructions that do not make a whole cycle yet.
    carry: u64,
    invalidate: u64,
    beside: Option<Beside>,
    second_level: [bool; 2],
    /// The system reads performance counters, and may turn off what stands beside the last level.
    reads_counters: bool,
    asid: Asid,
    /// Totals when the running process was switched to.
    since: Tally,
    counts: Counts,
    processes: BTreeMap<Asid, Tally>,
    names: BTreeMap<Asid, String>,
}

/// Everything that a finished simulation knows.
pub struct Outcome {
    /// The machine, as it was asked for.
    pub machine: String,
    /// The system, as it was asked for.
    pub system: String,
    /// All processes together.
    pub total: Tally,
    /// Each process.
    pub processes: BTreeMap<Asid, Tally>,
    /// What each process last executed, where that is known.
    pub names: BTreeMap<Asid, String>,
    /// What the operating system counted, all together.
    pub os: reach_os::Counters,
    /// What it counted of each process.
    pub os_processes: BTreeMap<Asid, reach_os::Counters>,
    /// The core executed out of order.
    pub out_of_order: bool,
    /// The data and instruction caches, where they were modelled.
    pub caches: Vec<(String, CacheCounters)>,
    /// The memory controller, where it retranslates addresses.
    pub controller: Option<ControllerCounters>,
    /// What stood beside the last level of TLB arrays, where anything did.
    pub beside: Option<Beside>,
    /// Whether fetches, and loads and stores, ask a second level of TLB arrays where the first misses.
    pub second_level: [bool; 2],
    /// Where range TLBs of other sizes were counted: how many searches those of 1, 2, … entries would have answered.
    pub range_hits: Vec<u64>,
    /// The contiguity of the process that had most mapped at its end.
    pub census: Option<reach_os::Census>,
    /// Page sizes of the machine.
    pub sizes: Vec<reach_core::PageShift>,
    /// Contiguity of free memory at the end (Navarro §6.5), 0 to 1.
    pub contiguity: f64,
}

/// A stop that comes back this often at one reference will come back for ever.
const PATIENCE: u32 = 64;

impl Simulation {
    /// Whether `system` works in the miss handler, and `machine` has none: hardware fills its TLB.
    pub fn lacks_handler(machine: &machine::Resolved, system: &reach_systems::Resolved) -> bool {
        matches!(machine.hardware.walker, Walker::Hardware { .. }) && system.build().sees_misses()
    }

    /// Boots `system` on `machine`.
    pub fn new(
        machine: &machine::Resolved,
        system: &reach_systems::Resolved,
        conditions: &Conditions,
    ) -> Result<Simulation, SimulationError> {
        let boot =
            |what: String| SimulationError::Boot { machine: machine.name.clone(), system: system.spec().into(), what };
        let hardware = &machine.hardware;
        let cached = conditions.timing.has_caches();
        let window = match (conditions.timing, &machine.window) {
            (Timing::Window, None) => {
                let what = "it has no [window] in its file, and so no core that executes out of order; take --timing \
                            inorder, or add one (docs/machines.md)";
                return Err(boot(what.into()));
            }
            (Timing::Window, Some(window)) => {
                let walkers = match hardware.walker {
                    Walker::Hardware { walkers, .. } => walkers,
                    Walker::Software { .. } => 1,
                };
                Some(Box::new(Window::new(window.core, walkers)))
            }
            _ => None,
        };
        let mut options = reach_os::Options::linux(hardware.layout.clone(), hardware.sizes.clone(), conditions.memory);
        options.costs = costs(machine);
        options.caches_modelled = cached;
        options.hertz = hardware.core.hertz;
        options.warm = conditions.warm;
        let mut vm = Vm::new(options).map_err(|e| boot(e.to_string()))?;
        if let Some(fragmentation) = &conditions.fragmentation {
            fragmentation.apply(vm.frames_mut()).map_err(|e| boot(e.to_string()))?;
        }
        let mut built = system.build();
        built.boot(&mut vm).map_err(|e| boot(e.to_string()))?;
        let mut mmu = Mmu::new(hardware, built.perfect_tlb(), conditions.seed);
        if built.sees_misses() {
            if Simulation::lacks_handler(machine, system) {
                let what = "it works in the miss handler, and hardware fills this TLB; take a machine whose TLB is filled \
                            by software, such as paint-parisc or alpha-21264";
                return Err(boot(what.into()));
            }
            mmu.tell();
        }
        let beside = built.beside(&vm).map(|beside| reach_hardware::fit(beside, hardware));
        beside.into_iter().for_each(|beside| mmu.place(beside));
        let reads_counters = built.reads_counters();
        if reads_counters {
            mmu.enable_beside(built.enables_beside(&vm));
        }
        if machine.window.as_ref().is_some_and(|w| window.is_some() && w.core.itlb_inclusion) {
            mmu.note_victims();
        }
        let mut caches = cached.then(|| Caches::new(hardware, conditions.seed));
        if let Some(caches) = &mut caches {
            caches.controller = built.controller(&vm).map(|options| Controller::new(options, hardware.sizes[0]));
        }
        Ok(Simulation {
            machine: machine.name.clone(),
            system_name: system.spec().into(),
            mmu,
            system: built,
            vm,
            caches,
            window,
            code: Code::default(),
            told: Vec::new(),
            millicycles_per_instruction: u64::from(hardware.core.millicycles_per_instruction),
            carry: 0,
            invalidate: u64::from(hardware.core.invalidate),
            beside,
            second_level: [|s: &Serves| s.fetch, |s: &Serves| s.load || s.store]
                .map(|serves| hardware.tlbs.iter().any(|tlb| tlb.level >= 2 && serves(&tlb.serves))),
            reads_counters,
            asid: Asid(0),
            since: Tally::default(),
            counts: Counts::default(),
            processes: BTreeMap::new(),
            names: BTreeMap::new(),
        })
    }

    /// Whether it may be given outlines.
    pub fn takes_outlines(&self) -> bool {
        self.caches.is_none() && self.mmu.takes_outlines()
    }

    /// Takes a piece of the program.
    pub fn take(&mut self, batch: &Batch) -> Result<(), SimulationError> {
        if self.window.is_some() {
            self.code.clone_from(&batch.code);
        }
        batch.steps.iter().try_for_each(|step| self.step(&batch.chunk, step))
    }

    /// Takes one step of `chunk`.
    pub fn step(&mut self, chunk: &Chunk, step: &Step) -> Result<(), SimulationError> {
        if step.tick {
            let now = self.now();
            if self.system.wake().is_some_and(|wake| wake <= now) {
                self.serialise(false);
                self.ask(|system, vm| system.tick(now, vm))?;
            }
        }
        for (_, event) in &chunk.events[step.events.clone()] {
            self.serialise(true);
            self.event(event)?;
        }
        if step.counts.references() == 0 {
            return Ok(());
        }
        self.run(Segment::new(chunk, step))?;
        self.counts.absorb(&step.counts);
        if self.window.is_some() {
            return Ok(());
        }
        let millicycles = self.carry + step.counts.instructions * self.millicycles_per_instruction;
        self.carry = millicycles % 1000;
        self.mmu.ledger.charge(Label::Compute, millicycles / 1000);
        Ok(())
    }

    /// Lets what is under way in the window end. `ends`: the block under way does not go on.
    fn serialise(&mut self, ends: bool) {
        if let Some(window) = &mut self.window {
            self.mmu.serialise_window(window, &self.code, ends);
        }
    }

    /// The run loop: references until the operating system is needed, again and again.
    fn run(&mut self, segment: Segment) -> Result<(), SimulationError> {
        let mut cursor = segment.begin();
        let (mut last, mut again) = (None, 0);
        loop {
            let running = self.vm.running();
            let running = running.map_err(|source| out_of_memory(&self.machine, &self.system_name, source))?;
            let why = match (&mut self.window, &mut self.caches) {
                (Some(window), Some(caches)) => {
                    let core = Core { window, code: &self.code, caches };
                    self.mmu.run_window(segment, &mut cursor, running.table, core)
                }
                (_, caches) => self.mmu.run(segment, &mut cursor, running.table, caches.as_mut()),
            };
            if why != Why::End {
                self.serialise(false);
            }
            match why {
                Why::End => return Ok(()),
                Why::Fault(fault) => self.ask(|system, vm| system.fault(fault, vm))?,
                Why::FirstWrite(vpn) => self.ask(|system, vm| system.first_write(vpn, vm))?,
                Why::Consult => {
                    let mut told = std::mem::take(&mut self.told);
                    self.mmu.told(&mut told);
                    let handled = self.ask(|system, vm| system.handle(&told, vm));
                    self.told = told;
                    handled?;
                }
                Why::Obscured => return Err(SimulationError::NeedsReferences),
            }
            again = if last == Some((cursor, why)) { again + 1 } else { 0 };
            last = Some((cursor, why));
            if again == PATIENCE {
                let (machine, system) = (self.machine.clone(), self.system_name.clone());
                return Err(SimulationError::Livelock { machine, system, why });
            }
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), SimulationError> {
        match event {
            Event::Switch { asid, .. } => {
                self.settle();
                self.asid = *asid;
            }
            Event::Exec { path } => {
                self.names.insert(self.asid, path.rsplit('/').next().unwrap_or(path).into());
            }
            Event::Fork { child, .. } => {
                if let Some(name) = self.names.get(&self.asid).cloned() {
                    self.names.insert(*child, name);
                }
            }
            _ => {}
        }
        let space = self.vm.current();
        self.ask(|system, vm| system.event(event, vm))?;
        // A child of vfork runs in its parent's address space until it leaves it by exec or exit.
        if matches!(event, Event::Switch { .. }) || self.vm.current() != space {
            self.mmu.switch(self.vm.current());
        }
        Ok(())
    }

    /// Lets the system act, then carries out what its actions mean for the processor.
    fn ask(
        &mut self,
        act: impl FnOnce(&mut dyn System, &mut Vm) -> Result<(), OutOfMemory>,
    ) -> Result<(), SimulationError> {
        if self.reads_counters {
            self.vm.performance = self.performance();
        }
        act(&mut *self.system, &mut self.vm)
            .map_err(|source| out_of_memory(&self.machine, &self.system_name, source))?;
        if self.reads_counters {
            self.mmu.enable_beside(self.system.enables_beside(&self.vm));
        }
        for shootdown in self.vm.shootdowns.drain(..) {
            self.mmu.invalidate(&shootdown);
            self.mmu.ledger.charge(Label::Remap, self.invalidate);
        }
        let commands = self.vm.take_commands();
        if let Some(caches) = &mut self.caches {
            commands.iter().for_each(|command| obey(caches, command));
            for traffic in self.vm.traffic.drain(..) {
                self.mmu.ledger.charge(traffic.label, send(caches, &traffic));
            }
        }
        if !self.vm.preloads.is_empty() {
            let preloads = std::mem::take(&mut self.vm.preloads);
            let running = self.vm.running();
            let running = running.map_err(|source| out_of_memory(&self.machine, &self.system_name, source))?;
            preloads.iter().for_each(|&preload| self.mmu.enter(preload, running.table));
        }
        Ok(())
    }

    fn now(&self) -> Cycles {
        self.vm.ledger.total() + self.mmu.ledger.total().0
    }

    fn performance(&self) -> Performance {
        let c = &self.mmu.counters;
        Performance { cycles: self.now().0, walks: c.walks(), walk_cycles: c.walk_cycles, spared: c.beside_spared }
    }

    fn total(&self) -> Tally {
        let mut ledger = self.vm.ledger.clone();
        ledger.absorb(&self.mmu.ledger);
        Tally { counts: self.counts, hardware: self.mmu.counters, ledger }
    }

    /// Books what has happened since the last switch on the running process.
    fn settle(&mut self) {
        let total = self.total();
        let spent = Tally {
            counts: total.counts.since(&self.since.counts),
            hardware: total.hardware.since(&self.since.hardware),
            ledger: total.ledger.since(&self.since.ledger),
        };
        if spent.counts.references() > 0 || spent.ledger.total() > Cycles(0) {
            self.processes.entry(self.asid).or_default().absorb(&spent);
        }
        self.since = total;
    }

    /// Ends the simulation.
    pub fn finish(mut self) -> Outcome {
        self.serialise(true);
        self.settle();
        let mut os_processes = std::mem::take(&mut self.vm.finished);
        os_processes.extend(self.vm.processes().map(|(asid, process)| (asid, process.counters.clone())));
        let contiguity = reach_os::contiguity(self.vm.frames().buddy(), &self.vm.options().sizes);
        Outcome {
            machine: self.machine.clone(),
            system: self.system_name.clone(),
            total: self.total(),
            out_of_order: self.window.is_some(),
            processes: self.processes,
            names: self.names,
            os: self.vm.counters.clone(),
            os_processes,
            controller: self.caches.as_ref().and_then(|c| c.controller.as_ref()).map(|controller| controller.counters),
            caches: self.caches.iter().flat_map(Caches::counters).map(|(n, c)| (n.to_owned(), c)).collect(),
            beside: self.beside,
            second_level: self.second_level,
            census: self.vm.largest_census(),
            range_hits: self.mmu.range_hits_by_entries(),
            sizes: self.vm.options().sizes.clone(),
            contiguity,
        }
    }

    /// Checks laws that must hold between steps: what TLBs hold, the page table says. For tests.
    pub fn check(&mut self) {
        if let Ok(running) = self.vm.running() {
            running.table.check();
            self.mmu.check(running.table);
        }
    }
}

fn out_of_memory(machine: &str, system: &str, source: OutOfMemory) -> SimulationError {
    SimulationError::OutOfMemory { machine: machine.into(), system: system.into(), source }
}

/// The machine file's costs in the operating system's terms.
fn costs(machine: &machine::Resolved) -> Costs {
    let os = &machine.os;
    Costs {
        trap: u64::from(os.trap),
        fault: u64::from(os.fault),
        file_fault: u64::from(os.file_fault),
        fault_around_page: u64::from(os.fault_around_page),
        zero_millicycles_per_byte: u64::from(os.zero_per_byte),
        copy_millicycles_per_byte: u64::from(os.copy_per_byte),
        pte_write: u64::from(os.pte_write),
        shootdown: u64::from(os.shootdown),
        fork: u64::from(os.fork),
        fork_per_pte: u64::from(os.fork_per_pte),
        file_read: u64::from(os.read_in),
        file_read_millicycles_per_byte: u64::from(os.read_in_per_byte),
        scan_per_page: u64::from(os.scan_per_page),
    }
}
