//! Makes files with arbitrary streams and valid checksums, so that tests and fuzzers reach the decoders.

use super::checksum::checksum;
use super::index::{IndexEntry, encode_end};
use super::layout::{HEADER_FIXED, MAGIC, SEGMENT_HEADER, SegmentHeader};
use super::state::State;
use super::stream::{STREAMS, Stream, StreamLength};
use super::version::VERSION;

/// Returns a file of one segment with these streams, which are given before compression. The header's counts agree with
/// the lengths of the streams as far as possible. `counts` are those of blocks, events, forms, paths, fetches, stores and
/// instructions.
pub fn forge(streams: [&[u8]; STREAMS], counts: [u32; 7]) -> Vec<u8> {
    let [blocks, events, forms, paths, fetches, stores, instructions] = counts;
    let mut file = Vec::with_capacity(HEADER_FIXED);
    file.extend(MAGIC);
    file.extend(VERSION.to_le_bytes());
    file.extend(2u32.to_le_bytes());
    file.extend(b"{}");
    file.extend(checksum(&file).to_le_bytes());
    file.extend(State::Streamed.encode());
    let data = streams[Stream::Control as usize].len() as u32;
    let at = file.len() as u64;
    let mut header = SegmentHeader {
        blocks,
        events,
        forms: if streams[Stream::Forms as usize].is_empty() { 0 } else { forms },
        paths: if streams[Stream::Forms as usize].is_empty() { 0 } else { paths },
        fetches,
        loads: data - stores.min(data),
        stores: stores.min(data),
        instructions: instructions.into(),
        ..SegmentHeader::default()
    };
    header.refs = header.fetches + data;
    let mut payload = Vec::new();
    for (stream, raw) in Stream::ALL.into_iter().zip(streams) {
        let stored = if raw.is_empty() { Vec::new() } else { zstd::bulk::compress(raw, 1).unwrap_or_default() };
        header.streams[stream] = StreamLength { raw: raw.len() as u32, stored: stored.len() as u32 };
        payload.extend(stored);
    }
    header.checksum = checksum(&payload);
    file.extend(header.encode());
    file.extend(payload);
    debug_assert_eq!(file.len() as u64, at + SEGMENT_HEADER as u64 + header.payload());
    let index = encode_end(&[IndexEntry::of(&header, at)], b"{}", file.len() as u64);
    file.extend(index);
    file
}
