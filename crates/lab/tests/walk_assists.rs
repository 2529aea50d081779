//! Walk assists under the out-of-order core.

use reach_core::{Chunk, Label};
use reach_lab::{Conditions, Outcome, Preparer, Simulation, Timing, machine};
use reach_trace::{Source, synthetic};
use std::sync::Arc;

fn run(system: &str) -> Outcome {
    let machine = machine::resolve("skylake-sp").unwrap();
    let system = reach_systems::resolve(system).unwrap();
    let conditions = Conditions { timing: Timing::Ooo, ..Conditions::new(256 << 20) };
    let mut simulation = Simulation::new(&machine, &system, &conditions).unwrap();
    let mut preparer = Preparer::new(Timing::Ooo);
    let mut program = synthetic::parse("bfs:bytes=24M,init=pages").unwrap();
    let mut chunk = Chunk::default();
    while program.fill(&mut chunk).unwrap() {
        let batch = preparer.prepare(std::mem::take(&mut chunk), program.blocks());
        simulation.take(&Arc::new(batch)).unwrap();
    }
    simulation.finish()
}

/// The search's branches are often mispredicted, and loads behind them search the assist in vain. What these wait is not the next
/// fetch's to pay.
#[test]
fn fetches_do_not_wait_for_loads_that_were_squashed() {
    let front_end = |outcome: &Outcome| {
        let charged = |label| outcome.total.ledger.charged(label).0;
        charged(Label::ItlbStall) + charged(Label::ItlbWalk) + charged(Label::ItlbL2TlbHit)
    };
    let base = run("base");
    assert!(base.total.hardware.walks_wrong_path > 1000, "{}", base.total.hardware.walks_wrong_path);
    for system in ["ryoo-2017-pom-tlb", "kanellopoulos-2023-victima", "kanellopoulos-2023-utopia", "zhang-2024-dmt"] {
        let assisted = run(system);
        assert!(assisted.total.hardware.assist_hits > 1000, "{system}");
        assert!(
            front_end(&assisted) <= 2 * front_end(&base),
            "{system}: {}, base: {}",
            front_end(&assisted),
            front_end(&base)
        );
    }
}
