//! Worlds so small that every sequence of a few operations is tried.

use crate::lockstep::sorted;
use crate::random_machine::{plain_machine, plain_tlb};
use crate::random_os::{Edit, Memory};
use reach_core::{
    Asid, Chunk, Kind, Layout, PageShift, Pfn, Pte, Ref, ReuseSignature, Shootdown, StopReason, VirtAddr, Vpn,
};
use reach_hardware::config::{Machine, Replacement, Serves, Tlb, WalkCache, Walker};
use reach_hardware::{Mmu, StepRefs};

const POLICIES: [Replacement; 7] = [
    Replacement::Lru,
    Replacement::TreePlru,
    Replacement::Nru,
    Replacement::QuadAgeLru,
    Replacement::Random,
    Replacement::InstructionAware,
    Replacement::ReusePrediction(ReuseSignature::ControlFlow),
];

#[derive(Clone, Copy, Debug)]
enum Operation {
    Load(u64),
    Store(u64),
    Invalidate(u64),
}

/// Pages 0, 2 and 4 are in one set of two ways.
const OPERATIONS: [Operation; 7] = {
    use Operation::*;
    [Load(0), Load(2), Load(4), Load(1), Store(2), Invalidate(0), Invalidate(2)]
};

/// An MMU, its twin, and a page table for each.
#[derive(Clone)]
struct World {
    mmu: Mmu,
    twin: reach_oracle::Mmu,
    memory: [Memory; 2],
}

impl World {
    fn new(machine: &Machine) -> World {
        let mut memory = Memory::new(&machine.layout, 1);
        for n in 0..8 {
            memory.edit(Edit::Set(Asid(0), Vpn(n), Pte::new(Pfn(n), PageShift(12)).with_writable(true)));
        }
        World {
            mmu: Mmu::new(machine, false, 9),
            twin: reach_oracle::Mmu::new(machine, false, 9),
            memory: [memory.clone(), memory],
        }
    }

    fn apply(&mut self, operation: Operation) {
        let (kind, page) = match operation {
            Operation::Load(page) => (Kind::Load, page),
            Operation::Store(page) => (Kind::Store, page),
            Operation::Invalidate(page) => {
                let shootdown = Shootdown { asid: Asid(0), vpn: Vpn(page), pages: 1 };
                self.mmu.invalidate(&shootdown);
                self.twin.invalidate(&shootdown);
                return;
            }
        };
        let chunk = Chunk::from(vec![Ref::data(kind, VirtAddr(page << 12), 3, 0)]);
        let step = StepRefs::whole(&chunk);
        let [memory, twins] = &mut self.memory;
        let stop = self.mmu.run(step, &mut step.begin(), memory.table(Asid(0)), None);
        self.mmu.end_step(step);
        assert_eq!((stop, 1), self.twin.run(&chunk.refs, twins.table(Asid(0)), None));
    }

    fn is_equal(&self) -> bool {
        self.mmu.counters == self.twin.counters
            && self.mmu.ledger == self.twin.ledger
            && sorted(self.mmu.contents()) == sorted(self.twin.contents())
    }

    /// Tries every sequence of up to `depth` operations from here. `done` has those before.
    fn explore(&self, depth: u32, done: &mut Vec<Operation>) {
        for operation in OPERATIONS {
            let mut next = self.clone();
            done.push(operation);
            next.apply(operation);
            assert!(next.is_equal(), "after {done:?}: {:?} but {:?}", next.mmu.contents(), next.twin.contents());
            if depth > 1 {
                next.explore(depth - 1, done);
            }
            done.pop();
        }
    }
}

fn explore_two_sets_of_two_ways(depth: u32) {
    for policy in POLICIES {
        World::new(&plain_machine(vec![plain_tlb(1, 4, 2, policy)])).explore(depth, &mut Vec::new());
    }
}

fn explore_a_second_level(depth: u32) {
    for policy in POLICIES {
        let first = plain_tlb(1, 2, 2, Replacement::Lru);
        let world = World::new(&plain_machine(vec![first, plain_tlb(2, 4, 2, policy)]));
        world.explore(depth, &mut Vec::new());
    }
}

#[test]
fn every_sequence_on_two_sets_of_two_ways_equals_the_twin() {
    explore_two_sets_of_two_ways(6);
}

#[test]
#[ignore = "takes minutes"]
fn every_longer_sequence_on_two_sets_of_two_ways_equals_the_twin() {
    explore_two_sets_of_two_ways(8);
}

#[test]
fn every_sequence_on_two_levels_equals_the_twin() {
    explore_a_second_level(5);
}

#[test]
#[ignore = "takes minutes"]
fn every_longer_sequence_on_two_levels_equals_the_twin() {
    explore_a_second_level(7);
}

/// The shootdown with which the operating system answers a fault.
#[derive(Clone, Copy, Debug)]
enum Shot {
    Nothing,
    Page(u64),
    Everything,
}

