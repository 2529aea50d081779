//! Several cores and hardware threads, and their twins.

use crate::cases;
use crate::random_machine::machine;
use crate::random_os::{Edit, Memory, System};
use crate::random_program::{PROCESSES, Placer, Step, steps};
use proptest::collection::vec;
use proptest::prelude::*;
use reach_core::{Asid, Chunk, Ledger, Pte, Ref, StopReason, Vpn, fold};
use reach_hardware::config::{Machine, Sharing, Walker};
use reach_hardware::{CacheCounters, Counters, Processor, StepRefs, Topology};
use std::ops::Range;

/// What a shootdown costs who sends it, and who is told.
const INVALIDATE: u64 = 7;
const INTERRUPT: u64 = 100;

/// A machine whose arrays threads can divide, and how they do.
fn setup() -> impl Strategy<Value = (Machine, Topology, bool, u64)> {
    let sharing = prop_oneof![Just(Sharing::Shared), Just(Sharing::Partitioned), Just(Sharing::Replicated)];
    let shape = (1..4usize, 1..4usize, vec(sharing, 16));
    (machine(), shape, vec(any::<bool>(), 8), any::<bool>(), any::<u64>()).prop_map(
        |(mut machine, (cores, threads, mut sharing), shared, cached, seed)| {
            // A miss handler in software is one core's.
            let threads = if matches!(machine.walker, Walker::Software { .. }) { 1 } else { threads };
            sharing.truncate(machine.tlbs.len());
            assert_eq!(sharing.len(), machine.tlbs.len());
            for (tlb, sharing) in machine.tlbs.iter().zip(&mut sharing) {
                // Sets are powers of two, and so are the ways of some.
                let divides = (tlb.entries as usize).is_multiple_of(threads) && threads.is_power_of_two();
                if *sharing == Sharing::Partitioned && !(divides && tlb.ways.is_power_of_two()) {
                    *sharing = Sharing::Shared;
                }
            }
            for (cache, shared) in machine.caches.iter_mut().zip(shared) {
                cache.shared = shared;
            }
            (machine, Topology { cores, threads, sharing }, cached, seed)
        },
    )
}

/// All that can be seen of a hardware thread, and of its core's caches.
type View = (Counters, Ledger, Vec<(usize, Asid, Vpn, Pte)>, Vec<CacheCounters>);

struct Both {
    fast: Processor,
    slow: reach_oracle::Processor,
    memories: [Memory; 2],
    system: System,
    threads: usize,
    on: usize,
    /// The process of each hardware thread.
    runs: Vec<Asid>,
    /// Invalidations that reached somebody else.
    told: u64,
}

impl Both {
    fn run_on(&mut self, hw: usize) {
        self.on = hw;
        self.fast.run_on(hw);
        self.slow.run_on(hw);
    }

    fn edit(&mut self, edits: &[Edit]) {
        for &edit in edits {
            self.memories.iter_mut().for_each(|memory| memory.edit(edit));
            if let Edit::Shoot(shootdown) = edit {
                let others = self.runs.iter().enumerate().filter(|(hw, _)| *hw != self.on);
                self.told += others.filter(|(_, asid)| **asid == shootdown.asid).count() as u64;
                self.fast.invalidate(&shootdown, INVALIDATE, INTERRUPT);
                self.slow.invalidate(&shootdown, INVALIDATE, INTERRUPT);
            }
        }
    }

    /// Who runs now is compared: the others' shared arrays stand elsewhere.
    fn compare(&mut self) {
        let sorted = |mut held: Vec<(usize, Asid, Vpn, Pte)>| {
            held.sort_by_key(|&(array, asid, vpn, pte)| (array, asid, vpn, pte.0));
            held
        };
        let core = self.on / self.threads;
        let caches = self.fast.all_caches().get(core);
        let caches = caches.map(|caches| caches.counters().map(|(_, counters)| counters).collect());
        let mmu = self.fast.mmu();
        let fast: View = (mmu.counters, mmu.ledger.clone(), sorted(mmu.contents()), caches.unwrap_or_default());
        let machine = &self.slow.mmus[self.on];
        let caches = self.slow.caches.get(core).map(|caches| caches.counters()).unwrap_or_default();
        let slow: View = (machine.counters, machine.ledger.clone(), sorted(machine.contents()), caches);
        assert_eq!(fast.0, slow.0, "thread {}", self.on);
        assert!(fast == slow, "thread {}", self.on);
        mmu.check(self.memories[0].table(self.runs[self.on]));
    }

    fn segment(&mut self, chunk: &Chunk, range: Range<usize>) {
        let entry = |at: usize| chunk.page_refs.partition_point(|entry: &fold::PageRef| entry.index() < at);
        let page_refs = entry(range.start)..entry(range.end);
        let step = reach_core::Step { page_refs, refs: range.clone(), ..Default::default() };
        let segment = StepRefs::new(chunk, &step);
        let (mut cursor, mut done) = (segment.begin(), range.start);
        loop {
            let asid = self.runs[self.on];
            let (why, consumed) = self.slow.run(&chunk.refs[done..range.end], self.memories[1].table(asid));
            done += consumed;
            let (mmu, _, caches) = self.fast.running();
            let got = mmu.run(segment, &mut cursor, self.memories[0].table(asid), caches);
            assert_eq!((got, cursor.position()), (why, done));
            self.compare();
            if why == StopReason::End {
                return;
            }
            let edits = self.system.answer(why, asid, &self.memories[1]);
            self.edit(&edits);
            if self.system.also_meddles() {
                let edits = self.system.meddle(&self.memories[1]);
                self.edit(&edits);
            }
        }
    }
}

