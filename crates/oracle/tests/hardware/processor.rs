//! Processors of several cores and hardware threads, against their twins.

use crate::cases;
use crate::lockstep::{sorted, step_of};
use crate::random_machine::machine;
use crate::random_os::{Edit, Memory, RandomOs};
use crate::random_program::{PROCESSES, ProgramStep, ReferenceBuilder, program};
use proptest::collection::vec;
use proptest::prelude::*;
use reach_core::{Asid, Chunk, Ledger, Pte, Ref, StopReason, Vpn};
use reach_hardware::config::{Machine, Sharing, Walker};
use reach_hardware::{CacheCounters, Counters, Processor, StepRefs, Topology};
use std::ops::Range;

/// The cycles of a shootdown for the sender, and the additional cycles for a receiver.
const INVALIDATE: u64 = 7;
const INTERRUPT: u64 = 100;

/// The random choices of one comparison.
#[derive(Clone, Debug)]
struct Setup {
    machine: Machine,
    topology: Topology,
    /// Whether references go through caches.
    cached: bool,
    seed: u64,
}

/// Draws a machine whose arrays can be divided among threads, and how they are.
fn setup() -> impl Strategy<Value = Setup> {
    let sharing = prop_oneof![Just(Sharing::Shared), Just(Sharing::Partitioned), Just(Sharing::Replicated)];
    let topology = (1..4usize, 1..4usize, vec(sharing, 16));
    (machine(), topology, vec(any::<bool>(), 8), any::<bool>(), any::<u64>()).prop_map(
        |(mut machine, (cores, threads, mut sharing), shared, cached, seed)| {
            // Software miss handlers are modelled for one thread a core.
            let threads = if matches!(machine.walker, Walker::Software { .. }) { 1 } else { threads };
            sharing.truncate(machine.tlbs.len());
            assert_eq!(sharing.len(), machine.tlbs.len());
            for (tlb, sharing) in machine.tlbs.iter().zip(&mut sharing) {
                // The number of sets stays a power of two, and so do the ways under tree-PLRU.
                let divides = (tlb.entries as usize).is_multiple_of(threads) && threads.is_power_of_two();
                if *sharing == Sharing::Partitioned && !(divides && tlb.ways.is_power_of_two()) {
                    *sharing = Sharing::Shared;
                }
            }
            for (cache, shared) in machine.caches.iter_mut().zip(shared) {
                cache.shared = shared;
            }
            Setup { machine, topology: Topology { cores, threads, sharing }, cached, seed }
        },
    )
}

/// All that can be observed of a hardware thread and of its core's caches.
type View = (Counters, Ledger, Vec<(usize, Asid, Vpn, Pte)>, Vec<CacheCounters>);

/// A processor and its twin.
struct Both {
    fast: Processor,
    slow: reach_oracle::Processor,
    memories: [Memory; 2],
    os: RandomOs,
    /// Hardware threads of a core.
    threads: usize,
    /// The hardware thread that runs.
    on: usize,
    /// The process of each hardware thread.
    runs: Vec<Asid>,
    /// Shootdowns that reached other hardware threads.
    received: u64,
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
            if let Edit::Shootdown(shootdown) = edit {
                let others = self.runs.iter().enumerate().filter(|(hw, _)| *hw != self.on);
                self.received += others.filter(|(_, asid)| **asid == shootdown.asid).count() as u64;
                self.fast.invalidate(&shootdown, INVALIDATE, INTERRUPT);
                self.slow.invalidate(&shootdown, INVALIDATE, INTERRUPT);
            }
        }
    }

    /// Compares the hardware thread that runs. The arrays that others share are with it.
    fn compare(&mut self) {
        let core = self.on / self.threads;
        let caches = self.fast.all_caches().get(core);
        let caches = caches.map(|caches| caches.counters().map(|(_, counters)| counters).collect());
        let mmu = self.fast.mmu();
        let fast: View = (mmu.counters, mmu.ledger.clone(), sorted(mmu.contents()), caches.unwrap_or_default());
        let twin = &self.slow.mmus[self.on];
        let caches = self.slow.caches.get(core).map(|caches| caches.counters()).unwrap_or_default();
        let slow: View = (twin.counters, twin.ledger.clone(), sorted(twin.contents()), caches);
        assert_eq!(fast.0, slow.0, "thread {}", self.on);
        assert!(fast == slow, "thread {}", self.on);
        mmu.check(self.memories[0].table(self.runs[self.on]));
    }

    /// Runs references to their end, and lets the operating system handle every stop.
    fn run_step(&mut self, chunk: &Chunk, range: Range<usize>) {
        let step = StepRefs::new(chunk, &step_of(range.clone(), &chunk.page_refs));
        let (mut cursor, mut done) = (step.begin(), range.start);
        loop {
            let asid = self.runs[self.on];
            let (stop, consumed) = self.slow.run(&chunk.refs[done..range.end], self.memories[1].table(asid));
            done += consumed;
            let (mmu, _, caches) = self.fast.running();
            let got = mmu.run(step, &mut cursor, self.memories[0].table(asid), caches);
            assert_eq!((got, cursor.position()), (stop, done));
            self.compare();
            if stop == StopReason::End {
                self.fast.mmu().end_step(step);
                return;
            }
            let edits = self.os.handle_stop(stop, asid, &self.memories[1]);
            self.edit(&edits);
            if self.os.interferes() {
                let edits = self.os.interfere(&self.memories[1]);
                self.edit(&edits);
            }
        }
    }
}

