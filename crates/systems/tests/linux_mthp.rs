//! Multi-size huge pages: fault counts are those that Linux 6.18 on x86-64 reports (`ru_minflt`) for the same small
//! programs over 8 MB, aligned to 2 MB, with the sizes `always` and huge pages `madvise`.

use crate::common::Machine;
use reach_core::{Advice, Asid, Event, Kind, Layout, Map, PageShift, Protection, Span, ThreadId, VirtAddr, Vpn};
use reach_os::{Fragmentation, Options};

const AT: u64 = 0x7f00_0000_0000;
const PAGE: u64 = 4096;
const PAGES: u64 = 2048;
const SETTINGS: &str = "linux-thp:enabled=madvise,mthp_enabled=always,mthp=";

fn with_memory(sizes: &str) -> Machine {
    let mut machine = Machine::x86(&format!("{SETTINGS}{sizes}"), 256 << 20);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), PAGES * PAGE)));
    machine
}

fn span(page: u64, pages: u64) -> Span {
    Span { start: VirtAddr(AT + page * PAGE), len: pages * PAGE }
}

fn store(machine: &mut Machine, page: u64, pages: u64) -> u64 {
    machine.sweep(AT + page * PAGE, pages, Kind::Store)
}

#[test]
fn a_block_takes_one_fault_and_is_never_made_around_mapped_pages() {
    for (sizes, whole) in [("64K", 128), ("16K+64K", 128), ("64K+16K", 128), ("128K", 64)] {
        let mut machine = with_memory(sizes);
        assert_eq!(store(&mut machine, 0, PAGES), whole, "{sizes}");
        assert_eq!(machine.vm.counters().folio_faults, whole, "{sizes}");
        machine.event(&Event::Advise(span(1, 1), Advice::DontNeed));
        assert_eq!(store(&mut machine, 0, PAGES), 1, "{sizes}");
        machine.event(&Event::Advise(span(0, PAGES), Advice::DontNeed));
        assert_eq!(store(&mut machine, 0, PAGES), whole, "{sizes}");
        machine.vm.check();
        machine.exit_all();
    }
}

#[test]
fn loads_get_single_pages_of_zeroes_and_their_stores_copies() {
    let mut machine = with_memory("64K");
    assert_eq!(machine.sweep(AT, PAGES, Kind::Load), PAGES);
    assert_eq!(store(&mut machine, 0, PAGES), PAGES);
    for (sizes, faults) in [("64K", 143), ("16K+64K", 134), ("128K", 95)] {
        let mut machine = with_memory(sizes);
        machine.sweep(AT + 5 * PAGE, 1, Kind::Load);
        assert_eq!(store(&mut machine, 0, PAGES), faults, "{sizes}");
        machine.vm.check();
    }
}

#[test]
fn blocks_are_aligned_and_lie_within_their_mapping() {
    for (sizes, at_the_start, in_the_middle) in [("64K", 142, 78), ("16K+64K", 133, 69), ("128K", 94, 62)] {
        let mut machine = with_memory(sizes);
        machine.event(&Event::Unmap(span(0, 1)));
        assert_eq!(store(&mut machine, 1, PAGES - 1), at_the_start, "{sizes}");
        let mut machine = with_memory(sizes);
        machine.event(&Event::Protect(span(1027, 1), Protection::READ));
        assert_eq!(store(&mut machine, 1024, 3) + store(&mut machine, 1028, 1020), in_the_middle, "{sizes}");
        machine.vm.check();
    }
}

