//! Guests on hosts with operating systems of their own.

use reach_lab::{Conditions, Outcome, Preparer, Simulation, Timing, machine};
use reach_trace::{Source, synthetic};
use std::sync::Arc;

const PROGRAMS: [&str; 4] =
    ["gups:bytes=32M,updates=40K", "kv:bytes=24M,requests=4K", "bfs:bytes=24M", "stride:bytes=24M,stride=4K"];

fn run(machine: &str, program: &str, system: &str, host: Option<&str>, timing: Timing) -> Outcome {
    let machine = machine::resolve(machine).unwrap();
    let system = reach_systems::resolve(system).unwrap();
    let conditions = Conditions { timing, host: host.map(str::to_owned), ..Conditions::new(256 << 20) };
    let mut simulation = Simulation::new(&machine, &system, &conditions).unwrap();
    simulation.check_often();
    let mut preparer = Preparer::new(timing);
    let mut program = synthetic::parse(program).unwrap();
    let mut chunk = reach_core::Chunk::default();
    while program.fill(&mut chunk).unwrap() {
        let batch = preparer.prepare(std::mem::take(&mut chunk), program.blocks());
        simulation.take(&Arc::new(batch)).unwrap();
        simulation.check();
    }
    simulation.check();
    simulation.finish()
}

const GUEST: &str = "skylake-sp:nested.host_page=4K";

#[test]
fn both_policies_choose_their_pages() {
    for (number, program) in PROGRAMS.iter().enumerate() {
        // Policies do not see the timing, so one program shows that each timing walks both tables.
        let timings = if number == 0 { &[Timing::Counts, Timing::InOrder, Timing::Ooo][..] } else { &[Timing::Counts] };
        for &timing in timings {
            let of = |guest, host| run(GUEST, program, guest, Some(host), timing);
            let [small, guest_huge, host_huge, huge] =
                [of("base", "base"), of("linux-thp", "base"), of("base", "linux-thp"), of("linux-thp", "linux-thp")];
            let about = format!("{program} {timing:?}");
            let host = |outcome: &Outcome| outcome.host.clone().unwrap();
            assert_eq!(host(&small).superpages[0].peak + small.os.superpages[0].peak, 0, "{about}");
            assert!(guest_huge.os.superpages[0].peak > 0 && host(&guest_huge).superpages[0].peak == 0, "{about}");
            assert!(host_huge.os.superpages[0].peak == 0 && host(&host_huge).superpages[0].peak > 0, "{about}");
            assert!(huge.os.superpages[0].peak > 0 && host(&huge).superpages[0].peak > 0, "{about}");
            // Every page that a walk used was given once.
            assert!(host(&small).page_faults > 10 * host(&host_huge).page_faults, "{about}");
            for outcome in [&small, &guest_huge, &host_huge, &huge] {
                let hardware = &outcome.total.hardware;
                assert!(hardware.walk_accesses <= 24 * hardware.walks(), "{about}");
                assert!(hardware.host_accesses > 0, "{about}");
            }
            // TLBs reach further only if both sides have large pages.
            let walks = |outcome: &Outcome| outcome.total.hardware.walks();
            assert!(walks(&huge) * 2 < walks(&small), "{about}: {} {}", walks(&huge), walks(&small));
            let entries = |outcome: &Outcome| outcome.total.hardware.walk_accesses;
            assert!(entries(&huge) < entries(&host_huge) && entries(&host_huge) < entries(&small), "{about}");
        }
    }
}

#[test]
fn a_host_without_an_operating_system_of_its_own_takes_no_faults() {
    let fixed = run(GUEST, PROGRAMS[0], "base", None, Timing::InOrder);
    let own = run(GUEST, PROGRAMS[0], "base", Some("base"), Timing::InOrder);
    assert!(fixed.host.is_none());
    assert_eq!(fixed.os.page_faults, own.os.page_faults, "the guest does not notice");
    let faults = own.host.unwrap().page_faults;
    assert_eq!(own.total.hardware.walks_faulting - fixed.total.hardware.walks_faulting, faults);
}

#[test]
fn assists_find_no_page_that_the_host_has_not_given() {
    let of = |system| run(GUEST, PROGRAMS[0], system, Some("base"), Timing::InOrder);
    let faults = of("base").host.unwrap().page_faults;
    for system in ["zhang-2024-dmt", "kanellopoulos-2023-utopia", "ryoo-2017-pom-tlb", "kanellopoulos-2023-victima"] {
        let assisted = of(system);
        assert!(assisted.total.hardware.assist_hits > 1000, "{system}");
        let its = assisted.host.unwrap().page_faults;
        assert!(its.abs_diff(faults) * 20 < faults, "{system}: {its}, base: {faults}");
    }
}

