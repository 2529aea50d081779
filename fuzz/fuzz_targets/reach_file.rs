//! A whole `.reach` file. Built for fuzzing, the reader takes any checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reach_core::Chunk;
use reach_trace::Source;
use reach_trace::file::Reader;
use std::io::Cursor;

fuzz_target!(|data: &[u8]| {
    reach_fuzz::within_budget(|| {
        let Ok(mut reader) = Reader::new(Cursor::new(data.to_vec()), "fuzz") else { return };
        let mut chunk = Chunk::default();
        while let Ok(true) = reader.fill(&mut chunk) {}
        let _ = reader.seek(reader.refs() / 2);
        let _ = reader.fill(&mut chunk);
    });
});
