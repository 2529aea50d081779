//! Systems that bring replacement policies of their own.

use crate::common::simulate;
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
}