#[test]
fn ranges_of_guest_and_host_are_one_range_for_the_tlb() {
    let rmm = "karakostas-2015-rmm";
    for program in [PROGRAMS[0], PROGRAMS[1]] {
        for timing in [Timing::Counts, Timing::Ooo] {
            let of = |system, host| {
                let outcome = run(GUEST, program, system, Some(host), timing).total.hardware;
                (outcome.walks(), outcome.aux_tlb_walks_avoided)
            };
            let [base, small, huge, both] = [("base", "base"), (rmm, "base"), (rmm, "linux-thp"), (rmm, rmm)]
                .map(|(system, host)| of(system, host));
            // On a host of base pages a range TLB holds single pages.
            assert!(small.1 * 50 < base.0, "{program} {timing:?}: {small:?} of {base:?}");
            assert!(huge.0 * 3 < base.0, "{program} {timing:?}: {huge:?} of {base:?}");
            assert!(both.0 * 100 < both.1 && both.0 * 20 < base.0, "{program} {timing:?}: {both:?} of {base:?}");
        }
    }
    // A host without an operating system has all memory in pages of one size.
    let walks = |page: &str| {
        let machine = format!("skylake-sp:nested.host_page={page}");
        run(&machine, PROGRAMS[0], rmm, None, Timing::Counts).total.hardware.walks()
    };
    assert!(walks("2M") * 3 < walks("4K") && walks("1G") * 20 < walks("4K"));
}

#[test]
fn neighbours_share_entries_of_a_guest_where_its_host_maps_in_order() {
    for system in ["pham-2012-colt", "pham-2014-clustered"] {
        let program = "gups:bytes=32M,updates=40K,init=pages";
        let of = |host| run(GUEST, program, system, host, Timing::Counts).total.hardware.aux_tlb_coalesced;
        assert!(of(Some("linux-thp")) > 1000, "{system}: huge pages of the host hold frames in order");
        assert!(of(Some("base")) > 1000, "{system}: so do first touches while nothing else takes memory");
        assert_eq!(of(None), 0, "{system}: this host has scattered them");
    }
}

#[test]
fn hosts_run_daemons_and_flush_the_guest() {
    // The host promotes while the program runs: its first touches are of base pages.
    let host = Some("panwar-2019-hawkeye:huge_faults=off,sample_millisecs=1,window_millisecs=1");
    let outcome = run(GUEST, "gups:bytes=16M,updates=400K", "base", host, Timing::InOrder);
    let host = outcome.host.unwrap();
    assert!(host.superpages[0].peak > 0 && host.bytes_copied > 0);
}

#[test]
fn superpages_of_guest_and_host_are_compared_before_the_program_ends() {
    let of = |guest, host| {
        let outcome = run(GUEST, "gups:bytes=16M,updates=4K", guest, Some(host), Timing::Counts);
        outcome.aligned_superpages.unwrap()
    };
    // The table of 16 MB, and of the host's whatever holds the guest's page tables and base pages, too.
    let both = of("linux-thp", "linux-thp");
    assert!(both.guest == 8 && both.aligned == 8 && both.host > 8, "{both:?}");
    assert_eq!(of("linux-thp", "same"), both);
    let guest = of("linux-thp", "base");
    assert_eq!((guest.guest, guest.host, guest.aligned), (8, 0, 0));
    assert_eq!(of("base", "linux-thp").aligned, 0);
    assert_eq!(run(GUEST, PROGRAMS[0], "linux-thp", None, Timing::Counts).aligned_superpages, None);
}

#[test]
fn the_host_may_be_the_same_system_with_its_options() {
    let of = |host| run(GUEST, PROGRAMS[1], "linux-thp:enabled=never", Some(host), Timing::Counts).host.unwrap();
    assert_eq!(of("same"), of("linux-thp:enabled=never"));
    assert_ne!(of("same"), of("linux-thp"));
}

/// Walks, the entries that each reads, traps, and page faults.
fn walked(outcome: &Outcome) -> (u64, f64, u64, u64) {
    let hardware = &outcome.total.hardware;
    let entries = hardware.walk_accesses as f64 / hardware.walks() as f64;
    let traps = outcome.os.monitor.map_or(0, |monitor| monitor.traps());
    (hardware.walks(), entries, traps, outcome.os.page_faults)
}

