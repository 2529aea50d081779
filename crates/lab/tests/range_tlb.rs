//! Range TLB, range table and page table under random maps, unmaps, protection changes, forks, writes and reclaim: range
//! translations always agree with the page table (Karakostas et al. 2015, §4.3 and §6).

use crate::common::{conditions, simulate};
use proptest::prelude::*;
use reach_core::{
    Asid, Chunk, Event, Fault, Kind, Layout, Map, PageShift, Permille, Ref, Span, StopReason, ThreadId, VirtAddr,
};
use reach_hardware::{Counters, Mmu, StepRefs};
use reach_lab::{Simulation, Timing, machine};
use reach_oracle::address_space::{FIRST_PAGE, NaiveAddressSpaces, Op};
use reach_os::{Options, Paging, RangeCounts, Vm};
use reach_systems::System;

const PAGE: u64 = 4096;
/// A mapping that uses up the free memory, far from all others.
const FAR: u64 = 1 << 40;
const FAR_PAGES: u64 = 160;

struct Bench {
    vm: Vm,
    mmu: Mmu,
    system: Box<dyn System>,
}

impl Bench {
    /// Makes a computer with 1 MB of memory and a page daemon.
    fn new(options: &str) -> Bench {
        let sizes = vec![PageShift(12), PageShift(21)];
        let mut small = Options::linux(Layout::x86_64(), sizes, 1 << 20);
        small.implicit_region = PAGE;
        let mut vm = Vm::new(small).unwrap();
        vm.use_paging(Paging {
            contiguity: false,
            last_close: false,
            cluster_wired: false,
            cache: false,
            demote: 0,
            low: Permille(100),
            seed: 3,
        });
        let mut system = reach_systems::resolve(&format!("karakostas-2015-rmm:{options}")).unwrap().build();
        system.boot(&mut vm).unwrap();
        let machine = machine::resolve("sandybridge-e5-2430").unwrap();
        let mut mmu = Mmu::new(&machine.hardware, false, 1);
        mmu.attach_aux_tlb(system.aux_tlb(&vm).unwrap());
        let mut bench = Bench { vm, mmu, system };
        bench.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) });
        bench
    }

    /// Applies what the system queued for the processor.
    fn apply_effects(&mut self) {
        for shootdown in self.vm.drain_shootdowns() {
            self.mmu.invalidate(&shootdown);
        }
        self.vm.drain_traffic();
    }

    fn event(&mut self, event: &Event) {
        self.system.event(event, &mut self.vm).unwrap();
        self.mmu.switch(self.vm.current());
        self.apply_effects();
    }

    /// References the first words of these pages through the processor.
    fn touch(&mut self, pages: std::ops::Range<u64>, kind: Kind) {
        let refs = pages.map(|page| match kind {
            Kind::Store => Ref::store(VirtAddr(page * PAGE)),
            _ => Ref::load(VirtAddr(page * PAGE)),
        });
        let mut chunk = Chunk { refs: refs.collect(), ..Chunk::default() };
        chunk.fold();
        let segment = StepRefs::whole(&chunk);
        let mut cursor = segment.begin();
        for _ in 0..10 * chunk.refs.len() + 10 {
            let running = self.vm.running().unwrap();
            match self.mmu.run(segment, &mut cursor, running.table, None) {
                StopReason::End => return,
                StopReason::Fault(fault) => self.fault(fault),
                StopReason::FirstWrite(vpn) => self.system.first_write(vpn, &mut self.vm).unwrap(),
                why => panic!("{why:?}"),
            }
            self.apply_effects();
        }
        panic!("no progress");
    }

    fn fault(&mut self, fault: Fault) {
        self.system.fault(fault, &mut self.vm).unwrap();
    }

    fn apply(&mut self, op: Op) {
        match (op.event(), op) {
            (Some(event), _) => self.event(&event),
            (None, Op::Touch { at, store }) => {
                self.touch(FIRST_PAGE + at..FIRST_PAGE + at + 1, NaiveAddressSpaces::kind(store))
            }
            (None, _) => unreachable!("all others are events"),
        }
    }

    /// Checks all TLB entries of the running process, the range TLB's ranges page by page, and every range.
    fn check(&mut self) {
        self.vm.check();
        let running = self.vm.running().unwrap();
        self.mmu.check(running.table);
    }
}

