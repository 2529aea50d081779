//! Address spaces and demand paging against their twin, under random operations.

use proptest::prelude::*;
use reach_core::{Asid, Event, Fault, FaultCause, Kind, Layout, PageShift, ThreadId, Vpn};
use reach_oracle::address_space::{FIRST_PAGE, MappedPage, NaiveAddressSpaces, Op, PAGES};
use reach_os::{Options, Vm};

const MEMORY: u64 = 1 << 20;

/// Applies random operations to the system and its twin, and compares all translations after each.
fn run(words: &[u64], zero_page: bool, warm: bool) {
    let mut options = Options::linux(Layout::x86_64(), vec![PageShift(12), PageShift(21)], MEMORY);
    options.zero_page = zero_page;
    options.warm = warm;
    options.read_in = 16 << 10;
    let mut vm = Vm::new(options).unwrap();
    let mut twin = NaiveAddressSpaces::default();
    let start = Op::Switch { asid: 1 };
    vm.apply(&start.event().unwrap()).unwrap();
    twin.apply(start);
    for &word in words {
        let op = Op::decode(word);
        if !twin.allows(op) {
            continue;
        }
        match op.event() {
            Some(event) => assert_eq!(vm.apply(&event).unwrap(), None),
            None => touch(&mut vm, op),
        }
        twin.apply(op);
        vm.check();
        let difference = twin.difference(&seen(&vm), vm.zero_page().0, !zero_page);
        assert_eq!(difference, None, "after {op:?}");
    }
    exit_all(&mut vm);
}

/// References a page as a processor does: faults until the translation allows the reference.
fn touch(vm: &mut Vm, op: Op) {
    let Op::Touch { at, store } = op else { unreachable!("all others are events") };
    let (vpn, kind) = (Vpn(FIRST_PAGE + at), NaiveAddressSpaces::kind(store));
    for round in 0.. {
        let pte = vm.process(vm.current()).and_then(|process| process.table().lookup(vpn));
        let cause = match pte {
            Some(pte) if kind == Kind::Load || pte.writable() => return,
            Some(_) => FaultCause::Protection,
            None => FaultCause::NotPresent,
        };
        assert!(round < 2, "{op:?} makes no progress");
        vm.demand_fault(Fault { vpn, kind, cause }).unwrap();
    }
}

/// Returns all translations.
fn seen(vm: &Vm) -> Vec<MappedPage> {
    let pages =
        |asid: Asid| vm.process(asid).map(|process| process.table().pages(Vpn(FIRST_PAGE), PAGES)).unwrap_or_default();
    (1..=3)
        .map(Asid)
        .flat_map(|asid| pages(asid).into_iter().map(move |entry| (asid, entry)))
        .map(|(asid, entry)| MappedPage {
            asid,
            vpn: entry.vpn.0,
            pfn: entry.pte.pfn().0,
            writable: entry.pte.writable(),
        })
        .collect()
}

/// Ends all processes, and checks that every frame is free but the cached ones and the page of zeroes.
fn exit_all(vm: &mut Vm) {
    for asid in (0..=3).map(Asid) {
        if vm.process(asid).is_some() {
            vm.apply(&Event::Switch { asid, thread: ThreadId(0) }).unwrap();
            vm.apply(&Event::Exit).unwrap();
        }
    }
    vm.check();
    let [anonymous, _, table, wired, zero] = vm.frames().census();
    assert_eq!((anonymous, table, wired, zero), (0, 0, 0, 1));
    vm.drop_idle_file_pages();
    assert_eq!(vm.frames().buddy().free_frames(), vm.frames().buddy().frames() - 1);
    assert_eq!(vm.counters().resident_bytes.current, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn translations_agree_with_the_twins(
        words in proptest::collection::vec(any::<u64>(), 1..120),
        zero_page: bool,
        warm: bool,
    ) {
        run(&words, zero_page, warm);
    }
}
