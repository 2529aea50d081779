//! One machine under one system: the run loop, and the accounting of what it did.

mod curve;
mod hardware_threads;
mod outcome;
mod rounds;
mod sampling;
mod traffic;

pub use outcome::{HardwareThread, Outcome, Tally};
pub use sampling::{Interval, Sample};

use crate::conditions::{Conditions, Placement, SimulationError, Timing};
use crate::machine;
use crate::prepare::Batch;
use hardware_threads::HardwareThreads;
use reach_core::{Asid, AuxTlbOptions, Chunk, Event, Label, Step, StopReason, ThreadId, TlbEvent};
use reach_hardware::config::{Serves, Sharing, Tlb, Walker};
use reach_hardware::ooo::{Code, OooRun};
use reach_hardware::{Access, CacheCounters, Controller, MemoryAccesses, Processor, Segment, Shape};
use reach_os::{Costs, OutOfMemory, Vm};
use reach_systems::{Role, System};
use rounds::Rounds;
use sampling::{Detail, Mark, Sampling};
use std::collections::BTreeMap;
use std::sync::Arc;
use traffic::{issue, obey, send};

/// One machine under one system.
pub struct Simulation {
    machine: String,
    system_name: String,
    role: Role,
    system: Box<dyn System>,
    vm: Vm,
    processor: Processor,
    hardware_threads: HardwareThreads,
    rounds: Rounds,
    /// The software thread that the operating system takes to be running, where there are several hardware threads.
    ran: Option<(Asid, ThreadId)>,
    /// Laws are checked after every item.
    checks: bool,
    out_of_order: bool,
    /// The instructions of all blocks, for the window.
    code: Code,
    /// What the miss handler is to hear next.
    told: Vec<TlbEvent>,
    millicycles_per_instruction: u64,
    invalidate: u64,
    /// What a hardware thread pays for being told of a shootdown by another.
    interrupt: u64,
    aux_tlb: Option<AuxTlbOptions>,
    second_level: [bool; 2],
    /// The system reads performance counters, and may turn off what stands beside the last level.
    reads_counters: bool,
    processes: BTreeMap<Asid, Tally>,
    /// What each cache had counted where measuring began.
    before: Vec<CacheCounters>,
    /// And what had gone to memory, by core.
    beyond: Vec<[MemoryAccesses; Access::KINDS]>,
    names: BTreeMap<Asid, String>,
    /// The TLB array that a curve is counted of.
    observed: Option<Tlb>,
    /// How often a daemon was woken.
    wakes: u64,
    /// What was measured so far, where the program is sampled.
    sampling: Option<Box<Sampling>>,
}

/// A stop that comes back this often at one reference will come back for ever.
const PATIENCE: u32 = 64;

impl Simulation {
    /// Whether `system` works in the miss handler, and `machine` has none: hardware fills its TLB.
    pub fn lacks_handler(machine: &machine::Resolved, system: &reach_systems::Resolved) -> bool {
        matches!(machine.hardware.walker, Walker::Hardware { .. }) && system.build().handles_misses()
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
        let ooo = match (conditions.timing, &machine.ooo) {
            (Timing::Ooo, None) => {
                let what = "it has no [ooo] in its file, and so no core that executes out of order; take --timing \
                            inorder, or add one (docs/machines.md)";
                return Err(boot(what.into()));
            }
            (Timing::Ooo, Some(ooo)) => {
                let walkers = match hardware.walker {
                    Walker::Hardware { walkers, .. } => walkers,
                    Walker::Software { .. } => 1,
                };
                Some((ooo.core, walkers))
            }
            _ => None,
        };
        let shape = shape(machine, &conditions.placement).map_err(boot)?;
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
        let mut processor = Processor::new(hardware, &shape, cached, built.perfect_tlb(), conditions.seed);
        if built.handles_misses() {
            if Simulation::lacks_handler(machine, system) {
                let what = "it works in the miss handler, and hardware fills this TLB; take a machine whose TLB is filled \
                            by software, such as paint-parisc or alpha-21264";
                return Err(boot(what.into()));
            }
            if shape.hardware_threads() > 1 {
                let what = "it keeps account of what one TLB holds; take one core with one hardware thread";
                return Err(boot(what.into()));
            }
            processor.mmu().tell();
        }
        if hardware.nested.is_some() && built.aux_tlb(&vm).is_some() {
            let what =
                "what it puts beside the TLB is not modelled in a guest; take a machine without nested.host_page";
            return Err(boot(what.into()));
        }
        let aux_tlb = built.aux_tlb(&vm).map(|aux_tlb| reach_hardware::fit(aux_tlb, hardware));
        let reads_counters = built.reads_counters();
        let notes = machine.ooo.as_ref().is_some_and(|w| ooo.is_some() && w.core.itlb_inclusion);
        for (hw, mmu) in processor.mmus().enumerate() {
            // What stands beside the last level goes from thread to thread of a core.
            aux_tlb.into_iter().filter(|_| hw % shape.threads == 0).for_each(|aux_tlb| mmu.attach_aux_tlb(aux_tlb));
            if reads_counters {
                mmu.enable_aux_tlb(built.enables_aux_tlb(&vm));
            }
            if notes {
                mmu.note_victims();
            }
        }
        if let Some((core, walkers)) = ooo {
            processor.with_ooo_cores(core, walkers);
        }
        if let Some(caches) = processor.caches() {
            caches.controller = built.controller(&vm).map(|options| Controller::new(options, hardware.sizes[0]));
        }
        Ok(Simulation {
            machine: machine.name.clone(),
            system_name: system.spec().into(),
            role: system.role(),
            hardware_threads: HardwareThreads::new(shape.hardware_threads()),
            rounds: Rounds::on(shape.hardware_threads()),
            processor,
            system: built,
            vm,
            ran: None,
            checks: false,
            out_of_order: ooo.is_some(),
            code: Code::default(),
            told: Vec::new(),
            millicycles_per_instruction: u64::from(hardware.core.millicycles_per_instruction),
            invalidate: u64::from(hardware.core.invalidate),
            interrupt: u64::from(machine.os.trap),
            aux_tlb,
            second_level: [|s: &Serves| s.fetch, |s: &Serves| s.load || s.store]
                .map(|serves| hardware.tlbs.iter().any(|tlb| tlb.level >= 2 && serves(&tlb.serves))),
            reads_counters,
            processes: BTreeMap::new(),
            before: Vec::new(),
            beyond: Vec::new(),
            names: BTreeMap::new(),
            observed: None,
            wakes: 0,
            sampling: None,
        })
    }

