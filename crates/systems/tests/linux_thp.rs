//! Transparent huge pages: fault counts are those that Linux 6.18 on x86-64 reports (`ru_minflt`) for the same small
//! programs over 8 MB of MADV_HUGEPAGE memory.

use crate::common::Machine;
use reach_core::{Advice, Asid, Cycles, Event, Kind, Label, Map, Protection, Span, ThreadId, VirtAddr, Vpn};

const AT: u64 = 0x7f00_0000_0000;
const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;

fn span(pages: u64) -> Span {
    Span { start: VirtAddr(AT), len: pages * PAGE }
}

fn with_memory(spec: &str) -> Machine {
    let mut machine = Machine::x86(spec, 256 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 8 << 20)));
    machine
}

#[test]
fn a_huge_page_takes_one_fault() {
    let mut machine = with_memory("linux-thp");
    assert_eq!(machine.sweep(AT, 2048, Kind::Store), 4);
    assert_eq!((machine.vm.counters().superpages[0].current, machine.vm.counters().bytes_copied), (4, 0));
    machine.event(&Event::Advise(span(2048), Advice::DontNeed));
    assert_eq!(machine.vm.counters().resident_bytes.current, 0);
    assert_eq!(machine.sweep(AT, 2048, Kind::Store), 4);
    machine.exit_all();
}

#[test]
fn first_loads_share_one_huge_page_of_zeroes() {
    let mut machine = with_memory("linux-thp");
    assert_eq!(machine.sweep(AT, 2048, Kind::Load), 4);
    assert_eq!(machine.vm.counters().resident_bytes.current, 0);
    assert_eq!(machine.sweep(AT, 2048, Kind::Store), 4);
    assert_eq!(machine.vm.counters().superpages[0].current, 4);
    machine.exit_all();
    let mut machine = with_memory("linux-thp:use_zero_page=off");
    assert_eq!(machine.sweep(AT, 2048, Kind::Load), 4);
    assert_eq!(machine.sweep(AT, 2048, Kind::Store), 0);
}

#[test]
fn protecting_one_page_splits_its_huge_page_without_faults() {
    let mut machine = with_memory("linux-thp");
    machine.sweep(AT, 2048, Kind::Store);
    machine.event(&Event::Protect(span(1), Protection::READ));
    machine.event(&Event::Protect(span(1), Protection::READ_WRITE));
    assert_eq!(machine.vm.counters().superpages[0].current, 3);
    assert_eq!(machine.sweep(AT, 2048, Kind::Store), 0);
    machine.event(&Event::Advise(span(1), Advice::DontNeed));
    assert_eq!(machine.sweep(AT, 2048, Kind::Store), 1);
    machine.vm.check();
}

