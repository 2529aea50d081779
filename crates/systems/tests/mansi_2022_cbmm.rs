//! CBMM: which pages costs and benefits give, and what is zeroed ahead.

use crate::common::Machine;
use reach_core::{Advice, Backing, Event, FileId, Kind, Map, PageShift, Pfn, Protection, Role, Span, VirtAddr, Vpn};
use reach_os::{FrameKind, ObjectId};
use reach_systems::resolve;

const AT: u64 = 0x7f00_0000_0000;
const HUGE: u64 = 2 << 20;
/// Base pages of a huge page.
const PAGES: u64 = 512;

fn vpn(page: u64) -> Vpn {
    Vpn((AT >> 12) + page)
}

/// Boots CBMM with these options and `extents` huge pages' worth of memory that a call has mapped.
fn with_memory(options: &str, extents: u64) -> Machine {
    let mut machine = Machine::x86(&format!("mansi-2022-cbmm:{options}"), 256 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), extents * HUGE)));
    machine
}

/// Stores to the first page of each of `extents` extents, and returns those that are huge pages then.
fn store_to(machine: &mut Machine, extents: u64) -> Vec<u64> {
    (0..extents).for_each(|extent| _ = machine.touch(vpn(extent * PAGES), Kind::Store));
    huge(machine, extents)
}

fn huge(machine: &Machine, extents: u64) -> Vec<u64> {
    let is_huge = |&at: &u64| machine.translation(vpn(at * PAGES)).is_some_and(|pte| pte.shift() == PageShift(21));
    (0..extents).filter(is_huge).collect()
}

/// Runs the daemons at their next `times` wakes.
fn wake(machine: &mut Machine, times: u64) {
    for _ in 0..times {
        let next = machine.system.next_tick().unwrap();
        machine.system.tick(next, &mut machine.vm).unwrap();
    }
    machine.vm.check();
}

/// Takes one base page of each free block of 2 MB, and returns them.
fn fragment(machine: &mut Machine) -> Vec<Pfn> {
    let blocks: Vec<Pfn> =
        std::iter::from_fn(|| machine.vm.frames_mut().allocate(9, FrameKind::Wired, ObjectId::NONE, 0)).collect();
    blocks.iter().for_each(|&block| machine.vm.frames_mut().free(block + 1, PAGES - 1));
    blocks
}

fn zeroed_ahead(machine: &Machine) -> u64 {
    machine.vm.counters().bytes_zeroed_ahead / HUGE
}

#[test]
fn without_a_profile_memory_gets_base_pages() {
    let mut machine = with_memory("profile=none", 3);
    machine.event(&Event::Advise(Span { start: VirtAddr(AT + HUGE), len: HUGE }, Advice::Huge));
    assert_eq!(store_to(&mut machine, 2), [0; 0], "advice is no benefit");
    machine.touch(vpn(2 * PAGES), Kind::Load);
    assert_eq!((huge(&machine, 3), zeroed_ahead(&machine)), (vec![], 0));
    machine.exit_all();
}

#[test]
fn a_fault_maps_a_huge_page_where_it_saves_more_than_zeroing_costs() {
    let profile = "huge:mmap:200000:addr:<:0x7f0000200000+huge:mmap:200001:addr:<:0x7f0000400000+huge:heap:1000000";
    let mut machine = with_memory(&format!("prezero=off,profile={profile}"), 3);
    assert_eq!(store_to(&mut machine, 3), [1], "as much is not more, and the heap is elsewhere");
    let mut machine = with_memory(&format!("zero_cycles=199999,prezero=off,profile={profile}"), 3);
    assert_eq!(store_to(&mut machine, 3), [0, 1]);
    machine.exit_all();
}

#[test]
fn loads_and_populated_memory_are_asked_about_too() {
    let mut machine = with_memory("prezero=off,profile=huge:mmap:300000:addr:>:0x7f0000200000", 3);
    machine.touch(vpn(0), Kind::Load);
    machine.touch(vpn(PAGES), Kind::Load);
    let populate = Event::Advise(Span { start: VirtAddr(AT + 2 * HUGE), len: 4096 }, Advice::PopulateWrite);
    machine.event(&populate);
    assert_eq!(huge(&machine, 3), [1, 2]);
    machine.exit_all();
}

