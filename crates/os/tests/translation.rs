//! The translation API: every change of a translation is written, charged, and shot down.

use reach_core::{
    Asid, Cycles, Event, Fault, FaultCause, Kind, Label, Layout, Ledger, Map, Millicycles, PageShift, Pfn, Pte,
    ThreadId, VirtAddr, Vpn,
};
use reach_os::{Costs, FrameKind, ObjectId, Options, Refusal, Vm};

const A: Asid = Asid(1);
const AT: Vpn = Vpn(0x8000);
const K64: PageShift = PageShift(16);

/// Returns an Alpha: pages of 8 KB, 64 KB and 512 KB, replicated entries. Every cost is a different power of ten.
fn alpha(caches_modelled: bool) -> Vm {
    let layout = Layout::radix(PageShift(13), vec![10, 10, 15]);
    let mut options = Options::linux(layout, [13, 16, 19].map(PageShift).to_vec(), 16 << 20);
    options.caches_modelled = caches_modelled;
    options.costs = Costs {
        pte_write: 1,
        shootdown: 1_000,
        interrupt: 1_000_000,
        free_page: 10_000_000,
        copy_per_byte: Millicycles(1_000),
        zero_per_byte: Millicycles(100),
        ..Costs::FREE
    };
    let mut vm = Vm::new(options).unwrap();
    vm.apply(&Event::Switch { asid: A, thread: ThreadId(0) }).unwrap();
    vm.apply(&Event::Map(Map::anonymous(VirtAddr(AT.0 << 13), 1 << 20))).unwrap();
    vm
}

/// Maps `pages` base pages from `AT` on to one block of frames, as a reservation would. Drops what that queued.
fn populate(vm: &mut Vm, pages: u64) -> Pfn {
    let block = vm.frames_mut().allocate(6, FrameKind::Anonymous, ObjectId::NONE, 0).unwrap();
    for i in 0..pages {
        let pte = Pte::new(block + i, vm.base()).with_writable(true);
        vm.map(A, AT + i, pte, Label::Fault).unwrap();
    }
    vm.frames_mut().free(block + pages, 64 - pages);
    drop_queues(vm);
    block
}

/// Drops queued shootdowns and traffic.
fn drop_queues(vm: &mut Vm) {
    vm.drain_shootdowns();
    vm.drain_traffic();
}

/// Returns the cycles that `work` is charged by label, without what was queued and charged before.
fn charged(vm: &mut Vm, work: impl FnOnce(&mut Vm)) -> Ledger {
    drop_queues(vm);
    let before = vm.ledger().clone();
    work(vm);
    vm.ledger().since(&before)
}

#[test]
fn promotion_rewrites_every_replicated_entry_and_demotion_too() {
    let mut vm = alpha(false);
    populate(&mut vm, 16);
    vm.protect(A, AT + 3, 1, Label::Fault, |_, entry| entry.pte.with_dirty(true)).unwrap();
    let cycles = charged(&mut vm, |vm| vm.promote(A, AT, K64, Label::Remap).unwrap());
    assert_eq!(cycles.charged(Label::Remap), Cycles(8 + 1_000));
    assert_eq!((vm.shootdowns().len(), vm.shootdowns()[0].vpn, vm.shootdowns()[0].pages), (1, AT, 8));
    assert!(vm.process(A).unwrap().table().page(AT).unwrap().pte.dirty(), "any dirty page makes it dirty");
    assert_eq!((vm.counters().promotions, vm.counters().superpages[0].current), (1, 1));
    vm.check();
    let cycles = charged(&mut vm, |vm| vm.demote(A, AT + 5, PageShift(13), Label::Remap).unwrap());
    assert_eq!(cycles.charged(Label::Remap), Cycles(8 + 1_000));
    assert_eq!((vm.counters().demotions, vm.counters().superpages[0].current), (1, 0));
    vm.check();
}

#[test]
fn a_refused_promotion_says_why() {
    let mut vm = alpha(false);
    assert_eq!(vm.promote(A, AT, K64, Label::Remap), Err(Refusal::Hole));
    populate(&mut vm, 15);
    assert_eq!(vm.promote(A, AT + 8, K64, Label::Remap), Err(Refusal::Hole));
    vm.protect(A, AT, 1, Label::Fault, |_, entry| entry.pte.with_writable(false)).unwrap();
    assert_eq!(vm.promote(A, AT, K64, Label::Remap), Err(Refusal::Mixed));
    vm.protect(A, AT, 1, Label::Fault, |_, entry| entry.pte.with_writable(true)).unwrap();
    vm.promote(A, AT, K64, Label::Remap).unwrap();
    assert_eq!(vm.promote(A, AT, K64, Label::Remap), Err(Refusal::Already));
    vm.unmap(A, AT + 1, 1, Label::Fault).unwrap();
    let elsewhere = vm.allocate(0, FrameKind::Anonymous, ObjectId::NONE, 0).unwrap();
    vm.map(A, AT + 1, Pte::new(elsewhere, PageShift(13)).with_writable(true), Label::Fault).unwrap();
    // The allocator hands out the frame that was just freed first, and that would be the right one.
    let scattered = vm.process(A).unwrap().table().lookup(AT).unwrap().pfn() + 1 != elsewhere;
    assert_eq!(vm.promote(A, AT, K64, Label::Remap), if scattered { Err(Refusal::Scattered) } else { Ok(()) });
    vm.check();
}