/// Runs a program whose segments are dealt out to hardware threads. Returns how often others were told of something.
fn run((machine, shape, cached, seed): &(Machine, Topology, bool, u64), steps: &[Step], deal: &[usize]) -> u64 {
    let mut fast = Processor::new(machine, shape, *cached, false, *seed);
    assert_eq!(fast.hardware_threads(), shape.hardware_threads());
    fast.run_on(0);
    let memory = || Memory::new(&machine.layout, PROCESSES);
    let mut both = Both {
        fast,
        slow: reach_oracle::Processor::new(machine, shape, *cached, *seed),
        memories: [memory(), memory()],
        system: System::new(&machine.layout, &machine.sizes, false, *seed),
        threads: shape.threads,
        on: 0,
        runs: vec![Asid(0); shape.hardware_threads()],
        told: 0,
    };
    let mut placer = Placer::new(machine);
    let refs = steps.iter().filter_map(|step| placer.reference(step)).collect::<Vec<Ref>>();
    let chunk = Chunk::from(refs);
    let (mut start, mut at) = (0, 0);
    let mut deal = deal.iter().cycle();
    for step in steps.iter().chain([&Step::Cut]) {
        if let Step::To(..) | Step::Again(..) = step {
            at += 1;
            continue;
        }
        both.segment(&chunk, start..at);
        start = at;
        both.run_on(deal.next().expect("it goes round") % shape.hardware_threads());
        match step {
            Step::Switch(process) => {
                let asid = Asid(*process);
                both.runs[both.on] = asid;
                both.fast.mmu().switch(asid);
                both.slow.mmus[both.on].switch(asid);
            }
            Step::Meddle => {
                let edits = both.system.meddle(&both.memories[1]);
                both.edit(&edits);
            }
            _ => {}
        }
    }
    both.told
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn any_processor_does_as_its_twin(setup in setup(), steps in steps(400), deal in vec(0..9usize, 1..30)) {
        run(&setup, &steps, &deal);
    }
}

/// Threads of a core compete for what is shared, and for nothing else.
#[test]
fn siblings_get_what_the_machine_says() {
    use crate::random_machine::{plain_machine, plain_tlb};
    use reach_hardware::config::Replacement;
    let pages = 8u64;
    // Both threads go round over as many pages as the array has entries, of a process of their own.
    let misses = |sharing: Sharing, threads: usize| {
        let machine = plain_machine(vec![plain_tlb(1, pages as u32, 2, Replacement::Lru)]);
        let shape = Topology { cores: 1, threads, sharing: vec![sharing] };
        let mut processor = Processor::new(&machine, &shape, false, false, 1);
        let mut memory = Memory::new(&machine.layout, 2);
        let base = machine.sizes[0];
        for asid in [Asid(0), Asid(1)] {
            for vpn in 0..pages {
                let pte = Pte::new(reach_core::Pfn(vpn), base).with_writable(true);
                memory.edit(Edit::Set(asid, Vpn(vpn), pte));
            }
        }
        let refs: Vec<Ref> = (0..pages).map(|vpn| Ref::load(Vpn(vpn).addr(base))).collect();
        let chunk = Chunk::from(refs);
        for _ in 0..10 {
            for hw in 0..threads {
                processor.run_on(hw);
                let asid = Asid(hw as u32);
                processor.mmu().switch(asid);
                let segment = StepRefs::whole(&chunk);
                let why = processor.mmu().run(segment, &mut segment.begin(), memory.table(asid), None);
                assert_eq!(why, StopReason::End);
            }
        }
        let misses = (0..threads).map(|hw| processor.mmu_of(hw).counters.walks_data);
        misses.collect::<Vec<u64>>()
    };
    assert_eq!(misses(Sharing::Shared, 1), [pages]);
    assert_eq!(misses(Sharing::Replicated, 2), [pages; 2]);
    // Least recently used over twice as many pages as there is room for: nothing is found again.
    assert_eq!(misses(Sharing::Shared, 2), [10 * pages; 2]);
    assert_eq!(misses(Sharing::Partitioned, 2), [10 * pages; 2]);
}

/// The random comparison means something: shootdowns reach others in it.
#[test]
fn shootdowns_reach_others() {
    use crate::random_machine::{plain_machine, plain_tlb};
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use reach_hardware::config::Replacement;
    let machine = plain_machine(vec![plain_tlb(1, 8, 2, Replacement::Lru)]);
    let shape = Topology { cores: 2, threads: 2, sharing: vec![Sharing::Shared] };
    let mut runner = TestRunner::deterministic();
    let told = (0..20).map(|seed| {
        let steps = steps(400).new_tree(&mut runner).unwrap().current();
        run(&(machine.clone(), shape.clone(), true, seed), &steps, &[0, 3, 1, 2])
    });
    assert!(told.sum::<u64>() > 20);
}
