//! Whether a range TLB is worth what it takes (Karakostas et al. 2015, §6, "TLB friendly workloads"): the operating system
//! looks at each program's memory and at the performance counters, and turns the range TLB on and off. Ranges are made all
//! the same.
//!
//! The paper says no more than that. Here a range TLB that is off is turned on for a program that has enough memory and
//! spends enough of its time on page walks; one that is on stays on while the walks that it spares would take half as much.
//! What walks would take follows from those that there were. Each time that it was turned off, twice as many looks
//! pass before it may be turned on again: a program whose walks ranges cannot spare would have it on every other time.

use crate::Vm;
use reach_core::{Asid, Label, PerformanceCounters};
use std::collections::BTreeMap;

/// When a range TLB is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worth {
    /// Share of its time that a program must spend on page walks, in ten-thousandths.
    pub share: u64,
    /// Bytes that it must have in memory.
    pub memory: u64,
}

/// What is known of a program.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    on: bool,
    /// Since the last look.
    spent: PerformanceCounters,
    /// Thousandths of cycles that a walk took when there were some last.
    walk: u64,
    /// How many looks must pass after it is turned off, and how many still have to.
    patience: u32,
    left: u32,
}

/// Keeps account of all programs.
#[derive(Clone, Debug)]
pub struct Enabling {
    worth: Worth,
    accounts: BTreeMap<Asid, Account>,
    /// What the counters said when they were read last.
    read: PerformanceCounters,
}

impl Enabling {
    /// Nothing is turned on yet.
    pub fn new(worth: Worth) -> Enabling {
        Enabling { worth, accounts: BTreeMap::new(), read: PerformanceCounters::default() }
    }

    /// Whether the range TLB is on for this address space.
    pub fn is_on(&self, asid: Asid) -> bool {
        self.accounts.get(&asid).is_some_and(|account| account.on)
    }

    /// Books what was counted since the last time on the running address space. Before another begins to run.
    pub fn book(&mut self, vm: &Vm) {
        let spent = vm.performance.since(&self.read);
        self.read = vm.performance;
        self.accounts.entry(vm.current()).or_default().spent.absorb(&spent);
    }

    /// An address space has ended, or another program has it.
    pub fn forget(&mut self, asid: Asid) {
        self.accounts.remove(&asid);
    }

    /// Looks at all programs that have run since the last look.
    pub fn look(&mut self, vm: &mut Vm) {
        self.book(vm);
        vm.ledger.charge(Label::Daemon, vm.options().costs.trap);
        for (&asid, account) in &mut self.accounts {
            let spent = std::mem::take(&mut account.spent);
            if spent.cycles == 0 {
                continue;
            }
            if let Some(walk) = (spent.walk_cycles * 1000).checked_div(spent.walks) {
                account.walk = walk;
            }
            let share = |cycles: u64| (u128::from(cycles) * 10_000 / u128::from(spent.cycles)) as u64;
            if account.on {
                account.on = 2 * share(spent.avoided_walks * account.walk / 1000) >= self.worth.share;
                if !account.on {
                    account.patience = (2 * account.patience).clamp(1, 1 << 16);
                    account.left = account.patience;
                    vm.count_ranges(|c| c.disabled += 1);
                }
            } else if account.left > 0 {
                account.left -= 1;
            } else {
                let memory = vm.process(asid).map_or(0, |process| process.counters.resident_bytes.current);
                account.on = memory >= self.worth.memory && share(spent.walk_cycles) >= self.worth.share;
                vm.count_ranges(|c| c.enabled += u64::from(account.on));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Ranging, Translated};
    use reach_core::{Event, Layout, Map, PageShift, ThreadId, VirtAddr};

    const A: Asid = Asid(1);
    const B: Asid = Asid(2);

    fn run(vm: &mut Vm, enabling: &mut Enabling, asid: Asid) {
        enabling.book(vm);
        vm.apply(&Event::Switch { asid, thread: ThreadId(0) }).unwrap();
    }

    /// Two programs, of which the first has 4 MB in memory.
    fn two() -> (Vm, Enabling) {
        let mut vm = Vm::new(Options::linux(Layout::x86_64(), vec![PageShift(12)], 64 << 20)).unwrap();
        vm.use_ranges(Ranging {
            least: 8,
            fragmented: 1000,
            larger: false,
            block: 2 << 30,
            sorted: false,
            translated: Translated::ByRanges,
            heap: 0,
        });
        let mut enabling = Enabling::new(Worth { share: 50, memory: 2 << 20 });
        run(&mut vm, &mut enabling, A);
        vm.apply(&Event::Map(Map::anonymous(VirtAddr(1 << 30), 4 << 20))).unwrap();
        (vm, enabling)
    }

    /// So many cycles pass in all, with walks of 20 cycles each.
    fn pass(vm: &mut Vm, cycles: u64, walks: u64, spared: u64) {
        let spent = PerformanceCounters { cycles, walks, walk_cycles: 20 * walks, avoided_walks: spared };
        vm.performance.absorb(&spent);
    }

    #[test]
    fn it_is_on_for_programs_that_walk_and_off_for_others() {
        let (mut vm, mut enabling) = two();
        pass(&mut vm, 100_000, 25, 0);
        enabling.look(&mut vm);
        assert!(enabling.is_on(A), "0.5 % of its time goes to walks");
        pass(&mut vm, 100_000, 0, 13);
        enabling.look(&mut vm);
        assert!(enabling.is_on(A), "0.26 % would");
        // The other one walks as much, but has no memory; and what it does is not booked on the first.
        run(&mut vm, &mut enabling, B);
        pass(&mut vm, 100_000, 1000, 0);
        run(&mut vm, &mut enabling, A);
        enabling.look(&mut vm);
        assert!(!enabling.is_on(B) && enabling.is_on(A));
        pass(&mut vm, 100_000, 100, 12);
        enabling.look(&mut vm);
        assert!(!enabling.is_on(A), "it spares 0.24 %");
        let counts = vm.counters.ranges.unwrap();
        assert_eq!((counts.enabled, counts.disabled), (1, 1));
        assert_eq!(vm.ledger.charged(Label::Daemon).0, 4 * vm.options().costs.trap);
    }

    #[test]
    fn where_it_spares_nothing_it_is_tried_less_and_less() {
        let (mut vm, mut enabling) = two();
        let mut tried = Vec::new();
        for look in 0..40 {
            pass(&mut vm, 100_000, 100, 0);
            enabling.look(&mut vm);
            if enabling.is_on(A) {
                tried.push(look);
            }
        }
        assert_eq!(tried, [0, 3, 7, 13, 23]);
        enabling.forget(A);
        assert!(!enabling.is_on(A));
    }
}
