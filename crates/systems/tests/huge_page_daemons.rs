//! Ingens, HawkEye, Trident and the promotion candidate cache: which huge pages they make, and when.

use crate::common::Machine;
use reach_core::{
    Asid, AssistAnswer, Cycles, Event, FinishedWalk, Kind, Layout, Map, PageShift, Pfn, Pte, ThreadId, TlbMiss,
    VirtAddr, Vpn, WalkAssist,
};
use reach_oracle::assist::Bench;
use reach_os::{FrameKind, ObjectId, Options};

const AT: u64 = 0x7f00_0000_0000;
const HUGE: u64 = 2 << 20;
/// Base pages of a huge page.
const PAGES: u64 = 512;

fn vpn(page: u64) -> Vpn {
    Vpn((AT >> 12) + page)
}

/// Boots a system with `extents` huge pages' worth of memory.
fn with_memory(spec: &str, extents: u64) -> Machine {
    let mut machine = Machine::x86(spec, 256 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), extents * HUGE)));
    machine
}

/// Runs the daemon as long as it has work before `until`.
fn run_daemon(machine: &mut Machine, until: u64) {
    while let Some(next) = machine.system.next_tick().filter(|next| next.0 <= until) {
        machine.system.tick(next, &mut machine.vm).unwrap();
        machine.vm.check();
    }
}

/// Returns the extents that are huge pages.
fn huge(machine: &Machine, extents: u64) -> Vec<u64> {
    let is_huge = |&at: &u64| machine.translation(vpn(at * PAGES)).is_some_and(|pte| pte.shift() == PageShift(21));
    (0..extents).filter(is_huge).collect()
}

/// Takes one base page of each free block of 2 MB, but leaves `kept` blocks.
fn fragment(machine: &mut Machine, kept: usize) {
    let blocks: Vec<Pfn> =
        std::iter::from_fn(|| machine.vm.frames_mut().allocate(9, FrameKind::Wired, ObjectId::NONE, 0)).collect();
    for (number, block) in blocks.into_iter().enumerate() {
        let taken = u64::from(number >= kept);
        machine.vm.frames_mut().free(block + taken, PAGES - taken);
    }
}

#[test]
fn ingens_maps_base_pages_and_promotes_in_the_background() {
    let mut machine = with_memory("kwon-2016-ingens", 4);
    assert_eq!(machine.touch(vpn(3), Kind::Store), 1);
    assert_eq!(huge(&machine, 4), [0; 0], "the fault itself maps a base page");
    run_daemon(&mut machine, 1 << 40);
    assert_eq!(huge(&machine, 4), [0], "memory is not fragmented, so the first page is enough");
    assert_eq!(machine.touch(vpn(PAGES), Kind::Load), 1);
    run_daemon(&mut machine, 1 << 40);
    assert_eq!(huge(&machine, 4), [0], "the page of zeroes is no use");
    machine.exit_all();
}

#[test]
fn ingens_waits_for_nine_tenths_of_an_extent_in_fragmented_memory() {
    let mut machine = with_memory("kwon-2016-ingens", 4);
    fragment(&mut machine, 8);
    for page in 0..460 {
        machine.touch(vpn(page), Kind::Store);
    }
    run_daemon(&mut machine, 1 << 40);
    assert_eq!(huge(&machine, 4), [0; 0]);
    machine.touch(vpn(500), Kind::Store);
    run_daemon(&mut machine, 1 << 40);
    assert_eq!(huge(&machine, 4), [0], "461 of 512 pages are 90 percent");
}

#[test]
fn ingens_serves_the_process_with_the_fewest_huge_pages() {
    let mut machine = with_memory("kwon-2016-ingens:pages_per_wake=1", 8);
    (0..4).for_each(|extent| _ = machine.touch(vpn(extent * PAGES), Kind::Store));
    run_daemon(&mut machine, 1 << 40);
    (4..8).for_each(|extent| _ = machine.touch(vpn(extent * PAGES), Kind::Store));
    machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 8 * HUGE)));
    machine.touch(vpn(0), Kind::Store);
    let next = machine.system.next_tick().unwrap();
    machine.system.tick(next, &mut machine.vm).unwrap();
    assert_eq!(huge(&machine, 8), [0], "its request is the latest, but it has no huge page yet");
}

#[test]
fn hawkeye_takes_memory_that_is_zeroed_already() {
    let mut machine = with_memory("panwar-2019-hawkeye", 4);
    machine.touch(vpn(0), Kind::Store);
    let counters = machine.vm.counters();
    assert_eq!((huge(&machine, 4), counters.bytes_zeroed_ahead), (vec![0], HUGE));
    let mut machine = with_memory("panwar-2019-hawkeye:prezero_mb_per_second=0", 4);
    machine.touch(vpn(0), Kind::Store);
    assert_eq!((huge(&machine, 4), machine.vm.counters().bytes_zeroed_ahead), (vec![0], 0));
}

#[test]
fn hawkeye_promotes_what_is_accessed_most_widely() {
    let mut machine = with_memory("panwar-2019-hawkeye:huge_faults=off,pages_per_sample=1", 3);
    let touch = |machine: &mut Machine, extent: u64, pages: u64| {
        (0..pages).for_each(|page| _ = machine.touch(vpn(extent * PAGES + page), Kind::Store));
    };
    (0..3).for_each(|extent| touch(&mut machine, extent, 400));
    // The sample begins: access bits are cleared.
    let next = machine.system.next_tick().unwrap();
    machine.system.tick(next, &mut machine.vm).unwrap();
    touch(&mut machine, 0, 20);
    touch(&mut machine, 1, 300);
    touch(&mut machine, 2, 100);
    let next = machine.system.next_tick().unwrap();
    machine.system.tick(next, &mut machine.vm).unwrap();
    assert_eq!(huge(&machine, 3), [1]);
    machine.exit_all();
}

