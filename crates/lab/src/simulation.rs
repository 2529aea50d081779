//! One machine under one system: the run loop.
//!
//! A [`Simulation`] joins parts that do not know each other, and passes data between them:
//! - [`Hardware`]: the processor and the instructions that it executes;
//! - [`Kernel`]: the system and the memory that it manages; [`Host`]: the kernel of the host, in a guest; [`Guests`]: those of the
//!   other guests;
//! - [`Accounts`]: counts and cycles by hardware thread and by process;
//! - [`Sampling`]: the counts of measured intervals;
//! - [`Rounds`]: which hardware thread takes which part of the program, and when.
//!
//! `boot` makes the parts; `finish` reads the [`Outcome`] from them; `curve` and the end of `rounds` belong to the loop.

mod accounts;
mod alignment;
mod attribute;
mod boot;
mod check;
mod curve;
mod error;
mod findings;
mod finish;
mod guests;
mod hardware;
mod host;
mod kernel;
mod outcome;
mod over_time;
mod passages;
mod rounds;
mod sample;
mod sampling;
mod stops;
mod tally;

pub use alignment::AlignedSuperpages;
pub use error::SimulationError;
pub use outcome::Outcome;
pub use over_time::MemoryPoint;
pub(crate) use sample::Measured;
pub use sample::{Cold, Interval, LEAST, Sample};
pub use stops::Stops;
pub use tally::{HardwareThread, KernelWork, Tally};

use crate::attribution::Attributor;
use crate::prepare::Batch;
use accounts::Accounts;
use error::Names;
use guests::Guests;
use hardware::{Detail, Hardware, MemoryCounts};
use host::Host;
use kernel::Kernel;
use over_time::OverTime;
use passages::Passages;
use reach_core::{Counts, Cycles, Event, Label, Mark, Step, StopReason};
use reach_hardware::config::Tlb;
use reach_hardware::{Mmu, StepRefs};
use reach_os::{OutOfMemory, Vm};
use reach_systems::{Criterion, Role, System};
use rounds::Rounds;
use sampling::{Sampling, Stratum};
use std::sync::Arc;

/// One machine under one system.
///
/// An [`Experiment`](crate::Experiment) runs simulations; a program can also be given to one directly:
///
/// ```
/// use reach_lab::{Conditions, Preparer, Simulation, machine};
/// use reach_trace::{Source, synthetic};
/// use std::sync::Arc;
///
/// let machine = machine::resolve("zen4")?;
/// let system = reach_systems::resolve("base")?;
/// let conditions = Conditions::new(64 << 20);
/// let mut simulation = Simulation::new(&machine, &system, &conditions)?;
/// let mut preparer = Preparer::new(conditions.timing);
/// let mut program = synthetic::parse("touch:bytes=1M,page=4K")?;
/// let mut chunk = reach_core::Chunk::default();
/// while program.fill(&mut chunk)? {
///     let batch = preparer.prepare(std::mem::take(&mut chunk), program.blocks());
///     simulation.take(&Arc::new(batch))?;
/// }
/// assert_eq!(simulation.finish().os.anonymous_faults, 256);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation {
    names: Names,
    role: Role,
    /// How results show that the system acted.
    criterion: Option<Criterion>,
    hardware: Hardware,
    kernel: Kernel,
    /// The host of a guest, if it has an operating system of its own.
    host: Option<Box<Host>>,
    /// The guests that wait; `None` unless there are several.
    guests: Option<Box<Guests>>,
    accounts: Accounts,
    rounds: Rounds,
    stops: Stops,
    /// Memory over time.
    over_time: OverTime,
    /// The kernel's own code; `None` where it is not simulated.
    passages: Option<Box<Passages>>,
    /// `None` unless the program is sampled.
    sampling: Option<Box<Sampling>>,
    /// Attributes costs of translation; `None` unless requested.
    attributor: Option<Box<Attributor>>,
    /// The TLB array whose miss curve is counted.
    observed: Option<Tlb>,
    /// Laws are checked after every item of a round.
    checks_laws: bool,
}

