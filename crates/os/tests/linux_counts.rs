//! Fault counts against those that Linux 6.18 on x86-64 reports (`ru_minflt`) for the same small programs.

use reach_core::{
    Advice, Asid, Backing, Event, Fault, FaultCause, FileId, Kind, Layout, Map, PageShift, Protection, Remap, Role,
    Span, ThreadId, VirtAddr, Vpn,
};
use reach_os::{Options, Vm};

const AT: u64 = 0x7f00_0000_0000;
const PAGE: u64 = 4096;

fn boot() -> Vm {
    let sizes = vec![PageShift(12), PageShift(21), PageShift(30)];
    let mut vm = Vm::new(Options::linux(Layout::x86_64(), sizes, 256 << 20)).unwrap();
    vm.apply(&Event::Switch { asid: Asid(1), thread: ThreadId(0) }).unwrap();
    vm
}

fn span(start: u64, pages: u64) -> Span {
    Span { start: VirtAddr(start), len: pages * PAGE }
}

fn map_file(vm: &mut Vm, pages: u64, shared: bool) {
    vm.apply(&Event::File { file: FileId(0), path: "f".into(), len: pages * PAGE, in_memory: false }).unwrap();
    let backing = Backing::File { file: FileId(0), offset: 0 };
    vm.apply(&Event::Map(Map { backing, shared, ..Map::anonymous(VirtAddr(AT), pages * PAGE) })).unwrap();
}

/// References one byte as a processor does: faults until the translation allows the reference.
fn touch(vm: &mut Vm, addr: u64, kind: Kind) {
    let vpn = Vpn(addr / PAGE);
    for _ in 0..3 {
        let asid = vm.current();
        let pte = vm.process(asid).and_then(|process| process.table().lookup(vpn));
        let cause = match pte {
            None => FaultCause::NotPresent,
            Some(pte) if kind == Kind::Store && !pte.writable() => FaultCause::Protection,
            Some(pte) if kind == Kind::Fetch && !pte.executable() => FaultCause::Protection,
            Some(_) => return,
        };
        vm.demand_fault(Fault { vpn, kind, cause }).unwrap();
    }
    panic!("no progress at {addr:#x}");
}

/// Touches all pages in order. Returns the number of faults.
fn sweep(vm: &mut Vm, pages: u64, kind: Kind) -> u64 {
    let before = vm.counters().page_faults;
    for page in 0..pages {
        touch(vm, AT + page * PAGE, kind);
    }
    vm.frames().check();
    vm.counters().page_faults - before
}

#[test]
fn anonymous_memory_faults_once_read_and_once_written() {
    let mut vm = boot();
    vm.apply(&Event::Map(Map::anonymous(VirtAddr(AT), 1024 * PAGE))).unwrap();
    assert_eq!(sweep(&mut vm, 1024, Kind::Load), 1024);
    assert_eq!(vm.counters().resident_bytes.current, 0, "pages of zeroes take no memory");
    assert_eq!(sweep(&mut vm, 1024, Kind::Store), 1024);
    assert_eq!(vm.counters().resident_bytes.current, 1024 * PAGE);
    assert_eq!(vm.counters().bytes_copied, 0, "pages of zeroes are zeroed, not copied");
}

#[test]
fn fault_around_maps_sixteen_file_pages_at_a_time() {
    // libc.so.6 of 471 pages took 30 faults, cc1 of 8141 pages 509 (510 read-only).
    for (pages, faults) in [(471, 30), (8141, 509)] {
        let mut vm = boot();
        map_file(&mut vm, pages, false);
        assert_eq!(sweep(&mut vm, pages, Kind::Load), faults);
    }
}

#[test]
fn private_writes_to_a_file_fault_page_by_page() {
    let mut vm = boot();
    map_file(&mut vm, 471, false);
    assert_eq!(sweep(&mut vm, 471, Kind::Store), 471);
    assert_eq!(vm.counters().bytes_copied, 471 * PAGE);
}

#[test]
fn first_stores_to_a_shared_file_fault_page_by_page() {
    let mut vm = boot();
    map_file(&mut vm, 1024, true);
    assert_eq!(sweep(&mut vm, 1024, Kind::Load), 64);
    assert_eq!(sweep(&mut vm, 1024, Kind::Store), 1024);
    assert_eq!(vm.counters().write_notify_faults, 1024);
}

#[test]
fn shared_memory_is_writable_from_its_first_fault_on() {
    let mut vm = boot();
    vm.apply(&Event::Map(Map { shared: true, ..Map::anonymous(VirtAddr(AT), 1024 * PAGE) })).unwrap();
    assert_eq!(sweep(&mut vm, 1024, Kind::Load), 1024);
    assert_eq!(sweep(&mut vm, 1024, Kind::Store), 0);
}

