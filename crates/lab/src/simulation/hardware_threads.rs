//! What each hardware thread has done, and on whose account.

use super::{HardwareThread, Simulation, Tally};
use reach_core::{Asid, Counts, Cycles, Ledger, PerformanceCounters, ThreadId};

/// A hardware thread's account, beside what its unit counts.
#[derive(Clone, Debug, Default)]
struct Account {
    /// The process that it runs.
    process: Asid,
    /// The software thread that it ran last, where there are several hardware threads.
    ran: Option<(Asid, ThreadId)>,
    counts: Counts,
    /// Millicycles of instructions that do not make a whole cycle yet.
    carry: u64,
    /// What the operating system has done on it.
    os: Ledger,
    /// Cycles for which it had nothing to do.
    idle: u64,
    /// Totals when the running process was switched to.
    since: Tally,
    /// Totals, and the clock, where measuring began.
    before: (Tally, u64),
}

/// The accounts of all hardware threads.
#[derive(Clone, Debug)]
pub(super) struct HardwareThreads {
    accounts: Vec<Account>,
    /// The operating system's ledger when the last of it was booked.
    os: Ledger,
}

impl HardwareThreads {
    pub fn new(hardware_threads: usize) -> HardwareThreads {
        HardwareThreads { accounts: vec![Account::default(); hardware_threads], os: Ledger::default() }
    }

    /// The process that `hw` runs.
    pub fn process(&self, hw: usize) -> Asid {
        self.accounts[hw].process
    }

    /// `hw` runs a software thread; returns whether it ran another before.
    pub fn goes_over(&mut self, hw: usize, software: (Asid, ThreadId)) -> bool {
        self.accounts[hw].ran.replace(software).is_some_and(|ran| ran != software)
    }

    /// Counts what `hw` has executed; returns whole cycles, at so many thousandths for each instruction.
    pub fn executed(&mut self, hw: usize, counts: &Counts, millicycles: u64) -> u64 {
        let account = &mut self.accounts[hw];
        account.counts.absorb(counts);
        let all = account.carry + counts.instructions * millicycles;
        account.carry = all % 1000;
        all / 1000
    }
}

impl Simulation {
    /// From here on `hw` runs.
    pub(super) fn go_to(&mut self, hw: usize) {
        if hw != self.processor.on() {
            self.book();
        }
        self.processor.run_on(hw);
    }

    /// Books what the operating system has done since the last time on the thread that runs.
    fn book(&mut self) {
        let done = self.vm.ledger.since(&self.hardware_threads.os);
        self.hardware_threads.accounts[self.processor.on()].os.absorb(&done);
        self.hardware_threads.os = self.vm.ledger.clone();
    }

    /// The thread that runs has nothing to do until `time` by its clock.
    pub(super) fn wait_until(&mut self, time: u64) {
        let hw = self.processor.on();
        self.hardware_threads.accounts[hw].idle += time - self.clock(hw);
    }

    /// The clock of a hardware thread: its cycles, and those for which it had nothing to do.
    pub(super) fn clock(&self, hw: usize) -> u64 {
        let account = &self.hardware_threads.accounts[hw];
        let unbooked = self.vm.ledger.total().0 - self.hardware_threads.os.total().0;
        let unbooked = if hw == self.processor.on() { unbooked } else { 0 };
        account.idle + account.os.total().0 + unbooked + self.processor.mmu_of(hw).ledger.total().0
    }

    /// The time, by the clock of the thread that runs.
    pub(super) fn now(&self) -> Cycles {
        Cycles(self.clock(self.processor.on()))
    }

    /// What the performance counters of all hardware threads say together.
    pub(super) fn performance(&self) -> PerformanceCounters {
        let mut all = PerformanceCounters { cycles: self.now().0, walks: 0, walk_cycles: 0, avoided_walks: 0 };
        for hw in 0..self.processor.hardware_threads() {
            let c = &self.processor.mmu_of(hw).counters;
            all.walks += c.walks();
            all.walk_cycles += c.walk_cycles;
            all.avoided_walks += c.aux_tlb_spared;
        }
        all
    }

    pub(super) fn total_of(&self, hw: usize) -> Tally {
        let (account, mmu) = (&self.hardware_threads.accounts[hw], self.processor.mmu_of(hw));
        let mut ledger = account.os.clone();
        ledger.absorb(&mmu.ledger);
        Tally { counts: account.counts, hardware: mmu.counters, ledger }
    }

    /// Books what has happened on the thread that runs since its last switch on the process that ran.
    pub(super) fn settle(&mut self) {
        self.book();
        let hw = self.processor.on();
        let total = self.total_of(hw);
        let spent = total.since(&self.hardware_threads.accounts[hw].since);
        if spent.counts.references() > 0 || spent.ledger.total() > Cycles(0) {
            self.book_on(self.hardware_threads.accounts[hw].process, &spent);
        }
        self.hardware_threads.accounts[hw].since = total;
    }

    /// What comes from now on is the result. What the operating system counted stays: it made the state that is met here.
    pub(super) fn measure(&mut self) {
        self.book();
        for hw in 0..self.processor.hardware_threads() {
            let (total, clock) = (self.total_of(hw), self.clock(hw));
            self.hardware_threads.accounts[hw].since = total.clone();
            self.hardware_threads.accounts[hw].before = (total, clock);
        }
        self.processor.mmu().restart_curve();
        self.processes.clear();
        let caches = self.processor.all_caches();
        self.before = caches.iter().flat_map(|caches| caches.counters().map(|(_, counters)| counters)).collect();
        self.beyond = caches.iter().map(|caches| caches.beyond).collect();
    }

    /// The thread that runs goes over to another process.
    pub(super) fn take_up(&mut self, process: Asid) {
        self.settle();
        self.hardware_threads.accounts[self.processor.on()].process = process;
    }

    /// What each hardware thread has done, when all is settled.
    pub(super) fn all_hardware_threads(&self) -> Vec<HardwareThread> {
        let of = |hw: usize| {
            let (before, clock) = &self.hardware_threads.accounts[hw].before;
            HardwareThread { tally: self.total_of(hw).since(before), clock: self.clock(hw) - clock }
        };
        (0..self.processor.hardware_threads()).map(of).collect()
    }
}
