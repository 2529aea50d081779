//! Online promotion beyond its paper: memory pressure demotes superpages, and they are promoted again.

use crate::common::Machine;
use reach_core::{Asid, ControllerCommand, Event, Kind, Label, Layout, Map, PageShift, Span, ThreadId, VirtAddr};
use reach_os::Options;

const K: u64 = 1 << 10;
const AT: u64 = 1 << 30;
const ELSEWHERE: u64 = 1 << 31;
/// Base pages of a megabyte.
const PAGES: u64 = 256;

fn boot(spec: &str) -> Machine {
    let layout = Layout::radix(PageShift(12), vec![5, 9, 9, 9]);
    Machine::boot(spec, Options::linux(layout, (12..=17).map(PageShift).collect(), 2048 * K))
}

/// Returns the number of base pages in superpages.
fn in_superpages(machine: &Machine) -> u64 {
    machine.vm.counters().superpages.iter().zip(1..).map(|(gauge, order)| gauge.current << order).sum()
}

#[test]
fn memory_pressure_demotes_superpages_that_are_promoted_again_later() {
    for (spec, passes) in [
        ("fang-1999:policy=asap,mechanism=copy", 1),
        ("fang-1999:policy=asap,mechanism=remap", 1),
        ("fang-1999:policy=aol,mechanism=copy,threshold=1", 4),
        ("fang-1999:policy=aol,mechanism=remap,threshold=1", 4),
        ("fang-1999:policy=asap,mechanism=remap,demotion_percent=100", 1),
        ("romer-1995:policy=asap", 1),
    ] {
        let mut machine = boot(spec);
        machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 1024 * K)));
        for _ in 0..passes {
            machine.sweep(AT, PAGES, Kind::Store);
        }
        assert_eq!(in_superpages(&machine), PAGES, "{spec}: memory suffices for all");
        assert_eq!(machine.vm.counters().demotions, 0, "{spec}");
        machine.vm.take_commands();
        // A second mapping of this size exceeds memory.
        machine.event(&Event::Map(Map::anonymous(VirtAddr(ELSEWHERE), 1280 * K)));
        machine.sweep(ELSEWHERE, PAGES + PAGES / 4, Kind::Store);
        machine.vm.check();
        let paging = machine.vm.counters().paging.unwrap();
        assert!(machine.vm.counters().demotions > 0 && paging.out > 0, "{spec}: {paging:?}");
        assert!(machine.vm.ledger().charged(Label::Daemon).0 > 0, "{spec}");
        let released =
            |command: &&ControllerCommand| matches!(command, ControllerCommand::MapShadow { real: None, .. });
        let commands = machine.vm.take_commands();
        assert_eq!(commands.iter().filter(released).count() > 0, spec.contains("remap"), "{spec}");
        // With the second mapping gone, pages return from swap and are promoted again.
        machine.event(&Event::Unmap(Span { start: VirtAddr(ELSEWHERE), len: 1280 * K }));
        for _ in 0..2 * passes {
            machine.sweep(AT, PAGES, Kind::Load);
        }
        machine.vm.check();
        assert!(machine.vm.counters().paging.unwrap().swapped_in > 0, "{spec}");
        assert_eq!(in_superpages(&machine), PAGES, "{spec}: all pages are promoted again");
        machine.exit_all();
    }
}

/// The disk reads an evicted page from memory, so cache lines under its shadow address must be written back first.
#[test]
fn remapped_pages_are_flushed_before_they_are_paged_out() {
    let mut machine = boot("fang-1999:policy=asap,mechanism=remap");
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 1024 * K)));
    machine.sweep(AT, PAGES, Kind::Store);
    machine.vm.take_commands();
    machine.event(&Event::Map(Map::anonymous(VirtAddr(ELSEWHERE), 1024 * K)));
    machine.sweep(ELSEWHERE, PAGES, Kind::Store);
    let commands = machine.vm.take_commands();
    let mut flushed = std::collections::BTreeSet::new();
    for command in &commands {
        match command {
            ControllerCommand::Flush { at, .. } => _ = flushed.insert(at.pfn(PageShift(12))),
            ControllerCommand::MapShadow { shadow, real: None } => {
                assert!(flushed.contains(shadow), "{shadow:?} is unmapped without a flush")
            }
            ControllerCommand::MapShadow { .. } => {}
        }
    }
    machine.exit_all();
}

/// A child of vfork that exits or execs frees its own counters and leaves those of its parent.
#[test]
fn counters_of_candidates_are_freed_with_their_address_space() {
    for exit in [Event::Exit, Event::Exec { path: "sh".into() }] {
        let mut machine = boot("fang-1999:policy=asap,mechanism=copy,paging=off");
        machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 128 * K)));
        machine.sweep(AT, 31, Kind::Store);
        let wired = |machine: &Machine| machine.vm.frames().census()[3];
        let before = wired(&machine);
        machine.event(&Event::Fork { child: Asid(2), shares_memory: true });
        machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
        machine.event(&exit);
        machine.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) });
        machine.sweep(AT + 31 * 4 * K, 1, Kind::Store);
        assert_eq!(in_superpages(&machine), 32, "the counters of 31 pages are kept");
        machine.event(&Event::Exit);
        assert!(before > 0 && wired(&machine) == 0, "{before} frames of counters");
        machine.exit_all();
    }
}
