//! `karakostas-2015-rmm` against its paper's description, and under random operations with a page daemon.

use crate::common::Machine;
use proptest::prelude::*;
use reach_core::{
    Asid, Event, Kind, Layout, Map, PageShift, Permille, Protection, Pte, RangeTranslation, Remap, Role, Span,
    ThreadId, VirtAddr, Vpn,
};
use reach_oracle::address_space::{NaiveAddressSpaces, Op};
use reach_os::{Fragmentation, Options, Paging, RangeCounts};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const AT: u64 = 1 << 30;

fn machine(options: &str) -> Machine {
    Machine::x86(&format!("karakostas-2015-rmm:{options}"), 512 * M)
}

fn map(machine: &mut Machine, at: u64, len: u64) {
    machine.event(&Event::Map(Map::anonymous(VirtAddr(at), len)));
}

fn span(at: u64, len: u64) -> Span {
    Span { start: VirtAddr(at), len }
}

/// Returns the ranges of the running process: first page, counted from [`AT`], and length.
fn ranges(machine: &Machine) -> Vec<(u64, u64)> {
    machine.vm.check();
    let process = machine.vm.process(machine.vm.current()).unwrap();
    let all: Vec<RangeTranslation> = process.table().ranges().unwrap().ranges();
    all.iter().map(|range| (range.vpn.0 - (AT >> 12), range.pages)).collect()
}

fn counts(machine: &Machine) -> RangeCounts {
    machine.vm.counters().ranges.unwrap()
}

#[test]
fn a_request_gets_all_its_memory_at_once_in_blocks_of_powers_of_two() {
    let mut machine = machine("");
    map(&mut machine, AT, (1 << 20) + 33 * 4 * K);
    // 289 pages are blocks of 256, 32 and 1, which are not adjacent; the last is too short for a range.
    assert_eq!((counts(&machine).eager_blocks, counts(&machine).eager_pages), (3, 289));
    assert_eq!(ranges(&machine), [(0, 256), (256, 32)]);
    assert!(!machine.translation(Vpn((AT >> 12) + 288)).unwrap().range());
    assert_eq!(machine.sweep(AT, 289, Kind::Store), 0, "all pages are mapped");
    let pte = machine.translation(Vpn(AT >> 12)).unwrap();
    assert!(pte.range() && pte.accessed() && pte.dirty() && pte.writable(), "{pte:?}: bits are set in advance");
    // §5.1: seven pages are too short for a range, and are demand-paged.
    map(&mut machine, AT + 16 * M, 28 * K);
    assert_eq!(ranges(&machine).len(), 2);
    assert_eq!(machine.sweep(AT + 16 * M, 7, Kind::Store), 7);
}

#[test]
fn a_heap_that_grows_step_by_step_is_one_range() {
    let mut machine = machine("");
    // Each step takes the other half of a block, then a larger block.
    for step in 0..10 {
        let heap = Map { role: Role::Heap, ..Map::anonymous(VirtAddr(AT + step * 128 * K), 128 * K) };
        machine.event(&Event::Map(heap));
    }
    assert_eq!((ranges(&machine), counts(&machine).grown), (vec![(0, 320)], 9));
}

#[test]
fn the_largest_block_bounds_ranges_unless_free_lists_are_sorted() {
    let longest = |options: &str| {
        let mut machine = machine(options);
        map(&mut machine, AT, 64 * M);
        let ranges = ranges(&machine);
        (ranges.len(), ranges.iter().map(|range| range.1).max().unwrap())
    };
    assert_eq!(longest("max_block=4"), (16, 1024), "the free list is last in, first out");
    let (count, length) = longest("max_block=4,sorted_free_lists=on");
    assert!(count <= 2 && length > 8 * 1024, "{count} ranges, the longest of {length} pages");
}

#[test]
fn rounding_up_takes_one_block_and_returns_the_rest() {
    for (options, blocks, pages) in [("", 4, 8), ("round_up=on", 1, 15)] {
        let mut machine = machine(options);
        let free = machine.vm.frames().buddy().free_frames();
        map(&mut machine, AT, 15 * 4 * K);
        assert_eq!((counts(&machine).eager_blocks, ranges(&machine)), (blocks, vec![(0, pages)]), "{options}");
        assert!(free - machine.vm.frames().buddy().free_frames() < 15 + 8, "the rest is returned");
        map(&mut machine, AT + M, 64 * K);
        assert_eq!(ranges(&machine), [(0, pages), (256, 16)]);
    }
}