#[test]
fn a_cold_file_is_read_in_one_window_per_fault() {
    let mut options = Options::linux(Layout::x86_64(), vec![PageShift(12)], 256 << 20);
    options.warm = false;
    let mut vm = Vm::new(options).unwrap();
    map_file(&mut vm, 64, false);
    assert_eq!(sweep(&mut vm, 64, Kind::Load), 4);
    assert_eq!((vm.counters().major_faults, vm.counters().bytes_read_in), (4, 64 * PAGE));
    vm.apply(&Event::Unmap(span(AT, 64))).unwrap();
    map_file(&mut vm, 64, false);
    assert_eq!(sweep(&mut vm, 64, Kind::Load), 4);
    assert_eq!(vm.counters().major_faults, 4, "the second time the file is in memory");
}

#[test]
fn fork_shares_pages_until_the_first_store() {
    let mut vm = boot();
    vm.apply(&Event::Map(Map::anonymous(VirtAddr(AT), 64 * PAGE))).unwrap();
    sweep(&mut vm, 64, Kind::Store);
    vm.apply(&Event::Fork { child: Asid(2), shares_memory: false }).unwrap();
    vm.apply(&Event::Switch { asid: Asid(2), thread: ThreadId(1) }).unwrap();
    assert_eq!(sweep(&mut vm, 64, Kind::Load), 0);
    assert_eq!(vm.counters().resident_bytes.current, 64 * PAGE);
    assert_eq!(sweep(&mut vm, 32, Kind::Store), 32);
    assert_eq!(vm.counters().bytes_copied, 32 * PAGE);
    vm.apply(&Event::Exit).unwrap();
    vm.apply(&Event::Switch { asid: Asid(1), thread: ThreadId(0) }).unwrap();
    assert_eq!(sweep(&mut vm, 64, Kind::Store), 64, "write-protected, but no longer shared");
    assert_eq!(vm.counters().bytes_copied, 32 * PAGE);
    assert_eq!(vm.finished()[&Asid(2)].page_faults, 32);
}

#[test]
fn a_vforked_child_uses_its_parents_pages() {
    let mut vm = boot();
    vm.apply(&Event::Map(Map::anonymous(VirtAddr(AT), 64 * PAGE))).unwrap();
    sweep(&mut vm, 32, Kind::Store);
    let tables = vm.counters().page_table_bytes.current;
    vm.apply(&Event::Fork { child: Asid(2), shares_memory: true }).unwrap();
    vm.apply(&Event::Switch { asid: Asid(2), thread: ThreadId(1) }).unwrap();
    assert_eq!((vm.current(), vm.counters().page_table_bytes.current), (Asid(1), tables));
    assert_eq!(sweep(&mut vm, 64, Kind::Store), 32, "only the pages that the parent had not touched");
    vm.apply(&Event::Exec { path: "/bin/true".into() }).unwrap();
    assert_eq!(vm.current(), Asid(2));
    touch(&mut vm, AT, Kind::Store);
    assert_eq!(vm.counters().implicit_mappings, 1, "the new image has no mapping of the old one");
    vm.apply(&Event::Switch { asid: Asid(1), thread: ThreadId(0) }).unwrap();
    assert_eq!(sweep(&mut vm, 64, Kind::Store), 0, "the parent keeps the pages that its child touched");
    assert_eq!((vm.counters().bytes_copied, vm.counters().shootdowns), (0, 0));
    vm.check();
}

#[test]
fn a_vforked_child_that_exits_leaves_its_parents_pages_mapped() {
    let mut vm = boot();
    vm.apply(&Event::Map(Map::anonymous(VirtAddr(AT), 8 * PAGE))).unwrap();
    sweep(&mut vm, 8, Kind::Store);
    vm.apply(&Event::Fork { child: Asid(2), shares_memory: true }).unwrap();
    vm.apply(&Event::Switch { asid: Asid(2), thread: ThreadId(1) }).unwrap();
    vm.apply(&Event::Exit).unwrap();
    vm.apply(&Event::Switch { asid: Asid(1), thread: ThreadId(0) }).unwrap();
    assert_eq!(sweep(&mut vm, 8, Kind::Store), 0);
    vm.apply(&Event::Exit).unwrap();
    vm.check();
    assert_eq!(vm.counters().page_table_bytes.current, 0);
}

