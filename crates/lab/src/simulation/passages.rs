//! Passages through the kernel's own code, where a simulation executes it.
//!
//! They are due at system calls and other events of the program, at page faults, and when the timer interrupts. What they count
//! is kept apart from the program's counts, and their cycles have a label of their own.

use super::hardware::Detail;
use super::{KernelWork, Simulation};
use crate::kernel_code::{ADDRESS_BITS, KernelCode, PLAIN, kind_of};
use crate::machine;
use reach_core::{Asid, Counts, EditablePageTable, Event, Label, Mark, StopReason};
use reach_hardware::StepRefs;
use reach_hardware::ooo::Predictor;

/// Interrupts of the timer in a second: Debian's kernels for servers have CONFIG_HZ=250.
const TIMER_HERTZ: u64 = 250;

/// The state of the kernel's own code.
pub(super) struct Passages {
    code: &'static KernelCode,
    table: EditablePageTable,
    /// How many passages there have been: those of a kind take turns.
    turn: usize,
    /// The cycle in which the timer interrupts next, and the cycles between two interrupts.
    due: u64,
    period: u64,
    /// The program has run.
    begun: bool,
    /// The thread that runs has made a system call, and no reference since.
    called: bool,
    /// The source leaves references out, so nothing may replace them in caches.
    left_out: bool,
    /// Page faults that had passages: anonymous ones, those of files, and copies on write.
    faults: [u64; 3],
    /// The predictor of passages in a sampled program: intervals begin with predictors that the program alone has trained.
    predictor: Option<Box<Predictor>>,
    /// Instructions and cycles of passages that took time.
    instructions: u64,
    cycles: u64,
}

impl Passages {
    /// Boots the recorded kernel on `machine` with `memory` bytes for programs.
    ///
    /// # Errors
    /// Where the machine translates too few bits of addresses.
    pub fn new(machine: &machine::Resolved, memory: u64) -> Result<Passages, String> {
        let (layout, sizes) = (&machine.hardware.layout, &machine.hardware.sizes);
        if layout.address_bits() < ADDRESS_BITS {
            return Err(format!(
                "its addresses have {} bits, and the recorded kernel needs {ADDRESS_BITS}; leave out --kernel, or use another \
                 machine",
                layout.address_bits()
            ));
        }
        let code = KernelCode::recorded();
        let table = code.page_table(layout, sizes, memory);
        let period = (machine.hardware.core.hertz / TIMER_HERTZ).max(1);
        Ok(Passages {
            code,
            table,
            turn: 0,
            due: period,
            period,
            begun: false,
            called: false,
            left_out: false,
            faults: [0; 3],
            predictor: None,
            instructions: 0,
            cycles: 0,
        })
    }

    /// Notes that a passage took these `cycles`, and returns them.
    fn timed(&mut self, instructions: u64, cycles: u64) -> u64 {
        self.instructions += instructions;
        self.cycles += cycles;
        cycles
    }

    /// Returns the cycles of a passage that was simulated without time: at the rate of those before, or `otherwise`.
    fn untimed(&self, instructions: u64, otherwise: u64) -> u64 {
        let cycles = u128::from(instructions) * u128::from(self.cycles);
        cycles.checked_div(self.instructions.into()).map_or(otherwise, |cycles| cycles as u64)
    }

    /// Returns whether the timer has interrupted by `now`. Several interrupts that were due are one.
    fn interrupted(&mut self, now: u64) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now - now % self.period + self.period;
        }
        is_due
    }
}

impl Simulation {
    /// Executes the kernel's code for an event of the program, if it has any.
    pub(super) fn pass_for_event(&mut self, event: &Event) {
        let Some(passages) = &mut self.passages else { return };
        match event {
            Event::SystemCall(number) => {
                passages.called = true;
                let kind = kind_of(*number);
                let unrecorded = u64::from(kind.is_none());
                self.pass(kind.unwrap_or(PLAIN), KernelWork { system_calls: 1, unrecorded, ..KernelWork::default() });
            }
            Event::Fork { .. } => self.pass("fork", KernelWork { processes: 1, ..KernelWork::default() }),
            // The first image is the one that the program starts with.
            Event::Exec { .. } if passages.begun => {
                self.pass("execve", KernelWork { processes: 1, ..KernelWork::default() });
            }
            Event::Exit => self.pass("exit_group", KernelWork { processes: 1, ..KernelWork::default() }),
            // Threads that ran at the same time when they were captured take turns without the kernel.
            Event::Switch { .. } if passages.called => {
                self.pass("switch", KernelWork { switches: 1, ..KernelWork::default() });
            }
            _ => {}
        }
    }

