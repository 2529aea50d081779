//! Random programs and a random operating system on random machines, and on those that machine files describe.

use crate::cases;
use crate::lockstep::{Lockstep, Setup};
use crate::machines::machine;
use crate::program::steps;
use proptest::prelude::*;
use reach_hardware::config::Machine;
use reach_lab::machine::testing::arbitrary_machine;

fn setup(machine: impl Strategy<Value = Machine>) -> impl Strategy<Value = Setup> {
    (machine, prop::bool::weighted(0.1), any::<bool>(), any::<u64>())
        .prop_map(|(machine, perfect, cached, seed)| Setup { machine, perfect, cached, seed })
}

/// Page tables of few levels have nodes too large to be compared at every turn.
fn schema() -> impl Strategy<Value = Machine> {
    arbitrary_machine().prop_filter("large nodes", |m| m.layout.bits.iter().all(|&bits| bits <= 12))
}

fn presets() -> impl Strategy<Value = Machine> {
    let machines = reach_lab::machine::list().map(|listed| {
        let resolved = reach_lab::machine::resolve(listed.name);
        resolved.expect("a listed machine").hardware
    });
    prop::sample::select(machines.collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn any_machine_does_as_its_twin(setup in setup(machine()), steps in steps(400)) {
        Lockstep::new(&setup).run(&setup.machine, &steps, true);
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn machines_of_the_schema_do_as_their_twins(setup in setup(schema()), steps in steps(300)) {
        Lockstep::new(&setup).run(&setup.machine, &steps, true);
    }

    #[test]
    fn presets_do_as_their_twins(setup in setup(presets()), steps in steps(400)) {
        Lockstep::new(&setup).run(&setup.machine, &steps, true);
    }
}
