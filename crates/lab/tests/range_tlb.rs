//! Range TLB, range table and page table together, under random maps, unmaps, changes of rights, forks, writes and
//! reclaim: neither ever gives a translation that the page table does not give (Karakostas et al. 2015, §4.3 and §6).

mod common;

use common::{conditions, simulate};
use proptest::prelude::*;
use reach_core::{Asid, Chunk, Event, Fault, Kind, Layout, Map, PageShift, Ref, Span, StopReason, ThreadId, VirtAddr};
use reach_hardware::{Counters, Mmu, StepRefs};
use reach_lab::{Simulation, Timing, machine};
use reach_oracle::address_space::{FIRST, NaiveSpaces, Op};
use reach_os::{Options, Paging, RangeCounts, Vm};
use reach_systems::System;

const PAGE: u64 = 4096;
/// Mappings that take what memory there is, far from all others.
const FAR: u64 = 1 << 40;
const FAR_PAGES: u64 = 160;

struct Fire {
    vm: Vm,
    mmu: Mmu,
    system: Box<dyn System>,
}

impl Fire {
    /// A computer with 1 MB of memory and a page daemon.
    fn new(options: &str) -> Fire {
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
            low: 100,
            seed: 3,
        });
        let mut system = reach_systems::resolve(&format!("karakostas-2015-rmm:{options}")).unwrap().build();
        system.boot(&mut vm).unwrap();
        let machine = machine::resolve("sandybridge-e5-2430").unwrap();
        let mut mmu = Mmu::new(&machine.hardware, false, 1);
        mmu.attach_aux_tlb(system.aux_tlb(&vm).unwrap());
        let mut fire = Fire { vm, mmu, system };
        fire.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) });
        fire
    }

    /// What the system asked of the processor.
    fn obey(&mut self) {
        for shootdown in self.vm.drain_shootdowns() {
            self.mmu.invalidate(&shootdown);
        }
        self.vm.drain_traffic();
    }

    fn event(&mut self, event: &Event) {
        self.system.event(event, &mut self.vm).unwrap();
        self.mmu.switch(self.vm.current());
        self.obey();
    }

    /// References to the first words of these pages, through the processor.
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
            self.obey();
        }
        panic!("no progress");
    }

    fn fault(&mut self, fault: Fault) {
        self.system.fault(fault, &mut self.vm).unwrap();
    }

    fn apply(&mut self, op: Op) {
        match (op.event(), op) {
            (Some(event), _) => self.event(&event),
            (None, Op::Touch { at, store }) => self.touch(FIRST + at..FIRST + at + 1, NaiveSpaces::kind(store)),
            (None, _) => unreachable!("all others are events"),
        }
    }

    /// Everything that all TLBs hold of the running process, the range TLB's ranges page by page, and every range.
    fn check(&mut self) {
        self.vm.check();
        let running = self.vm.running().unwrap();
        self.mmu.check(running.table);
    }
}

/// What was seen in a run, so that no run can pass because nothing happens.
fn under_fire(options: &str, words: &[u64]) -> (Counters, RangeCounts, u64) {
    let mut fire = Fire::new(options);
    let mut twin = NaiveSpaces::default();
    twin.apply(Op::Switch { asid: 1 });
    for (i, &word) in words.iter().enumerate() {
        let op = Op::decode(word);
        if !twin.allows(op) {
            continue;
        }
        fire.apply(op);
        twin.apply(op);
        fire.check();
        if i % 8 == 7 {
            fire.event(&Event::Map(Map::anonymous(VirtAddr(FAR), FAR_PAGES * PAGE)));
            fire.touch(FAR / PAGE..FAR / PAGE + FAR_PAGES, Kind::Store);
            fire.check();
            fire.event(&Event::Unmap(Span { start: VirtAddr(FAR), len: FAR_PAGES * PAGE }));
        }
        if i % 3 == 0 {
            fire.vm.page_daemon().unwrap();
            fire.obey();
            fire.check();
        }
        if i % 16 == 9 && options.contains("measured") {
            fire.mmu.set_aux_tlb_enabled(i % 32 == 9);
        }
    }
    let paging = fire.vm.counters().paging.as_ref().map_or(0, |paging| paging.out + paging.unchanged);
    (fire.mmu.counters, fire.vm.counters().ranges.unwrap(), paging)
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
    fn no_translation_is_given_that_the_page_table_does_not_give(
        words in proptest::collection::vec(any::<u64>(), 1..160),
    ) {
        for options in OPTIONS {
            under_fire(options, &words);
        }
    }
}

#[test]
fn the_fire_burns() {
    let mut random = reach_core::Random::new(11);
    let words: Vec<u64> = (0..600).map(|_| random.next_u64()).collect();
    for options in OPTIONS {
        let (processor, ranges, paged_out) = under_fire(options, &words);
        let seen = [
            processor.aux_tlb_hits,
            processor.aux_tlb_walks_avoided,
            ranges.made,
            ranges.cut,
            ranges.dissolved,
            paged_out,
        ];
        assert!(seen.iter().all(|&count| count > 0), "{options}: {seen:?}");
    }
}

/// §6: a program that walks gets the range TLB once that is known, one that does not never searches it; and it makes no
/// other difference to what the operating system does.
#[test]
fn the_range_tlb_is_on_where_it_is_worth_it() {
    let run = |program: &str, options: &str| {
        let system = format!("karakostas-2015-rmm:{options}");
        let outcome = simulate("sandybridge-e5-2430", &system, program, Timing::Counts);
        (outcome.total.hardware, outcome.os.ranges.unwrap())
    };
    let (walks, little) = ("gups:bytes=32M,updates=500K", "touch:bytes=1M,passes=3000");
    let (always, ranges) = run(walks, "enable=always");
    let (measured, told) = run(walks, "enable=measured");
    assert_eq!((always.aux_tlb_disabled_lookups, told.enabled, told.disabled), (0, 1, 0));
    assert_eq!(measured.aux_tlb_lookups + measured.aux_tlb_disabled_lookups, always.aux_tlb_lookups);
    assert!(10 * measured.aux_tlb_walks_avoided > 7 * always.aux_tlb_walks_avoided, "{measured:?} {always:?}");
    assert_eq!((ranges.made, ranges.pages.peak), (told.made, told.pages.peak));
    let (always, _) = run(little, "enable=always");
    let (measured, told) = run(little, "enable=measured");
    assert!(always.aux_tlb_lookups > 100_000, "{always:?}");
    assert_eq!((measured.aux_tlb_lookups, told.enabled), (0, 0));
    assert_eq!(measured.aux_tlb_disabled_lookups, always.aux_tlb_lookups);
    assert_eq!(measured.range_walks, 0);
}

#[test]
fn what_is_counted_for_one_range_tlb_is_not_counted_for_one_that_is_off_at_times() {
    let system = reach_systems::resolve("karakostas-2015-rmm:sweep=4,lookup=after-miss,enable=measured").unwrap();
    let machine = machine::resolve("sandybridge-e5-2430").unwrap();
    let refused = Simulation::new(&machine, &system, &conditions(Timing::Counts)).err().unwrap().to_string();
    assert!(refused.contains("leave enable=measured out"), "{refused}");
}
