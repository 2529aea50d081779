//! Miss curves through the whole run loop: one pass counts what a simulation of each geometry counts.

use crate::common;
use crate::common::{Pieces, conditions, count, run};
use reach_lab::{Conditions, Curve, Experiment, ExperimentError, Placement, Report, Timing, machine};
use reach_trace::{FastForward, synthetic};

/// Skylake's arrays under LRU, which LRU stacks describe.
const MACHINE: &str = "skylake-e3-1240v5:tlb.l1i_4k.replacement=lru,tlb.l1d_4k.replacement=lru,\
                       tlb.l2.replacement=lru,tlb.l2.index=low";
const SYSTEMS: [&str; 3] = ["base", "linux-thp", "navarro-2002"];
const PROGRAMS: [&str; 3] =
    ["web:requests=20", "tree:nodes=3000,operations=500", "phases:sizes=64K/4M,dwell=1K,rounds=4"];

/// Returns an experiment with little memory: there are many boots, and the operating system checks itself after every
/// operation.
fn experiment(machines: &[&str], systems: &[&str], timing: Timing) -> Experiment {
    let conditions = Conditions { memory: 64 << 20, ..conditions(timing) };
    Experiment { conditions, ..common::experiment(machines, systems, timing) }
}

fn curve(spec: &str) -> Option<Curve> {
    Some(spec.parse().unwrap())
}

/// Returns the count of a metric of all processes under `system`.
fn metric_of(report: &Report, system: &str, metric: &str) -> u64 {
    let rows: Vec<_> = report.rows().into_iter().filter(|row| row.system == system).collect();
    count(&rows, "all", metric)
}

#[test]
fn one_pass_equals_a_simulation_of_each_geometry() {
    let mut compared = 0;
    for program in PROGRAMS {
        let program = Pieces::of(&mut *synthetic::parse(program).unwrap());
        for (timing, asked, array, metric) in [
            (Timing::Counts, "l2_tlb:entries=24/64/1024,ways=1/3/full", "l2", "walks"),
            (Timing::InOrder, "l2_tlb:entries=64,ways=4", "l2", "walks"),
            (Timing::Counts, "l1d_tlb:entries=8/96,ways=2/6/full", "l1d_4k", "l1d_tlb_misses"),
            (Timing::InOrder, "l1i_tlb:entries=4/16,ways=4/full", "l1i_4k", "l1i_tlb_misses"),
        ] {
            let observed = Experiment { curve: curve(asked), ..experiment(&[MACHINE], &SYSTEMS, timing) };
            let one = run(&observed, &mut program.cut(vec![997]));
            let plain = run(&experiment(&[MACHINE], &SYSTEMS, timing), &mut program.cut(vec![5000]));
            let all = one.outcomes[0].curve.as_ref().unwrap().misses.clone();
            for (geometry, _) in all {
                let (entries, ways) = (geometry.entries, geometry.ways);
                let spec = format!("{MACHINE},tlb.{array}.entries={entries},tlb.{array}.ways={ways}");
                let alone = run(&experiment(&[&spec], &SYSTEMS, timing), &mut program.cut(vec![20_000]));
                for system in SYSTEMS {
                    let at = format!("{system}, {spec}, {}", timing.name());
                    let misses = metric_of(&alone, system, metric);
                    assert_eq!(
                        metric_of(&one, system, &format!("curve.{array}.wakes")),
                        0,
                        "{at}: the clock woke a daemon"
                    );
                    assert_eq!(
                        metric_of(&one, system, &format!("curve.{array}.misses@{entries}x{ways}")),
                        misses,
                        "{at}"
                    );
                    compared += 1;
                }
            }
            // Counting the curve does not change the simulation.
            for system in SYSTEMS {
                for metric in ["cycles", "walks", "l2_tlb_hits", "l1i_tlb_misses", "page_faults"] {
                    assert_eq!(metric_of(&one, system, metric), metric_of(&plain, system, metric), "{system} {metric}");
                }
            }
        }
    }
    assert!(compared > 150, "{compared}");
}

