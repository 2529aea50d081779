//! Counts that perf has written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_live::stat::{self, Answer, MODELS};

fuzz_target!(|text: &str| {
    reach_fuzz::within_budget(|| {
        let Ok(mut counts) = stat::counts(text) else { return };
        let model = stat::identify(&counts).map_or(&MODELS[0], |identified| identified.model);
        stat::rename_events(&mut counts, model);
        Answer::of(model, &counts);
    });
});
