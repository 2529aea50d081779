//! Decompresses the streams of a segment.

use super::error::Damage;
use super::layout::SegmentHeader;
use super::stream::{PerStream, Stream};
use std::io;

/// The bytes of buffers that are kept from segment to segment. A segment of gcc has 2.4 MB before compression.
const KEPT_BYTES: usize = 8 << 20;

/// The decompressed streams of a segment. The buffers are reused from one segment to the next.
pub(super) struct Streams {
    zstd: zstd::bulk::Decompressor<'static>,
    /// The streams that were asked for; the others are empty.
    pub raw: PerStream<Vec<u8>>,
}

impl Streams {
    pub fn new() -> io::Result<Streams> {
        Ok(Streams { zstd: zstd::bulk::Decompressor::new()?, raw: PerStream::default() })
    }

    pub fn clear(&mut self) {
        // Segments whose longest streams are not the same must not add up.
        if self.raw.0.iter().map(Vec::capacity).sum::<usize>() > KEPT_BYTES {
            self.raw = PerStream::default();
        }
        self.raw.0.iter_mut().for_each(Vec::clear);
    }

    /// Decompresses `stream`. `payload` must hold the stored streams up to and including this one.
    pub fn decompress(&mut self, stream: Stream, header: &SegmentHeader, payload: &[u8]) -> Result<(), Damage> {
        let start: usize = header.streams.0[..stream as usize].iter().map(|length| length.stored as usize).sum();
        let length = header.streams[stream];
        let out = &mut self.raw[stream];
        out.clear();
        if length.raw == 0 {
            return Ok(());
        }
        let stored = payload.get(start..start + length.stored as usize).ok_or(Damage("a segment that is cut short"))?;
        out.reserve_exact(length.raw as usize);
        match self.zstd.decompress_to_buffer(stored, out) {
            Ok(n) if n == length.raw as usize => Ok(()),
            _ => Err(Damage("a stream that does not decompress to its length")),
        }
    }
}
