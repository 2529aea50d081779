//! Walks through the table of a host with an operating system, counted by hand.

use crate::random_machine::{plain_machine, plain_tlb};
use crate::random_os::{Edit, Memory};
use reach_core::{Asid, Chunk, Layout, PageShift, PageTable, Pfn, PhysAddr, Pte, Ref, StopReason, VirtAddr, Vpn};
use reach_hardware::config::{Machine, Nested, Replacement};
use reach_hardware::{GUEST_MEMORY, Mmu, StepRefs};

/// A guest with four levels of tables on a host with four, and no caches of either but a TLB of base pages.
fn machine() -> Machine {
    machine_with(0)
}

/// The same with `entries` entries in the nested TLB, and in the caches of each upper level of the host's table.
fn machine_with(entries: u32) -> Machine {
    let nested = Nested { host_page: PageShift(12), tlb_entries: entries, walk_cache_entries: vec![entries; 3] };
    let mut tlb = plain_tlb(1, 4, 4, Replacement::Lru);
    tlb.sizes = vec![PageShift(12), PageShift(21)];
    Machine {
        layout: Layout::x86_64(),
        sizes: vec![PageShift(12), PageShift(21)],
        nested: Some(nested),
        ..plain_machine(vec![tlb])
    }
}

/// A guest, its unit, and its host.
pub struct Guest {
    pub mmu: Mmu,
    pub memory: Memory,
    pub host: Memory,
}

impl Guest {
    /// Maps one page of the guest at 0x40_0000.
    pub fn new(size: PageShift) -> Guest {
        Guest::shadowed(size, None)
    }

    /// The same, where a monitor shadows the guest's tables, which may be agile.
    fn shadowed(size: PageShift, monitor: Option<bool>) -> Guest {
        Guest::on(&machine(), size, monitor)
    }

    /// The same on `machine`.
    fn on(machine: &Machine, size: PageShift, monitor: Option<bool>) -> Guest {
        let mut memory = Memory::shadowed(&machine.layout, 1, monitor);
        let pte = Pte::new(Pfn(1 << 10), size).with_writable(true);
        memory.edit(Edit::Set(Asid(0), Vpn(0x400), pte));
        Guest { mmu: Mmu::new(machine, false, 0), memory, host: Memory::new(&machine.layout, 1) }
    }

    /// Gives guest-physical address `at` a host page.
    pub fn give(&mut self, at: PhysAddr, size: PageShift) {
        let vpn = VirtAddr(GUEST_MEMORY.0 + at.0).vpn(PageShift(12)).align_down(size, PageShift(12));
        self.host.edit(Edit::Set(Asid(0), vpn, Pte::new(Pfn(1 << 18 | vpn.0 & !511), size).with_writable(true)));
    }

    /// Loads from the guest's page, with the host's table lent.
    pub fn load(&mut self, at: u64) -> StopReason {
        let chunk = Chunk::from(vec![Ref::load(VirtAddr(at))]);
        let step = StepRefs::whole(&chunk);
        let mut lent = Box::new(PageTable::stand_in(Layout::x86_64()));
        std::mem::swap(self.host.table(Asid(0)), &mut *lent);
        let table = self.memory.table(Asid(0));
        table.lend_host(Some(lent));
        let stop = self.mmu.run(step, &mut step.begin(), table, None);
        self.mmu.check(table);
        let mut lent = table.lend_host(None).unwrap();
        std::mem::swap(self.host.table(Asid(0)), &mut *lent);
        stop
    }

    /// Loads again and again, and gives the host's pages that are missing. Returns how many there were, and the entries that the
    /// last walk read: all, and the host's.
    fn load_with_host(&mut self, size: PageShift) -> (u64, u64, u64) {
        for faults in 0.. {
            let before = self.mmu.counters;
            match self.load(0x40_0123) {
                StopReason::HostFault(at) => self.give(at, size),
                StopReason::End => {
                    let read = self.mmu.counters.since(&before);
                    return (faults, read.walk_accesses, read.host_accesses);
                }
                other => panic!("{other:?}"),
            }
        }
        unreachable!()
    }
}

#[test]
fn a_walk_in_two_dimensions_reads_24_entries_of_base_pages() {
    let mut guest = Guest::new(PageShift(12));
    // The guest's tables lie in one page each, apart from each other or not; the page itself is apart.
    let (faults, entries, host) = guest.load_with_host(PageShift(12));
    assert_eq!((entries, host), (24, 20), "(4 + 1)(4 + 1) - 1");
    assert!((2..=5).contains(&faults), "{faults}");
    assert_eq!(guest.load(0x40_0456), StopReason::End);
    assert_eq!(guest.mmu.counters.walks(), faults + 1, "the TLB holds the page now");
}

#[test]
fn larger_pages_on_either_side_shorten_the_walk() {
    let entries = |guest, host| Guest::new(PageShift(guest)).load_with_host(PageShift(host)).1;
    assert_eq!(entries(12, 21), 19, "(4 + 1)(3 + 1) - 1");
    assert_eq!(entries(21, 12), 19, "(3 + 1)(4 + 1) - 1");
    assert_eq!(entries(21, 21), 15, "(3 + 1)(3 + 1) - 1");
}

#[test]
fn the_tlb_holds_the_smaller_of_the_two_pages() {
    for (guest, host, held) in [(12, 12, 12), (12, 21, 12), (21, 12, 12), (21, 21, 21)] {
        let mut both = Guest::new(PageShift(guest));
        both.load_with_host(PageShift(host));
        let sizes: Vec<PageShift> = both.mmu.contents().iter().map(|(.., pte)| pte.shift()).collect();
        assert_eq!(sizes, [PageShift(held)], "{guest} on {host}");
    }
}