#[test]
fn memory_that_is_zeroed_already_needs_little_benefit() {
    let mut machine = with_memory("profile=huge:mmap:1", 2);
    assert_eq!((store_to(&mut machine, 2), zeroed_ahead(&machine)), (vec![0, 1], 2));
    let mut machine = with_memory("zeroed_at_boot=off,profile=huge:mmap:1", 2);
    assert_eq!(store_to(&mut machine, 2), [0; 0]);
}

#[test]
fn base_pages_take_nothing_of_what_was_zeroed_for_huge_ones() {
    let mut machine = with_memory("profile=huge:mmap:1:addr:>:0x7f0000200000", 2);
    machine.sweep(AT, 2 * PAGES, Kind::Store);
    assert_eq!((huge(&machine, 2), machine.vm.counters().bytes_zeroed_ahead), (vec![1], HUGE));
}

#[test]
fn free_memory_is_zeroed_only_after_huge_pages_were_used() {
    let mut machine = with_memory("zeroed_at_boot=off,prezero_pages=2,profile=huge:mmap:300000", 5);
    wake(&mut machine, 3);
    assert_eq!((store_to(&mut machine, 1), zeroed_ahead(&machine)), (vec![0], 0), "nobody had used any");
    wake(&mut machine, 1);
    assert_eq!((store_to(&mut machine, 5).len(), zeroed_ahead(&machine)), (5, 2), "two pages were zeroed at the wake");
}

#[test]
fn use_is_forgotten_after_two_long_time_units() {
    let zeroed_after = |wakes: u64| {
        let options = "zeroed_at_boot=off,idle_processor=off,prezero_pages=30,profile=huge:mmap:300000";
        let mut machine = with_memory(options, 8);
        store_to(&mut machine, 3);
        wake(&mut machine, wakes);
        store_to(&mut machine, 4);
        wake(&mut machine, 1);
        store_to(&mut machine, 8);
        zeroed_ahead(&machine)
    };
    // A wake comes every 10 ms, a unit has 10 s. Zeroing is worth it after the use of four huge pages.
    assert_eq!([zeroed_after(1), zeroed_after(1900), zeroed_after(2100)], [4, 4, 0]);
}

#[test]
fn without_an_idle_processor_zeroing_must_save_more_than_it_costs() {
    let zeroed_after = |used: u64| {
        let options = "zeroed_at_boot=off,idle_processor=off,prezero_pages=30,profile=huge:mmap:300000";
        let mut machine = with_memory(options, 8);
        store_to(&mut machine, used);
        let before = machine.vm.ledger().total();
        wake(&mut machine, 1);
        let charged = machine.vm.ledger().total() > before;
        store_to(&mut machine, 8);
        (zeroed_ahead(&machine), charged)
    };
    assert_eq!(zeroed_after(3), (0, false), "3 x 1,000,000 cycles are not more than 30 x 100,000");
    assert_eq!(zeroed_after(4), (4, true));
}

#[test]
fn a_huge_page_without_a_free_block_must_save_more_than_four_billion_cycles() {
    for (benefit, fallbacks) in [(4_294_967_296u64 + 200_000, 0), (4_294_967_297 + 200_000, 1)] {
        let mut machine = with_memory(&format!("profile=huge:mmap:{benefit}"), 1);
        fragment(&mut machine);
        assert_eq!(store_to(&mut machine, 1), [0; 0]);
        assert_eq!(machine.vm.counters().superpage_fallbacks, fallbacks, "{benefit}");
    }
}

