//! `reach_hardware` against its twin. `REACH_LONG=n` tries n times as many random cases, and longer sequences where
//! all of them are tried.

mod differential;
mod laws;
mod lockstep;
mod machines;
mod program;
mod small_worlds;
mod system;

use proptest::prelude::ProptestConfig;

/// How much more than usual is asked for.
fn patience() -> u32 {
    std::env::var("REACH_LONG").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// For a property that is tried with `usual` cases where nothing is asked for.
fn cases(usual: u32) -> ProptestConfig {
    let cases = usual.saturating_mul(patience());
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default() }
}
