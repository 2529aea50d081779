//! Writes `.reach` files whose checksums are good and whose contents are not. From `docs/trace-format.md` alone.

use xxhash_rust::xxh3::xxh3_64;

/// The streams of a segment, in the order of the format.
pub const STREAMS: [&str; 10] =
    ["blocks", "events", "forms", "sequence", "control", "near", "far", "steps", "visits", "pages"];

/// A stream: its length before compression, and as stored.
#[derive(Clone, Default)]
pub struct Stream {
    pub raw: u32,
    pub stated: Option<u32>,
    pub stored: Vec<u8>,
}

/// A segment. Counts that are not given are 0.
#[derive(Clone, Default)]
pub struct Segment {
    pub blocks: u32,
    pub fetches: u32,
    pub loads: u32,
    pub stores: u32,
    pub events: u32,
    pub forms: u32,
    pub paths: u32,
    pub instructions: u64,
    pub streams: [Stream; 10],
}

impl Segment {
    /// Sets the stream of this name to the compressed `raw`.
    pub fn stream(mut self, name: &str, raw: &[u8]) -> Segment {
        let at = STREAMS.iter().position(|&stream| stream == name).unwrap();
        let stored = if raw.is_empty() { Vec::new() } else { zstd::bulk::compress(raw, 1).unwrap() };
        self.streams[at] = Stream { raw: raw.len() as u32, stated: None, stored };
        self
    }

    /// Appends a frame of `bytes` zeros, which decompressors skip, to the stream of this name: what a file must have to be
    /// allowed more contents.
    pub fn padded(mut self, name: &str, bytes: usize) -> Segment {
        let at = STREAMS.iter().position(|&stream| stream == name).unwrap();
        let stored = &mut self.streams[at].stored;
        stored.extend(0x184d_2a50u32.to_le_bytes());
        stored.extend((bytes as u32).to_le_bytes());
        stored.resize(stored.len() + bytes, 0);
        self
    }

    fn refs(&self) -> u32 {
        self.fetches + self.loads + self.stores
    }

    fn encode(&self, first_ref: u64, first_block: u32) -> Vec<u8> {
        let mut out = b"Segm".to_vec();
        out.extend(first_ref.to_le_bytes());
        let counts = [first_block, self.blocks, self.refs(), self.fetches, self.loads, self.stores, self.events];
        for n in counts.into_iter().chain([self.forms, self.paths]) {
            out.extend(n.to_le_bytes());
        }
        out.extend(self.instructions.to_le_bytes());
        for stream in &self.streams {
            out.extend(stream.raw.to_le_bytes());
            out.extend(stream.stated.unwrap_or(stream.stored.len() as u32).to_le_bytes());
        }
        let payload: Vec<u8> = self.streams.iter().flat_map(|stream| &stream.stored).copied().collect();
        out.extend(xxh3_64(&payload).to_le_bytes());
        out.extend(xxh3_64(&out).to_le_bytes());
        out.extend(payload);
        out
    }
}

/// Returns the header of a file that does not say how long it is.
pub fn header() -> Vec<u8> {
    let mut out = b"\x93Reach\r\n".to_vec();
    out.extend(4u32.to_le_bytes());
    out.extend(2u32.to_le_bytes());
    out.extend(b"{}");
    out.extend(xxh3_64(&out).to_le_bytes());
    let mut state = b"Stat".to_vec();
    state.extend([0; 20]);
    state.extend(xxh3_64(&state).to_le_bytes());
    out.extend(state);
    out
}

/// Returns a whole file of these segments.
pub fn file(segments: &[Segment]) -> Vec<u8> {
    let mut out = header();
    let mut index = b"Indx".to_vec();
    let (mut first_ref, mut first_block) = (0u64, 0u32);
    for segment in segments {
        let bytes = segment.encode(first_ref, first_block);
        for n in [out.len() as u64, bytes.len() as u64, first_ref] {
            index.extend(n.to_le_bytes());
        }
        for n in [segment.refs(), first_block, segment.blocks, segment.events] {
            index.extend(n.to_le_bytes());
        }
        out.extend(bytes);
        first_ref += u64::from(segment.refs());
        first_block = first_block.wrapping_add(segment.blocks);
    }
    let end = trailer(out.len() as u64, &index, b"{}");
    out.extend(end);
    out
}

/// Returns index, ending and trailer. The index starts at byte `at`.
pub fn trailer(at: u64, index: &[u8], ending: &[u8]) -> Vec<u8> {
    let mut out = index.to_vec();
    out.extend(ending);
    for n in [at, index.len() as u64, ending.len() as u64] {
        out.extend(n.to_le_bytes());
    }
    out.extend(xxh3_64(&out).to_le_bytes());
    out.extend(b"ReachEnd");
    out
}
