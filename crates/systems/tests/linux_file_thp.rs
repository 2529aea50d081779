//! Huge pages of shared memory and files under `linux-thp`: which memory gets them, how they are mapped, and what splits them.
//! Counts for split pages, blocks of 64 KB and khugepaged were compared with Linux 6.18 (docs/files.md); `reach-faults` compares
//! whole programs with it.

use crate::common::Machine;
use reach_core::{
    Advice, Asid, Backing, Cycles, Event, FileId, Kind, Layout, Map, PageShift, Protection, Pte, Remap, Span, ThreadId,
    VirtAddr, Vpn,
};
use reach_os::{Options, soft};

const AT: u64 = 0x7f00_0000_0000;
const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
const HUGE_PAGES: u64 = 512;
const FILE: FileId = FileId(7);

fn span(start: u64, len: u64) -> Span {
    Span { start: VirtAddr(start), len }
}

fn switch(machine: &mut Machine, asid: u32) {
    machine.event(&Event::Switch { asid: Asid(asid), thread: ThreadId(asid) });
}

/// Maps `len` bytes of shared memory without a file at `at`.
fn shared(at: u64, len: u64) -> Event {
    Event::Map(Map { shared: true, ..Map::anonymous(VirtAddr(at), len) })
}

/// Names a file of `len` bytes.
fn file(path: &str, len: u64, in_memory: bool) -> Event {
    Event::File { file: FILE, path: path.into(), len, in_memory }
}

/// Maps `len` bytes of the file from its start.
fn mapped(at: u64, len: u64, shared: bool, protection: Protection) -> Event {
    let backing = Backing::File { file: FILE, offset: 0 };
    Event::Map(Map { shared, protection, backing, ..Map::anonymous(VirtAddr(at), len) })
}

fn booted(spec: &str) -> Machine {
    Machine::x86(spec, 256 << 20)
}

fn huge_pages(machine: &Machine) -> u64 {
    machine.vm.counters().superpages[0].current
}

fn pte(machine: &Machine, at: u64) -> Option<Pte> {
    machine.translation(Vpn(at / PAGE))
}

#[test]
fn shared_memory_has_base_pages_unless_a_setting_says_otherwise() {
    let mut machine = booted("linux-thp");
    machine.event(&shared(AT, 2 * HUGE));
    assert_eq!(machine.sweep(AT, 2 * HUGE_PAGES, Kind::Store), 2 * HUGE_PAGES);
    assert_eq!(huge_pages(&machine), 0);
    machine.exit_all();
}

#[test]
fn a_first_touch_maps_a_huge_page_that_a_second_process_maps_too() {
    for kind in [Kind::Load, Kind::Store] {
        let mut machine = booted("linux-thp:shmem_enabled=always");
        machine.event(&shared(AT, 2 * HUGE));
        assert_eq!(machine.sweep(AT, 2 * HUGE_PAGES, kind), 2);
        // Stores to shared memory need not be noticed.
        assert_eq!(machine.sweep(AT, 2 * HUGE_PAGES, Kind::Store), 0);
        machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
        switch(&mut machine, 2);
        assert_eq!((machine.sweep(AT, 2 * HUGE_PAGES, kind), huge_pages(&machine)), (2, 4));
        assert_eq!((machine.vm.counters().superpage_faults, machine.vm.counters().file_faults), (2, 4));
        machine.vm.check();
        machine.exit_all();
    }
}

