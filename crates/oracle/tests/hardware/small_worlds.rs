//! Worlds so small that every sequence of a few operations can be tried.

use crate::random_machine::{plain_machine, plain_tlb};
use crate::random_os::{Edit, Memory};
use reach_core::{Asid, Chunk, Kind, Layout, PageShift, Pfn, Pte, Ref, Shootdown, StopReason, VirtAddr, Vpn};
use reach_hardware::config::{Machine, Replacement, Serves, Tlb, WalkCache, Walker};
use reach_hardware::{Mmu, StepRefs};

const POLICIES: [Replacement; 4] = [Replacement::Lru, Replacement::TreePlru, Replacement::Nru, Replacement::Random];

#[derive(Clone, Copy, Debug)]
enum Operation {
    Load(u64),
    Store(u64),
    Forget(u64),
}

/// Pages 0, 2 and 4 share a set of two.
const OPERATIONS: [Operation; 7] = {
    use Operation::*;
    [Load(0), Load(2), Load(4), Load(1), Store(2), Forget(0), Forget(2)]
};

/// A unit, its twin, and a page table for each.
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
            Operation::Forget(page) => {
                let shootdown = Shootdown { asid: Asid(0), vpn: Vpn(page), pages: 1 };
                self.mmu.invalidate(&shootdown);
                self.twin.invalidate(&shootdown);
                return;
            }
        };
        let chunk = Chunk::from(vec![Ref::data(kind, VirtAddr(page << 12), 3, 0)]);
        let segment = StepRefs::whole(&chunk);
        let [memory, twins] = &mut self.memory;
        let why = self.mmu.run(segment, &mut segment.begin(), memory.table(Asid(0)), None);
        assert_eq!((why, 1), self.twin.run(&chunk.refs, twins.table(Asid(0)), None));
    }

    fn agrees(&self) -> bool {
        let sorted = |mut held: Vec<(usize, Asid, Vpn, Pte)>| {
            held.sort_by_key(|&(array, _, vpn, _)| (array, vpn));
            held
        };
        self.mmu.counters == self.twin.counters
            && self.mmu.ledger == self.twin.ledger
            && sorted(self.mmu.contents()) == sorted(self.twin.contents())
    }

    /// Tries every sequence of up to `depth` operations from here.
    fn explore(&self, depth: u32, done: &mut Vec<Operation>) {
        for operation in OPERATIONS {
            let mut next = self.clone();
            done.push(operation);
            next.apply(operation);
            assert!(next.agrees(), "after {done:?}: {:?} but {:?}", next.mmu.contents(), next.twin.contents());
            if depth > 1 {
                next.explore(depth - 1, done);
            }
            done.pop();
        }
    }
}

fn two_sets_of_two(depth: u32) {
    for policy in POLICIES {
        World::new(&plain_machine(vec![plain_tlb(1, 4, 2, policy)])).explore(depth, &mut Vec::new());
    }
}

fn behind_a_first_level(depth: u32) {
    for policy in POLICIES {
        let first = plain_tlb(1, 2, 2, Replacement::Lru);
        let world = World::new(&plain_machine(vec![first, plain_tlb(2, 4, 2, policy)]));
        world.explore(depth, &mut Vec::new());
    }
}

#[test]
fn every_sequence_on_two_sets_of_two() {
    two_sets_of_two(6);
}

#[test]
#[ignore = "takes minutes"]
fn every_longer_sequence_on_two_sets_of_two() {
    two_sets_of_two(8);
}

#[test]
fn every_sequence_behind_a_first_level() {
    behind_a_first_level(5);
}

#[test]
#[ignore = "takes minutes"]
fn every_longer_sequence_behind_a_first_level() {
    behind_a_first_level(7);
}

/// What the operating system forgets when it answers a fault.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Nothing,
    Page(u64),
    Everything,
}

