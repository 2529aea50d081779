//! The page daemon: no page is lost under memory pressure, and contiguity is restored.

use crate::common::Machine;
use proptest::prelude::*;
use reach_core::{Asid, Backing, Cycles, Event, FileId, Kind, Label, Layout, Map, PageShift, Protection, Vpn};
use reach_core::{Span, ThreadId, VirtAddr};
use reach_oracle::address_space::{NaiveAddressSpaces, Op};
use reach_os::{Operation, Options, PagingCounts, contiguity};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const AT: u64 = 1 << 30;

fn paged(machine: &Machine) -> PagingCounts {
    machine.vm.counters().paging.unwrap()
}

fn daemon(machine: &mut Machine) {
    machine.system.tick(Cycles(0), &mut machine.vm).unwrap();
    machine.vm.check();
}

/// Applies random operations with hardly more memory than the programs use, so that the daemon always has work.
fn run(spec: &str, mut options: Options, words: &[u64]) {
    options.implicit_region = options.base().bytes();
    let base = options.base();
    let mut machine = Machine::boot(spec, options);
    let (mut twin, mut done) = (NaiveAddressSpaces::default(), Vec::new());
    twin.apply(Op::Switch { asid: 1 });
    for (i, &word) in words.iter().enumerate() {
        let op = Op::decode(word);
        if !twin.allows(op) {
            continue;
        }
        machine.apply(op);
        twin.apply(op);
        done.push(op);
        machine.vm.check();
        if i % 3 == 0 {
            daemon(&mut machine);
        }
        // With larger base pages, several of the program's pages share one, which the oracle does not model.
        for (asid, vpn) in twin.written_pages().filter(|_| base == PageShift(12)) {
            let at = Vpn(vpn);
            let mapped = machine.vm.process(asid).is_some_and(|process| process.table().lookup(at).is_some());
            assert!(
                mapped || machine.vm.in_swap(asid, at),
                "{spec}: {asid:?} {at:?} is neither mapped nor in swap after {done:?}"
            );
        }
    }
    machine.exit_all();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_pages_stay_mapped_or_in_swap_under_pressure(
        words in proptest::collection::vec(any::<u64>(), 1..160),
        low in prop::sample::select(vec![20u64, 300, 500]),
        demote in prop::sample::select(vec![0u64, 50, 100]),
    ) {
        let small = Layout::radix(PageShift(12), vec![3, 9, 9, 9]);
        let machines = [
            Options::linux(small, [12, 13, 15].map(PageShift).to_vec(), 320 * K),
            Options::linux(Layout::x86_64(), [12, 14, 16].map(PageShift).to_vec(), 320 * K),
            Options::linux(Layout::radix(PageShift(13), vec![10, 10, 3]), [13, 16].map(PageShift).to_vec(), 640 * K),
        ];
        for options in machines {
            for paging in ["daemon", "cache"] {
                let spec = format!("navarro-2002:paging={paging},low_watermark={low},demotion_percent={demote}");
                run(&spec, options.clone(), &words);
            }
            run(&format!("freebsd:low_watermark={low}"), options.clone(), &words);
            for policy in ["asap,mechanism=copy", "asap,mechanism=remap", "aol,mechanism=copy,threshold=1", "online,threshold=1"] {
                run(&format!("fang-1999:policy={policy},low_watermark={low},demotion_percent={demote}"), options.clone(), &words);
            }
        }
    }
}

fn alpha(spec: &str, memory: u64) -> Machine {
    let layout = Layout::radix(PageShift(13), vec![10, 10, 10, 5]);
    Machine::boot(spec, Options::linux(layout, [13, 16, 19, 22].map(PageShift).to_vec(), memory))
}

