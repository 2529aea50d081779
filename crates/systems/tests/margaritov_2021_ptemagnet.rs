//! PTEMagnet: neighbouring pages have neighbouring frames, whatever other programs take meanwhile.

use crate::common::Machine;
use reach_core::{Event, Kind, Map, Pfn, VirtAddr, Vpn};

const AT: u64 = 0x10_0000_0000;
const OTHER: u64 = 0x20_0000_0000;

fn frame(machine: &Machine, page: u64) -> Pfn {
    let table = machine.vm.process(machine.vm.current()).unwrap().table();
    table.lookup(Vpn((AT >> 12) + page)).unwrap().pfn()
}

/// Touches pages of two mappings in turn. Returns how many groups of eight pages of the first lie in one line of a host's table.
fn groups_in_one_line(system: &str, stride: u64) -> usize {
    let mut machine = Machine::x86(system, 64 << 20);
    for at in [AT, OTHER] {
        machine.event(&Event::Map(Map::anonymous(VirtAddr(at), 2 << 20)));
    }
    for page in 0..512 {
        for at in [AT, OTHER] {
            machine.touch(Vpn((at >> 12) + page * stride % 512), Kind::Store);
        }
    }
    machine.vm.check();
    let lines =
        |group: &u64| (0..8).all(|page| frame(&machine, group * 8 + page).0 / 8 == frame(&machine, group * 8).0 / 8);
    let count = (0..64).filter(lines).count();
    machine.exit_all();
    count
}

#[test]
fn the_host_entries_of_eight_neighbouring_pages_lie_in_one_line() {
    assert_eq!(groups_in_one_line("margaritov-2021-ptemagnet", 1), 64);
    assert_eq!(groups_in_one_line("margaritov-2021-ptemagnet", 37), 64, "in any order");
    assert_eq!(groups_in_one_line("margaritov-2021-ptemagnet:order=1", 1), 0, "groups of two");
    assert_eq!(groups_in_one_line("base", 1), 0, "two programs' frames in turn");
}

/// One page of each group is used, so that reservations would hold four times the memory that there is.
#[test]
fn reservations_give_way_when_memory_runs_out() {
    let mut machine = Machine::x86("margaritov-2021-ptemagnet", 16 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 64 << 20)));
    for group in 0..2048 {
        machine.touch(Vpn((AT >> 12) + group * 8), Kind::Store);
    }
    machine.vm.check();
    let frames: std::collections::BTreeSet<_> = (0..2048).map(|group| frame(&machine, group * 8)).collect();
    assert_eq!(frames.len(), 2048);
    machine.exit_all();
}