#[test]
fn memory_is_reclaimed_only_for_a_benefit_beyond_its_cost() {
    for (benefit, pages) in [(6_200_000u64, 0), (6_200_001, 1)] {
        let options = format!("prezero=off,no_block_cycles=1000000,reclaim_cycles=5000000,profile=huge:mmap:{benefit}");
        let mut machine = with_memory(&options, 1);
        let len = 300 << 20;
        machine.event(&Event::File { file: FileId(0), path: "/data".into(), len, in_memory: false });
        let file = VirtAddr(0x1000_0000);
        let backing = Backing::File { file: FileId(0), offset: 0 };
        let map = Map { backing, protection: Protection::READ, ..Map::anonymous(file, len) };
        machine.event(&Event::Map(map));
        // Fill memory with the file's pages, up to less than a huge page, and stop using them.
        let mut page = file.0 >> 12;
        while machine.vm.frames().buddy().largest_free().is_some_and(|order| order >= 9) {
            machine.touch(Vpn(page), Kind::Load);
            page += 1;
        }
        machine.event(&Event::Unmap(Span { start: file, len }));
        assert_eq!(store_to(&mut machine, 1).len(), pages, "{benefit}");
    }
}

#[test]
fn new_mappings_are_paged_in_where_a_page_saves_more_than_ten_microseconds() {
    // 10 us at 3 GHz.
    for (benefit, faults) in [(30_000, 4), (30_001, 2)] {
        let options = format!("profile=eager:mmap:{benefit}:addr:>:0x7f0000001000:addr:<:0x7f0000003000");
        let mut machine = Machine::x86(&format!("mansi-2022-cbmm:{options}"), 64 << 20);
        machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 4 << 12)));
        assert_eq!(machine.sweep(AT, 4, Kind::Store), faults, "{benefit}");
        // The heap lies elsewhere, and a mapping without rights is only reserved.
        let heap = Map { role: Role::Heap, ..Map::anonymous(VirtAddr(AT), 4 << 12) };
        machine.event(&Event::Map(heap));
        assert_eq!(machine.sweep(AT, 4, Kind::Store), 4);
        machine.event(&Event::Map(Map { protection: Protection::NONE, ..Map::anonymous(VirtAddr(AT), 4 << 12) }));
        assert_eq!(machine.vm.counters().resident_bytes.current, 0);
        machine.exit_all();
    }
}

#[test]
fn nothing_is_promoted_later_unless_asked_for() {
    for (promotion, promoted) in [("off", vec![]), ("on", vec![1])] {
        let options = format!("promotion={promotion},prezero=off,profile=huge:mmap:200001:addr:>:0x7f0000200000");
        let mut machine = with_memory(&options, 2);
        let taken = fragment(&mut machine);
        assert_eq!(store_to(&mut machine, 2), [0; 0], "there is no block at the faults");
        taken.into_iter().for_each(|page| machine.vm.frames_mut().free(page, 1));
        while let Some(next) = machine.system.next_tick().filter(|next| next.0 <= 30_000_000_000) {
            machine.system.tick(next, &mut machine.vm).unwrap();
        }
        assert_eq!(huge(&machine, 2), promoted, "promotion={promotion}");
        machine.exit_all();
    }
}

#[test]
fn a_file_is_a_profile_and_results_name_what_it_says() {
    let path = format!("{}/cbmm-profile.csv", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, "# from an earlier run\nhuge,mmap,300000,addr,>,0x7f0000200000\n\neager,heap,5\n").unwrap();
    let from_file = resolve(&format!("mansi-2022-cbmm:prezero=off,profile={path}")).unwrap();
    let profile = "huge:mmap:300000:addr:>:0x7f0000200000+eager:heap:5";
    let written = resolve(&format!("mansi-2022-cbmm:prezero=off,profile={profile}")).unwrap();
    assert_eq!(from_file.settings(), written.settings());
    let mut machine = with_memory(&format!("prezero=off,profile={path}"), 2);
    assert_eq!(store_to(&mut machine, 2), [1]);
    std::fs::write(&path, "huge,mmap,300000\nhuge,mmap,many\n").unwrap();
    let error = resolve(&format!("mansi-2022-cbmm:profile={path}")).err().unwrap().to_string();
    let expected = "line 2, \"huge:mmap:many\": \"many\": expected a whole number below 2^64, decimal or with 0x";
    assert_eq!(error, format!("mansi-2022-cbmm: profile={path}: {expected}"));
}
