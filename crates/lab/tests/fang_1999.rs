//! Online promotion (Fang et al. 1999) on the paper's machine, with its microbenchmark: the exact counts that follow from
//! the policies, and the equivalences that must hold.

use crate::common::{conditions, experiment, run, simulate};
use reach_core::Label;
use reach_lab::{Conditions, Experiment, Outcome, Simulation, Timing, machine};
use reach_os::{Fragmentation, FreeMemory};
use reach_trace::synthetic;

const PAINT: &str = "paint-parisc";
const PAGES: u64 = 4096;
/// Superpages of two pages up to 1024.
const SIZES: u64 = 10;

fn micro(system: &str, sweeps: u64, timing: Timing) -> Outcome {
    simulate(PAINT, &format!("fang-1999:{system}"), &format!("fang-micro:iterations={sweeps}"), timing)
}

/// Returns the misses that found a translation.
fn misses(outcome: &Outcome) -> u64 {
    outcome.total.hardware.walks() - outcome.total.hardware.walks_faulting
}

#[test]
fn a_policy_that_is_off_costs_nothing() {
    for timing in [Timing::Counts, Timing::InOrder] {
        for (base, never) in
            [("base", "fang-1999:policy=never"), ("base:zero_page=off", "fang-1999:policy=never,zero_page=off")]
        {
            for program in ["fang-micro:iterations=2", "mix:bytes=4M,refs=20K", "tree:nodes=500,operations=100"] {
                let mut source = synthetic::parse(program).unwrap();
                let report = run(&experiment(&[PAINT, "zen4"], &[base, never], timing), &mut *source);
                for outcomes in report.machines() {
                    let [base, never] = outcomes else { panic!("two systems") };
                    assert!(base.total.ledger.total().0 > 100_000);
                    assert_eq!(base.total.ledger, never.total.ledger, "{program} on {}", base.machine);
                    assert_eq!(base.total.hardware, never.total.hardware);
                    assert_eq!((&base.os, &base.caches), (&never.os, &never.caches));
                }
            }
        }
    }
}

#[test]
fn asap_promotes_every_level_at_the_first_touch() {
    for mechanism in ["copy", "remap"] {
        let outcome = micro(&format!("policy=asap,mechanism={mechanism}"), 2, Timing::InOrder);
        // Each pair of pages, each pair of pairs and so on: the inner nodes of binary trees over 4096 pages, up to 4 MB.
        assert_eq!(outcome.os.promotions, PAGES - PAGES / 1024);
        assert_eq!(outcome.os.superpages.last().map(|gauge| gauge.peak), Some(4));
        let copied = if mechanism == "copy" { (SIZES * PAGES) << 12 } else { 0 };
        assert_eq!(outcome.os.bytes_copied, copied);
        // One miss a page and a few for code: the second sweep finds four superpages.
        assert!(misses(&outcome) <= PAGES + 8, "{}", misses(&outcome));
    }
    let largest = micro("policy=asap,mechanism=copy,build=largest", 2, Timing::Counts);
    // The second page of each pair completes at least one candidate, and only the largest is built.
    assert_eq!(largest.os.promotions, PAGES / 2);
    // For each size but the last, every other candidate completes without completing a larger one.
    assert_eq!(largest.os.bytes_copied, ((SIZES - 1) * PAGES / 2 + PAGES) << 12);
}

#[test]
fn approx_online_goes_straight_to_the_largest_page() {
    // A candidate of 2^n pages is charged 2^n - 1 times a sweep against a threshold of t 2^(n-1). The largest gets there
    // first, after t / 2 sweeps, and every page is copied once.
    for threshold in [2, 8, 32] {
        for mechanism in ["copy", "remap"] {
            let system = format!("policy=aol,threshold={threshold},mechanism={mechanism}");
            let outcome = micro(&system, threshold, Timing::Counts);
            assert_eq!(outcome.os.promotions, PAGES / 1024, "{system}");
            assert_eq!(outcome.os.bytes_copied, if mechanism == "copy" { PAGES << 12 } else { 0 });
            let per_page = misses(&outcome) as f64 / PAGES as f64;
            let expected = threshold as f64 / 2.0;
            assert!((expected..expected + 0.05).contains(&per_page), "{system}: {per_page} misses a page");
        }
    }
}