#[test]
fn exit_frees_all_frames() {
    let mut vm = boot();
    let free = |vm: &Vm| vm.frames().buddy().free_frames();
    map_file(&mut vm, 100, false);
    sweep(&mut vm, 50, Kind::Store);
    sweep(&mut vm, 100, Kind::Load);
    vm.apply(&Event::Exit).unwrap();
    vm.drop_idle_file_pages();
    vm.frames().check();
    assert_eq!(vm.frames().census(), [0, 0, 0, 0, 1], "only the page of zeroes is left");
    assert_eq!(free(&vm), vm.frames().buddy().frames() - 1);
    assert_eq!(vm.counters().page_table_bytes.current, 0);
}

#[test]
fn a_moved_mapping_keeps_its_pages() {
    let mut vm = boot();
    vm.apply(&Event::Map(Map::anonymous(VirtAddr(AT), 8 * PAGE))).unwrap();
    sweep(&mut vm, 8, Kind::Store);
    let to = AT + (1 << 30);
    vm.apply(&Event::Remap(Remap { from: span(AT, 8), to: span(to, 16), keep: false })).unwrap();
    let before = vm.counters().page_faults;
    for page in 0..16 {
        touch(&mut vm, to + page * PAGE, Kind::Store);
    }
    assert_eq!(vm.counters().page_faults - before, 8);
    assert_eq!(vm.process(Asid(1)).unwrap().space().regions().count(), 1);
    touch(&mut vm, AT, Kind::Load);
    assert_eq!(vm.counters().implicit_mappings, 1, "nothing is mapped at the old place");
}

#[test]
fn pages_dropped_by_advice_fault_again() {
    let mut vm = boot();
    vm.apply(&Event::Map(Map::anonymous(VirtAddr(AT), 8 * PAGE))).unwrap();
    sweep(&mut vm, 8, Kind::Store);
    vm.apply(&Event::Advise(span(AT + PAGE, 4), Advice::DontNeed)).unwrap();
    assert_eq!(vm.counters().resident_bytes.current, 4 * PAGE);
    assert_eq!(sweep(&mut vm, 8, Kind::Store), 4);
}

#[test]
fn stacks_grow_and_references_to_no_mapping_are_counted() {
    let mut vm = boot();
    vm.apply(&Event::Map(Map { role: Role::Stack, ..Map::anonymous(VirtAddr(AT), 4 * PAGE) })).unwrap();
    touch(&mut vm, AT - 10 * PAGE, Kind::Store);
    assert_eq!(vm.counters().implicit_mappings, 0);
    touch(&mut vm, AT + 100 * PAGE, Kind::Store);
    assert_eq!((vm.counters().implicit_mappings, vm.counters().page_faults), (1, 2));
    vm.apply(&Event::Protect(span(AT, 4), Protection::READ)).unwrap();
    touch(&mut vm, AT, Kind::Store);
    assert_eq!(vm.counters().violations, 1);
}

#[test]
fn exec_touches_the_stack_and_the_vdso() {
    let mut vm = boot();
    let stack = Map { role: Role::Stack, ..Map::anonymous(VirtAddr(AT), 32 * PAGE) };
    assert_eq!(vm.apply(&Event::Map(stack)).unwrap(), None, "a stack without exec is a thread's");
    vm.apply(&Event::Exec { path: "/bin/true".into() }).unwrap();
    let arguments = vm.apply(&Event::Map(stack)).unwrap().unwrap();
    let end = AT / PAGE + 32;
    assert_eq!((arguments.pages, arguments.write), (end - 3..end, true));
    assert_eq!(vm.counters().file_faults, 1, "the vDSO");
    vm.apply(&Event::Fork { child: Asid(2), shares_memory: false }).unwrap();
    vm.apply(&Event::Exit).unwrap();
    vm.check();
    vm.apply(&Event::Switch { asid: Asid(2), thread: ThreadId(0) }).unwrap();
    vm.apply(&Event::Exec { path: "/bin/true".into() }).unwrap();
    vm.apply(&Event::Map(stack)).unwrap();
    assert_eq!(vm.frames().census()[0], 1, "all processes share the page");
    vm.check();
}

#[test]
fn out_of_memory_says_what_failed_and_what_to_do() {
    let mut vm = Vm::new(Options::linux(Layout::x86_64(), vec![PageShift(12)], 64 * PAGE)).unwrap();
    vm.apply(&Event::Map(Map::anonymous(VirtAddr(AT), 1024 * PAGE))).unwrap();
    let fault = |page| Fault { vpn: Vpn(AT / PAGE + page), kind: Kind::Store, cause: FaultCause::NotPresent };
    let error = (0..1024).find_map(|page| vm.demand_fault(fault(page)).err()).unwrap();
    assert_eq!(
        error.to_string(),
        "out of simulated memory: allocation of 4K failed on a machine with 256K; give more with --memory"
    );
}