/// A stop that recurs this often at one reference will recur for ever.
const MAX_RECURRENCES: u32 = 64;

impl Simulation {
    /// Returns whether the program may be given in outlines.
    pub fn takes_outlines(&self) -> bool {
        let processor = &self.hardware.processor;
        processor.hardware_threads() == 1
            && self.passages.is_none()
            && processor.all_caches().is_empty()
            && processor.mmu_of(0).takes_outlines()
    }

    /// Returns whether a replacement policy reads the program's branches: batches should be decoded then, in every timing
    /// ([`crate::Preparer::decoding`]).
    pub fn reads_branches(&self) -> bool {
        self.hardware.processor.mmu_of(0).reads_control_flow()
    }

    /// Measures only what lies in marked intervals. Call before the first step.
    ///
    /// # Errors
    /// On several hardware threads, and where a curve is counted.
    pub fn sample(&mut self) -> Result<(), SimulationError> {
        if self.hardware.processor.hardware_threads() > 1 {
            return Err(self.names.refusal(
                "--sample takes one core with one hardware thread: on several, intervals would not hold the same \
                 instructions in every simulation"
                    .into(),
            ));
        }
        if self.observed.is_some() {
            let what = "a curve is counted of whole programs, and this is a sample; leave --curve out";
            return Err(self.names.refusal(what.into()));
        }
        if self.attributor.is_some() {
            let what =
                "costs are attributed of whole programs, and this is a sample; record the program without --sample";
            return Err(self.names.refusal(what.into()));
        }
        self.sampling = Some(Box::default());
        Ok(())
    }

    /// Simulates a piece of the program. On several hardware threads [`Batch::end`] must follow the last piece.
    ///
    /// # Errors
    /// When simulated memory is used up, when an outline is not enough, and when a system leaves a fault unresolved.
    pub fn take(&mut self, batch: &Arc<Batch>) -> Result<(), SimulationError> {
        if self.hardware.processor.hardware_threads() > 1 {
            return self.take_in_rounds(batch);
        }
        self.hardware.learn(&batch.code);
        self.attributor.iter_mut().for_each(|attributor| attributor.learn(&batch.calls));
        let mut predictors = batch.predictors.iter().peekable();
        for (number, step) in batch.steps.iter().enumerate() {
            if let Some((_, trained)) = predictors.next_if(|(before, _)| *before == number) {
                self.hardware.adopt(trained);
            }
            self.step(batch, step)?;
        }
        Ok(())
    }

    /// Returns the kind of predictor that batches must train for this simulation ([`crate::Preparer::training`]); `None` where
    /// it trains its own or has none.
    pub fn trained_predictor(&self) -> Option<reach_hardware::config::Predictor> {
        self.sampling.as_ref().and_then(|_| self.hardware.processor.predictor_config())
    }

    /// Simulates one step of `batch`, on one hardware thread.
    ///
    /// # Errors
    /// As [`Simulation::take`].
    pub fn step(&mut self, batch: &Batch, step: &Step) -> Result<(), SimulationError> {
        if step.tick {
            self.note_memory();
            self.tick()?;
            self.pass_for_timer();
        }
        for (_, event) in &batch.chunk.events[step.events.clone()] {
            self.notice(event)?;
        }
        self.references(batch, step)
    }

    /// Lets daemons run, if one is due.
    fn tick(&mut self) -> Result<(), SimulationError> {
        let now = self.now();
        self.tick_host(now)?;
        if !self.kernel.wakes_by(now) {
            return Ok(());
        }
        self.hardware.serialise(false);
        self.call(|system, vm| system.tick(now, vm))
    }

