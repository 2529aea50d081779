//! `reach_hardware` against its twin.

mod curve;
mod differential;
mod laws;
mod lockstep;
mod ooo;
mod processor;
mod random_machine;
mod random_os;
mod random_program;
mod small_worlds;
mod smashed_superpages;

use proptest::prelude::ProptestConfig;

/// For a property that is tried with `usual` cases, or with as many as `PROPTEST_CASES` says. Cheap properties set the
/// measure; dear ones take their part of it.
fn cases(usual: u32) -> ProptestConfig {
    const CHEAP: u32 = 2000;
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse::<u32>().ok());
    let cases = asked.unwrap_or(CHEAP).div_ceil(CHEAP / usual);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default() }
}
