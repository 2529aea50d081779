//! The `paper.toml` of a paper.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_lab::paper::Paper;

fuzz_target!(|text: &str| {
    reach_fuzz::within_budget(|| {
        let _ = Paper::from_text(text);
    });
});
