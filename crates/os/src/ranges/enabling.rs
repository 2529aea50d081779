//! Turning range TLBs on and off (Karakostas et al. 2015, §6, "TLB friendly workloads"): the operating system reads each
//! program's memory size and the performance counters. Ranges are made in any case.
//!
//! The paper says no more than that. Here the range TLB is turned on for a program that has enough memory and spends enough
//! of its time on page walks. It stays on while the walks that it avoids would take half as much time; the cost of a walk is
//! that of the latest walks. Each time that it is turned off, twice as many reviews pass before it may be turned on again:
//! otherwise a program whose walks ranges cannot avoid would have it on every other time.

use crate::Vm;
use reach_core::{Asid, Label, PerformanceCounters};
use std::collections::BTreeMap;

/// When a range TLB is worth its power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worth {
    /// Share of its cycles that a program must spend on page walks, in ten-thousandths.
    pub share: u64,
    /// Resident bytes that the program must have.
    pub memory: u64,
}

/// Observations of one program.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    on: bool,
    /// Performance counters since the last review.
    spent: PerformanceCounters,
    /// Thousandths of a cycle that a walk took, at the last review that saw walks.
    walk: u64,
    /// Reviews that pass after the range TLB is turned off before it may be turned on again.
    patience: u32,
    /// Reviews that still have to pass.
    left: u32,
}

/// Decides for which programs the range TLB is on.
#[derive(Clone, Debug)]
pub struct Enabling {
    worth: Worth,
    accounts: BTreeMap<Asid, Account>,
    /// Performance counters at the last reading.
    read: PerformanceCounters,
}

impl Enabling {
    /// Returns a decider with the range TLB off for every program.
    pub fn new(worth: Worth) -> Enabling {
        Enabling { worth, accounts: BTreeMap::new(), read: PerformanceCounters::default() }
    }

    /// Returns whether the range TLB is on for this address space.
    pub fn is_on(&self, asid: Asid) -> bool {
        self.accounts.get(&asid).is_some_and(|account| account.on)
    }

    /// Attributes what was counted since the last call to the running address space. Call before another one runs.
    pub fn attribute(&mut self, vm: &Vm) {
        let spent = vm.performance().since(&self.read);
        self.read = *vm.performance();
        self.accounts.entry(vm.current()).or_default().spent.absorb(&spent);
    }

    /// Drops the observations of an address space that has ended or that another program uses now.
    pub fn forget(&mut self, asid: Asid) {
        self.accounts.remove(&asid);
    }

    /// Reviews all programs that have run since the last review.
    pub fn review(&mut self, vm: &mut Vm) {
        self.attribute(vm);
        vm.charge(Label::Daemon, vm.options().costs.trap);
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
                    vm.accounting.count_ranges(|c| c.disabled += 1);
                }
            } else if account.left > 0 {
                account.left -= 1;
            } else {
                let memory = vm.counters_of(asid).map_or(0, |counters| counters.resident_bytes.current);
                account.on = memory >= self.worth.memory && share(spent.walk_cycles) >= self.worth.share;
                vm.accounting.count_ranges(|c| c.enabled += u64::from(account.on));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Ranging, Translated};
    use reach_core::{Event, Layout, Map, PageShift, Permille, ThreadId, VirtAddr};

    const A: Asid = Asid(1);
    const B: Asid = Asid(2);

    fn run(vm: &mut Vm, enabling: &mut Enabling, asid: Asid) {
        enabling.attribute(vm);
        vm.apply(&Event::Switch { asid, thread: ThreadId(0) }).unwrap();
    }

    /// Returns a system with one program that has 4 MB in memory.
    fn one_program() -> (Vm, Enabling) {
        let mut vm = Vm::new(Options::linux(Layout::x86_64(), vec![PageShift(12)], 64 << 20)).unwrap();
        vm.use_ranges(Ranging {
            least: 8,
            fragmented: Permille(1000),
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

    /// Lets `cycles` pass, with walks of 20 cycles each.
    fn pass(vm: &mut Vm, cycles: u64, walks: u64, avoided_walks: u64) {
        let spent = PerformanceCounters { cycles, walks, walk_cycles: 20 * walks, avoided_walks };
        let mut counters = *vm.performance();
        counters.absorb(&spent);
        vm.set_performance(counters);
    }

    #[test]
    fn the_range_tlb_is_on_only_for_large_programs_that_walk() {
        let (mut vm, mut enabling) = one_program();
        pass(&mut vm, 100_000, 25, 0);
        enabling.review(&mut vm);
        assert!(enabling.is_on(A), "0.5 % of its time goes to walks");
        pass(&mut vm, 100_000, 0, 13);
        enabling.review(&mut vm);
        assert!(enabling.is_on(A), "0.26 % would, without the range TLB");
        // The second program walks as much but has no memory. Its walks are not attributed to the first.
        run(&mut vm, &mut enabling, B);
        pass(&mut vm, 100_000, 1000, 0);
        run(&mut vm, &mut enabling, A);
        enabling.review(&mut vm);
        assert!(!enabling.is_on(B) && enabling.is_on(A));
        pass(&mut vm, 100_000, 100, 12);
        enabling.review(&mut vm);
        assert!(!enabling.is_on(A), "the walks avoided are 0.24 %");
        let counts = vm.counters().ranges.unwrap();
        assert_eq!((counts.enabled, counts.disabled), (1, 1));
        assert_eq!(vm.ledger().charged(Label::Daemon).0, 4 * vm.options().costs.trap);
    }

    #[test]
    fn where_it_avoids_no_walks_it_is_tried_less_and_less() {
        let (mut vm, mut enabling) = one_program();
        let mut tried = Vec::new();
        for review in 0..40 {
            pass(&mut vm, 100_000, 100, 0);
            enabling.review(&mut vm);
            if enabling.is_on(A) {
                tried.push(review);
            }
        }
        assert_eq!(tried, [0, 3, 7, 13, 23]);
        enabling.forget(A);
        assert!(!enabling.is_on(A));
    }
}
