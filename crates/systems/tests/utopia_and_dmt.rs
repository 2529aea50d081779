//! Utopia's restrictive segment, and DMT's direct reads.

use crate::common::Machine;
use reach_core::{
    Asid, AssistAnswer, AssistPort, Event, Kind, Map, PageShift, Pfn, PhysAddr, Pte, Span, TlbMiss, VirtAddr, Vpn,
};
use reach_oracle::assist::{Asked, Bench};
use reach_os::{FrameKind, ObjectId};

const AT: u64 = 0x7f00_0000_0000;

fn vpn(page: u64) -> Vpn {
    Vpn((AT >> 12) + page)
}

fn miss(vpn: Vpn) -> TlbMiss {
    TlbMiss { asid: Asid(1), vpn, kind: Kind::Load, instruction: 0, offset: 0 }
}

/// Returns a bench with the pages that the machine has mapped.
fn bench_of(machine: &Machine, pages: u64) -> Bench {
    let mut bench = Bench::new(PageShift(12), 1);
    let mapped = (0..pages).filter_map(|page| Some((vpn(page).0, machine.translation(vpn(page))?)));
    bench.pages.extend(mapped);
    bench
}

#[test]
fn a_page_in_the_segment_is_found_by_its_tags() {
    let mut machine = Machine::x86("kanellopoulos-2023-utopia", 64 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 16 << 20)));
    (0..4096).for_each(|page| _ = machine.touch(vpn(page), Kind::Store));
    machine.vm.check();
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    let mut bench = bench_of(&machine, 4096);
    let found = (0..4096).filter(|&page| {
        let answer = assist.search(miss(vpn(page)), &mut bench);
        let is_right = machine.translation(vpn(page)).map(AssistAnswer::Hit) == Some(answer);
        assert!(is_right || answer == AssistAnswer::Walk);
        is_right
    });
    // 8,192 frames of 32 MB in 512 sets: eight pages a set.
    assert_eq!(found.count(), 4096);
    assert_eq!(bench.asked.iter().filter(|asked| matches!(asked, Asked::Read(_))).count(), 4096, "a line for each");
    machine.exit_all();
}

#[test]
fn pages_beyond_their_set_are_walked_for() {
    let mut machine = Machine::x86("kanellopoulos-2023-utopia:segment=2", 64 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 16 << 20)));
    (0..4096).for_each(|page| _ = machine.touch(vpn(page), Kind::Store));
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    let mut bench = bench_of(&machine, 4096);
    let hits = (0..4096).filter(|&page| assist.search(miss(vpn(page)), &mut bench) != AssistAnswer::Walk).count();
    assert_eq!(hits, 512, "one block of 2 MB");
    // Memory that the set gives back serves it again.
    machine.exit_all();
}

#[test]
fn huge_pages_lie_in_a_segment_of_their_own() {
    let mut machine = Machine::x86("kanellopoulos-2023-utopia:segment=2,huge_segment=32", 128 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 64 << 20)));
    (0..16384).for_each(|page| _ = machine.touch(vpn(page), Kind::Store));
    machine.vm.check();
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    let mut bench = bench_of(&machine, 16384);
    let shift = |page: u64| machine.translation(vpn(page)).unwrap().shift();
    let huge = (0..16384).step_by(512).filter(|&page| shift(page) == PageShift(21)).count();
    assert_eq!(huge, 32, "those beyond the segment are huge, too");
    let hits = (0..16384).step_by(512).filter(|&page| assist.search(miss(vpn(page)), &mut bench) != AssistAnswer::Walk);
    assert_eq!(hits.count(), 16, "one set of sixteen places");
    // A search reads a line of each segment, and waits for the slower one; then both are cached.
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    for reads in [2, 0] {
        bench.asked.clear();
        assist.search(miss(vpn(0)), &mut bench);
        let asked = |wanted: fn(&Asked) -> bool| bench.asked.iter().filter(|&asked| wanted(asked)).count();
        assert_eq!(asked(|asked| matches!(asked, Asked::Read(_))), reads);
        assert_eq!(asked(|asked| matches!(asked, Asked::Wait(_))), 1);
    }
    machine.exit_all();
}

#[test]
fn both_segments_leave_half_of_memory() {
    let mut machine = Machine::x86("kanellopoulos-2023-utopia:segment=1024,huge_segment=64", 128 << 20);
    let free = machine.vm.frames().buddy().free_frames();
    assert!((15 << 10..=16 << 10).contains(&free), "{free} frames");
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 4 << 20)));
    (0..1024).for_each(|page| _ = machine.touch(vpn(page), Kind::Store));
    machine.exit_all();
    let refused = Machine::try_boot("kanellopoulos-2023-utopia:huge_segment=31", machine.vm.options().clone());
    assert!(refused.err().is_some_and(|error| error.to_string().contains("huge_segment of at least 32")));
}

#[test]
fn kernel_memory_in_a_place_that_was_given_back_stays() {
    let mut machine = Machine::x86("kanellopoulos-2023-utopia:segment=32", 64 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 16 << 20)));
    (0..4096).for_each(|page| _ = machine.touch(vpn(page), Kind::Store));
    let place = machine.translation(vpn(0)).unwrap().pfn();
    machine.event(&Event::Unmap(Span { start: VirtAddr(AT), len: 16 << 20 }));
    assert!(machine.vm.frames_mut().allocate_at(place, 0, FrameKind::Wired, ObjectId::NONE, 0).is_some());
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 16 << 20)));
    machine.touch(vpn(0), Kind::Store);
    assert_ne!(machine.translation(vpn(0)).unwrap().pfn(), place);
    machine.vm.frames_mut().free(place, 1);
    machine.exit_all();
}

#[test]
fn lines_of_tags_are_cached() {
    let machine = Machine::x86("kanellopoulos-2023-utopia", 64 << 20);
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    let mut bench = Bench::new(PageShift(12), 1);
    for _ in 0..2 {
        assert_eq!(assist.search(miss(vpn(1)), &mut bench), AssistAnswer::Walk, "it is unmapped");
    }
    let reads = bench.asked.iter().filter(|asked| matches!(asked, Asked::Read(_))).count();
    assert_eq!(reads, 1);
}

#[test]
fn a_miss_reads_the_last_entry_directly() {
    let machine = Machine::x86("zhang-2024-dmt", 64 << 20);
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    let mut bench = Bench::new(PageShift(12), 1);
    let pte = Pte::new(Pfn(77), PageShift(12));
    bench.pages.insert(vpn(5).0, pte);
    let [entry] = bench.leaf_entries(vpn(5))[..] else { panic!("it is mapped") };
    assert_eq!(assist.search(miss(vpn(5)), &mut bench), AssistAnswer::Hit(pte));
    let cycles = bench.read(entry);
    let read = Asked::Read(PhysAddr(entry.0));
    assert_eq!(bench.asked, [read.clone(), Asked::Wait(cycles), read]);
    assert_eq!(assist.search(miss(vpn(6)), &mut bench), AssistAnswer::Walk, "an unmapped page faults in a walk");
}