    /// Takes an event of the program, or a mark of its sample.
    fn notice(&mut self, event: &Event) -> Result<(), SimulationError> {
        if let Event::Mark(mark) = event {
            self.mark_passages(*mark);
            if self.takes_mark(*mark) {
                return self.mark(*mark);
            }
        }
        // Outlines have system calls, too.
        if matches!(event, Event::SystemCall(_)) && self.passages.is_none() {
            return Ok(());
        }
        self.hardware.serialise(true);
        self.attribute_event(event);
        self.event(event)?;
        self.pass_for_event(event);
        Ok(())
    }

    /// Takes an event of the program.
    fn event(&mut self, event: &Event) -> Result<(), SimulationError> {
        let hw = self.hardware.processor.on();
        match event {
            Event::Switch { asid, .. } => {
                self.settle();
                self.accounts.switch_to(hw, *asid);
            }
            Event::Mark(Mark::Measure) => self.start_measuring(),
            Event::Mark(Mark::FastForward) => self.sampling.iter_mut().for_each(|sampling| sampling.leave_out()),
            _ => self.accounts.learn_name(hw, event),
        }
        let space = self.kernel.vm.current();
        self.note_alignment(event);
        self.call(|system, vm| system.event(event, vm))?;
        self.share_file(event)?;
        // A child of vfork runs in its parent's address space until exec or exit.
        if matches!(event, Event::Switch { .. }) || self.kernel.vm.current() != space {
            self.hardware.processor.mmu().switch(self.kernel.vm.current());
        }
        Ok(())
    }

    /// Returns whether [`Simulation::mark`] takes `mark`. Other marks are events like all others.
    fn takes_mark(&self, mark: Mark) -> bool {
        match mark {
            Mark::Sample { .. } | Mark::Guest { .. } => true,
            Mark::FastForward | Mark::Measure => false,
            Mark::IntervalBegin
            | Mark::FirstRunBegin
            | Mark::FirstRunUnmeasured
            | Mark::IntervalEnd
            | Mark::WarmTlbs
            | Mark::WarmCaches
            | Mark::Detailed => self.sampling.is_some(),
        }
    }

    /// Takes a mark of sampling, or of a guest. Marks do not change how the program runs, except for the detail that they select.
    fn mark(&mut self, mark: Mark) -> Result<(), SimulationError> {
        match mark {
            Mark::Sample { every } => {
                if self.sampling.is_none() {
                    self.sample()?;
                }
                if let Some(sampling) = &mut self.sampling {
                    sampling.set_distance(every);
                }
            }
            Mark::Guest { number } => self.enter_guest(number)?,
            Mark::IntervalBegin => self.begin_interval(Stratum::Sampled),
            Mark::FirstRunBegin => self.begin_interval(Stratum::FirstRun),
            Mark::FirstRunUnmeasured => self.begin_interval(Stratum::Unmeasured),
            Mark::IntervalEnd => self.end_interval(),
            Mark::WarmTlbs => {
                let has_caches = !self.hardware.processor.all_caches().is_empty();
                self.sampling.iter_mut().for_each(|sampling| sampling.bypass_caches(has_caches));
                self.change_detail(Detail::Translation);
            }
            Mark::WarmCaches => self.change_detail(Detail::Caches),
            Mark::Detailed => self.change_detail(Detail::All),
            Mark::FastForward | Mark::Measure => {}
        }
        Ok(())
    }

    /// Simulates the references that follow in this detail.
    fn change_detail(&mut self, detail: Detail) {
        self.hardware.serialise(true);
        // Short cuts that are valid in one detail may be stale in another.
        self.hardware.processor.mmu().resume();
        let instructions = self.totals().0.counts.instructions;
        if let Some(sampling) = &mut self.sampling {
            sampling.change_detail(detail, instructions);
        }
    }

    /// Begins an interval.
    fn begin_interval(&mut self, stratum: Stratum) {
        self.settle();
        let (total, memory) = self.totals();
        if let Some(sampling) = &mut self.sampling {
            sampling.begin(stratum, total, memory, self.hardware.out_of_order);
        }
    }