    /// Whether it may be given outlines.
    pub fn takes_outlines(&self) -> bool {
        let processor = &self.processor;
        processor.hardware_threads() == 1 && processor.all_caches().is_empty() && processor.mmu_of(0).takes_outlines()
    }

    /// Takes a piece of the program. The last is to say so ([`Batch::end`]), where there are several hardware threads.
    pub fn take(&mut self, batch: &Arc<Batch>) -> Result<(), SimulationError> {
        if self.processor.hardware_threads() > 1 {
            return self.take_in_rounds(batch);
        }
        if self.out_of_order {
            self.code.clone_from(&batch.code);
        }
        batch.steps.iter().try_for_each(|step| self.step(&batch.chunk, step))
    }

    /// Takes one step of `chunk`, on one hardware thread.
    pub fn step(&mut self, chunk: &Chunk, step: &Step) -> Result<(), SimulationError> {
        if step.tick {
            self.tick()?;
        }
        for (_, event) in &chunk.events[step.events.clone()] {
            self.notice(event)?;
        }
        self.references(chunk, step)
    }

    /// Takes an event of the program, or a mark of its sample.
    fn notice(&mut self, event: &Event) -> Result<(), SimulationError> {
        if let Some(mark) = Mark::of(event).filter(|mark| self.sampling.is_some() || mark.begins()) {
            return self.mark(mark);
        }
        self.serialise(true);
        self.event(event)
    }

    /// The daemons' chance.
    fn tick(&mut self) -> Result<(), SimulationError> {
        let now = self.now();
        if self.system.next_tick().is_none_or(|wake| wake > now) {
            return Ok(());
        }
        self.wakes += 1;
        self.serialise(false);
        self.ask(|system, vm| system.tick(now, vm))
    }

    /// The references of a step.
    fn references(&mut self, chunk: &Chunk, step: &Step) -> Result<(), SimulationError> {
        if step.counts.references() == 0 {
            return Ok(());
        }
        if self.detail() != Detail::All {
            return self.follow(Segment::new(chunk, step), &step.counts);
        }
        self.run(Segment::new(chunk, step))?;
        let millicycles = if self.out_of_order { 0 } else { self.millicycles_per_instruction };
        let cycles = self.hardware_threads.executed(self.processor.on(), &step.counts, millicycles);
        self.processor.mmu().ledger.charge(Label::Compute, cycles);
        Ok(())
    }

    /// Lets what is under way in the window end. `ends`: the block under way does not go on.
    fn serialise(&mut self, ends: bool) {
        if let (mmu, Some(ooo), _) = self.processor.parts() {
            mmu.serialise_ooo(ooo, &self.code, ends);
        }
    }

