//! Accounts: the counts and cycles of each hardware thread and each process.
//!
//! The processor counts by hardware thread, and the operating system's ledger is one for all. What the ledger gains while
//! a hardware thread runs is booked on that thread; what a thread's totals gain between two switches, on the process that
//! ran. Methods take the processor and the operating system's ledger as they are now.

use super::hardware::MemoryCounts;
use super::tally::{HardwareThread, KernelWork, Tally};
use reach_core::{Asid, Counts, Cycles, Event, Ledger};
use reach_hardware::Processor;
use std::collections::BTreeMap;

/// The work of a hardware thread, beyond the counts of its MMU.
#[derive(Clone, Debug, Default)]
struct ThreadAccount {
    /// The process that it runs.
    process: Asid,
    counts: Counts,
    /// Thousandths of a cycle that instructions took and that do not make a whole cycle yet.
    carry: u64,
    /// The kernel's own code on this thread.
    kernel: KernelWork,
    /// Cycles of the operating system on this thread.
    os: Ledger,
    /// Cycles without anything to do.
    idle: u64,
    /// Totals at the last switch.
    at_switch: Tally,
    /// Totals and clock where measuring began.
    at_start: (Tally, u64),
}

/// The accounts of all hardware threads and processes.
#[derive(Clone, Debug)]
pub(super) struct Accounts {
    threads: Vec<ThreadAccount>,
    /// The operating system's ledger when it was last booked.
    booked: Ledger,
    /// The work of each process since measuring began.
    pub processes: BTreeMap<Asid, Tally>,
    /// The file that each process last executed.
    pub names: BTreeMap<Asid, String>,
    /// Counts of caches and memory where measuring began; empty if that is the program's start.
    pub memory_at_start: MemoryCounts,
}

impl Accounts {
    pub fn new(hardware_threads: usize) -> Accounts {
        Accounts {
            threads: vec![ThreadAccount::default(); hardware_threads],
            booked: Ledger::default(),
            processes: BTreeMap::new(),
            names: BTreeMap::new(),
            memory_at_start: MemoryCounts::default(),
        }
    }

    /// Learns the names of processes from an event of the process that runs on `hw`.
    pub fn learn_name(&mut self, hw: usize, event: &Event) {
        let process = self.threads[hw].process;
        match event {
            Event::Exec { path } => {
                self.names.insert(process, path.rsplit('/').next().unwrap_or(path).into());
            }
            Event::Fork { child, .. } => {
                if let Some(name) = self.names.get(&process).cloned() {
                    self.names.insert(*child, name);
                }
            }
            _ => {}
        }
    }

    /// Counts instructions and references that `hw` executed. Returns their whole cycles, at `millicycles` thousandths of a
    /// cycle for each instruction; the rest is carried over.
    pub fn execute(&mut self, hw: usize, counts: &Counts, millicycles: u64) -> u64 {
        let account = &mut self.threads[hw];
        account.counts.absorb(counts);
        let all = account.carry + counts.instructions * millicycles;
        account.carry = all % 1000;
        all / 1000
    }

    /// Adds work of the kernel's own code on `hw`.
    pub fn execute_kernel(&mut self, hw: usize, work: &KernelWork) {
        self.threads[hw].kernel.absorb(work);
    }

    /// Books what the operating system has done since the last call on the hardware thread that runs.
    pub fn book(&mut self, processor: &Processor, os: &Ledger) {
        self.threads[processor.on()].os.absorb(&os.since(&self.booked));
        self.booked = os.clone();
    }

    /// Lets the hardware thread that runs idle until its clock shows `time`.
    pub fn wait_until(&mut self, processor: &Processor, os: &Ledger, time: u64) {
        let hw = processor.on();
        self.threads[hw].idle += time - self.clock(processor, os, hw);
    }

    /// Returns the clock of a hardware thread: its busy and idle cycles.
    pub fn clock(&self, processor: &Processor, os: &Ledger, hw: usize) -> u64 {
        let account = &self.threads[hw];
        let unbooked = if hw == processor.on() { os.total().0 - self.booked.total().0 } else { 0 };
        account.idle + account.os.total().0 + unbooked + processor.mmu_of(hw).ledger.total().0
    }

    /// Returns all that a hardware thread has done, as far as it is booked.
    pub fn total(&self, processor: &Processor, hw: usize) -> Tally {
        let (account, mmu) = (&self.threads[hw], processor.mmu_of(hw));
        let mut ledger = account.os.clone();
        ledger.absorb(&mmu.ledger);
        Tally { counts: account.counts, hardware: mmu.counters, ledger, kernel: account.kernel }
    }

    /// Ends the stretch of the process that runs: returns it with what it has done since the last switch, or `None` if that
    /// is nothing.
    pub fn settle(&mut self, processor: &Processor, os: &Ledger) -> Option<(Asid, Tally)> {
        self.book(processor, os);
        let hw = processor.on();
        let total = self.total(processor, hw);
        let account = &mut self.threads[hw];
        let spent = total.since(&account.at_switch);
        account.at_switch = total;
        let did_anything = spent.counts.references() > 0 || spent.ledger.total() > Cycles(0);
        did_anything.then_some((account.process, spent))
    }

    /// Adds `spent` to the account of `process`.
    pub fn absorb(&mut self, process: Asid, spent: &Tally) {
        self.processes.entry(process).or_default().absorb(spent);
    }

    /// Lets `process` run on `hw`. Call [`Accounts::settle`] before.
    pub fn switch_to(&mut self, hw: usize, process: Asid) {
        self.threads[hw].process = process;
    }

    /// Begins to measure: what was counted so far is no part of results.
    pub fn start(&mut self, processor: &Processor, os: &Ledger) {
        self.book(processor, os);
        for hw in 0..self.threads.len() {
            let (total, clock) = (self.total(processor, hw), self.clock(processor, os, hw));
            self.threads[hw].at_switch = total.clone();
            self.threads[hw].at_start = (total, clock);
        }
        self.processes.clear();
        self.memory_at_start = MemoryCounts::of(processor);
    }

    /// Returns what each hardware thread has done since measuring began. All of it must be settled.
    pub fn hardware_threads(&self, processor: &Processor, os: &Ledger) -> Vec<HardwareThread> {
        let of = |hw: usize| {
            let (tally, clock) = &self.threads[hw].at_start;
            HardwareThread {
                tally: self.total(processor, hw).since(tally),
                clock: self.clock(processor, os, hw) - clock,
            }
        };
        (0..self.threads.len()).map(of).collect()
    }
}