    /// Ends the current interval, if there is one.
    fn end_interval(&mut self) {
        if self.sampling.is_some() {
            self.settle();
            let (total, memory) = self.totals();
            if let Some(sampling) = &mut self.sampling {
                sampling.end(&total, memory);
            }
        }
    }

    /// Simulates the references of a step.
    fn references(&mut self, batch: &Batch, step: &Step) -> Result<(), SimulationError> {
        if step.counts.references() == 0 {
            return Ok(());
        }
        self.begin_passages();
        let references = StepRefs::new(&batch.chunk, step).with_code(&batch.code);
        if self.detail() != Detail::All {
            return self.warm(references, &step.counts);
        }
        self.run(references.followed_by(&batch.following))?;
        self.attribute_step(&batch.chunk, step);
        let Hardware { processor, out_of_order, millicycles_per_instruction, .. } = &mut self.hardware;
        let millicycles = if *out_of_order { 0 } else { *millicycles_per_instruction };
        let cycles = self.accounts.execute(processor.on(), &step.counts, millicycles);
        processor.mmu().ledger.charge(Label::Compute, cycles);
        self.pass_time();
        Ok(())
    }

    /// Lets the caches know how much time has passed since the last call.
    fn pass_time(&mut self) {
        let now = self.now().0;
        let Hardware { processor, passed, .. } = &mut self.hardware;
        processor.pass(now.saturating_sub(*passed));
        *passed = now.max(*passed);
    }

    /// Functional warming: simulates references of a step in less detail. Time passes at the rate measured so far, and the
    /// operating system's events take their own time.
    fn warm(&mut self, segment: StepRefs, counts: &Counts) -> Result<(), SimulationError> {
        let hw = self.hardware.processor.on();
        let before = self.hardware.processor.mmu_of(hw).ledger.clone();
        self.run(if self.kernel.reads_counters { segment.with_every_page() } else { segment })?;
        self.hardware.processor.mmu().ledger.restore_all_but_events(&before);
        self.accounts.execute(hw, counts, 0);
        let nominal = self.hardware.millicycles_per_instruction;
        let millicycles = self.sampling.as_ref().map_or(nominal, |s| s.millicycles_per_instruction(nominal));
        let spent = u128::from(counts.instructions) * u128::from(millicycles) / 1000;
        self.wait_until(self.now().0 + spent as u64);
        self.pass_time();
        Ok(())
    }

    /// The run loop: runs references until the operating system is needed, again and again.
    fn run(&mut self, segment: StepRefs) -> Result<(), SimulationError> {
        let (mut cursor, detail) = (segment.begin(), self.detail());
        let (mut last, mut recurrences) = (None, 0);
        loop {
            let stop = self.run_processor(segment, &mut cursor, detail)?;
            if stop != StopReason::End {
                self.hardware.serialise(false);
            }
            match stop {
                StopReason::End => break,
                StopReason::Fault(fault) => self.fault(fault)?,
                StopReason::HostFault(at) => self.host_fault(at)?,
                StopReason::FirstWrite(vpn) => self.first_write(vpn)?,
                StopReason::PolicyCallback => self.policy_callback()?,
                StopReason::NeedsReferences => return Err(SimulationError::NeedsReferences),
            }
            // Faults can make a step long.
            if detail == Detail::All {
                self.pass_time();
            }
            recurrences = if last == Some((cursor, stop)) { recurrences + 1 } else { 0 };
            last = Some((cursor, stop));
            if recurrences == MAX_RECURRENCES {
                return Err(self.names.livelock(stop));
            }
        }
        self.hardware.processor.mmu().end_step(segment);
        Ok(())
    }