fn file(machine: &mut Machine, number: u32, at: u64, len: u64) {
    let file = FileId(number);
    machine.event(&Event::File { file, path: number.to_string(), len, in_memory: false });
    let backing = Backing::File { file, offset: 0 };
    machine.event(&Event::Map(Map {
        backing,
        protection: Protection::READ_WRITE,
        shared: true,
        ..Map::anonymous(VirtAddr(at), len)
    }));
}

#[test]
fn pages_beyond_memory_are_swapped_out_and_back_in() {
    let mut machine = alpha("navarro-2002", 8 * M);
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 16 * M)));
    machine.sweep(AT, 2048, Kind::Store);
    machine.vm.check();
    let out = paged(&machine).out;
    assert!((1024..2048).contains(&out), "{out} of 2048 pages for a memory of 1024");
    let faults = machine.vm.counters().page_faults;
    machine.sweep(AT, 256, Kind::Load);
    assert!(paged(&machine).swapped_in > 200);
    assert!(
        machine.vm.counters().page_faults > faults && machine.vm.counters().major_faults == paged(&machine).swapped_in
    );
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn cache_pages_count_as_free_and_are_reactivated_without_a_read() {
    let mut machine = alpha("navarro-2002:low_watermark=500", 8 * M);
    file(&mut machine, 1, AT, 4 * M);
    machine.sweep(AT, 512, Kind::Load);
    machine.event(&Event::Unmap(Span { start: VirtAddr(AT), len: 4 * M }));
    daemon(&mut machine);
    let cached = paged(&machine).cached;
    assert!(cached > 0 && paged(&machine).out == 0, "clean pages of a closed file");
    // The second mapping finds them in the cache.
    let read = machine.vm.counters().bytes_read_in;
    file(&mut machine, 1, AT, 4 * M);
    machine.sweep(AT, 512, Kind::Load);
    // A few frames have become page tables. Some pages are cached and reactivated repeatedly, as half of memory is kept free.
    let back = paged(&machine).reactivated;
    assert!(machine.vm.counters().bytes_read_in == read && back + 16 > cached, "{back} of {cached}");
    machine.vm.check();
    machine.exit_all();
}

#[test]
fn the_contiguity_aware_daemon_restores_contiguity_from_closed_files() {
    let regions = |paging: &str| {
        let mut machine = alpha(&format!("navarro-2002:paging={paging}"), 32 * M);
        // Small files fill almost all memory, and are closed.
        for i in 0..450 {
            file(&mut machine, i, AT, 56 * K);
            machine.sweep(AT, 7, Kind::Load);
            machine.event(&Event::Unmap(Span { start: VirtAddr(AT), len: 56 * K }));
        }
        // Two programs in turn want superpages.
        let mut wide = Vec::new();
        for child in 2..4 {
            machine.event(&Event::Switch { asid: Asid(child), thread: ThreadId(child) });
            machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 16 * M)));
            machine.sweep(AT, 64, Kind::Store);
            daemon(&mut machine);
            machine.sweep(AT + 4 * M, 1536, Kind::Store);
            wide.push(machine.vm.counters().superpages[2].current);
            machine.event(&Event::Exit);
        }
        (wide, paged(&machine), contiguity(machine.vm.frames().buddy(), &machine.vm.options().sizes))
    };
    let (aware, counts, _) = regions("daemon");
    let (unaware, ..) = regions("cache");
    assert!(counts.regions_restored > 0 && counts.regions_restored <= counts.regions_wanted, "{counts:?}");
    assert!(aware.iter().sum::<u64>() > unaware.iter().sum::<u64>(), "{aware:?} against {unaware:?}");
}

#[test]
fn under_pressure_superpages_are_demoted_until_their_pages_are_all_in_use() {
    for (demote, expected) in [(100, 0), (0, 1)] {
        let mut machine = alpha(&format!("navarro-2002:low_watermark=500,demotion_percent={demote}"), 8 * M);
        machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 8 * M)));
        machine.sweep(AT, 512, Kind::Store);
        assert_eq!(machine.vm.counters().superpages[2].current, 1);
        // Less than half of memory is available: all pages are scanned, and pages in use stay.
        machine.sweep(AT + 4 * M, 32, Kind::Store);
        daemon(&mut machine);
        assert_eq!(machine.vm.counters().superpages[2].current, expected, "p = {demote} %");
    }
}

