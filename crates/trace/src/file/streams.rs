//! A segment's streams, decompressed.

use super::Bad;
use super::layout::{STREAMS, SegmentHeader};
use std::io;

/// Decompresses streams; keeps its memory from one segment to the next.
pub(super) struct Streams {
    zstd: zstd::bulk::Decompressor<'static>,
    /// Those that were asked for.
    pub raw: [Vec<u8>; STREAMS],
}

impl Streams {
    pub fn new() -> io::Result<Streams> {
        Ok(Streams { zstd: zstd::bulk::Decompressor::new()?, raw: Default::default() })
    }

    pub fn clear(&mut self) {
        self.raw.iter_mut().for_each(Vec::clear);
    }

    /// Decompresses stream number `stream` of `payload`, which must hold it and all before it.
    pub fn decompress(&mut self, stream: usize, header: &SegmentHeader, payload: &[u8]) -> Result<(), Bad> {
        let skip: usize = header.streams[..stream].iter().map(|&(_, stored)| stored as usize).sum();
        let (raw, stored) = header.streams[stream];
        let out = &mut self.raw[stream];
        out.clear();
        if raw == 0 {
            return Ok(());
        }
        let stored = payload.get(skip..skip + stored as usize).ok_or(Bad("a segment that is cut short"))?;
        out.reserve(raw as usize);
        match self.zstd.decompress_to_buffer(stored, out) {
            Ok(n) if n == raw as usize => Ok(()),
            _ => Err(Bad("a stream that does not decompress to its length")),
        }
    }
}