    /// Passes the TLB events since the last call-back to the policy.
    fn policy_callback(&mut self) -> Result<(), SimulationError> {
        let mut events = std::mem::take(&mut self.kernel.tlb_events);
        self.hardware.processor.mmu().take_events(&mut events);
        let handled = self.call(|system, vm| system.handle(&events, vm));
        self.kernel.tlb_events = events;
        handled
    }

    /// Calls the system because the program cannot go on without it.
    fn stop(
        &mut self,
        act: impl FnOnce(&mut dyn System, &mut Vm) -> Result<(), OutOfMemory>,
    ) -> Result<(), SimulationError> {
        let before = self.now().0;
        self.call(act)?;
        self.stops.add(self.now().0 - before);
        Ok(())
    }

    /// Calls the system, then applies what it queued for the processor.
    fn call(
        &mut self,
        act: impl FnOnce(&mut dyn System, &mut Vm) -> Result<(), OutOfMemory>,
    ) -> Result<(), SimulationError> {
        if self.kernel.reads_counters {
            self.kernel.vm.set_performance(self.hardware.performance(self.now().0));
        }
        let Kernel { system, vm, .. } = &mut self.kernel;
        act(&mut **system, vm).map_err(|source| self.names.out_of_memory(source))?;
        if self.kernel.reads_counters {
            self.hardware.processor.mmu().set_aux_tlb_enabled(self.kernel.enables_aux_tlb());
        }
        let traffic_in_caches = self.detail() != Detail::Translation;
        let applied = self.hardware.apply(&mut self.kernel.vm, traffic_in_caches);
        applied.map_err(|source| self.names.out_of_memory(source))?;
        self.pass_for_faults();
        Ok(())
    }

    /// Returns how references are simulated now.
    fn detail(&self) -> Detail {
        self.sampling.as_ref().map_or(Detail::All, |sampling| sampling.detail())
    }

    /// Lets hardware thread `hw` run from here on.
    fn go_to(&mut self, hw: usize) {
        if hw != self.hardware.processor.on() {
            self.accounts.book(&self.hardware.processor, self.kernel.vm.ledger());
        }
        self.hardware.processor.run_on(hw);
    }

    /// Returns the clock of hardware thread `hw`.
    fn clock(&self, hw: usize) -> u64 {
        self.accounts.clock(&self.hardware.processor, self.kernel.vm.ledger(), hw)
    }

    /// Returns the time by the clock of the hardware thread that runs.
    fn now(&self) -> Cycles {
        Cycles(self.clock(self.hardware.processor.on()))
    }

    /// Lets the hardware thread that runs idle until its clock shows `time`.
    fn wait_until(&mut self, time: u64) {
        self.accounts.wait_until(&self.hardware.processor, self.kernel.vm.ledger(), time);
    }

    /// Books what the process that runs has done since the last switch.
    fn settle(&mut self) {
        let settled = self.accounts.settle(&self.hardware.processor, self.kernel.vm.ledger());
        if let Some((process, spent)) = settled {
            self.accounts.absorb(process, &spent);
            if let Some(sampling) = &mut self.sampling {
                sampling.absorb(process, &spent);
            }
        }
    }

    /// Returns the totals of the hardware thread that runs, and of caches and memory. Call [`Simulation::settle`] before.
    fn totals(&self) -> (Tally, MemoryCounts) {
        let processor = &self.hardware.processor;
        (self.accounts.total(processor, processor.on()), MemoryCounts::of(processor))
    }

    /// Begins to measure. The operating system's counts stay: they describe the state that measuring begins with.
    fn start_measuring(&mut self) {
        self.accounts.start(&self.hardware.processor, self.kernel.vm.ledger());
        self.hardware.processor.mmu().reset_curve_counts();
        self.hardware.processor.mmus().for_each(Mmu::reset_range_hits);
        self.sampling.iter_mut().for_each(|sampling| sampling.start());
        self.attributor.iter_mut().for_each(|attributor| attributor.start());
    }
}