#[test]
fn a_host_that_changes_its_table_flushes_the_guest() {
    let mut guest = Guest::new(PageShift(21));
    guest.load_with_host(PageShift(21));
    let walks = guest.mmu.counters.walks();
    guest.mmu.flush_guest(0);
    assert_eq!(guest.mmu.contents().len(), 0);
    assert_eq!(guest.load(0x40_0123), StopReason::End);
    assert_eq!(guest.mmu.counters.walks(), walks + 1);
}

#[test]
fn the_hosts_page_is_marked_as_accessed() {
    let mut guest = Guest::new(PageShift(12));
    guest.load_with_host(PageShift(12));
    let vpn = VirtAddr(GUEST_MEMORY.0 + (1 << 22) + 0x123).vpn(PageShift(12));
    assert!(guest.host.table(Asid(0)).lookup(vpn).unwrap().accessed());
}

#[test]
fn shadow_tables_are_walked_as_outside_a_guest() {
    let entries = |guest, host| Guest::shadowed(PageShift(guest), Some(false)).load_with_host(PageShift(host));
    assert_eq!(entries(12, 12), (1, 4, 0), "the page itself is all that walks need of the host");
    assert_eq!(entries(12, 21), (1, 4, 0), "a base page of the guest");
    assert_eq!(entries(21, 12), (1, 4, 0), "the host's base page");
    assert_eq!(entries(21, 21), (1, 3, 0), "one page of 2 MB");
}

#[test]
fn an_agile_walk_goes_over_to_the_guests_table_where_that_was_written_twice() {
    // Each is of base pages on both sides.
    let mut guest = Guest::shadowed(PageShift(12), Some(true));
    assert_eq!(guest.load_with_host(PageShift(12)).1, 4, "each node was written once");
    let write = |guest: &mut Guest, vpn: u64, frame: u64| {
        let pte = Pte::new(Pfn(frame), PageShift(12)).with_writable(true);
        guest.memory.edit(Edit::Set(Asid(0), Vpn(vpn), pte));
        guest.mmu.flush_guest(0);
    };
    write(&mut guest, 0x401, 1 << 11);
    let (_, all, host) = guest.load_with_host(PageShift(12));
    assert_eq!((all, host), (8, 4), "the leaf node, whose address the entry above has, and the page");
    // A second leaf node is a second write of the node above.
    write(&mut guest, 0x600, 1 << 12);
    let (_, all, host) = guest.load_with_host(PageShift(12));
    assert_eq!((all, host), (12, 8), "both lower levels");
    guest.memory.edit(Edit::EndInterval);
    guest.mmu.flush_guest(0);
    assert_eq!(guest.load_with_host(PageShift(12)).1, 12, "they were written in this interval");
    guest.memory.edit(Edit::EndInterval);
    guest.mmu.flush_guest(0);
    assert_eq!(guest.load_with_host(PageShift(12)).1, 4, "and not in this one");
    let traps = guest.memory.tables[1].take_traps();
    assert_eq!(
        (traps.writes, traps.marks),
        (6, 1),
        "root, two, leaf; then one each of the leaf and of the node above it"
    );
}

#[test]
fn a_table_whose_root_changes_is_walked_in_both_dimensions() {
    let mut guest = Guest::shadowed(PageShift(12), Some(true));
    let pte = Pte::new(Pfn(1 << 11), PageShift(12)).with_writable(true);
    guest.memory.edit(Edit::Set(Asid(0), Vpn(1 << 27), pte));
    let (_, all, host) = guest.load_with_host(PageShift(12));
    assert_eq!((all, host), (24, 20));
}

/// Two guests with the same addresses, virtual and guest-physical, take turns on one unit.
#[test]
fn nothing_that_one_guest_has_cached_serves_another() {
    let machine = machine_with(8);
    let mut guests = [Asid(0), Asid(1)].map(|_| Guest::on(&machine, PageShift(12), None));
    // By a unit of their own each, and then both by one.
    let alone = Guest::on(&machine, PageShift(12), None).load_with_host(PageShift(12));
    assert!(
        alone.1 < 24,
        "the last walk found entries in the caches, as those before it were ended by the host: {alone:?}"
    );
    let mut mmu = Mmu::new(&machine, false, 0);
    let mut on_unit = |guests: &mut [Guest; 2], number: usize| {
        mmu.enter_guest(number as u32);
        mmu.switch(Asid(number as u32));
        std::mem::swap(&mut guests[number].mmu, &mut mmu);
        let outcome = guests[number].load_with_host(PageShift(12));
        std::mem::swap(&mut guests[number].mmu, &mut mmu);
        outcome
    };
    assert_eq!(on_unit(&mut guests, 0), alone);
    assert_eq!(on_unit(&mut guests, 1), alone, "the second guest finds nothing of the first");
    let hit = (0, 0, 0);
    assert_eq!([0, 1].map(|number| on_unit(&mut guests, number)), [hit; 2], "each has its own entry");
    let [first, second] = [0, 1].map(|number: usize| {
        let vpn = VirtAddr(GUEST_MEMORY.0 + (1 << 22)).vpn(PageShift(12));
        guests[number].host.table(Asid(0)).lookup(vpn).unwrap().pfn()
    });
    assert_eq!(first, second, "the hosts' tables in this test are equal, so that tags alone keep the guests apart");
    let flush = |mmu: &mut Mmu, guest| {
        mmu.flush_guest(guest);
        mmu.contents().iter().map(|&(_, asid, ..)| asid).collect::<Vec<_>>()
    };
    let mut unit = Mmu::new(&machine, false, 0);
    std::mem::swap(&mut unit, &mut mmu);
    assert_eq!(flush(&mut unit, 1), [Asid(0)], "the host has changed the second guest's memory only");
    assert_eq!(flush(&mut unit, 0), []);
}
