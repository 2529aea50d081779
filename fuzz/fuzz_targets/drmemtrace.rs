//! A trace of drmemtrace in one file, not compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_core::Chunk;
use reach_trace::Source;
use reach_trace::foreign::DrMemtrace;
use std::io::Cursor;

fuzz_target!(|data: &[u8]| {
    reach_fuzz::within_budget(|| {
        let Ok(mut source) = DrMemtrace::new(Cursor::new(data.to_vec()), "fuzz") else { return };
        let mut chunk = Chunk::default();
        while let Ok(true) = source.fill(&mut chunk) {}
        source.ending();
    });
});
