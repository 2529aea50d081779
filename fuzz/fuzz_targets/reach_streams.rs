//! The streams of a segment, before compression.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use reach_core::Chunk;
use reach_trace::Source;
use reach_trace::file::{Reader, forge};
use std::io::Cursor;

#[derive(Arbitrary, Debug)]
struct Input {
    streams: [Vec<u8>; 10],
    counts: [u16; 7],
}

fuzz_target!(|input: Input| {
    reach_fuzz::within_budget(|| {
        let file = forge(input.streams.each_ref().map(Vec::as_slice), input.counts.map(u32::from));
        let Ok(mut reader) = Reader::new(Cursor::new(file), "fuzz") else { return };
        let mut chunk = Chunk::default();
        while let Ok(true) = reader.fill(&mut chunk) {}
        if let Ok(true) = reader.outline(true) {
            while let Ok(true) = reader.fill(&mut chunk) {}
        }
    });
});