#[test]
fn settings_advice_and_size_decide_which_shared_memory_is_huge() {
    let (anonymous, memfd) = (None, Some("/memfd:heap (deleted)"));
    let (named, unlinked) = (Some("/dev/shm/heap"), Some("/dev/shm/heap (deleted)"));
    for (spec, path, advice, huge) in [
        ("shmem_enabled=always", anonymous, None, 2),
        ("shmem_enabled=always", anonymous, Some(Advice::NoHuge), 0),
        ("shmem_enabled=always", memfd, None, 2),
        ("shmem_enabled=always", named, None, 0),
        ("shmem_enabled=always", unlinked, None, 0),
        ("shmem_enabled=advise", anonymous, None, 0),
        ("shmem_enabled=advise", anonymous, Some(Advice::Huge), 2),
        ("shmem_enabled=within_size", anonymous, None, 2),
        ("shmem_enabled=never", anonymous, Some(Advice::Huge), 0),
        ("tmpfs_huge=always", named, None, 2),
        ("tmpfs_huge=always", unlinked, None, 2),
        ("tmpfs_huge=always", memfd, None, 0),
        // The file ends within the second huge page.
        ("tmpfs_huge=within_size", named, None, 1),
        ("tmpfs_huge=within_size", named, Some(Advice::Huge), 2),
    ] {
        let mut machine = booted(&format!("linux-thp:{spec}"));
        match path {
            None => machine.event(&shared(AT, 2 * HUGE)),
            Some(path) => {
                machine.event(&file(path, 2 * HUGE - PAGE, true));
                machine.event(&mapped(AT, 2 * HUGE, true, Protection::READ_WRITE));
            }
        }
        if let Some(advice) = advice {
            machine.event(&Event::Advise(span(AT, 2 * HUGE), advice));
        }
        machine.touch(Vpn(AT / PAGE), Kind::Store);
        machine.touch(Vpn((AT + HUGE) / PAGE), Kind::Store);
        assert_eq!(huge_pages(&machine), huge, "{spec} {path:?} {advice:?}");
        machine.vm.check();
        machine.exit_all();
    }
}