#[test]
fn processes_copy_single_pages_of_a_shared_block() {
    let mut machine = with_memory("64K");
    store(&mut machine, 0, PAGES);
    machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
    machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
    assert_eq!(store(&mut machine, 0, 1), 1);
    assert_eq!(store(&mut machine, 0, PAGES), PAGES - 1);
    machine.event(&Event::Exit);
    machine.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) });
    assert_eq!(store(&mut machine, 0, PAGES), PAGES);
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn scopes_decide_which_memory_gets_blocks() {
    for (spec, advice, faults) in [
        ("linux-thp:enabled=never,mthp=64K,mthp_enabled=always", None, 128),
        ("linux-thp:enabled=never,mthp=64K,mthp_enabled=always", Some(Advice::NoHuge), PAGES),
        ("linux-thp:enabled=never,mthp=64K,mthp_enabled=madvise", None, PAGES),
        ("linux-thp:enabled=never,mthp=64K,mthp_enabled=madvise", Some(Advice::Huge), 128),
        ("linux-thp:enabled=never,mthp=64K", Some(Advice::Huge), PAGES),
        ("linux-thp:enabled=madvise,mthp=64K", None, PAGES),
        // Huge pages come first.
        ("linux-thp:enabled=always,mthp=64K", None, 4),
    ] {
        let mut machine = Machine::x86(spec, 256 << 20);
        machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), PAGES * PAGE)));
        if let Some(advice) = advice {
            machine.event(&Event::Advise(span(0, PAGES), advice));
        }
        assert_eq!(store(&mut machine, 0, PAGES), faults, "{spec} {advice:?}");
    }
}

#[test]
fn without_a_free_block_faults_take_the_next_smaller_one() {
    let mut machine = with_memory("16K+64K");
    let recipe = Fragmentation { order: 4, scattered: 1.0, hold: 0.1, grain: 2, first: false, stay: None, seed: 1 };
    recipe.apply(machine.vm.frames_mut()).unwrap();
    // The first fault of each 64 KB tries a block of that size; the next three find pages mapped there.
    assert_eq!(store(&mut machine, 0, PAGES), PAGES / 4);
    let counters = machine.vm.counters();
    assert_eq!((counters.folio_faults, counters.superpage_fallbacks), (PAGES / 4, PAGES / 16));
}

/// On Arm, 16 entries with the contiguous hint are one page for the TLB; a store to a shared one leaves single pages.
#[test]
fn blocks_of_a_page_size_of_the_machine_are_pages() {
    let sizes = vec![PageShift(12), PageShift(16), PageShift(21)];
    let options = Options::linux(Layout::x86_64(), sizes, 256 << 20);
    let mut machine = Machine::boot(&format!("{SETTINGS}128K"), options);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), PAGES * PAGE)));
    assert_eq!(store(&mut machine, 0, PAGES), 64);
    let counters = machine.vm.counters();
    assert_eq!((counters.superpages[0].current, counters.superpage_faults, counters.folio_faults), (128, 64, 64));
    assert_eq!(machine.translation(Vpn(AT / PAGE)).map(|pte| pte.shift()), Some(PageShift(16)));
    machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
    machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
    assert_eq!(store(&mut machine, 0, PAGES), PAGES);
    machine.vm.check();
    machine.exit_all();
}

/// Faults on single pages before the memory is advised, so that khugepaged finds what no fault made. Returns the pages that were
/// copied into blocks when it woke once, and when it woke again.
fn khugepaged(settings: &str, sizes: Vec<PageShift>, touched: &[(u64, u64)]) -> (Machine, [u64; 2]) {
    let options = Options::linux(Layout::x86_64(), sizes, 256 << 20);
    let mut machine = Machine::boot(&format!("linux-thp:enabled=never,mthp_enabled=madvise,{settings}"), options);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), PAGES * PAGE)));
    for &(page, pages) in touched {
        assert_eq!(store(&mut machine, page, pages), pages);
    }
    machine.event(&Event::Advise(span(0, PAGES), Advice::Huge));
    let woken = [(); 2].map(|()| {
        let frames = |machine: &Machine| (0..PAGES).map(|page| machine.translation(Vpn(AT / PAGE + page))).collect();
        let before: Vec<_> = frames(&machine);
        machine.system.tick(machine.system.next_tick().unwrap(), &mut machine.vm).unwrap();
        let after: Vec<_> = frames(&machine);
        machine.vm.check();
        before
            .iter()
            .zip(after)
            .filter(|(before, after)| before.map(|pte| pte.pfn()) != after.map(|pte| pte.pfn()))
            .count() as u64
    });
    (machine, woken)
}

