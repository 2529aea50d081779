//! Random programs and a random operating system on random machines.

use crate::cases;
use crate::lockstep::{Lockstep, Setup};
use crate::machines::machine;
use crate::program::steps;
use proptest::prelude::*;
use reach_hardware::config::Machine;

fn setup(machine: impl Strategy<Value = Machine>) -> impl Strategy<Value = Setup> {
    (machine, prop::bool::weighted(0.1), any::<bool>(), any::<u64>())
        .prop_map(|(machine, perfect, cached, seed)| Setup { machine, perfect, cached, seed })
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn any_machine_does_as_its_twin(setup in setup(machine()), steps in steps(400)) {
        Lockstep::new(&setup).run(&setup.machine, &steps, true);
    }
}