#[test]
fn remapped_pages_are_retranslated_on_their_way_to_memory() {
    let sweeps = |sweeps: u64| micro("policy=asap,mechanism=remap", sweeps, Timing::InOrder);
    let (outcome, longer) = (sweeps(4), sweeps(8));
    // Each reference goes to memory at a shadow address; one read of the table brings 16 pages.
    let (before, after) = (outcome.controller.unwrap(), longer.controller.unwrap());
    assert_eq!(after.retranslations - before.retranslations, 4 * PAGES);
    assert_eq!(after.misses - before.misses, 4 * PAGES / 16);
    let copied = micro("policy=asap,mechanism=copy", 4, Timing::InOrder);
    assert!(copied.controller.is_none());
    let one_by_one = micro("policy=asap,mechanism=remap,mtlb_fill=1", 4, Timing::InOrder);
    let waits = |outcome: &Outcome| outcome.total.ledger.charged(Label::Cache).0;
    assert!(waits(&one_by_one) > waits(&outcome) + 50 * 3 * PAGES, "each reference waits for the table");
}

fn with(system: &str, program: &str, conditions: Conditions) -> Outcome {
    let experiment = Experiment { conditions, ..experiment(&[PAINT], &[system], Timing::Counts) };
    run(&experiment, &mut *synthetic::parse(program).unwrap()).outcomes.remove(0)
}

#[test]
fn fragmented_memory_prevents_copying_but_not_remapping() {
    // No block of 16 pages is left.
    let fragmentation =
        Fragmentation { order: 4, scattered: 1.0, hold: 0.1, grain: 0, first: false, stay: None, seed: 3 };
    let fragmentation = Some(FreeMemory::Broken(fragmentation));
    let fragmented = Conditions { memory: 128 << 20, fragmentation, ..conditions(Timing::Counts) };
    let copied = with("fang-1999:policy=asap,mechanism=copy", "fang-micro:iterations=1", fragmented.clone());
    assert!(copied.os.superpage_fallbacks > 0);
    assert_eq!(copied.os.superpages[4..].iter().map(|gauge| gauge.peak).sum::<u64>(), 0, "no page of 32 base pages");
    assert!(copied.os.superpages[0].peak > 0);
    let remapped = with("fang-1999:policy=asap,mechanism=remap", "fang-micro:iterations=1", fragmented);
    assert_eq!((remapped.os.superpage_fallbacks, remapped.os.superpages.last().map(|gauge| gauge.peak)), (0, Some(4)));
}

#[test]
fn hints_promote_at_allocation() {
    for (mechanism, copied) in [("copy", PAGES << 12), ("remap", 0)] {
        let outcome = micro(&format!("policy=hints,mechanism={mechanism}"), 1, Timing::Counts);
        assert_eq!((outcome.os.promotions, outcome.os.bytes_copied), (PAGES / 1024, copied));
        assert!(misses(&outcome) < 16, "pages are promoted before their first miss");
    }
    let none = micro("policy=hints,min_mapping=1048576", 1, Timing::Counts);
    assert_eq!(none.os.promotions, 0, "no mapping is that large");
}

#[test]
fn a_machine_with_a_hardware_walker_is_refused() {
    let (machine, system) = (machine::resolve("zen4").unwrap(), reach_systems::resolve("fang-1999").unwrap());
    let refused = Simulation::new(&machine, &system, &conditions(Timing::Counts)).err().unwrap().to_string();
    assert!(refused.contains("miss handler") && refused.contains("paint-parisc"), "{refused}");
}
