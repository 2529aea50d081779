//! Random machines under random programs and a random operating system.

use crate::lockstep::{Lockstep, Setup};
use crate::machines::machine;
use crate::program::steps;
use proptest::prelude::*;

/// How many cases to try where a usual run tries `usual`.
pub fn config(usual: u32) -> ProptestConfig {
    let cases = std::env::var("REACH_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default() }
}

fn setup() -> impl Strategy<Value = Setup> {
    (machine(), prop::bool::weighted(0.1), any::<bool>(), any::<u64>())
        .prop_map(|(machine, perfect, cached, seed)| Setup { machine, perfect, cached, seed })
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn the_unit_does_as_its_twin(setup in setup(), steps in steps(400)) {
        Lockstep::new(&setup).run(&setup.machine, &steps, true);
    }
}
