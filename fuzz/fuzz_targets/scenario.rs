//! A scenario file, with the specifications of synthetic programs in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_trace::scenario;
use std::path::Path;

fuzz_target!(|text: &str| {
    reach_fuzz::within_budget(|| {
        // Traces are files, which have targets of their own.
        if !text.contains("trace") && !text.contains('\\') {
            let _ = scenario::read(text, "fuzz", Path::new(""));
        }
    });
});
