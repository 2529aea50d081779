//! Gemini: what a guest does with what it learns of its host's huge pages, and a host with its guest's.

use crate::common::Machine;
use reach_core::{Advice, Cycles, Event, Kind, Map, PageShift, Pfn, Pte, Span, VirtAddr, Vpn};
use reach_os::{FrameKind, ObjectId};

const AT: u64 = 0x7f00_0000_0000;
const HUGE: u64 = 2 << 20;
/// Base pages of a huge page.
const PAGES: u64 = 512;
/// A block of frames, the size of a huge page.
const BLOCK: Pfn = Pfn(40 * PAGES);

fn vpn(page: u64) -> Vpn {
    Vpn((AT >> 12) + page)
}

/// Boots a system with `extents` huge pages' worth of addresses.
fn with_memory(options: &str, extents: u64) -> Machine {
    let mut machine = Machine::x86(&format!("jia-2023-gemini:{options}"), 256 << 20);
    map(&mut machine, extents);
    machine
}

fn map(machine: &mut Machine, extents: u64) {
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), extents * HUGE)));
}

/// Tells a guest which blocks its host has as huge pages.
fn tell_guest(machine: &mut Machine, blocks: &[Pfn]) {
    let superpages: Vec<_> = blocks.iter().map(|&block| (block, PageShift(21))).collect();
    machine.system.host_superpages(&superpages, &mut machine.vm).unwrap();
    machine.vm.check();
}

/// Tells a host which extents of the process that runs are huge pages of its guest.
fn tell_host(machine: &mut Machine, extents: &[u64]) {
    let superpages: Vec<_> = extents.iter().map(|extent| (vpn(extent * PAGES), PageShift(21))).collect();
    let guest = machine.vm.current();
    machine.system.guest_superpages(guest, &superpages, Cycles(0), &mut machine.vm).unwrap();
    machine.vm.check();
}

/// Wakes the promoter `millisecs` after the start.
fn tick(machine: &mut Machine, millisecs: u64) {
    let now = Cycles(machine.vm.options().hertz / 1000 * millisecs);
    machine.system.tick(now, &mut machine.vm).unwrap();
    machine.vm.check();
}

fn touch(machine: &mut Machine, pages: impl Iterator<Item = u64>) {
    pages.for_each(|page| _ = machine.touch(vpn(page), Kind::Store));
}

fn translation(machine: &Machine, page: u64) -> Pte {
    machine.translation(vpn(page)).unwrap()
}

fn is_huge(machine: &Machine, extent: u64) -> bool {
    machine.translation(vpn(extent * PAGES)).is_some_and(|pte| pte.shift() == PageShift(21))
}

fn free_frames(machine: &Machine) -> u64 {
    machine.vm.frames().buddy().free_frames()
}

#[test]
fn a_guests_first_touches_take_what_its_host_has_as_huge_pages() {
    let blocks = [BLOCK, BLOCK + 8 * PAGES];
    for (options, told) in
        [("huge_faults=on", true), ("huge_faults=off", true), ("booking_millisecs=0", true), ("", false)]
    {
        let mut machine = with_memory(options, 3);
        if told {
            tell_guest(&mut machine, &blocks);
        }
        touch(&mut machine, [3, PAGES + 9].into_iter());
        let taken: Vec<Pfn> = [0, PAGES].map(|page| translation(&machine, page).pfn()).into();
        assert_eq!(taken == blocks, told, "{options}: {taken:?}");
        assert!(is_huge(&machine, 0) && is_huge(&machine, 1), "{options}");
        // There is no third such block.
        touch(&mut machine, std::iter::once(2 * PAGES));
        assert_eq!(is_huge(&machine, 2), !options.contains("off"), "{options}");
        machine.exit_all();
    }
}

#[test]
fn booked_memory_is_given_to_nobody_else_until_its_time_has_come() {
    let mut machine = with_memory("huge_faults=off,booking_millisecs=10,adjust_millisecs=0", 1);
    let free = free_frames(&machine);
    tell_guest(&mut machine, &[BLOCK]);
    assert_eq!(free_frames(&machine), free - PAGES);
    assert_eq!(machine.vm.frames_mut().allocate_at(BLOCK + 7, 0, FrameKind::Wired, ObjectId::NONE, 0), None);
    tick(&mut machine, 9);
    assert_eq!(free_frames(&machine), free - PAGES);
    tick(&mut machine, 10);
    assert_eq!(free_frames(&machine), free);
    // Once it has timed out, it is not booked again as long as the host's page stays.
    tell_guest(&mut machine, &[BLOCK]);
    assert_eq!(free_frames(&machine), free);
    tell_guest(&mut machine, &[]);
    tell_guest(&mut machine, &[BLOCK]);
    assert_eq!(free_frames(&machine), free - PAGES);
    machine.exit_all();
}

#[test]
fn base_pages_lie_in_a_block_as_in_their_extent_and_become_a_huge_page_without_a_copy() {
    let mut machine = with_memory("huge_faults=off", 2);
    // Both extents, and the kernel, take frames in turn.
    for page in 0..PAGES {
        touch(&mut machine, [page * 37 % PAGES, PAGES + page].into_iter());
        machine.vm.frames_mut().allocate(0, FrameKind::Wired, ObjectId::NONE, 0).unwrap();
    }
    for extent in 0..2 {
        let block = translation(&machine, extent * PAGES).pfn();
        assert!(block.0.is_multiple_of(PAGES));
        assert!((0..PAGES).all(|page| translation(&machine, extent * PAGES + page).pfn() == block + page));
        assert!(!is_huge(&machine, extent));
    }
    tick(&mut machine, 1);
    assert!(is_huge(&machine, 0) && is_huge(&machine, 1));
    assert_eq!((machine.vm.counters().bytes_copied, machine.vm.counters().promotions), (0, 2));
    machine.exit_all();
}