/// Runs references on unmapped memory, where folding may skip some. Compares with the twin at every fault.
fn run_with_faults(machine: &Machine, refs: &[Ref], shot: Shot) {
    let chunk = Chunk::from(refs.to_vec());
    let step = StepRefs::whole(&chunk);
    let mut mmu = Mmu::new(machine, false, 0);
    let mut twin = reach_oracle::Mmu::new(machine, false, 0);
    let [mut memory, mut twins] = [(); 2].map(|()| Memory::new(&machine.layout, 1));
    let (mut cursor, mut done) = (step.begin(), 0);
    for _ in 0..100 {
        let stop = mmu.run(step, &mut cursor, memory.table(Asid(0)), None);
        let (expected, consumed) = twin.run(&refs[done..], twins.table(Asid(0)), None);
        done += consumed;
        assert_eq!((stop, cursor.position(), mmu.counters), (expected, done, twin.counters), "{refs:?} {shot:?}");
        let StopReason::Fault(fault) = stop else { return };
        let pte = Pte::new(Pfn(fault.vpn.0), PageShift(12)).with_writable(true).with_executable(true);
        memory.edit(Edit::Set(Asid(0), fault.vpn, pte));
        twins.edit(Edit::Set(Asid(0), fault.vpn, pte));
        let (vpn, pages) = match shot {
            Shot::Nothing => continue,
            Shot::Page(page) => (Vpn(page), 1),
            Shot::Everything => (Vpn(0), u64::MAX),
        };
        mmu.invalidate(&Shootdown { asid: Asid(0), vpn, pages });
        twin.invalidate(&Shootdown { asid: Asid(0), vpn, pages });
    }
    panic!("{refs:?} with {shot:?} never ended");
}

/// Tries every sequence of these references.
fn run_every_sequence(machine: &Machine, references: &[Ref], length: u32, shots: &[Shot]) {
    let kinds = references.len() as u64;
    for sequence in 0..kinds.pow(length) {
        let refs: Vec<Ref> =
            (0..length).map(|place| references[(sequence / kinds.pow(place) % kinds) as usize]).collect();
        for &shot in shots {
            run_with_faults(machine, &refs, shot);
        }
    }
}

fn serving(name: &str, [fetch, load, store]: [bool; 3], tlb: Tlb) -> Tlb {
    Tlb { name: name.into(), serves: Serves { fetch, load, store }, ..tlb }
}

fn run_folded_sequences_with_faults(length: u32) {
    let crossing = VirtAddr(0x1ffc);
    let references = [
        Ref::fetch(VirtAddr(0x1000), 8),
        Ref::fetch(crossing, 8),
        Ref::load(VirtAddr(0x1000)),
        Ref::load(VirtAddr(0x2000)),
        Ref::load(crossing),
        Ref::store(VirtAddr(0x1008)),
    ];
    for policy in [Replacement::Lru, Replacement::Nru] {
        let machine = plain_machine(vec![
            serving("l1i", [true, false, false], plain_tlb(1, 1, 1, policy)),
            serving("l1d", [false, true, true], plain_tlb(1, 1, 1, policy)),
            plain_tlb(2, 2, 2, Replacement::Lru),
        ]);
        assert!(Mmu::new(&machine, false, 0).folds());
        let shots = [Shot::Nothing, Shot::Page(1), Shot::Page(2), Shot::Everything];
        run_every_sequence(&machine, &references, length, &shots);
    }
}

/// On these machines a skipped reference would have changed something.
#[test]
fn an_mmu_does_not_fold_where_that_is_inexact() {
    let first = || plain_tlb(1, 1, 1, Replacement::Lru);
    let code = || serving("l1i", [true, false, false], first());
    let data = || serving("l1d", [false, true, true], first());
    // Fetches that miss the small array evict data from the unified one behind it.
    let behind_micro = vec![serving("l0", [true, false, false], plain_tlb(0, 1, 1, Replacement::Lru)), first()];
    // A load copies a clean entry from the second level, and a store then finds it before its own dirty one.
    let stores_apart = vec![
        code(),
        serving("both", [false, true, true], first()),
        serving("stores", [false, false, true], first()),
        serving("l2", [false, true, false], plain_tlb(2, 4, 4, Replacement::Lru)),
    ];
    // No first-level array holds base pages.
    let large = PageShift(14);
    let no_base = vec![code(), Tlb { sizes: vec![large], ..data() }, plain_tlb(2, 4, 4, Replacement::Lru)];
    let second_only = vec![code(), serving("l2", [false, true, true], plain_tlb(2, 2, 2, Replacement::Lru))];
    let lending =
        plain_machine(vec![code(), serving("l1d", [false, true, true], plain_tlb(1, 2, 2, Replacement::Lru))]);
    let lending = Machine {
        layout: Layout::radix(PageShift(12), vec![1, 7]),
        walker: Walker::Hardware {
            walkers: 1,
            lookup: 0,
            cache_level: 1,
            caches: vec![WalkCache {
                name: "pde".into(),
                levels: vec![1],
                entries: 0,
                ways: 1,
                within: Some("l1d".into()),
            }],
        },
        ..lending
    };
    let mut machines = [behind_micro, stores_apart, no_base, second_only, vec![code()]].map(plain_machine).to_vec();
    machines.iter_mut().for_each(|machine| machine.sizes.push(large));
    machines.push(lending);
    let references = [
        Ref::fetch(VirtAddr(0x2000), 8),
        Ref::fetch(VirtAddr(0x4000), 8),
        Ref::load(VirtAddr(0x1000)),
        Ref::store(VirtAddr(0x1000)),
        Ref::load(VirtAddr(0x3000)),
    ];
    for machine in machines {
        assert!(!Mmu::new(&machine, false, 0).folds(), "{machine:?}");
        run_every_sequence(&machine, &references, 6, &[Shot::Nothing]);
    }
}

#[test]
fn every_folded_sequence_with_faults_equals_the_twin() {
    run_folded_sequences_with_faults(5);
}

#[test]
#[ignore = "takes minutes"]
fn every_longer_folded_sequence_with_faults_equals_the_twin() {
    run_folded_sequences_with_faults(7);
}