/// Runs a program whose steps are dealt out to hardware threads, in the order of `deal`. Returns how many shootdowns
/// reached other hardware threads.
fn run(setup: &Setup, program: &[ProgramStep], deal: &[usize]) -> u64 {
    let Setup { machine, topology, cached, seed } = setup;
    let mut fast = Processor::new(machine, topology, *cached, false, *seed);
    assert_eq!(fast.hardware_threads(), topology.hardware_threads());
    fast.run_on(0);
    let memory = || Memory::new(&machine.layout, PROCESSES);
    let mut both = Both {
        fast,
        slow: reach_oracle::Processor::new(machine, topology, *cached, *seed),
        memories: [memory(), memory()],
        os: RandomOs::new(&machine.layout, &machine.sizes, false, *seed),
        threads: topology.threads,
        on: 0,
        runs: vec![Asid(0); topology.hardware_threads()],
        received: 0,
    };
    let mut builder = ReferenceBuilder::new(machine);
    let refs = program.iter().filter_map(|step| builder.reference(step)).collect::<Vec<Ref>>();
    let chunk = Chunk::from(refs);
    let (mut start, mut at) = (0, 0);
    let mut deal = deal.iter().cycle();
    for step in program.iter().chain([&ProgramStep::Cut]) {
        if let ProgramStep::Visit(..) | ProgramStep::Revisit(..) = step {
            at += 1;
            continue;
        }
        both.run_step(&chunk, start..at);
        start = at;
        both.run_on(deal.next().expect("it is a cycle") % topology.hardware_threads());
        match step {
            &ProgramStep::Switch(asid) => {
                both.runs[both.on] = asid;
                both.fast.mmu().switch(asid);
                both.slow.mmus[both.on].switch(asid);
            }
            ProgramStep::Interfere => {
                let edits = both.os.interfere(&both.memories[1]);
                both.edit(&edits);
            }
            _ => {}
        }
    }
    both.received
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn random_processors_equal_their_twins(setup in setup(), program in program(400), deal in vec(0..9usize, 1..30)) {
        run(&setup, &program, &deal);
    }
}

#[test]
fn threads_of_a_core_share_arrays_as_the_topology_says() {
    use crate::random_machine::{plain_machine, plain_tlb};
    use reach_hardware::config::Replacement;
    let pages = 8u64;
    // Each thread cycles through as many pages of its own process as the array has entries.
    let misses = |sharing: Sharing, threads: usize| {
        let machine = plain_machine(vec![plain_tlb(1, pages as u32, 2, Replacement::Lru)]);
        let topology = Topology { cores: 1, threads, sharing: vec![sharing] };
        let mut processor = Processor::new(&machine, &topology, false, false, 1);
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
                let step = StepRefs::whole(&chunk);
                let stop = processor.mmu().run(step, &mut step.begin(), memory.table(asid), None);
                assert_eq!(stop, StopReason::End);
            }
        }
        let misses = (0..threads).map(|hw| processor.mmu_of(hw).counters.walks_data);
        misses.collect::<Vec<u64>>()
    };
    assert_eq!(misses(Sharing::Shared, 1), [pages]);
    assert_eq!(misses(Sharing::Replicated, 2), [pages; 2]);
    // LRU never hits in a cycle of twice as many pages as there are entries.
    assert_eq!(misses(Sharing::Shared, 2), [10 * pages; 2]);
    assert_eq!(misses(Sharing::Partitioned, 2), [10 * pages; 2]);
}

/// The differential test above exercises shootdowns across hardware threads.
#[test]
fn random_programs_shoot_down_on_other_hardware_threads() {
    use crate::random_machine::{plain_machine, plain_tlb};
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use reach_hardware::config::Replacement;
    let machine = plain_machine(vec![plain_tlb(1, 8, 2, Replacement::Lru)]);
    let topology = Topology { cores: 2, threads: 2, sharing: vec![Sharing::Shared] };
    let mut runner = TestRunner::deterministic();
    let received = (0..20).map(|seed| {
        let program = program(400).new_tree(&mut runner).unwrap().current();
        let setup = Setup { machine: machine.clone(), topology: topology.clone(), cached: true, seed };
        run(&setup, &program, &[0, 3, 1, 2])
    });
    assert!(received.sum::<u64>() > 20);
}