#[test]
fn migration_copies_mapped_pages_and_zeroes_the_rest() {
    let mut vm = alpha(false);
    populate(&mut vm, 5);
    let free = vm.frames().buddy().free_frames();
    let block = vm.allocate(3, FrameKind::Anonymous, ObjectId::NONE, 0).unwrap();
    vm.migrate(A, AT, Pte::new(block, K64).with_writable(true), Label::Copy).unwrap();
    // 40 KB copied at 1, 24 KB zeroed at 0.1, 8 entries written, one shootdown.
    assert_eq!(vm.ledger().charged(Label::Copy), Cycles(40_960 + 2_457 + 8 + 1_000));
    assert_eq!(vm.counters().bytes_copied, 5 << 13);
    assert_eq!(vm.frames().buddy().free_frames(), free - 8 + 5, "the old frames are free");
    vm.check();
}

#[test]
fn with_caches_the_same_work_is_traffic() {
    let mut vm = alpha(true);
    populate(&mut vm, 5);
    let block = vm.allocate(3, FrameKind::Anonymous, ObjectId::NONE, 0).unwrap();
    vm.migrate(A, AT, Pte::new(block, K64), Label::Copy).unwrap();
    // Charged at once: the shootdown, and the copy loop beyond one cycle per eight bytes read or written.
    assert_eq!(vm.ledger().charged(Label::Copy), Cycles(1_000 + 40_960 - 40_960 / 4));
    let sum = |write| vm.traffic().iter().filter(|t| t.write == write).map(|t| t.bytes).sum::<u64>();
    assert_eq!((sum(false), sum(true)), (5 << 13, (8 << 13) + 8 * 8));
    assert!(vm.traffic().iter().all(|traffic| traffic.label == Label::Copy));
}

#[test]
fn shootdowns_are_free_when_rights_are_given_and_charged_when_they_are_taken() {
    let mut vm = alpha(false);
    populate(&mut vm, 4);
    let rights = |vm: &mut Vm, write| {
        let change =
            |vm: &mut Vm| vm.protect(A, AT, 4, Label::Fault, |_, entry| entry.pte.with_writable(write)).unwrap();
        let cycles = charged(vm, change).total();
        (vm.shootdowns().len(), cycles)
    };
    assert_eq!(rights(&mut vm, true), (0, Cycles(0)), "nothing changes, nothing is written");
    assert_eq!(rights(&mut vm, false), (1, Cycles(4 + 1_000)));
    assert_eq!(rights(&mut vm, true), (1, Cycles(4)));
}

#[test]
fn a_new_page_table_node_is_zeroed() {
    let mut vm = alpha(true);
    vm.demand_fault(Fault { vpn: AT, kind: Kind::Load, cause: FaultCause::NotPresent }).unwrap();
    let nodes = vm.process(A).unwrap().table().bytes();
    assert_eq!(vm.counters().bytes_zeroed, nodes, "the page itself is the page of zeroes");
    assert_eq!(vm.traffic().iter().map(|traffic| traffic.bytes).sum::<u64>(), nodes + 8);
    assert_eq!(vm.counters().page_table_bytes.current, nodes);
}

/// Other processors have entries of an address space only if other threads have run in it. Exec ends them.
#[test]
fn processors_are_interrupted_once_a_second_thread_has_run_in_the_address_space() {
    let mut vm = alpha(false);
    let unmapping = |vm: &mut Vm| {
        populate(vm, 1);
        let ledger = charged(vm, |vm| vm.unmap(A, AT, 1, Label::Remap).unwrap());
        ledger.charged(Label::Remap).0 / 1_000 % 10_000
    };
    let switch = |asid, thread| Event::Switch { asid, thread: ThreadId(thread) };
    assert_eq!(unmapping(&mut vm), 1);
    vm.apply(&switch(A, 0)).unwrap();
    assert_eq!(unmapping(&mut vm), 1);
    // A child of vfork runs where its parent waits.
    vm.apply(&Event::Fork { child: Asid(9), shares_memory: true }).unwrap();
    vm.apply(&switch(Asid(9), 5)).unwrap();
    vm.apply(&Event::Exit).unwrap();
    vm.apply(&switch(A, 0)).unwrap();
    assert_eq!(unmapping(&mut vm), 1);
    vm.apply(&switch(A, 1)).unwrap();
    assert_eq!(unmapping(&mut vm), 1_001);
    vm.apply(&Event::Exec { path: "/bin/true".into() }).unwrap();
    assert_eq!(unmapping(&mut vm), 1);
    vm.apply(&switch(A, 2)).unwrap();
    assert_eq!(unmapping(&mut vm), 1_001);
}

/// What is freed is charged by page, of any size; a frame that others map, too, is not free.
#[test]
fn freeing_an_anonymous_page_is_charged_when_its_last_mapping_goes() {
    let mut vm = alpha(false);
    let block = populate(&mut vm, 16);
    vm.promote(A, AT, K64, Label::Remap).unwrap();
    let shared = Pte::new(block + 9, vm.base()).with_writable(true);
    vm.map(A, AT + 20, shared, Label::Fault).unwrap();
    let freed = |vm: &mut Vm, from: u64, pages: u64| {
        let ledger = charged(vm, |vm| vm.unmap(A, AT + from, pages, Label::Remap).unwrap());
        ledger.charged(Label::Remap).0 / 10_000_000
    };
    assert_eq!(freed(&mut vm, 0, 8), 1, "a page of 64 KB");
    assert_eq!(freed(&mut vm, 8, 8), 7, "one of eight pages is mapped elsewhere");
    assert_eq!(freed(&mut vm, 20, 1), 1);
    vm.demand_fault(Fault { vpn: AT, kind: Kind::Load, cause: FaultCause::NotPresent }).unwrap();
    assert_eq!(freed(&mut vm, 0, 1), 0, "the page of zeroes");
}