/// As `collapse_max_ptes_none` of Linux 7.2 has it: all or nothing.
#[test]
fn from_7_2_on_khugepaged_makes_blocks_too() {
    let base = || vec![PageShift(12), PageShift(21)];
    // One page, sixteen that are aligned, and eight of the next sixteen.
    let touched = [(3, 1), (32, 16), (48, 8)];
    for (settings, changed) in [
        ("mthp=64K", 0),
        ("mthp=64K,version=7.2", 48),
        ("mthp=64K,version=7.2,max_ptes_none=510", 16),
        ("mthp=64K,version=7.2,max_ptes_none=0", 16),
        ("mthp=16K+64K,version=7.2,max_ptes_none=0", 24),
        ("mthp=16K+32K,version=7.2,max_ptes_none=0", 24),
        ("mthp=128K,version=7.2", 64),
        ("mthp=128K,version=7.2,max_ptes_none=0", 0),
        ("mthp=64K,version=7.2,khugepaged=on,pages_to_scan=1", 48),
    ] {
        let (mut machine, woken) = khugepaged(settings, base(), &touched);
        assert_eq!(woken, [changed, 0], "{settings}");
        // Blocks are aligned and contiguous.
        if settings == "mthp=64K,version=7.2" {
            let pfn = |page: u64| machine.translation(Vpn(AT / PAGE + page)).map(|pte| pte.pfn().0);
            for first in [0, 32, 48] {
                let block = pfn(first).unwrap();
                assert_eq!(block % 16, 0);
                assert!((0..16).all(|i| pfn(first + i) == Some(block + i)));
            }
            assert_eq!(pfn(16), None);
            assert_eq!(machine.vm.ledger().charged(reach_core::Label::Copy).0, 0, "the daemon's work is the daemon's");
        }
        machine.exit_all();
    }
}

#[test]
fn khugepaged_makes_pages_of_blocks_where_the_machine_has_such_pages() {
    let sizes = vec![PageShift(12), PageShift(16), PageShift(21)];
    let (mut machine, woken) = khugepaged("mthp=64K+128K,version=7.2", sizes, &[(3, 1), (32, 16)]);
    assert_eq!(woken, [64, 0]);
    assert_eq!(machine.vm.counters().superpages[0].current, 4);
    machine.exit_all();
}

#[test]
fn khugepaged_leaves_shared_pages_out_of_blocks() {
    let (mut machine, _) = khugepaged("mthp=64K,version=7.2,max_ptes_none=0", vec![PageShift(12), PageShift(21)], &[]);
    machine.event(&Event::Advise(span(0, PAGES), Advice::NoHuge));
    store(&mut machine, 0, 32);
    machine.event(&Event::Fork { child: Asid(2), shares_memory: false });
    // A store takes one page of the first sixteen out of sharing; all of the second sixteen become private.
    store(&mut machine, 0, 1);
    store(&mut machine, 16, 16);
    machine.event(&Event::Advise(span(0, PAGES), Advice::Huge));
    let before: Vec<_> = (0..32).map(|page| machine.translation(Vpn(AT / PAGE + page)).unwrap().pfn()).collect();
    machine.system.tick(machine.system.next_tick().unwrap(), &mut machine.vm).unwrap();
    let moved = |page: u64| machine.translation(Vpn(AT / PAGE + page)).unwrap().pfn() != before[page as usize];
    assert!(!(0..16).any(moved) && (16..32).all(moved));
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn sizes_that_linux_does_not_have_are_refused() {
    let boot = |spec: &str| {
        let sizes = vec![PageShift(12), PageShift(21)];
        let mut vm = reach_os::Vm::new(Options::linux(Layout::x86_64(), sizes, 64 << 20)).unwrap();
        reach_systems::resolve(spec).unwrap().build().boot(&mut vm)
    };
    for sizes in ["8K", "2M", "4K", "64K+4M"] {
        let why = boot(&format!("{SETTINGS}{sizes}")).unwrap_err().to_string();
        assert!(why.contains("expected sizes from 16K to 1M"), "{why}");
    }
    for sizes in ["2M", "4K", "8K+4M"] {
        let why = boot(&format!("linux-thp:shmem_mthp={sizes}")).unwrap_err().to_string();
        assert!(why.contains("shmem_mthp=") && why.contains("expected sizes from 8K to 1M"), "{why}");
    }
    assert!(boot("linux-thp:shmem_mthp=8K+1M").is_ok());
}
