//! A machine file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_lab::machine;

fuzz_target!(|text: &str| {
    reach_fuzz::within_budget(|| {
        machine::check(text);
    });
});