#[test]
fn missing_pages_are_allocated_for_a_promotion_above_half_unless_memory_is_fragmented() {
    for (used, fragmented, expected) in [(256, false, false), (257, false, true), (257, true, false), (512, true, true)]
    {
        let mut machine = with_memory("huge_faults=off", 1);
        let blocks: Vec<Pfn> = if fragmented {
            let take = || machine.vm.frames_mut().allocate(9, FrameKind::Wired, ObjectId::NONE, 0);
            std::iter::from_fn(take).collect()
        } else {
            Vec::new()
        };
        for (number, &block) in blocks.iter().enumerate() {
            // Eight blocks stay whole.
            let kept = u64::from(number >= 8);
            machine.vm.frames_mut().free(block + kept, PAGES - kept);
        }
        touch(&mut machine, 0..used);
        tick(&mut machine, 1);
        assert_eq!(is_huge(&machine, 0), expected, "{used} pages, fragmented: {fragmented}");
        machine.exit_all();
    }
}

#[test]
fn pages_that_were_dropped_do_not_count_for_a_promotion() {
    let mut machine = with_memory("huge_faults=off", 1);
    touch(&mut machine, 0..200);
    machine.event(&Event::Advise(Span { start: VirtAddr(AT + 4096), len: 199 << 12 }, Advice::DontNeed));
    touch(&mut machine, 1..200);
    tick(&mut machine, 1);
    assert!(!is_huge(&machine, 0), "200 pages are in use, though 399 came into use");
    touch(&mut machine, 200..257);
    tick(&mut machine, 2);
    assert!(is_huge(&machine, 0));
    machine.exit_all();
}

#[test]
fn a_host_follows_its_guest() {
    let mut machine = with_memory("", 6);
    tell_host(&mut machine, &[0]);
    touch(&mut machine, [5, PAGES + 5, 2 * PAGES + 5].into_iter());
    let huge = |machine: &Machine| (0..6).filter(|&extent| is_huge(machine, extent)).collect::<Vec<_>>();
    assert_eq!(huge(&machine), [0], "a first touch of what is huge in the guest, and of what is not");
    // One extent that is touched becomes huge in the guest, and one that is not.
    tell_host(&mut machine, &[0, 2, 4]);
    tick(&mut machine, 1);
    assert_eq!(huge(&machine), [0, 2]);
    assert_eq!(machine.vm.counters().bytes_copied, 0, "the booked block is filled up");
    touch(&mut machine, [4 * PAGES, 5 * PAGES].into_iter());
    assert_eq!(huge(&machine), [0, 2, 4]);
    machine.exit_all();
}

#[test]
fn pages_that_lie_elsewhere_are_copied_where_the_other_layer_has_a_huge_page() {
    let mut machine = with_memory("booking_millisecs=0", 2);
    tell_host(&mut machine, &[]);
    touch(&mut machine, [1, 2].into_iter());
    // Somebody takes a frame of its block.
    let block = translation(&machine, 1).pfn();
    let taken = block + 100;
    machine.vm.frames_mut().allocate_at(taken, 0, FrameKind::Wired, ObjectId::NONE, 0).unwrap();
    tell_host(&mut machine, &[0]);
    tick(&mut machine, 1);
    assert!(is_huge(&machine, 0));
    assert_eq!(machine.vm.counters().bytes_copied, 2 * 4096);
    machine.vm.frames_mut().free(taken, 1);
    machine.exit_all();
}

#[test]
fn the_bucket_keeps_freed_memory_that_the_host_has_as_huge_pages() {
    for (options, kept) in [("bucket_millisecs=50", true), ("bucket_millisecs=0,booking_millisecs=0", false)] {
        let mut machine = with_memory(&format!("{options},adjust_millisecs=0"), 1);
        tell_guest(&mut machine, &[BLOCK]);
        touch(&mut machine, std::iter::once(0));
        assert_eq!(translation(&machine, 0).pfn(), BLOCK, "{options}");
        let free = free_frames(&machine);
        machine.event(&Event::Unmap(Span { start: VirtAddr(AT), len: HUGE }));
        let taken = machine.vm.frames_mut().allocate_at(BLOCK + 1, 0, FrameKind::Wired, ObjectId::NONE, 0);
        assert_eq!(taken.is_none(), kept, "{options}");
        if let Some(taken) = taken {
            machine.vm.frames_mut().free(taken, 1);
        }
        assert_eq!(free_frames(&machine) > free + 400, !kept, "{options}");
        map(&mut machine, 1);
        touch(&mut machine, std::iter::once(7));
        assert_eq!(translation(&machine, 0).pfn(), BLOCK, "{options}: it is reused while it is whole");
        machine.exit_all();
    }
}

#[test]
fn bookings_end_before_memory_does() {
    let mut machine = with_memory("huge_faults=off,booking_millisecs=600000,bucket_millisecs=600000", 128);
    let blocks: Vec<Pfn> = (20..100).map(|number| Pfn(number * PAGES)).collect();
    tell_guest(&mut machine, &blocks);
    // One page of each extent books a block, and then all pages take nearly all memory.
    touch(&mut machine, (0..100).map(|extent| extent * PAGES));
    touch(&mut machine, 0..60_000);
    assert!(machine.vm.frames().resident() >= 60_000);
    machine.vm.check();
    machine.exit_all();
}