#[test]
fn a_shadowed_table_is_walked_as_outside_a_guest_and_each_of_its_changes_traps() {
    for (program, host) in [(PROGRAMS[0], None), (PROGRAMS[1], Some("base")), (PROGRAMS[2], None)] {
        let of = |paging| walked(&run(GUEST, program, &format!("base:guest_paging={paging}"), host, Timing::Counts));
        let [nested, shadow, agile, native] = ["nested", "shadow", "agile", "native"].map(of);
        // Walks that the host ends are made again, and the guest does not notice.
        assert_eq!([nested.3, shadow.3, agile.3], [native.3; 3], "{program}");
        assert!((nested.2, native.2) == (0, 0), "{program}");
        assert!((shadow.1 - native.1).abs() < 0.1, "{program}: {shadow:?} {native:?}");
        assert!(nested.1 > 1.5 * native.1, "{program}: {nested:?} {native:?}");
        assert!(agile.1 > shadow.1 && agile.1 <= nested.1, "{program}: {agile:?} {nested:?}");
        // A fault traps, and so does the entry that answers it; agile paging is spared most of both.
        assert!(shadow.2 >= 2 * shadow.3, "{program}: {shadow:?}");
        assert!(agile.2 * 20 < shadow.2, "{program}: {agile:?} {shadow:?}");
    }
}

#[test]
fn agile_paging_goes_back_to_shadow_tables_where_the_guest_has_stopped_to_write() {
    let machine = "skylake-sp:nested.host_page=4K,nested.interval_ms=1";
    let program = "gups:bytes=32M,updates=400K,init=pages";
    let outcome = run(machine, program, "base:guest_paging=agile", None, Timing::InOrder);
    let monitor = outcome.os.monitor.unwrap();
    assert!(monitor.returns > 10, "{monitor:?}");
    let of = |paging| walked(&run(machine, program, &format!("base:guest_paging={paging}"), None, Timing::InOrder)).1;
    let [nested, shadow] = ["nested", "shadow"].map(of);
    let agile = walked(&outcome).1;
    assert!(agile - shadow < (nested - shadow) / 2.0, "{agile}, {shadow} to {nested}");
}

#[test]
fn both_large_pages_are_needed_for_a_large_shadow_entry() {
    let of = |machine| run(machine, PROGRAMS[0], "linux-thp:guest_paging=shadow", None, Timing::Counts);
    let [small, large] = [of(GUEST), of("skylake-sp:nested.host_page=2M")];
    assert!(large.total.hardware.walks() * 2 < small.total.hardware.walks());
    assert!(walked(&small).1 > walked(&large).1);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refusal = |machine: &str, system: &str, host: &str| {
        let machine = machine::resolve(machine).unwrap();
        let system = reach_systems::resolve(system).unwrap();
        let conditions = Conditions { host: Some(host.into()), ..Conditions::new(64 << 20) };
        Simulation::new(&machine, &system, &conditions).err().unwrap().to_string()
    };
    assert!(refusal("skylake-sp", "base", "base").contains("add nested.host_page"));
    assert!(
        refusal("skylake-sp:nested.host_page=2M", "base", "base").contains("set nested.host_page to the base page")
    );
    assert!(refusal(GUEST, "yaniv-2016-hashed", "base").contains("radix page tables"));
    assert!(refusal("skylake-sp", "base:guest_paging=agile", "base").contains("add nested.host_page"));
    assert!(refusal("skylake-sp", "base:guest_paging=native", "base").contains("add nested.host_page"));
    assert!(refusal(GUEST, "yaniv-2016-hashed:guest_paging=shadow", "base").contains("radix page tables only"));
    assert!(refusal(GUEST, "zhang-2024-dmt:guest_paging=shadow", "base").contains("assists the page walker"));
    assert!(refusal(GUEST, "pham-2012-colt:guest_paging=shadow", "base").contains("auxiliary TLB"));
    assert!(refusal(GUEST, "karakostas-2015-rmm:lookup=after-miss,sweep=8", "base").contains("sweep"));
    assert!(refusal(GUEST, "basu-2013-direct-segment", "base").contains("segments"));
    assert!(refusal(GUEST, "gosakan-2023-mosaic", "base").contains("hashes"));
    assert!(refusal(GUEST, "base", "base:guest_paging=shadow").contains("is no guest"));
    assert!(refusal(GUEST, "base", "bass").contains("base"));
    assert!(refusal(GUEST, "base", "romer-1995").contains("miss handler"));
    assert!(refusal(GUEST, "base", "base:page_table=hashed").contains("no radix page table"));
    let with_hardware = [
        "ideal",
        "pham-2012-colt",
        "zhang-2024-dmt",
        "chasapis-2025-itp",
        "mirbagher-2020-chirp",
        "gupta-2021-midgard",
    ];
    for hardware in with_hardware {
        assert!(refusal(GUEST, "base", hardware).contains("needs hardware of its own"), "{hardware}");
    }
}