#[test]
fn trident_takes_the_largest_page_that_fits() {
    let mut machine = Machine::x86("ram-2021-trident", 3 << 30);
    let giant = 1u64 << 30;
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), giant + HUGE)));
    machine.touch(vpn(5), Kind::Store);
    machine.touch(vpn(giant >> 12), Kind::Store);
    let size = |page: u64| machine.translation(vpn(page)).map(|pte| pte.shift());
    assert_eq!(size(77_777), Some(PageShift(30)));
    assert_eq!(size(giant >> 12), Some(PageShift(21)), "what is left of the mapping holds a page of 2 MB");
    machine.exit_all();
}

#[test]
fn trident_promotes_to_1_gb_what_is_half_in_use() {
    let mut machine = Machine::x86("ram-2021-trident", 4 << 30);
    let giant = 1u64 << 30;
    // Two mappings that meet in the middle: neither holds a page of 1 GB.
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), giant / 2)));
    (0..256).for_each(|extent| _ = machine.touch(vpn(extent * PAGES), Kind::Store));
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT + giant / 2), giant / 2)));
    let merged = machine.vm.process(Asid(1)).unwrap().space().find(VirtAddr(AT)).unwrap().len();
    assert_eq!(merged, giant, "Linux merges them");
    let next = machine.system.next_tick().unwrap();
    machine.system.tick(next, &mut machine.vm).unwrap();
    assert_eq!(machine.translation(vpn(PAGES)).map(|pte| pte.shift()), Some(PageShift(30)));
}

/// Lets the processor walk for these extents, in this order.
fn walk(assist: &mut dyn WalkAssist, extents: &[u64]) {
    let mut port = Bench::new(PageShift(12), 1);
    for &extent in extents {
        let miss = TlbMiss { asid: Asid(1), vpn: vpn(extent * PAGES + 1), kind: Kind::Load, instruction: 0, offset: 0 };
        assert_eq!(assist.search(miss, &mut port), AssistAnswer::Walk);
        let pte = Pte::new(Pfn(0), PageShift(12));
        assist.walked(miss, FinishedWalk { pte, cycles: 30, accesses: 2, memory_reads: 0 }, &mut port);
    }
}

#[test]
fn the_candidate_cache_promotes_what_is_walked_for_most() {
    let mut machine = with_memory("manocha-2023-pcc:promotions=2,candidates=3", 6);
    (0..6).for_each(|extent| _ = machine.touch(vpn(extent * PAGES + 1), Kind::Store));
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    // Each first walk is left out.
    walk(&mut *assist, &[0, 1, 2, 3, 4, 5]);
    walk(&mut *assist, &[0, 1, 1, 1, 2, 2]);
    // The least frequent candidate, 0, makes room.
    walk(&mut *assist, &[3, 3, 3, 3]);
    let next = machine.system.next_tick().unwrap();
    machine.system.tick(next, &mut machine.vm).unwrap();
    assert_eq!(huge(&machine, 6), [1, 3]);
    let next = Cycles(2 * next.0);
    machine.system.tick(next, &mut machine.vm).unwrap();
    assert_eq!(huge(&machine, 6), [1, 2, 3], "the rest has its turn");
    machine.exit_all();
}

#[test]
fn elastic_translations_make_one_page_of_contiguous_huge_pages_that_are_walked_for() {
    const LARGE: u64 = 32 << 20;
    let mut machine = Machine::arm("psomadakis-2024-elastic", 256 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 2 * LARGE)));
    (0..2 * LARGE / HUGE).for_each(|extent| _ = machine.touch(vpn(extent * PAGES), Kind::Store));
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    for extent in [0, 1, 1, 1] {
        let at = vpn(extent * PAGES * LARGE / HUGE);
        let miss = TlbMiss { asid: Asid(1), vpn: at, kind: Kind::Load, instruction: 0, offset: 0 };
        let pte = machine.translation(at).unwrap();
        assert_eq!(pte.shift(), PageShift(21));
        let walk = FinishedWalk { pte, cycles: 30, accesses: 2, memory_reads: 0 };
        assist.walked(miss, walk, &mut Bench::new(PageShift(12), 1));
    }
    let next = machine.system.next_tick().unwrap();
    machine.system.tick(next, &mut machine.vm).unwrap();
    machine.vm.check();
    let shift = |extent: u64| machine.translation(vpn(extent * PAGES * LARGE / HUGE)).unwrap().shift();
    assert_eq!([0, 1].map(shift), [PageShift(21), PageShift(25)], "the first walk of an extent is left out");
    machine.exit_all();
}

#[test]
fn elastic_translations_fall_back_to_blocks_of_64_kb() {
    let mut machine = Machine::arm("psomadakis-2024-elastic", 256 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 4 * HUGE)));
    fragment(&mut machine, 1);
    (0..4).for_each(|extent| _ = machine.touch(vpn(extent * PAGES), Kind::Store));
    let shifts: Vec<u8> = (0..4).map(|extent| machine.translation(vpn(extent * PAGES)).unwrap().shift().0).collect();
    assert_eq!(shifts, [21, 16, 16, 16]);
    machine.exit_all();
}

#[test]
fn elastic_translations_need_a_size_between_the_usual_ones() {
    let sizes = [12, 21, 30].map(PageShift).to_vec();
    let options = Options::linux(Layout::x86_64(), sizes, 64 << 20);
    let error = Machine::try_boot("psomadakis-2024-elastic", options).err().unwrap().to_string();
    assert!(error.contains("no page size between 2M and 1G"), "{error}");
}
