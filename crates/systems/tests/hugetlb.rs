//! Explicit huge pages: which memory they back, and when they are freed.

use crate::common::Machine;
use reach_core::{Asid, Backing, Event, FileId, Kind, Layout, Map, PageShift, Role, Span, ThreadId, VirtAddr, Vpn};
use reach_os::Options;

const AT: u64 = 0x7f00_0000_0000;
const PAGE: u64 = 4096;

fn map(machine: &mut Machine, at: u64, len: u64, change: impl Fn(&mut Map)) {
    let mut map = Map::anonymous(VirtAddr(at), len);
    change(&mut map);
    machine.event(&Event::Map(map));
}

#[test]
fn small_mappings_share_a_page_until_the_last_is_unmapped() {
    let mut machine = Machine::x86("hugetlb-2m", 64 << 20);
    map(&mut machine, AT, 64 << 10, |_| ());
    map(&mut machine, AT + (1 << 20), 64 << 10, |_| ());
    assert_eq!(machine.sweep(AT, 16, Kind::Store), 1);
    assert_eq!(machine.sweep(AT + (1 << 20), 16, Kind::Store), 0);
    assert_eq!(machine.vm.counters().resident_bytes.current, 2 << 20);
    machine.event(&Event::Unmap(Span { start: VirtAddr(AT), len: 64 << 10 }));
    machine.vm.check();
    assert_eq!(machine.vm.counters().superpages[0].current, 1);
    machine.event(&Event::Unmap(Span { start: VirtAddr(AT + (1 << 20)), len: 64 << 10 }));
    assert_eq!((machine.vm.counters().superpages[0].current, machine.vm.counters().resident_bytes.current), (0, 0));
    machine.exit_all();
}

#[test]
fn extents_with_a_file_or_a_stack_get_the_next_smaller_size() {
    for (spec, at_1g, at_2m) in [("hugetlb-1g", 1, 2), ("hugetlb-1g:fallback=base", 1, 0), ("hugetlb-2m", 0, 513)] {
        let mut machine = Machine::x86(spec, 4 << 30);
        map(&mut machine, AT, 1 << 30, |_| ());
        map(&mut machine, AT + (1 << 30), 3 << 20, |map| map.role = Role::Heap);
        map(&mut machine, AT + (2 << 30) - (1 << 20), 1 << 20, |map| {
            map.backing = Backing::File { file: FileId(0), offset: 0 };
        });
        map(&mut machine, AT + (3 << 30), 1 << 20, |map| map.role = Role::Stack);
        for megabyte in 0..1027 {
            machine.sweep(AT + (megabyte << 20), 1, Kind::Store);
        }
        machine.sweep(AT + (2 << 30) - (1 << 20), 1, Kind::Load);
        machine.sweep(AT + (3 << 30), 1, Kind::Store);
        let superpages = &machine.vm.counters().superpages;
        // 1 GB is 512 pages of 2 MB; the heap's 3 MB are two more.
        let expected = if spec == "hugetlb-2m" { at_2m + 1 } else { at_2m };
        assert_eq!((superpages[1].current, superpages[0].current), (at_1g, expected), "{spec}");
        assert_eq!(machine.translation(Vpn((AT + (3 << 30)) / PAGE)).unwrap().shift(), PageShift(12));
        // The heap shares its gigabyte with a file, and the machine has memory enough.
        let counts = machine.vm.counters().explicit.clone().unwrap();
        let (expected_2m, in_base) =
            if spec == "hugetlb-1g:fallback=base" { (0, 3 * PAGE) } else { (expected << 21, 0) };
        assert_eq!(counts.mapped, [in_base, expected_2m, at_1g << 30], "{spec}");
        assert_eq!((counts.shared_extents > 0, counts.failures), (spec != "hugetlb-2m", 0), "{spec}");
        machine.exit_all();
    }
}

#[test]
fn a_store_after_fork_copies_the_whole_page() {
    let mut machine = Machine::x86("hugetlb-2m", 64 << 20);
    map(&mut machine, AT, 2 << 20, |_| ());
    machine.sweep(AT, 512, Kind::Store);
    machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
    assert_eq!(machine.sweep(AT, 512, Kind::Store), 1);
    assert_eq!(machine.vm.counters().bytes_copied, 2 << 20);
    machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
    assert_eq!(machine.sweep(AT, 512, Kind::Store), 1);
    assert_eq!(machine.vm.counters().bytes_copied, 2 << 20, "the other process has the page to itself now");
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn a_file_mapped_into_the_middle_of_a_page_demotes_it() {
    let mut machine = Machine::x86("hugetlb-2m", 64 << 20);
    map(&mut machine, AT, 2 << 20, |_| ());
    machine.sweep(AT, 1, Kind::Store);
    map(&mut machine, AT + 8 * PAGE, 8 * PAGE, |map| map.backing = Backing::File { file: FileId(0), offset: 0 });
    assert_eq!(machine.vm.counters().superpages[0].current, 0);
    assert_eq!(machine.sweep(AT, 512, Kind::Load), 1, "eight file pages, one fault-around");
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn machines_without_the_size_take_the_nearest_and_without_superpages_are_refused() {
    let alpha = Layout::radix(PageShift(13), vec![10, 10, 15]);
    let sizes = [13, 16, 19, 22].map(PageShift).to_vec();
    let mut machine = Machine::boot("hugetlb-2m", Options::linux(alpha.clone(), sizes, 64 << 20));
    map(&mut machine, AT, 4 << 20, |_| ());
    assert_eq!(machine.sweep(AT, 512, Kind::Store), 1);
    assert_eq!(machine.translation(Vpn(AT >> 13)).unwrap().shift(), PageShift(22));
    machine.exit_all();
    let mut vm = reach_os::Vm::new(Options::linux(alpha, vec![PageShift(13)], 64 << 20)).unwrap();
    let refusal = reach_systems::resolve("hugetlb-2m").unwrap().build().boot(&mut vm).unwrap_err();
    assert!(refusal.to_string().contains("its only page size is 8K"), "{refusal}");
}

#[test]
fn pages_that_memory_has_no_block_for_are_counted_as_failures() {
    let mut machine = Machine::x86("hugetlb-2m", 8 << 20);
    map(&mut machine, AT, 8 << 20, |_| ());
    for megabyte in 0..7 {
        machine.sweep(AT + (megabyte << 20), 1, Kind::Store);
    }
    let counts = machine.vm.counters().explicit.clone().unwrap();
    assert_eq!((counts.asked, counts.size, counts.shared_extents), (PageShift(21), PageShift(21), 0));
    assert!(counts.failures > 0 && counts.mapped[0] >= PAGE && counts.mapped[1] >= 2 << 20, "{counts:?}");
    machine.exit_all();
}