/// Runs references on empty memory, where folding may skip some, and compares with the twin at every fault.
fn fold_with_faults(machine: &Machine, refs: &[Ref], answer: Answer) {
    let chunk = Chunk::from(refs.to_vec());
    let segment = StepRefs::whole(&chunk);
    let mut mmu = Mmu::new(machine, false, 0);
    let mut twin = reach_oracle::Mmu::new(machine, false, 0);
    let [mut memory, mut twins] = [(); 2].map(|()| Memory::new(&machine.layout, 1));
    let (mut cursor, mut done) = (segment.begin(), 0);
    for _ in 0..100 {
        let why = mmu.run(segment, &mut cursor, memory.table(Asid(0)), None);
        let (expected, consumed) = twin.run(&refs[done..], twins.table(Asid(0)), None);
        done += consumed;
        assert_eq!((why, cursor.position(), mmu.counters), (expected, done, twin.counters), "{refs:?} {answer:?}");
        let StopReason::Fault(fault) = why else { return };
        let pte = Pte::new(Pfn(fault.vpn.0), PageShift(12)).with_writable(true).with_executable(true);
        memory.edit(Edit::Set(Asid(0), fault.vpn, pte));
        twins.edit(Edit::Set(Asid(0), fault.vpn, pte));
        let (vpn, pages) = match answer {
            Answer::Nothing => continue,
            Answer::Page(page) => (Vpn(page), 1),
            Answer::Everything => (Vpn(0), u64::MAX),
        };
        mmu.invalidate(&Shootdown { asid: Asid(0), vpn, pages });
        twin.invalidate(&Shootdown { asid: Asid(0), vpn, pages });
    }
    panic!("{refs:?} with {answer:?} never ended");
}

/// Tries all sequences of these references.
fn every_sequence(machine: &Machine, references: &[Ref], length: u32, answers: &[Answer]) {
    let kinds = references.len() as u64;
    for sequence in 0..kinds.pow(length) {
        let refs: Vec<Ref> =
            (0..length).map(|place| references[(sequence / kinds.pow(place) % kinds) as usize]).collect();
        for &answer in answers {
            fold_with_faults(machine, &refs, answer);
        }
    }
}

fn serving(name: &str, [fetch, load, store]: [bool; 3], tlb: Tlb) -> Tlb {
    Tlb { name: name.into(), serves: Serves { fetch, load, store }, ..tlb }
}

fn folded_sequences_with_faults(length: u32) {
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
        let answers = [Answer::Nothing, Answer::Page(1), Answer::Page(2), Answer::Everything];
        every_sequence(&machine, &references, length, &answers);
    }
}

/// Machines on which a skipped reference would have done something.
#[test]
fn folding_is_refused_where_it_is_not_exact() {
    let first = || plain_tlb(1, 1, 1, Replacement::Lru);
    let code = || serving("l1i", [true, false, false], first());
    let data = || serving("l1d", [false, true, true], first());
    // Fetches that miss the array in front of it turn data out of the unified one.
    let behind_micro = vec![serving("l0", [true, false, false], plain_tlb(0, 1, 1, Replacement::Lru)), first()];
    // Loads find a clean copy in the second level, which a store then finds before its own dirty one.
    let stores_apart = vec![
        code(),
        serving("both", [false, true, true], first()),
        serving("stores", [false, false, true], first()),
        serving("l2", [false, true, false], plain_tlb(2, 4, 4, Replacement::Lru)),
    ];
    // No first-level array takes base pages.
    let large = PageShift(14);
    let no_base = vec![code(), Tlb { sizes: vec![large], ..data() }, plain_tlb(2, 4, 4, Replacement::Lru)];
    let second_only = vec![code(), serving("l2", [false, true, true], plain_tlb(2, 2, 2, Replacement::Lru))];
    let guest = plain_machine(vec![code(), serving("l1d", [false, true, true], plain_tlb(1, 2, 2, Replacement::Lru))]);
    let guest = Machine {
        layout: Layout { base: PageShift(12), bits: vec![1, 7] },
        walker: Walker::Hardware {
            walkers: 1,
            lookup: 0,
            caches: vec![WalkCache {
                name: "pde".into(),
                levels: vec![1],
                entries: 0,
                ways: 1,
                within: Some("l1d".into()),
            }],
        },
        ..guest
    };
    let mut machines = [behind_micro, stores_apart, no_base, second_only, vec![code()]].map(plain_machine).to_vec();
    machines.iter_mut().for_each(|machine| machine.sizes.push(large));
    machines.push(guest);
    let references = [
        Ref::fetch(VirtAddr(0x2000), 8),
        Ref::fetch(VirtAddr(0x4000), 8),
        Ref::load(VirtAddr(0x1000)),
        Ref::store(VirtAddr(0x1000)),
        Ref::load(VirtAddr(0x3000)),
    ];
    for machine in machines {
        assert!(!Mmu::new(&machine, false, 0).folds(), "{machine:?}");
        every_sequence(&machine, &references, 6, &[Answer::Nothing]);
    }
}

#[test]
fn every_folded_sequence_with_faults() {
    folded_sequences_with_faults(5);
}

#[test]
#[ignore = "takes minutes"]
fn every_longer_folded_sequence_with_faults() {
    folded_sequences_with_faults(7);
}