/// Where LRU stacks do not suffice: page-table entries in the array, arrays that share a level, and other replacement.
#[test]
fn replicas_of_a_level_equal_a_simulation_of_each_geometry() {
    let mut compared = 0;
    for (machine, asked, array, metric) in [
        ("zen3", "l2_tlb:entries=16/64/512,ways=1/4", "l2d", "walks.data"),
        ("zenplus-2700x", "l2d:entries=48/192,ways=3/12", "l2d", "walks.data"),
        ("icelake-sp", "l2_tlb:entries=16/64/512,ways=2/8", "l2_2m", "walks"),
        ("sapphire-rapids", "l2_1g:entries=32/256,ways=4", "l2_1g", "walks"),
        ("neoverse-n1", "l2_tlb:entries=20/80/320,ways=5/full", "l2", "walks"),
        ("apple-m1", "l2_tlb:entries=16/96,ways=4/6", "l2", "walks"),
        (
            "skylake-e3-1240v5:tlb.l2.replacement=tree-plru,tlb.l2.ways=16,tlb.l2.entries=2048",
            "l2:entries=32/64,ways=2..8",
            "l2",
            "walks",
        ),
        ("skylake-e3-1240v5:tlb.l2.replacement=random", "l2:entries=24/64,ways=1/3/full", "l2", "walks"),
        ("skylake-e3-1240v5", "l2_tlb:entries=24..192,ways=3/6", "l2", "walks"),
        ("skylake-e3-1240v5:tlb.l2.replacement=lru", "l2:entries=24/64,ways=1/3/full", "l2", "walks"),
    ] {
        for program in &PROGRAMS[..2] {
            let program = Pieces::of(&mut *synthetic::parse(program).unwrap());
            let observed = Experiment { curve: curve(asked), ..experiment(&[machine], &SYSTEMS, Timing::Counts) };
            let one = run(&observed, &mut program.cut(vec![997]));
            for (geometry, _) in &one.outcomes[0].curve.as_ref().unwrap().misses {
                let (entries, ways) = (geometry.entries, geometry.ways);
                let colon = if machine.contains(':') { "," } else { ":" };
                let spec = format!("{machine}{colon}tlb.{array}.entries={entries},tlb.{array}.ways={ways}");
                let alone = run(&experiment(&[&spec], &SYSTEMS, Timing::Counts), &mut program.cut(vec![20_000]));
                for system in SYSTEMS {
                    let misses = metric_of(&one, system, &format!("curve.{array}.misses@{entries}x{ways}"));
                    assert_eq!(misses, metric_of(&alone, system, metric), "{system}, {spec}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 150, "{compared}");
}

#[test]
fn lookups_are_those_of_the_level_and_more_ways_never_miss_more() {
    let program = Pieces::of(&mut *synthetic::parse(PROGRAMS[0]).unwrap());
    for (asked, array, metric) in [
        ("l2", "l2", "l2_tlb_lookups"),
        ("l1d_4k", "l1d_4k", "l1d_tlb_lookups"),
        ("l1i_4k", "l1i_4k", "l1i_tlb_lookups"),
    ] {
        let observed = Experiment { curve: curve(asked), ..experiment(&[MACHINE], &["base"], Timing::Counts) };
        let report = run(&observed, &mut program.cut(vec![997]));
        assert_eq!(metric_of(&report, "base", &format!("curve.{array}.lookups")), metric_of(&report, "base", metric));
        let misses = &report.outcomes[0].curve.as_ref().unwrap().misses;
        // LRU with the same number of sets: more entries never miss more.
        for (small, fewer) in misses {
            for (large, more) in misses {
                let sets = |g: &reach_lab::Geometry| g.entries / g.ways;
                assert!(sets(small) != sets(large) || small.ways > large.ways || fewer >= more, "{small:?} {large:?}");
            }
        }
    }
}

/// Counting begins where measuring begins; entries looked up before are held.
#[test]
fn fast_forwarded_references_do_not_count() {
    let program = Pieces::of(&mut *synthetic::parse("gups:bytes=1M,updates=20000").unwrap());
    let observed = |fast_forward| Experiment {
        curve: curve("l2:entries=16/256/512,ways=full"),
        fast_forward: FastForward::References(fast_forward),
        ..experiment(&[MACHINE], &["base"], Timing::Counts)
    };
    let report = run(&observed(program.len() as u64 / 2), &mut program.cut(vec![997]));
    assert_eq!(metric_of(&report, "base", "curve.l2.misses@1536x12"), metric_of(&report, "base", "walks"));
    assert_eq!(metric_of(&report, "base", "curve.l2.lookups"), metric_of(&report, "base", "l2_tlb_lookups"));
}

#[test]
fn curves_that_would_not_be_exact_are_refused() {
    let refusal = |experiment: Experiment| {
        let mut source = synthetic::parse("gups:bytes=64K,updates=10").unwrap();
        let error: ExperimentError = experiment.run(&mut *source, |_| true).err().expect("a refusal");
        error.to_string()
    };
    let refused_on = |machine: &str, system: &str, timing, asked: &str| {
        refusal(Experiment { curve: curve(asked), ..experiment(&[machine], &[system], timing) })
    };
    for (machine, system, timing, asked, part) in [
        (MACHINE, "base", Timing::Counts, "l3", "there is no such TLB array; there are l1i_4k, "),
        (MACHINE, "base", Timing::Ooo, "l2", "use --timing counts or inorder"),
        (MACHINE, "ideal", Timing::Counts, "l2", "translation never misses"),
        (MACHINE, "karakostas-2015-rmm", Timing::Counts, "l2", "auxiliary TLB"),
        (MACHINE, "pham-2012-colt", Timing::Counts, "l2", "auxiliary TLB"),
        ("skylake-e3-1240v5", "base", Timing::Counts, "l1d_4k", "by LRU"),
        (
            "skylake-e3-1240v5",
            "base",
            Timing::Counts,
            "l2:entries=64,ways=4",
            "4 ways under rotating tree-PLRU: expected three times a power of two",
        ),
        ("paint-parisc", "romer-1995", Timing::Counts, "micro_itlb", "acts on misses"),
    ] {
        let error = refused_on(machine, system, timing, asked);
        assert!(error.contains(part) && !error.contains('\n'), "{machine} {system}: {error}");
    }
    let several = Experiment { curve: curve("l2"), ..experiment(&[MACHINE], &["base"], Timing::Counts) };
    let mut conditions = several.conditions.clone();
    conditions.placement = Placement::of(2, 1);
    let error = refusal(Experiment { conditions, ..several });
    assert!(error.contains("use one core"), "{error}");
    // The instruction side is exact even if walks use entries of the data side.
    let zen = Experiment { curve: curve("l2i"), ..experiment(&["zen3"], &["base"], Timing::Counts) };
    let report = run(&zen, &mut *synthetic::parse(PROGRAMS[0]).unwrap());
    let tlb = machine::resolve("zen3").unwrap().hardware.tlbs.into_iter().find(|tlb| tlb.name == "l2i").unwrap();
    let own = format!("curve.l2i.misses@{}x{}", tlb.entries, tlb.ways);
    assert_eq!(metric_of(&report, "base", &own), metric_of(&report, "base", "walks.fetch"));
}
