//! Midgard's buffer of mappings, and its intermediate space.

use crate::common::Machine;
use reach_core::{Asid, AssistAnswer, Event, Kind, Map, PageShift, TlbMiss, VirtAddr, Vpn, WalkAssist};
use reach_oracle::assist::{Asked, Bench};

const AT: u64 = 0x7f00_0000_0000;
/// Bytes between two mappings.
const APART: u64 = 1 << 32;

fn vpn(mapping: u64, page: u64) -> Vpn {
    Vpn(((AT + mapping * APART) >> 12) + page)
}

/// Returns a machine with `mappings` mappings of 64 pages, touched in turn.
fn machine(system: &str, mappings: u64) -> Machine {
    let mut machine = Machine::x86(system, 256 << 20);
    (0..mappings).for_each(|n| machine.event(&Event::Map(Map::anonymous(VirtAddr(AT + n * APART), 64 << 12))));
    for page in 0..64 {
        (0..mappings).for_each(|n| _ = machine.touch(vpn(n, page), Kind::Store));
    }
    machine.vm.check();
    machine
}

/// Searches for a page that is mapped. Returns the lines of the tree that were read.
fn reads(machine: &Machine, assist: &mut dyn WalkAssist, page: Vpn) -> usize {
    let mut bench = Bench::new(PageShift(12), 1);
    let pte = machine.translation(page).unwrap();
    bench.pages.insert(page.0, pte);
    let miss = TlbMiss { asid: Asid(1), vpn: page, kind: Kind::Load, instruction: 0, offset: 0 };
    assert_eq!(assist.search(miss, &mut bench), AssistAnswer::Hit(pte));
    bench.asked.iter().filter(|asked| matches!(asked, Asked::Read(_))).count()
}

#[test]
fn a_mapping_is_one_entry() {
    let machine = machine("gupta-2021-midgard", 3);
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    for mapping in 0..3 {
        let of_mapping = (0..64).map(|page| reads(&machine, &mut *assist, vpn(mapping, page)));
        assert_eq!(of_mapping.collect::<Vec<_>>()[..3], [2, 0, 0], "root and leaf once");
    }
    assert_eq!((0..3).map(|n| reads(&machine, &mut *assist, vpn(n, 40))).sum::<usize>(), 0, "all three are held");
    assist.invalidate(Asid(1), Vpn(0), u64::MAX);
    assert_eq!(reads(&machine, &mut *assist, vpn(0, 40)), 2, "the program has ended");
}

#[test]
fn the_mapping_used_longest_ago_leaves() {
    let machine = machine("gupta-2021-midgard:vlb=2", 3);
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    let order = [0, 1, 0, 2, 0, 1].map(|n| reads(&machine, &mut *assist, vpn(n, 5)));
    assert_eq!(order, [2, 2, 0, 2, 0, 2]);
}

#[test]
fn an_unmapped_page_is_walked_for() {
    let machine = machine("gupta-2021-midgard", 1);
    let mut assist = machine.system.walk_assist(&machine.vm).unwrap();
    let mut bench = Bench::new(PageShift(12), 1);
    let miss = TlbMiss { asid: Asid(1), vpn: vpn(0, 64), kind: Kind::Load, instruction: 0, offset: 0 };
    assert_eq!((assist.search(miss, &mut bench), bench.asked), (AssistAnswer::Walk, vec![]));
    assert!(machine.system.back_side(&machine.vm).is_some());
}