#[test]
fn page_table_nodes_are_clustered() {
    let blocks = |paging: &str| {
        let mut machine = alpha(&format!("navarro-2002:paging={paging}"), 64 * M);
        for i in 0..16 {
            machine.event(&Event::Map(Map::anonymous(VirtAddr(AT + i * (1 << 34)), 64 * K)));
            machine.sweep(AT + i * (1 << 34), 8, Kind::Store);
        }
        machine.vm.check();
        let frames = machine.vm.frames();
        let tables = (0..frames.buddy().frames())
            .filter(|&at| frames.get(reach_core::Pfn(at)).kind == reach_os::FrameKind::Table);
        tables.map(|at| at >> 6).collect::<std::collections::BTreeSet<u64>>().len()
    };
    assert!(blocks("daemon") < blocks("cache"), "{} against {}", blocks("daemon"), blocks("cache"));
}

#[test]
fn scans_and_writes_of_the_daemon_are_charged() {
    let mut machine = alpha("navarro-2002:low_watermark=500", 8 * M);
    file(&mut machine, 1, AT, 4 * M);
    machine.sweep(AT, 512, Kind::Store);
    let before = machine.vm.ledger().charged(Label::Daemon);
    machine.event(&Event::Unmap(Span { start: VirtAddr(AT), len: 4 * M }));
    assert_eq!(paged(&machine).out, 512, "dirty pages of a closed file are written");
    for _ in 0..3 {
        daemon(&mut machine);
    }
    let counts = paged(&machine);
    let costs = &machine.vm.options().costs;
    let min = counts.scanned * costs.scan_per_page + costs.file_read_per_byte.times(counts.out * 8 * K).0;
    assert!(machine.vm.ledger().charged(Label::Daemon) - before >= min);
}

/// Pages of open, mapped files fill memory. An allocation, even of many contiguous frames, waits until the daemon has
/// reclaimed them.
#[test]
fn memory_full_of_mapped_files_is_reclaimed_when_an_allocation_fails() {
    for spec in ["navarro-2002", "navarro-2002:paging=cache", "freebsd"] {
        let mut machine = alpha(spec, 8 * M);
        for i in 0..400 {
            let at = AT + u64::from(i) * 64 * K;
            file(&mut machine, i, at, 8 * K * (1 + u64::from(i) % 8));
            machine.sweep(at, 1 + u64::from(i) % 8, Kind::Load);
            if i % 40 == 39 {
                // The root of a new process takes 256 contiguous KB.
                machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
                machine.touch(Vpn(AT >> 13), Kind::Store);
                machine.event(&Event::Exit);
                machine.event(&Event::Switch { asid: Asid(1), thread: ThreadId(0) });
                machine.vm.check();
            }
        }
        assert!(paged(&machine).cached > 700 || spec == "freebsd", "{:?}", paged(&machine));
        assert!(paged(&machine).scanned > 700, "{:?}", paged(&machine));
        assert_eq!(paged(&machine).out, 0, "files that are only read are not written");
        machine.exit_all();
    }
}