/// Runs random operations with checks after each. Returns counts, so that callers can see that something happened.
fn run_random_operations(options: &str, words: &[u64]) -> (Counters, RangeCounts, u64) {
    let mut bench = Bench::new(options);
    let mut twin = NaiveAddressSpaces::default();
    twin.apply(Op::Switch { asid: 1 });
    for (i, &word) in words.iter().enumerate() {
        let op = Op::decode(word);
        if !twin.allows(op) {
            continue;
        }
        bench.apply(op);
        twin.apply(op);
        bench.check();
        if i % 8 == 7 {
            bench.event(&Event::Map(Map::anonymous(VirtAddr(FAR), FAR_PAGES * PAGE)));
            bench.touch(FAR / PAGE..FAR / PAGE + FAR_PAGES, Kind::Store);
            bench.check();
            bench.event(&Event::Unmap(Span { start: VirtAddr(FAR), len: FAR_PAGES * PAGE }));
        }
        if i % 3 == 0 {
            bench.vm.page_daemon().unwrap();
            bench.apply_effects();
            bench.check();
        }
        if i % 16 == 9 && options.contains("measured") {
            bench.mmu.set_aux_tlb_enabled(i % 32 == 9);
        }
    }
    let paging = bench.vm.counters().paging.as_ref().map_or(0, |paging| paging.out + paging.unchanged);
    (bench.mmu.counters, bench.vm.counters().ranges.unwrap(), paging)
}

const OPTIONS: [&str; 4] = [
    "min_range=1,max_fragmentation=1000",
    "min_range=2,max_fragmentation=1000,entries=4,copy_on_write=split,round_up=on",
    "min_range=3,max_fragmentation=1000,entries=2,lookup=after-miss,sweep=16",
    "min_range=1,max_fragmentation=1000,sorted_free_lists=on,enable=measured",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn range_translations_agree_with_the_page_table(
        words in proptest::collection::vec(any::<u64>(), 1..160),
    ) {
        for options in OPTIONS {
            run_random_operations(options, &words);
        }
    }
}

#[test]
fn random_operations_reach_all_cases() {
    let mut random = reach_core::Random::new(11);
    let words: Vec<u64> = (0..600).map(|_| random.next_u64()).collect();
    for options in OPTIONS {
        let (processor, ranges, paged_out) = run_random_operations(options, &words);
        let counts = [
            processor.aux_tlb_hits,
            processor.aux_tlb_walks_avoided,
            ranges.made,
            ranges.cut,
            ranges.dissolved,
            paged_out,
        ];
        assert!(counts.iter().all(|&count| count > 0), "{options}: {counts:?}");
    }
}

/// §6: a program with many walks gets the range TLB once its walks were counted; one with few never searches it. Nothing
/// else about the operating system changes.
#[test]
fn the_range_tlb_is_enabled_for_programs_that_walk_much() {
    let run = |program: &str, options: &str| {
        let system = format!("karakostas-2015-rmm:{options}");
        let outcome = simulate("sandybridge-e5-2430", &system, program, Timing::Counts);
        (outcome.total.hardware, outcome.os.ranges.unwrap())
    };
    let (walks, little) = ("gups:bytes=32M,updates=500K", "touch:bytes=1M,passes=3000");
    let (always, ranges) = run(walks, "enable=always");
    let (measured, counted) = run(walks, "enable=measured");
    assert_eq!((always.aux_tlb_disabled_lookups, counted.enabled, counted.disabled), (0, 1, 0));
    assert_eq!(measured.aux_tlb_lookups + measured.aux_tlb_disabled_lookups, always.aux_tlb_lookups);
    assert!(10 * measured.aux_tlb_walks_avoided > 7 * always.aux_tlb_walks_avoided, "{measured:?} {always:?}");
    assert_eq!((ranges.made, ranges.pages.peak), (counted.made, counted.pages.peak));
    let (always, _) = run(little, "enable=always");
    let (measured, counted) = run(little, "enable=measured");
    assert!(always.aux_tlb_lookups > 100_000, "{always:?}");
    assert_eq!((measured.aux_tlb_lookups, counted.enabled), (0, 0));
    assert_eq!(measured.aux_tlb_disabled_lookups, always.aux_tlb_lookups);
    assert_eq!(measured.range_walks, 0);
}

#[test]
fn a_sweep_of_sizes_is_refused_for_a_range_tlb_that_may_be_off() {
    let system = reach_systems::resolve("karakostas-2015-rmm:sweep=4,lookup=after-miss,enable=measured").unwrap();
    let machine = machine::resolve("sandybridge-e5-2430").unwrap();
    let refused = Simulation::new(&machine, &system, &conditions(Timing::Counts)).err().unwrap().to_string();
    assert!(refused.contains("leave out enable=measured"), "{refused}");
}

#[test]
fn a_sweep_of_sizes_is_refused_where_a_walk_changes_the_tlb_by_more_than_its_translation() {
    let system = reach_systems::resolve("karakostas-2015-rmm:sweep=4,lookup=after-miss").unwrap();
    let coalesces = "zen4:tlb.l1d.coalesce=16K";
    for (machine, why) in [("zen4", "with their own entries"), (coalesces, "coalesce pages")] {
        let machine = machine::resolve(machine).unwrap();
        let refused = Simulation::new(&machine, &system, &conditions(Timing::Counts)).err().unwrap().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}