    /// Executes the kernel's code for an interrupt of the timer, if one is due.
    pub(super) fn pass_for_timer(&mut self) {
        let now = self.now().0;
        if self.passages.as_mut().is_some_and(|passages| passages.interrupted(now)) {
            self.pass("timer", KernelWork { interrupts: 1, ..KernelWork::default() });
        }
    }

    /// Executes the kernel's code for the page faults since the last call.
    pub(super) fn pass_for_faults(&mut self) {
        let Some(passages) = &mut self.passages else { return };
        let c = self.kernel.vm.counters();
        let anonymous = c.anonymous_faults + c.zero_page_faults;
        let faults = [anonymous, c.file_faults, c.cow_faults + c.write_notify_faults + c.spurious_faults];
        let before = std::mem::replace(&mut passages.faults, faults);
        for ((kind, now), before) in ["fault_anonymous", "fault_file", "fault_copy"].iter().zip(faults).zip(before) {
            for _ in before..now {
                self.pass(kind, KernelWork { faults: 1, ..KernelWork::default() });
            }
        }
    }

    /// Executes the next passage of this kind, and counts it as `work`.
    fn pass(&mut self, kind: &str, mut work: KernelWork) {
        // Between the intervals of a sample, too, unless caches see nothing there.
        let detail = if self.detail() == Detail::Translation { Detail::Translation } else { Detail::All };
        let Some(passages) = self.passages.as_mut().filter(|passages| !passages.left_out) else { return };
        passages.turn += 1;
        let steps = passages.code.passage(kind, passages.turn);
        let trained_apart = self.sampling.as_ref().and_then(|_| self.hardware.processor.predictor_config());
        if let Some(config) = trained_apart {
            passages.predictor.get_or_insert_with(|| Box::new(Predictor::new(&config)));
        }
        let aside = self.hardware.interrupt(passages.predictor.as_deref_mut());
        let mmu = self.hardware.processor.mmu();
        let before = (mmu.counters, mmu.ledger.clone());
        mmu.switch(Asid::KERNEL);
        let position = mmu.interrupt_program();
        let mut counts = Counts::default();
        for step in steps {
            let segment = StepRefs::new(passages.code.chunk(), step).with_code(passages.code.code());
            let stop = self.hardware.run(segment, &mut segment.begin(), passages.table.hardware_view(), detail);
            assert_eq!(stop, StopReason::End, "all pages of the kernel are mapped");
            self.hardware.processor.mmu().end_control_flow(segment);
            counts.absorb(&step.counts);
        }
        self.hardware.processor.mmu().resume_program(position);
        self.hardware.resume(aside, passages.predictor.as_deref_mut());
        let nominal = counts.instructions * self.hardware.millicycles_per_instruction / 1000;
        let mmu = self.hardware.processor.mmu();
        mmu.switch(self.kernel.vm.current());
        work.instructions = counts.instructions;
        work.hardware = mmu.counters.since(&before.0);
        let spent = mmu.ledger.since(&before.1).total().0 + if self.hardware.out_of_order { 0 } else { nominal };
        (mmu.counters, mmu.ledger) = before;
        let cycles = match detail {
            Detail::All => passages.timed(counts.instructions, spent),
            _ => passages.untimed(counts.instructions, nominal),
        };
        mmu.ledger.charge(Label::Kernel, cycles);
        self.accounts.execute_kernel(self.hardware.processor.on(), &work);
    }

    /// Notes whether the source leaves references out from `mark` on.
    pub(super) fn mark_passages(&mut self, mark: Mark) {
        self.passages.iter_mut().for_each(|passages| passages.left_out = mark == Mark::FastForward);
    }

    /// Notes that the program runs, so that what follows is no part of its start or of a system call.
    pub(super) fn begin_passages(&mut self) {
        self.passages.iter_mut().for_each(|passages| (passages.begun, passages.called) = (true, false));
    }
}