    /// The run loop: references until the operating system is needed, again and again.
    fn run(&mut self, segment: Segment) -> Result<(), SimulationError> {
        let mut cursor = segment.begin();
        let (mut last, mut again) = (None, 0);
        let detail = self.detail();
        loop {
            let running = self.vm.running();
            let running = running.map_err(|source| out_of_memory(&self.machine, &self.system_name, source))?;
            let why = match self.processor.parts() {
                (mmu, _, caches) if detail != Detail::All => {
                    let caches = caches.filter(|_| detail == Detail::Caches);
                    mmu.follow(segment, &mut cursor, running.table, caches)
                }
                (mmu, Some(ooo), Some(caches)) => {
                    let core = OooRun { ooo, code: &self.code, caches };
                    mmu.run_ooo(segment, &mut cursor, running.table, core)
                }
                (mmu, _, caches) => mmu.run(segment, &mut cursor, running.table, caches),
            };
            if why != StopReason::End {
                self.serialise(false);
            }
            match why {
                StopReason::End => return Ok(()),
                StopReason::Fault(fault) => self.ask(|system, vm| system.fault(fault, vm))?,
                StopReason::FirstWrite(vpn) => self.ask(|system, vm| system.first_write(vpn, vm))?,
                StopReason::PolicyCallback => {
                    let mut told = std::mem::take(&mut self.told);
                    self.processor.mmu().told(&mut told);
                    let handled = self.ask(|system, vm| system.handle(&told, vm));
                    self.told = told;
                    handled?;
                }
                StopReason::NeedsReferences => return Err(SimulationError::NeedsReferences),
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
        let process = self.hardware_threads.process(self.processor.on());
        match event {
            Event::Switch { asid, .. } => {
                self.take_up(*asid);
            }
            Event::Exec { path } => {
                self.names.insert(process, path.rsplit('/').next().unwrap_or(path).into());
            }
            Event::Fork { child, .. } => {
                if let Some(name) = self.names.get(&process).cloned() {
                    self.names.insert(*child, name);
                }
            }
            Event::Phase(name) if name == Event::MEASURED => self.measure(),
            _ => {}
        }
        let space = self.vm.current();
        self.ask(|system, vm| system.event(event, vm))?;
        // A child of vfork runs in its parent's address space until it leaves it by exec or exit.
        if matches!(event, Event::Switch { .. }) || self.vm.current() != space {
            self.processor.mmu().switch(self.vm.current());
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
            self.processor.mmu().enable_aux_tlb(self.system.enables_aux_tlb(&self.vm));
        }
        for shootdown in self.vm.shootdowns.drain(..) {
            self.processor.invalidate(&shootdown, self.invalidate, self.interrupt);
        }
        let commands = self.vm.take_commands();
        commands.iter().for_each(|command| obey(&mut self.processor, command));
        let passes = self.detail() == Detail::Translation;
        if let (mmu, _, Some(caches)) = self.processor.parts() {
            for traffic in self.vm.traffic.drain(..) {
                let cycles = if passes { issue(&traffic) } else { send(caches, &traffic) };
                mmu.ledger.charge(traffic.label, cycles);
            }
        }
        if !self.vm.preloads.is_empty() {
            let preloads = std::mem::take(&mut self.vm.preloads);
            let running = self.vm.running();
            let running = running.map_err(|source| out_of_memory(&self.machine, &self.system_name, source))?;
            let mmu = self.processor.mmu();
            preloads.iter().for_each(|&preload| mmu.enter(preload, running.table));
        }
        Ok(())
    }

    /// From now on laws are checked whenever another hardware thread goes on. For tests.
    pub fn check_often(&mut self) {
        self.checks = true;
    }

    /// Checks laws that must hold between steps: what TLBs hold, the page table says. For tests.
    pub fn check(&mut self) {
        if self.vm.running().is_err() {
            return;
        }
        let on = self.processor.on();
        for hw in 0..self.processor.hardware_threads() {
            self.go_to(hw);
            let mmu = self.processor.mmu();
            let Some((_, process)) = self.vm.processes().find(|(asid, _)| mmu.runs_in(*asid)) else { continue };
            process.table().check();
            mmu.check(process.table());
        }
        self.go_to(on);
    }
}

/// The hardware threads that `placement` asks of `machine`.
fn shape(machine: &machine::Resolved, placement: &Placement) -> Result<Shape, String> {
    let threads = machine.ooo.as_ref().map_or(1, |ooo| ooo.threads);
    if placement.threads > threads {
        let what = format!(
            "its cores have {threads} hardware thread{}, and --smt asks for {}",
            if threads == 1 { "" } else { "s" },
            placement.threads
        );
        return Err(what);
    }
    let smt = machine.ooo.as_ref().map(|ooo| &ooo.smt);
    let of = |tlb: &reach_hardware::config::Tlb| {
        let written = smt.and_then(|smt| smt.get(&tlb.name)).copied();
        match written.expect("a machine with several hardware threads says how they divide each array") {
            machine::Sharing::Shared => Sharing::Shared,
            machine::Sharing::Partitioned => Sharing::Partitioned,
            machine::Sharing::Replicated => Sharing::Replicated,
        }
    };
    let sharing = if placement.threads > 1 { machine.hardware.tlbs.iter().map(of).collect() } else { Vec::new() };
    Ok(Shape { cores: placement.cores as usize, threads: placement.threads as usize, sharing })
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
        exit_per_pte: u64::from(os.exit_per_pte),
        table_page: u64::from(os.table_page),
        file_read: u64::from(os.file_read),
        file_read_millicycles_per_byte: u64::from(os.file_read_per_byte),
        scan_per_page: u64::from(os.scan_per_page),
    }
}
