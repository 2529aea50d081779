//! The `paper.toml` of a paper.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_lab::paper::Paper;

fuzz_target!(|text: &str| {
    let _ = Paper::from_text(text);
});