#[test]
fn unmapping_and_rights_split_ranges_and_equal_rights_merge_them() {
    let mut machine = machine("");
    map(&mut machine, AT, 512 * K);
    machine.event(&Event::Unmap(span(AT + 80 * K, 40 * K)));
    assert_eq!(ranges(&machine), [(0, 20), (30, 98)]);
    machine.event(&Event::Protect(span(AT + 200 * K, 40 * K), Protection::READ));
    assert_eq!(ranges(&machine), [(0, 20), (30, 20), (50, 10), (60, 68)]);
    machine.event(&Event::Protect(span(AT + 200 * K, 40 * K), Protection::READ_WRITE));
    assert_eq!(ranges(&machine), [(0, 20), (30, 98)]);
    // Five pages are left, too few for a range.
    machine.event(&Event::Unmap(span(AT + 20 * K, 60 * K)));
    assert_eq!(ranges(&machine), [(30, 98)]);
    assert!(!machine.translation(Vpn(AT >> 12)).unwrap().range());
    let remap = Remap { from: span(AT + 120 * K, 392 * K), to: span(AT + 8 * M, 456 * K), keep: false };
    machine.event(&Event::Remap(remap));
    assert_eq!(ranges(&machine), [(2048, 98), (2146, 16)], "98 pages have moved, and 16 are new");
}

/// §6: ranges translate shared memory until a store, which dissolves the range or splits it.
#[test]
fn copy_on_write_dissolves_or_splits_a_range() {
    for (options, parent, child) in [
        ("copy_on_write=dissolve", vec![(0, 64)], vec![]),
        ("copy_on_write=split", vec![(0, 64)], vec![(0, 20), (21, 43)]),
    ] {
        let mut machine = machine(options);
        map(&mut machine, AT, 256 * K);
        machine.sweep(AT, 64, Kind::Store);
        machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
        assert_eq!(ranges(&machine), parent);
        machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
        assert_eq!(ranges(&machine), [(0, 64)], "both read one range");
        assert_eq!(machine.sweep(AT, 64, Kind::Load), 0);
        machine.touch(Vpn((AT >> 12) + 20), Kind::Store);
        assert_eq!(ranges(&machine), child, "{options}");
        machine.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) });
        assert_eq!(ranges(&machine), parent);
        machine.exit_all();
    }
}

#[test]
fn fragmented_or_scarce_memory_is_demand_paged() {
    for scattered in [0.0, 0.5, 0.7, 0.8, 1.0] {
        let sizes = vec![PageShift(12), PageShift(21), PageShift(30)];
        let mut machine = Machine::boot("base", Options::linux(Layout::x86_64(), sizes, 256 * M));
        let recipe = Fragmentation { order: 9, scattered, hold: 0.3, grain: 0, first: false, stay: None, seed: 5 };
        recipe.apply(machine.vm.frames_mut()).unwrap();
        machine.system = reach_systems::resolve("karakostas-2015-rmm").unwrap().build();
        machine.system.boot(&mut machine.vm).unwrap();
        machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(0) });
        for part in 0..12 {
            map(&mut machine, AT + part * 8 * M, 8 * M);
        }
        let eager = counts(&machine).eager_pages;
        assert_eq!(eager > 0, scattered <= 0.75, "{scattered}: {eager} pages");
        machine.sweep(AT, 12 * 2048, Kind::Store);
        machine.vm.check();
    }
    let mut machine = Machine::x86("karakostas-2015-rmm", 64 * M);
    map(&mut machine, AT, 48 * M);
    map(&mut machine, AT + 64 * M, 256 * M);
    assert_eq!(counts(&machine).short, 1, "memory does not suffice for the second request");
    assert_eq!(machine.sweep(AT, 12 * 1024, Kind::Store), 0);
    machine.sweep(AT + 64 * M, 2 * 1024, Kind::Store);
    machine.vm.check();
}

#[test]
fn a_direct_segment_is_contiguous_shrinks_at_its_ends_and_ends_when_a_page_changes() {
    let mut machine = Machine::x86("basu-2013-direct-segment:min_segment=16", 512 * M);
    let segments = |machine: &Machine| -> Vec<(u64, u64)> {
        machine.vm.check();
        let process = machine.vm.process(machine.vm.current()).unwrap();
        process.table().segments().iter().map(|segment| (segment.vpn.0 - (AT >> 12), segment.pages)).collect()
    };
    map(&mut machine, AT, 15 * M);
    assert_eq!(segments(&machine), [], "too small");
    map(&mut machine, AT + 64 * M, 17 * M);
    map(&mut machine, AT + 128 * M, 32 * M);
    assert_eq!(segments(&machine), [(64 * 256, 17 * 256)], "a process has one segment");
    // An allocator trims both ends to align the mapping.
    machine.event(&Event::Unmap(span(AT + 64 * M, 64 * K)));
    machine.event(&Event::Unmap(span(AT + 81 * M - 4 * K, 4 * K)));
    assert_eq!(segments(&machine), [(64 * 256 + 16, 17 * 256 - 17)]);
    machine.event(&Event::Protect(span(AT + 65 * M, 4 * K), Protection::READ));
    assert_eq!(segments(&machine), [], "a process has one segment");
    assert_eq!(machine.sweep(AT + 66 * M, 100, Kind::Store), 0, "its pages stay mapped");
}

