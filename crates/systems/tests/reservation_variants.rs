//! `freebsd` and `talluri-hill-1994` where they differ from `navarro-2002`.

use crate::common::Machine;
use reach_core::{
    Advice, Asid, Backing, Event, FileId, Kind, Layout, Map, PageShift, Protection, Role, Span, ThreadId, VirtAddr, Vpn,
};
use reach_os::{Options, ReservationCounts};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const AT: u64 = 1 << 30;

fn map(machine: &mut Machine, at: u64, len: u64, role: Role) {
    machine.event(&Event::Map(Map { role, ..Map::anonymous(VirtAddr(at), len) }));
}

fn superpages(machine: &Machine) -> u64 {
    machine.vm.check();
    machine.vm.counters().superpages[0].current
}

fn reserv(machine: &Machine) -> ReservationCounts {
    machine.vm.counters().reserv.unwrap()
}

fn page(at: u64) -> Vpn {
    Vpn(at >> 12)
}

#[test]
fn freebsd_promotes_at_the_512th_page_and_keeps_freebsds_counters() {
    let mut machine = Machine::x86("freebsd", 64 * M);
    assert_eq!(machine.vm.options().sizes.len(), 2, "2 MB is the only superpage");
    // Reservations of private memory may reach beyond its end, but not before its start.
    map(&mut machine, AT + M, 4 * M, Role::Mmap);
    assert_eq!(machine.sweep(AT + M, 1024, Kind::Store), 1024);
    assert_eq!((superpages(&machine), machine.vm.counters().reservations), (1, 2));
    assert_eq!((reserv(&machine).fullpop.current, reserv(&machine).partpopq.current), (1, 1));
    machine.event(&Event::Unmap(Span { start: VirtAddr(AT + M), len: 4 * M }));
    let counts = reserv(&machine);
    assert_eq!((counts.freed, counts.broken, counts.reclaimed), (2, 0, 0));
    assert_eq!((counts.fullpop.current, counts.partpopq.current, counts.fullpop.peak), (0, 0, 1));
    machine.exit_all();
}

#[test]
fn freebsd_preempts_only_for_single_pages_and_the_longest_idle_first() {
    let mut machine = Machine::x86("freebsd", 8 * M);
    for i in 0..16 {
        map(&mut machine, AT + i * 2 * M, 2 * M, Role::Mmap);
        machine.touch(page(AT + i * 2 * M), Kind::Store);
    }
    // Two or three blocks of 2 MB in the 8 MB are wholly free; all other mappings get single pages.
    let made = machine.vm.counters().reservations;
    assert!((2..=3).contains(&made), "{made}");
    assert_eq!((machine.vm.counters().superpage_fallbacks, reserv(&machine).reclaimed), (16 - made, 0));
    // Freeing a page renews its reservation, too, so the second is the oldest now.
    machine.touch(page(AT + 4 * K), Kind::Store);
    machine.touch(page(AT + 2 * M + 4 * K), Kind::Store);
    machine.event(&Event::Advise(Span { start: VirtAddr(AT + 4 * K), len: 4 * K }, Advice::DontNeed));
    map(&mut machine, AT + 64 * M, 16 * M, Role::Mmap);
    let mut at = AT + 64 * M;
    while reserv(&machine).reclaimed == 0 {
        machine.touch(page(at), Kind::Store);
        at += 4 * K;
    }
    let reserved = |i: u64| {
        let space = machine.vm.process(Asid(1)).unwrap().space();
        let region = space.find(VirtAddr(AT + i * 2 * M)).unwrap();
        let index = region.index(page(AT + i * 2 * M), machine.vm.base());
        machine.vm.frames().reservations().unwrap().covers(region.object, index)
    };
    assert_eq!((reserved(0), reserved(1)), (true, made == 3), "the longest idle was broken");
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn freebsd_maps_a_full_reservation_in_one_fault_and_demotes_it_at_the_first_write() {
    let mut machine = Machine::x86("freebsd", 64 * M);
    let file = FileId(1);
    machine.event(&Event::File { file, path: "data".into(), len: 2 * M, in_memory: false });
    let event = |write| {
        let backing = Backing::File { file, offset: 0 };
        let protection = if write { Protection::READ_WRITE } else { Protection::READ };
        Event::Map(Map { backing, protection, shared: true, ..Map::anonymous(VirtAddr(AT), 2 * M) })
    };
    machine.event(&event(false));
    machine.sweep(AT, 512, Kind::Load);
    assert_eq!(superpages(&machine), 1);
    machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
    machine.event(&event(true));
    assert_eq!(machine.sweep(AT, 512, Kind::Load), 1, "one fault maps all pages");
    assert_eq!(superpages(&machine), 2);
    machine.touch(page(AT + 8 * K), Kind::Store);
    assert_eq!(superpages(&machine), 1, "the clean superpage is demoted");
    machine.sweep(AT, 512, Kind::Store);
    assert_eq!(superpages(&machine), 2, "it is promoted again when all pages are dirty");
    machine.exit_all();
}

#[test]
fn freebsd_watches_clean_superpages_but_no_clean_base_pages() {
    let mut machine = Machine::x86("freebsd", 64 * M);
    map(&mut machine, AT, 2 * M, Role::Mmap);
    machine.sweep(AT, 511, Kind::Load);
    assert!(!machine.translation(page(AT)).unwrap().watched());
    machine.touch(page(AT + 2 * M - 4 * K), Kind::Load);
    assert!(machine.translation(page(AT)).unwrap().watched(), "the first write to a clean superpage faults");
    machine.touch(page(AT), Kind::Store);
    assert_eq!(superpages(&machine), 0);
    machine.exit_all();
}

#[test]
fn talluri_hill_promotes_at_its_threshold() {
    let layout = Layout::radix(PageShift(13), vec![10, 10, 15]);
    let options = |memory| Options::linux(layout.clone(), [13, 16, 19, 22].map(PageShift).to_vec(), memory);
    for (threshold, needed) in [("", 4), (":threshold=100", 8), (":threshold=1", 1), (":threshold=75", 6)] {
        let mut machine = Machine::boot(&format!("talluri-hill-1994{threshold}"), options(64 * M));
        map(&mut machine, AT, 512 * K, Role::Mmap);
        for i in 0..needed {
            assert_eq!(superpages(&machine), 0, "{threshold}: {i} of {needed}");
            machine.touch(Vpn((AT >> 13) + 8 + (i * 3) % 8), Kind::Store);
        }
        assert_eq!(superpages(&machine), 1, "{threshold}");
        assert_eq!((machine.vm.counters().page_faults, machine.vm.counters().bytes_zeroed >= 64 * K), (needed, true));
        // A partly dirty superpage is not demoted.
        machine.touch(Vpn((AT >> 13) + 9), Kind::Store);
        assert_eq!((superpages(&machine), machine.vm.counters().demotions), (1, 0));
        machine.exit_all();
    }
}