/// §6.5, Figure 5: contiguity over time, and before and after each process; §5.2: wired pages stay.
#[test]
fn memory_is_sampled_over_time_and_around_processes() {
    let mut machine = alpha("navarro-2002:sample_period=1000", 64 * M);
    machine.event(&Event::Switch { asid: Asid(2), thread: ThreadId(1) });
    machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 32 * M)));
    let second = machine.vm.options().hertz;
    assert_eq!(machine.system.next_tick(), Some(Cycles(0)));
    machine.system.tick(Cycles(0), &mut machine.vm).unwrap();
    machine.sweep(AT, 4096, Kind::Store);
    assert_eq!(machine.system.next_tick(), Some(Cycles(second)));
    machine.system.tick(Cycles(second), &mut machine.vm).unwrap();
    machine.event(&Event::Exit);
    let series = &machine.vm.counters().series;
    assert_eq!(series.iter().map(|sample| sample.millis).collect::<Vec<_>>(), [0, 1000]);
    assert!(series[0].contiguity > 2 * series[1].contiguity && series[1].active >= 32 * M, "{series:?}");
    assert!((8..=9).contains(&series[1].in_use), "32 MB in extents of 4 MB: {series:?}");
    let [start, end] = machine.vm.finished()[&Asid(2)].around.map(Option::unwrap);
    // The records of 4096 translations take wired pages, which are not freed.
    let wired = machine.vm.frames().census()[3];
    assert!(
        start.contiguity >= end.contiguity && start.free >= end.free && wired >= 4096 * 56 / (8 * K),
        "{start:?} {end:?}"
    );
}

/// §5.2: when files' pages fill memory, the kernel wires frames of idle pages in extents that have wired pages already,
/// instead of scattered frames.
#[test]
fn wired_pages_are_clustered() {
    let wired = |spec: &str| {
        let mut machine = alpha(spec, 64 * M);
        for number in 0..2000 {
            let at = AT + u64::from(number) * M;
            file(&mut machine, number + 1, at, 64 * K);
            machine.sweep(at, 8, Kind::Load);
            if number % 3 > 0 {
                machine.event(&Event::Unmap(Span { start: VirtAddr(at), len: 64 * K }));
            }
            if number % 16 == 0 {
                daemon(&mut machine);
            }
        }
        machine.vm.sample(Cycles(0));
        // A record for each file in memory, and page tables for each MB.
        let pages = machine.vm.frames().census();
        assert!(pages[2] + pages[3] > 150, "{pages:?}");
        let extents = machine.vm.counters().series.last().unwrap().wired;
        machine.exit_all();
        extents
    };
    let (clustered, scattered) = (wired("navarro-2002"), wired("navarro-2002:paging=cache"));
    assert!(3 * clustered <= scattered, "{clustered} and {scattered} of 16 extents");
}

/// §6.8: promotion and demotion are linear in the superpage's size; other operations do not depend on it.
#[test]
fn only_promotion_and_demotion_take_steps_in_proportion_to_superpage_size() {
    let steps = |spec: &str, operation| {
        let mut machine = alpha(spec, 64 * M);
        machine.event(&Event::Map(Map::anonymous(VirtAddr(AT), 16 * M)));
        machine.sweep(AT, 2048, Kind::Store);
        machine.event(&Event::Unmap(Span { start: VirtAddr(AT), len: 16 * M }));
        let work = machine.vm.counters().work.clone().unwrap();
        (1..4).map(move |size| work.of(operation, size)).chain([machine
            .vm
            .counters()
            .work
            .as_ref()
            .unwrap()
            .all(operation)])
    };
    for operation in [Operation::Promote, Operation::Demote] {
        let each: Vec<_> = steps("navarro-2002", operation).map(|s| s.steps.checked_div(s.times)).collect();
        let expected = [Some(8), Some(64), Some(512)];
        assert!(each.iter().zip(expected).all(|(ours, theirs)| ours.is_none() || *ours == theirs), "{each:?}");
        assert_eq!(each[2], Some(512));
    }
    for operation in [Operation::LookUp, Operation::Update, Operation::Reserve] {
        let each = |spec| steps(spec, operation).last().map(|s| s.steps as f64 / s.times as f64).unwrap();
        let (small, large, all) = (each("navarro-2002:sizes=64K"), each("navarro-2002:sizes=4M"), each("navarro-2002"));
        assert!(large <= 1.2 * small && all <= 3.0 * small, "{operation:?}: {small} {large} {all}");
    }
}