/// Karakostas §8: all memory of a fixed size is in the segment, and so is each large request of heap.
#[test]
fn the_ideal_segment_holds_all_memory_of_a_fixed_size() {
    let mut machine = Machine::x86("basu-2013-direct-segment:kind=ideal,min_heap_request=2", 512 * M);
    let segments = |machine: &Machine| -> Vec<u64> {
        machine.vm.check();
        let process = machine.vm.process(machine.vm.current()).unwrap();
        process.table().segments().iter().map(|segment| segment.pages).collect()
    };
    for (at, len) in [(0, 1), (1, 1), (2, 2), (4, 4)] {
        let heap = Map { role: Role::Heap, ..Map::anonymous(VirtAddr(AT + at * M), len * M) };
        machine.event(&Event::Map(heap));
    }
    assert_eq!(segments(&machine), [2 * 256, 4 * 256], "steps of 1 MB are a growing heap");
    map(&mut machine, AT + 64 * M, M);
    machine.event(&Event::Unmap(span(AT + 64 * M + 80 * K, 8 * K)));
    machine.event(&Event::Unmap(span(AT + 64 * M, 64 * K)));
    assert_eq!(segments(&machine), [2 * 256, 4 * 256, 256 - 22], "a piece of four pages is too short");
}

/// Applies random operations with little memory and a page daemon, so that reclaim and swap occur among them.
fn under_pressure(options: &str, words: &[u64]) {
    let mut small = Options::linux(Layout::x86_64(), vec![PageShift(12), PageShift(21)], 1 << 20);
    small.implicit_region = 4 * K;
    let mut machine = Machine::boot("base", small);
    let paging = Paging {
        contiguity: false,
        last_close: false,
        cluster_wired: false,
        cache: false,
        demote: 0,
        low: Permille(100),
        seed: 3,
    };
    machine.vm.use_paging(paging);
    machine.system = reach_systems::resolve(&format!("karakostas-2015-rmm:{options}")).unwrap().build();
    machine.system.boot(&mut machine.vm).unwrap();
    machine.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) });
    let mut twin = NaiveAddressSpaces::default();
    twin.apply(Op::Switch { asid: 1 });
    for (i, &word) in words.iter().enumerate() {
        let op = Op::decode(word);
        if !twin.allows(op) {
            continue;
        }
        machine.apply(op);
        twin.apply(op);
        // A second mapping takes the free memory, and is unmapped.
        if i % 8 == 7 {
            map(&mut machine, AT, 100 * 4 * K);
            machine.sweep(AT, 100, Kind::Store);
            machine.event(&Event::Unmap(span(AT, 100 * 4 * K)));
        }
        if i % 3 == 0 {
            machine.vm.page_daemon().unwrap();
        }
        machine.vm.check();
        machine.vm.drain_shootdowns();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// `Vm::check` compares every range with the page table, every bit of each entry included.
    #[test]
    fn ranges_agree_with_the_page_table_under_pressure(words in proptest::collection::vec(any::<u64>(), 1..120)) {
        for options in ["min_range=1,max_fragmentation=1000", "min_range=3,max_fragmentation=1000,copy_on_write=split,round_up=on"] {
            under_pressure(options, &words);
        }
    }
}

#[test]
fn shared_unreserved_inaccessible_and_stack_memory_is_in_no_range() {
    let mut machine = machine("");
    machine.event(&Event::Map(Map { shared: true, ..Map::anonymous(VirtAddr(AT), M) }));
    machine.event(&Event::Map(Map { no_reserve: true, ..Map::anonymous(VirtAddr(AT + M), M) }));
    machine.event(&Event::Map(Map { protection: Protection::NONE, ..Map::anonymous(VirtAddr(AT + 2 * M), M) }));
    machine.event(&Event::Map(Map { role: Role::Stack, ..Map::anonymous(VirtAddr(AT + 3 * M), M) }));
    assert_eq!((ranges(&machine), counts(&machine).eager), (vec![], 0));
    let entry = |machine: &Machine, at: u64| machine.translation(Vpn(at >> 12)).map_or(0, |pte: Pte| pte.0);
    assert_eq!([0, M, 2 * M, 3 * M].map(|at| entry(&machine, AT + at)), [0; 4]);
}
