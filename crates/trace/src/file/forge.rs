//! Makes files with valid checksums and arbitrary streams, so that tests and fuzzers get past them to the decoders.

use super::layout::{CONTROL, HEADER_FIXED, MAGIC, SEGMENT_HEADER, STREAMS, SegmentHeader, VERSION, encode_index};
use super::layout::{Entry, FORMS};
use xxhash_rust::xxh3::xxh3_64;

/// A file of one segment with these streams, each before compression. The header's counts agree with the streams'
/// lengths as far as they can; `counts` are those of blocks, events, forms, paths, fetches, stores and instructions.
pub fn forge(streams: [&[u8]; STREAMS], counts: [u32; 7]) -> Vec<u8> {
    let [blocks, events, forms, paths, fetches, stores, instructions] = counts;
    let mut file = Vec::with_capacity(HEADER_FIXED);
    file.extend(MAGIC);
    file.extend(VERSION.to_le_bytes());
    file.extend(2u32.to_le_bytes());
    file.extend(b"{}");
    file.extend(xxh3_64(&file).to_le_bytes());
    let data = streams[CONTROL].len() as u32;
    let at = file.len() as u64;
    let mut header = SegmentHeader {
        blocks,
        events,
        forms: if streams[FORMS].is_empty() { 0 } else { forms },
        paths: if streams[FORMS].is_empty() { 0 } else { paths },
        fetches,
        loads: data - stores.min(data),
        stores: stores.min(data),
        instructions: instructions.into(),
        ..SegmentHeader::default()
    };
    header.refs = header.fetches + data;
    let mut payload = Vec::new();
    for (i, raw) in streams.into_iter().enumerate() {
        let stored = if raw.is_empty() { Vec::new() } else { zstd::bulk::compress(raw, 1).unwrap_or_default() };
        header.streams[i] = (raw.len() as u32, stored.len() as u32);
        payload.extend(stored);
    }
    header.checksum = xxh3_64(&payload);
    file.extend(header.encode());
    file.extend(payload);
    debug_assert_eq!(file.len() as u64, at + SEGMENT_HEADER as u64 + header.payload());
    let index = encode_index(&[Entry::of(&header, at)], file.len() as u64);
    file.extend(index);
    file
}
