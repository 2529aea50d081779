//! A trace in text form, not compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_core::Chunk;
use reach_trace::Source;
use reach_trace::foreign::Text;
use std::io::Cursor;

fuzz_target!(|data: &[u8]| {
    reach_fuzz::within_budget(|| {
        let mut source = Text::new(Cursor::new(data.to_vec()), "fuzz");
        let mut chunk = Chunk::default();
        while let Ok(true) = source.fill(&mut chunk) {}
    });
});
