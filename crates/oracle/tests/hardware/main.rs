//! Differential tests of `reach_hardware` against its twins, and the laws that it must obey.

mod coalesced;
mod curve;
mod differential;
mod host;
mod laws;
mod lies_together;
mod lockstep;
mod ooo;
mod processor;
mod random_machine;
mod random_os;
mod random_program;
mod small_worlds;
mod smashed_superpages;
mod test_assist;

use proptest::prelude::ProptestConfig;

/// Returns the configuration of a property that is tried with `usual` cases, at most 2000. `PROPTEST_CASES` sets the
/// number of cases of a property that usually has 2000. The others have their share of it.
fn cases(usual: u32) -> ProptestConfig {
    const MOST: u32 = 2000;
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse::<u32>().ok());
    let cases = wanted.unwrap_or(MOST).div_ceil(MOST / usual);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default() }
}
