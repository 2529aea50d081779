//! Functional warming with the last uses of lines and pages leaves the state of all references.

use crate::common::{Pieces, conditions};
use reach_core::Chunk;
use reach_lab::{Outcome, Preparer, Simulation, Timing, machine};
use reach_trace::{FastForward, Sampled, Source, synthetic};
use std::sync::Arc;

/// Samples `program` on a machine under a system. Unless `last_uses`, warming sees every reference.
fn sample(machine: &str, system: &str, program: &Pieces, last_uses: bool) -> Outcome {
    let (machine, system) = (machine::resolve(machine).unwrap(), reach_systems::resolve(system).unwrap());
    let mut simulation = Simulation::new(&machine, &system, &conditions(Timing::Ooo)).unwrap();
    simulation.sample().unwrap();
    let every = program.len() / 60;
    let sampling = format!("every={every},measure={},warm={}", every / 40, every / 20).parse().unwrap();
    let mut source = Sampled::new(program.cut(vec![20_011]), sampling, FastForward::default(), 1);
    let mut preparer = Preparer::new(Timing::Ooo).training(simulation.trained_predictor());
    let (mut chunk, mut kept) = (Chunk::default(), 0);
    while source.fill(&mut chunk).unwrap() {
        let mut batch = preparer.prepare(std::mem::take(&mut chunk), source.blocks());
        kept += batch.chunk.last_lines.len();
        if !last_uses {
            batch.steps.iter_mut().for_each(|step| step.last_lines = 0..0);
        }
        simulation.take(&Arc::new(batch)).unwrap();
    }
    assert!((1..program.len()).contains(&kept), "{kept} last uses in {}", program.len());
    simulation.finish()
}

/// Later levels of caches and TLBs see what nearer ones miss, and not all replace as LRU does, so contents can differ a little.
#[test]
fn warming_with_last_uses_leaves_the_state_of_all_references() {
    for program in ["web:requests=2000", "tree:nodes=3000,operations=1000", "gups:bytes=16M,updates=60000"] {
        let program = Pieces::of(&mut *synthetic::parse(program).unwrap());
        for (machine, system) in [
            ("skylake-e3-1240v5", "base"),
            ("skylake-e3-1240v5", "linux-thp"),
            ("skylake-e3-1240v5", "ideal"),
            ("skylake-e3-1240v5", "karakostas-2015-rmm"),
            ("zen4", "navarro-2002"),
        ] {
            let (all, kept) = (sample(machine, system, &program, false), sample(machine, system, &program, true));
            let what = format!("{machine} {system}");
            let (a, b) = (all.sample.as_ref().unwrap(), kept.sample.as_ref().unwrap());
            assert_eq!(a.intervals.len(), b.intervals.len(), "{what}");
            assert_eq!(all.os.page_faults, kept.os.page_faults, "{what}");
            let (a, b) = (all.total.cycles() as f64, kept.total.cycles() as f64);
            let (walks_a, walks_b) = (all.total.hardware.walks(), kept.total.hardware.walks());
            println!("{what:<45} {} cycles {a:.0} {:+.5}  walks {walks_a} {walks_b}", program.len(), b / a - 1.0);
            assert!((b / a - 1.0).abs() < 0.001, "{what}: {b} cycles for {a}");
            assert!(walks_a.abs_diff(walks_b) * 100 <= walks_a, "{what}: {walks_b} walks for {walks_a}");
        }
    }
}
