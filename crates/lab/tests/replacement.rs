//! Systems that bring replacement policies of their own.

use crate::common::{Pieces, experiment, run as run_source, simulate};
use reach_core::{Asid, Block, BlockTable, Chunk, Event, Map, Protection, Random, Ref, ThreadId, VirtAddr};
use reach_lab::{Conditions, Outcome, Simulation, Timing, machine};

const MACHINE: &str = "skylake-sp:tlb.l2.replacement=lru";
/// 512 pages of code, and random loads of 64 MB.
const PROGRAM: &str = "code:regions=4,clusters=8,pages=16,dwell=4,reuse=30,data=64M,visits=60K";

fn run(machine: &str, system: &str, timing: Timing) -> Outcome {
    simulate(machine, system, PROGRAM, timing)
}

#[test]
fn instructions_stay_in_the_tlb_and_data_make_way() {
    let of = |system| {
        let hardware = run(MACHINE, system, Timing::Counts).total.hardware;
        (hardware.walks_fetch, hardware.walks_data)
    };
    let (base, itp) = (of("base"), of("chasapis-2025-itp:xptp=off"));
    assert!(itp.0 * 2 < base.0 && itp.1 > base.1, "{base:?} {itp:?}");
    assert_eq!(of("chasapis-2025-itp:itp=off"), base, "caches do not change what TLBs hold");
}

#[test]
fn a_machine_file_names_the_same_policies() {
    let named = run("skylake-sp:tlb.l2.replacement=itp,caches.l2.replacement=xptp", "base", Timing::InOrder);
    let brought = run("skylake-sp", "chasapis-2025-itp", Timing::InOrder);
    assert_eq!(named.total.hardware, brought.total.hardware);
    let refusal = |spec: &str| machine::resolve(spec).unwrap_err().to_string();
    assert!(refusal("skylake-sp:tlb.l2.replacement=xptp").contains("xPTP is for data caches"));
    assert!(refusal("skylake-sp:caches.l2.replacement=itp").contains("iTP is for TLB arrays"));
    let named = run("skylake-sp:tlb.l2.replacement=chirp", "base", Timing::InOrder);
    let brought = run("skylake-sp", "mirbagher-2020-chirp", Timing::InOrder);
    assert_eq!(named.total.hardware, brought.total.hardware);
    assert!(refusal("skylake-sp:caches.l2.replacement=chirp").contains("CHiRP is for TLB arrays"));
}

#[test]
fn entries_of_page_tables_stay_in_the_second_cache() {
    let of = |system| {
        // The entries for 64 MB of data take 128 KB.
        let outcome = run(&format!("{MACHINE},caches.l2.bytes=128K"), system, Timing::InOrder);
        outcome.total.hardware.walk_cycles as f64 / outcome.total.hardware.walks() as f64
    };
    let [without, with] = ["chasapis-2025-itp:xptp=off", "chasapis-2025-itp"].map(of);
    assert!(with < without, "{with} {without}");
}

#[test]
fn machines_without_a_second_level_are_refused() {
    let refusal = |machine: &str, system: &str| {
        let machine = machine::resolve(machine).unwrap();
        let system = reach_systems::resolve(system).unwrap();
        Simulation::new(&machine, &system, &Conditions::new(64 << 20)).err().unwrap().to_string()
    };
    assert!(refusal("alpha-21264", "chasapis-2025-itp").contains("use itp=off"));
    assert!(refusal("alpha-21264", "mirbagher-2020-chirp").contains("use a machine with two"));
}

/// A second level of 128 entries.
const SMALL: &str = "skylake-sp:tlb.l2.replacement=lru,tlb.l2.entries=128,tlb.l2.ways=8";

/// A program that loads twice from random ones of 60 pages, then from the next of 2,000 others, and so on. The same instruction loads from
/// all; which of two blocks comes before it tells them apart. These end in `branch`; their instructions are not known if it is `None`.
fn two_working_sets(branch: Option<[u8; 2]>) -> Pieces {
    let (text, few, many) = (VirtAddr(0x40_0000), VirtAddr(0x1000_0000), VirtAddr(0x2000_0000));
    let (mut blocks, mut program, mut random) = (BlockTable::default(), Chunk::default(), Random::new(5));
    program.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    let code = Protection { execute: true, ..Protection::READ_WRITE };
    program.push_event(Event::Map(Map { protection: code, ..Map::anonymous(text, 64 << 10) }));
    program.push_event(Event::Map(Map::anonymous(few, 60 << 12)));
    program.push_event(Event::Map(Map::anonymous(many, 2000 << 12)));
    let mut before = |at| {
        let bytes = branch.map_or(Box::default(), Box::from);
        blocks.push(Block { pc: text + at, len: 2, instructions: 1, bytes })
    };
    let before = [before(0), before(0x340)];
    // mov rax, [rdi]; jmp
    let bytes = [0x48, 0x8b, 0x07, 0xeb, 0x10].into();
    let loads = blocks.push(Block { pc: text + 0x800, len: 5, instructions: 2, bytes });
    for n in 0..12_000 {
        let (before, page) = match n % 3 {
            2 => (before[1], many + n / 3 % 2000 * 4096),
            _ => (before[0], few + random.below(60) * 4096),
        };
        program.push_fetch(before, blocks.get(before));
        program.push_fetch(loads, blocks.get(loads));
        program.refs.push(Ref::load(page));
    }
    Pieces::new("two working sets", blocks, program)
}

const CONDITIONAL: Option<[u8; 2]> = Some([0x75, 0x10]);
const INDIRECT: Option<[u8; 2]> = Some([0xff, 0xe0]);
const DIRECT: Option<[u8; 2]> = Some([0xeb, 0x10]);

/// Returns the walks for data under LRU and under CHiRP.
fn walks(branch: Option<[u8; 2]>, timing: Timing) -> (u64, u64) {
    let experiment = experiment(&[SMALL], &["base", "mirbagher-2020-chirp"], timing);
    let report = run_source(&experiment, &mut two_working_sets(branch).cut(vec![997]));
    let [lru, chirp] = [0, 1].map(|system: usize| report.outcomes[system].total.hardware.walks_data);
    (lru, chirp)
}

#[test]
fn what_control_flow_says_is_used_once_makes_way() {
    for timing in Timing::ALL {
        for branch in [CONDITIONAL, INDIRECT, None] {
            let (lru, chirp) = walks(branch, timing);
            // Under LRU, about a quarter of the 8,000 loads from few pages miss.
            assert!(chirp + 800 < lru, "{branch:?} {}: {lru} {chirp}", timing.name());
        }
    }
}

#[test]
fn every_timing_decodes_the_branches_for_a_system_that_reads_them() {
    for timing in [Timing::Counts, Timing::InOrder] {
        let [(lru, direct), (_, unknown)] = [DIRECT, None].map(|branch| walks(branch, timing));
        assert!(
            lru.abs_diff(direct) * 4 < lru - unknown,
            "a direct jump tells nothing apart: {lru} {direct} {unknown}"
        );
    }
    for branch in [CONDITIONAL, INDIRECT, None] {
        assert_eq!(walks(branch, Timing::Counts), walks(branch, Timing::InOrder), "{branch:?}");
    }
}
