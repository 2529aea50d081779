//! Contiguity-aware paging and SpOT.

use crate::common::Machine;
use reach_core::{
    Asid, AssistAnswer, Event, FinishedWalk, Kind, Map, PageShift, Pfn, Pte, TlbMiss, VirtAddr, Vpn, WalkAssist,
};
use reach_oracle::assist::Bench;
use std::collections::BTreeSet;

const AT: u64 = 0x7f00_0000_0000;
const OTHER: u64 = 0x7e00_0000_0000;

fn vpn(at: u64, page: u64) -> Vpn {
    Vpn((at >> 12) + page)
}

/// Returns the distances from pages to frames among the first `pages` pages at `at`.
fn distances(machine: &Machine, at: u64, pages: u64) -> BTreeSet<i64> {
    let mapped = (0..pages).filter_map(|page| Some((vpn(at, page), machine.translation(vpn(at, page))?)));
    mapped.map(|(vpn, pte)| pte.pfn().0 as i64 - vpn.0 as i64).collect()
}

#[test]
fn a_mapping_keeps_its_distance_in_whatever_order_it_is_touched() {
    let mut machine = Machine::x86("alverti-2020-spot", 256 << 20);
    for at in [AT, OTHER] {
        machine.event(&Event::Map(Map::anonymous(VirtAddr(at), 8 << 20)));
    }
    // Both mappings in turn, every page once, in a scattered order.
    for page in 0..2048 {
        machine.touch(vpn(AT, page * 701 % 2048), Kind::Store);
        machine.touch(vpn(OTHER, page * 333 % 2048), Kind::Store);
    }
    machine.vm.check();
    let (first, other) = (distances(&machine, AT, 2048), distances(&machine, OTHER, 2048));
    assert_eq!((first.len(), other.len()), (1, 1), "page tables take no frames in the way");
    let mut plain = Machine::x86("base", 256 << 20);
    plain.event(&Event::Map(Map::anonymous(VirtAddr(AT), 8 << 20)));
    for page in 0..2048 {
        plain.touch(vpn(AT, page * 701 % 2048), Kind::Store);
    }
    assert!(distances(&plain, AT, 2048).len() > 400, "demand paging alone scatters them");
    machine.exit_all();
}

#[test]
fn pages_that_were_only_read_join_their_mapping_at_the_first_store() {
    let mut machine = Machine::x86("alverti-2020-spot", 256 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 1 << 20)));
    for page in (0..256).rev() {
        machine.touch(vpn(AT, page), Kind::Load);
    }
    for page in (0..256).map(|page| page * 77 % 256) {
        machine.touch(vpn(AT, page), Kind::Store);
    }
    assert_eq!(distances(&machine, AT, 256).len(), 1);
    machine.exit_all();
}

/// Runs a miss of instruction number `instruction`, for a page with this frame.
fn miss(assist: &mut dyn WalkAssist, instruction: u64, page: u64, frame: u64) -> AssistAnswer {
    let mut port = Bench::new(PageShift(12), 1);
    let miss = TlbMiss { asid: Asid(1), vpn: Vpn(page), kind: Kind::Load, instruction, offset: 0 };
    let answer = assist.search(miss, &mut port);
    let pte = Pte::new(Pfn(frame), PageShift(12));
    assist.walked(miss, FinishedWalk { pte, cycles: 30, accesses: 2, memory_reads: 0 }, &mut port);
    answer
}

#[test]
fn an_instruction_predicts_once_its_distance_has_held_twice() {
    let machine = Machine::x86("alverti-2020-spot", 64 << 20);
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    let predicted = |frame| AssistAnswer::Predicted { frame: Pfn(frame), penalty: 20 };
    assert_eq!(miss(&mut *assist, 8, 100, 40), AssistAnswer::Walk);
    assert_eq!(miss(&mut *assist, 8, 105, 45), AssistAnswer::Walk);
    assert_eq!(miss(&mut *assist, 8, 109, 49), predicted(49));
    assert_eq!(miss(&mut *assist, 9, 110, 50), AssistAnswer::Walk, "another instruction");
    // Its confidence is 3. Two errors make it unsure, one more makes it learn the new distance.
    assert_eq!(miss(&mut *assist, 8, 200, 7), predicted(140));
    assert_eq!(miss(&mut *assist, 8, 201, 8), predicted(141));
    assert_eq!(miss(&mut *assist, 8, 202, 9), AssistAnswer::Walk);
    assert_eq!(miss(&mut *assist, 8, 203, 10), AssistAnswer::Walk);
    assert_eq!(miss(&mut *assist, 8, 204, 11), predicted(11));
}