#[test]
fn stores_of_a_child_copy_base_pages() {
    let mut machine = with_memory("linux-thp");
    machine.sweep(AT, 2048, Kind::Store);
    machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
    machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
    assert_eq!(machine.sweep(AT, 1, Kind::Store), 1);
    assert_eq!(machine.sweep(AT, 2048, Kind::Store), 2047);
    assert_eq!(machine.vm.counters().bytes_copied, 8 << 20);
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn populate_takes_one_fault_for_each_huge_page() {
    let mut machine = with_memory("linux-thp");
    machine.event(&Event::Advise(span(2048), Advice::PopulateWrite));
    assert_eq!(machine.vm.counters().page_faults, 4);
    assert_eq!(machine.sweep(AT, 2048, Kind::Store), 0);
}

#[test]
fn enabled_and_advice_decide_which_memory_is_huge() {
    for (spec, advice, huge) in [
        ("linux-thp:enabled=never", Some(Advice::Huge), 0),
        ("linux-thp:enabled=madvise", None, 0),
        ("linux-thp:enabled=madvise", Some(Advice::Huge), 4),
        ("linux-thp", Some(Advice::NoHuge), 0),
    ] {
        let mut machine = with_memory(spec);
        if let Some(advice) = advice {
            machine.event(&Event::Advise(span(2048), advice));
        }
        machine.sweep(AT, 2048, Kind::Store);
        assert_eq!(machine.vm.counters().superpages[0].current, huge, "{spec} {advice:?}");
    }
}

#[test]
fn khugepaged_collapses_extents_within_its_limits_and_madv_collapse_without() {
    let mut machine = Machine::x86("linux-thp:max_ptes_none=255", 256 << 20);
    // The heap grows by 64 KB at a time, so no huge page fits at first touch.
    for piece in 0..64 {
        machine.event(&Event::Map(Map::anonymous(VirtAddr(AT + piece * 65536), 65536)));
        let touched = if piece < 32 { 16 } else { 7 };
        machine.sweep(AT + piece * 65536, touched, Kind::Store);
    }
    let hertz = machine.vm.options().hertz;
    assert_eq!(machine.system.next_tick(), Some(Cycles(10 * hertz)));
    machine.system.tick(Cycles(10 * hertz - 1), &mut machine.vm).unwrap();
    assert_eq!(machine.vm.counters().promotions, 0);
    machine.system.tick(Cycles(10 * hertz), &mut machine.vm).unwrap();
    let counters = &machine.vm.counters();
    // The first 2 MB hold 512 pages, the second 224 of 512: too few for max_ptes_none=255.
    assert_eq!((counters.promotions, counters.superpages[0].current, counters.bytes_copied), (1, 1, HUGE));
    assert!(machine.vm.ledger().charged(Label::Daemon) > Cycles(0));
    assert_eq!(machine.system.next_tick(), Some(Cycles(20 * hertz)));
    machine.vm.check();
    // MADV_COLLAPSE has no limits.
    machine.event(&Event::Advise(span(1024), Advice::Collapse));
    assert_eq!(machine.vm.counters().superpages[0].current, 2);
    machine.exit_all();
}

#[test]
fn without_a_free_huge_page_faults_map_base_pages() {
    let mut machine = with_memory("linux-thp");
    let recipe =
        reach_os::Fragmentation { order: 9, scattered: 1.0, hold: 0.1, grain: 0, first: false, stay: None, seed: 1 };
    recipe.apply(machine.vm.frames_mut()).unwrap();
    assert_eq!(machine.sweep(AT, 2048, Kind::Store), 2048);
    assert_eq!((machine.vm.counters().superpages[0].peak, machine.vm.counters().superpage_fallbacks > 0), (0, true));
    assert!(machine.translation(Vpn(AT / PAGE)).is_some());
}

#[test]
fn advised_spans_get_huge_pages_as_if_the_program_had_asked() {
    let half = format!("linux-thp:enabled=madvise,advised={AT:x}-{:x}", AT + 2 * HUGE);
    let mut machine = with_memory(&half);
    assert_eq!(machine.sweep(AT, 2048, Kind::Store), 2 + 1024);
    assert_eq!(machine.vm.counters().superpages[0].current, 2);
    machine.vm.check();
    machine.exit_all();
    // The heap grows call by call, and each part is advised.
    let mut machine = Machine::x86(&half, 256 << 20);
    for at in [AT, AT + HUGE] {
        machine.event(&Event::Map(Map::anonymous(VirtAddr(at), HUGE)));
    }
    assert_eq!(machine.sweep(AT, 1024, Kind::Store), 2);
    assert_eq!(with_memory("linux-thp:enabled=madvise").sweep(AT, 2048, Kind::Store), 2048);
}

#[test]
fn hugetlb_memory_has_huge_pages_that_stay_whole_whatever_is_enabled() {
    for spec in ["linux-thp:enabled=never", "linux-thp"] {
        let mut machine = Machine::x86(spec, 256 << 20);
        machine.event(&Event::Map(Map { huge_shift: 21, ..Map::anonymous(VirtAddr(AT), 8 << 20) }));
        assert_eq!(machine.sweep(AT, 2048, Kind::Load), 4, "{spec}");
        assert_eq!(machine.vm.counters().superpages[0].current, 4);
        assert_eq!(machine.vm.counters().resident_bytes.current, 8 << 20);
        // A part of a page cannot be unmapped.
        machine.event(&Event::Protect(span(1), Protection::READ));
        assert_eq!(machine.vm.counters().superpages[0].current, 4);
        machine.vm.check();
        machine.exit_all();
    }
}