#[test]
fn only_congruent_and_covering_mappings_get_huge_pages() {
    for (at, len) in [(AT + 64 * PAGE, 2 * HUGE), (AT, HUGE - PAGE)] {
        let mut machine = booted("linux-thp:shmem_enabled=always");
        machine.event(&shared(at, len));
        assert_eq!(machine.sweep(at, len / PAGE, Kind::Store), len / PAGE);
        machine.exit_all();
    }
    // Another mapping of the same huge pages that is not congruent maps base pages, around loads sixteen at a time.
    let mut machine = booted("linux-thp:shmem_enabled=always");
    machine.event(&file("/memfd:heap (deleted)", 2 * HUGE, true));
    machine.event(&mapped(AT, 2 * HUGE, true, Protection::READ_WRITE));
    assert_eq!(machine.sweep(AT, 2 * HUGE_PAGES, Kind::Store), 2);
    let other = AT + 16 * HUGE + 64 * PAGE;
    machine.event(&mapped(other, 2 * HUGE, true, Protection::READ_WRITE));
    assert_eq!(machine.sweep(other, 2 * HUGE_PAGES, Kind::Load), 2 * HUGE_PAGES / 16);
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn a_page_in_memory_keeps_its_extent_from_a_huge_page() {
    let mut machine = booted("linux-thp:shmem_enabled=advise");
    machine.event(&shared(AT, HUGE));
    assert_eq!(machine.touch(Vpn(AT / PAGE + 5), Kind::Store), 1);
    machine.event(&Event::Advise(span(AT, HUGE), Advice::Huge));
    assert_eq!(machine.sweep(AT, HUGE_PAGES, Kind::Store), HUGE_PAGES - 1);
    machine.exit_all();
}

#[test]
fn what_splits_a_shared_huge_page_leaves_its_parts_to_faults() {
    let half = HUGE / 2;
    let moved = Remap { from: span(AT, half), to: span(AT + 8 * HUGE, half), keep: false };
    // Loads map sixteen pages at a time, of the same block, unless the mapping still covers all of it.
    for (event, faults) in [
        (Event::Unmap(span(AT, PAGE)), HUGE_PAGES / 32),
        (Event::Protect(span(AT, PAGE), Protection::READ), HUGE_PAGES / 32),
        (Event::Advise(span(AT, PAGE), Advice::DontNeed), 1),
        (Event::Remap(moved), HUGE_PAGES / 32),
    ] {
        let mut machine = booted("linux-thp:shmem_enabled=always");
        machine.event(&shared(AT, HUGE));
        machine.sweep(AT, HUGE_PAGES, Kind::Store);
        machine.event(&event);
        assert_eq!((huge_pages(&machine), pte(&machine, AT + half)), (0, None), "{event:?}");
        machine.vm.check();
        assert_eq!(machine.sweep(AT + half, HUGE_PAGES / 2, Kind::Load), faults, "{event:?}");
        machine.exit_all();
    }
    // Rights of the whole page are changed in place.
    let mut machine = booted("linux-thp:shmem_enabled=always");
    machine.event(&shared(AT, HUGE));
    machine.sweep(AT, HUGE_PAGES, Kind::Store);
    machine.event(&Event::Protect(span(AT, HUGE), Protection::READ));
    assert!(huge_pages(&machine) == 1 && !pte(&machine, AT).unwrap().writable());
    machine.exit_all();
}

#[test]
fn a_store_to_a_private_mapping_of_a_huge_page_copies_one_base_page() {
    let mut machine = booted("linux-thp:tmpfs_huge=always");
    machine.event(&file("/dev/shm/data", HUGE, true));
    machine.event(&mapped(AT, HUGE, false, Protection::READ_WRITE));
    assert_eq!(machine.sweep(AT, HUGE_PAGES, Kind::Load), 1);
    assert_eq!(pte(&machine, AT).unwrap().shift(), PageShift(21));
    assert_eq!((machine.touch(Vpn(AT / PAGE + 9), Kind::Store), huge_pages(&machine)), (1, 0));
    assert_eq!(machine.vm.counters().bytes_copied, PAGE);
    // A fault around maps all others.
    assert_eq!(machine.sweep(AT, HUGE_PAGES, Kind::Load), 1);
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn smaller_blocks_of_shared_memory_are_mapped_whole() {
    let mut machine = booted("linux-thp:shmem_mthp=64K");
    machine.event(&shared(AT, 40 * PAGE));
    assert_eq!(machine.sweep(AT, 40, Kind::Store), 2 + 8);
    assert_eq!((machine.vm.counters().folio_faults, machine.vm.counters().superpage_faults), (2, 0));
    machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
    switch(&mut machine, 2);
    assert_eq!(machine.sweep(AT, 40, Kind::Store), 2 + 8);
    machine.event(&Event::Fork { child: Asid(3), shares_memory: false });
    switch(&mut machine, 3);
    assert_eq!(machine.sweep(AT, 40, Kind::Load), 3);
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn madv_collapse_takes_any_shared_memory_and_khugepaged_what_the_setting_allows() {
    for (spec, by_daemon) in [("linux-thp", 0), ("linux-thp:shmem_enabled=always", 1)] {
        let mut machine = booted(spec);
        // A page that is there first leaves base pages to its extent.
        machine.event(&file("/memfd:heap (deleted)", HUGE, true));
        machine.event(&mapped(AT + PAGE, 8 * PAGE, true, Protection::READ_WRITE));
        machine.touch(Vpn(AT / PAGE + 1), Kind::Store);
        machine.event(&Event::Unmap(span(AT + PAGE, PAGE)));
        machine.event(&mapped(AT + 4 * HUGE, HUGE, true, Protection::READ_WRITE));
        let at = AT + 4 * HUGE;
        assert_eq!(machine.sweep(at, 100, Kind::Store), 100);
        machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
        switch(&mut machine, 2);
        machine.sweep(at, 100, Kind::Store);
        let ten_seconds = Cycles(10 * machine.vm.options().hertz);
        machine.system.tick(ten_seconds, &mut machine.vm).unwrap();
        machine.vm.check();
        // The daemon leaves the new page to faults.
        assert_eq!(huge_pages(&machine), 0);
        assert_eq!(machine.sweep(at, 100, Kind::Store), by_daemon, "{spec}");
        machine.event(&Event::Advise(span(at, HUGE), Advice::Collapse));
        assert_eq!((huge_pages(&machine), machine.sweep(at, HUGE_PAGES, Kind::Store)), (1, 0), "{spec}");
        switch(&mut machine, 1);
        assert_eq!((machine.sweep(at, HUGE_PAGES, Kind::Store), huge_pages(&machine)), (1, 2), "{spec}");
        machine.vm.check();
        machine.exit_all();
    }
}

#[test]
fn read_only_files_are_collapsed_where_the_kernel_does_that() {
    for (spec, huge) in [("linux-thp", 0), ("linux-thp:read_only_thp_for_fs=on", 2), ("linux-thp:version=7.2", 2)] {
        let mut machine = booted(spec);
        machine.event(&file("/usr/bin/program", 2 * HUGE + PAGE, false));
        machine.event(&mapped(AT, 2 * HUGE + PAGE, false, Protection::READ_EXECUTE));
        machine.sweep(AT, 2 * HUGE_PAGES + 1, Kind::Fetch);
        machine.event(&Event::Advise(span(AT, 3 * HUGE), Advice::Collapse));
        assert_eq!(huge_pages(&machine), huge, "{spec}");
        assert_eq!(machine.sweep(AT, 2 * HUGE_PAGES + 1, Kind::Fetch), 0);
        machine.vm.check();
        machine.exit_all();
    }
    // What may be written has no huge pages.
    let mut machine = booted("linux-thp:version=7.2");
    machine.event(&file("/usr/bin/program", HUGE, false));
    machine.event(&mapped(AT, HUGE, false, Protection::READ_WRITE));
    machine.touch(Vpn(AT / PAGE), Kind::Load);
    machine.event(&Event::Advise(span(AT, HUGE), Advice::Collapse));
    assert_eq!(huge_pages(&machine), 0);
    machine.exit_all();
}

#[test]
fn khugepaged_collapses_code_and_the_next_fault_maps_it() {
    let mut machine = booted("linux-thp:version=7.2");
    machine.event(&file("/usr/bin/program", HUGE, false));
    machine.event(&mapped(AT, HUGE, false, Protection::READ_EXECUTE));
    machine.touch(Vpn(AT / PAGE), Kind::Fetch);
    let ten_seconds = Cycles(10 * machine.vm.options().hertz);
    machine.system.tick(ten_seconds, &mut machine.vm).unwrap();
    assert_eq!((pte(&machine, AT), machine.sweep(AT, HUGE_PAGES, Kind::Fetch)), (None, 1));
    assert_eq!(huge_pages(&machine), 1);
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn files_in_large_folios_are_mapped_by_huge_pages_where_they_are_congruent() {
    let len = 2 * HUGE + 24 * PAGE;
    for (at, faults, huge) in [(AT, 2 + 2, 2), (AT + 32 * PAGE, len.div_ceil(16 * PAGE), 0)] {
        let mut machine = booted("linux-thp:file_folios=2M");
        machine.event(&file("/usr/lib/library", len, false));
        machine.event(&mapped(at, len, false, Protection::READ_EXECUTE));
        assert_eq!(machine.sweep(at, len / PAGE, Kind::Fetch), faults);
        assert_eq!(huge_pages(&machine), huge);
        // Files are there before the program starts.
        assert_eq!(machine.vm.counters().superpage_faults, 0);
        machine.vm.check();
        machine.exit_all();
    }
}

#[test]
fn advised_files_that_are_not_in_memory_are_read_in_by_huge_pages() {
    let sizes = vec![PageShift(12), PageShift(21), PageShift(30)];
    let cold = Options { warm: false, ..Options::linux(Layout::x86_64(), sizes, 256 << 20) };
    let mut machine = Machine::boot("linux-thp", cold);
    machine.event(&file("/data", HUGE + 3 * PAGE, false));
    machine.event(&mapped(AT, HUGE + 3 * PAGE, false, Protection::READ));
    machine.event(&Event::Advise(span(AT, HUGE + 3 * PAGE), Advice::Huge));
    assert_eq!(machine.sweep(AT, HUGE_PAGES + 3, Kind::Load), 1 + 1);
    assert_eq!((huge_pages(&machine), machine.vm.counters().bytes_read_in), (1, HUGE + 3 * PAGE));
    machine.vm.check();
    machine.exit_all();
}

/// A machine with pages of 64 KB by sixteen equal entries, such as Arm's with its contiguous hint.
fn contiguous(spec: &str) -> Machine {
    let sizes = vec![PageShift(12), PageShift(16), PageShift(21)];
    Machine::boot(spec, Options::linux(Layout::x86_64(), sizes, 256 << 20))
}

#[test]
fn code_is_read_in_by_folios_that_the_machine_maps_by_one_page() {
    for (spec, at, size) in [
        ("linux-thp", AT, 12),
        ("linux-thp:exec_folio=64K", AT, 16),
        // An image that is aligned to 4 KB only.
        ("linux-thp:exec_folio=64K", AT + PAGE, 12),
    ] {
        let mut machine = contiguous(spec);
        machine.event(&file("/usr/bin/program", 40 * PAGE, false));
        machine.event(&mapped(at, 40 * PAGE, false, Protection::READ_EXECUTE));
        machine.sweep(at, 40, Kind::Fetch);
        assert_eq!(pte(&machine, at + 20 * PAGE).unwrap().shift(), PageShift(size), "{spec}");
        // The rest of 8 pages is in a smaller folio.
        assert_eq!(pte(&machine, at + 39 * PAGE).unwrap().shift(), PageShift(12), "{spec}");
        machine.vm.check();
        machine.exit_all();
    }
    // Data is not code.
    let mut machine = contiguous("linux-thp:exec_folio=64K");
    machine.event(&file("/usr/bin/program", 32 * PAGE, false));
    machine.event(&mapped(AT, 32 * PAGE, false, Protection::READ));
    machine.sweep(AT, 32, Kind::Load);
    assert_eq!(pte(&machine, AT).unwrap().shift(), PageShift(12));
}

#[test]
fn shared_memory_and_files_on_hugetlbfs_have_its_pages() {
    let hugetlb = |map| Event::Map(Map { huge_shift: 21, ..map });
    let Event::Map(plain) = shared(AT, 2 * HUGE) else { unreachable!("shared maps") };
    let mut machine = Machine::x86("linux-thp:enabled=never", 256 << 20);
    machine.event(&hugetlb(plain));
    assert_eq!(machine.sweep(AT, 2 * HUGE_PAGES, Kind::Load), 2);
    assert_eq!(machine.sweep(AT, 2 * HUGE_PAGES, Kind::Store), 0);
    machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
    switch(&mut machine, 2);
    assert_eq!((machine.sweep(AT, 2 * HUGE_PAGES, Kind::Store), huge_pages(&machine)), (2, 4));
    assert_eq!(pte(&machine, AT).unwrap().soft(), soft::WHOLE);
    machine.vm.check();
    machine.exit_all();

    // A private mapping has pages of its own.
    let mut machine = booted("linux-thp:enabled=never");
    machine.event(&file("/dev/hugepages/heap", 2 * HUGE, true));
    let Event::Map(plain) = mapped(AT, 2 * HUGE, false, Protection::READ_WRITE) else { unreachable!("mapped maps") };
    machine.event(&hugetlb(plain));
    assert_eq!(machine.sweep(AT, HUGE_PAGES, Kind::Load), 1);
    assert_eq!(machine.sweep(AT, 2 * HUGE_PAGES, Kind::Store), 2);
    assert_eq!((machine.vm.counters().bytes_copied, huge_pages(&machine)), (0, 2));
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn without_a_free_huge_page_shared_memory_gets_what_there_is() {
    for (spec, faults) in [("shmem_enabled=always", 512), ("shmem_enabled=always,shmem_mthp=64K", 32)] {
        let mut machine = booted(&format!("linux-thp:{spec}"));
        machine.event(&shared(AT, HUGE));
        let recipe = reach_os::Fragmentation {
            order: 9,
            scattered: 1.0,
            hold: 0.1,
            grain: 0,
            first: false,
            stay: None,
            seed: 1,
        };
        recipe.apply(machine.vm.frames_mut()).unwrap();
        assert_eq!(machine.sweep(AT, HUGE_PAGES, Kind::Store), faults, "{spec}");
        assert!(machine.vm.counters().superpage_fallbacks > 0);
    }
}
