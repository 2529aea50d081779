//! What stands where: the file's header, the segments' headers, the index and the trailer. `docs/trace-format.md` is
//! the specification.

use super::bytes::Cursor;
use super::{Bad, is_intact};
use xxhash_rust::xxh3::xxh3_64;

/// The first bytes of every file. The high bit, the line ends and the ^Z show what a text-mode transfer did to it.
pub(crate) const MAGIC: [u8; 8] = *b"\x93Reach\r\n";
/// The format that is written, and the only one that is read.
pub const VERSION: u32 = 2;
/// Magic, version, length of the metadata.
pub(super) const HEADER_FIXED: usize = 16;
/// The longest metadata.
pub(super) const MAX_METADATA: usize = 1 << 20;

const SEGMENT_MAGIC: [u8; 4] = *b"Segm";
const INDEX_MAGIC: [u8; 4] = *b"Indx";
const TRAILER_MAGIC: [u8; 8] = *b"ReachEnd";

/// The streams of a segment, in the order in which they are stored.
pub(super) const STREAMS: usize = 10;
pub(super) const BLOCKS: usize = 0;
pub(super) const EVENTS: usize = 1;
pub(super) const FORMS: usize = 2;
pub(super) const SEQUENCE: usize = 3;
pub(super) const CONTROL: usize = 4;
pub(super) const NEAR_BYTES: usize = 5;
pub(super) const FAR_BYTES: usize = 6;
pub(super) const STEPS: usize = 7;
pub(super) const VISITS: usize = 8;
pub(super) const PAGES: usize = 9;

/// The most references in a segment.
pub(super) const MAX_REFS: u32 = 1 << 22;
/// The most forms and paths together in a segment: their numbers have 16 bits.
pub(super) const MAX_FORMS: usize = 1 << 16;
/// The most data references in a form.
pub(super) const MAX_FORM_DATA: usize = 64;
/// The most forms in a path.
pub(super) const MAX_PATH_FORMS: usize = 32;
/// The longest block or event stream of a segment, before compression. One block and one event always fit.
pub(super) const MAX_STREAM: usize = 1 << 26;
/// The most blocks, and the most events, in a segment.
pub(super) const MAX_ITEMS: u32 = 1 << 20;

/// Bytes of a segment's header.
pub(super) const SEGMENT_HEADER: usize = 48 + STREAMS * 8 + 24;

/// What stands before a segment's streams.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct SegmentHeader {
    /// Number of the first reference in the file.
    pub first_ref: u64,
    /// Number of the first block that is defined here.
    pub first_block: u32,
    pub blocks: u32,
    pub refs: u32,
    pub fetches: u32,
    pub loads: u32,
    pub stores: u32,
    pub events: u32,
    pub forms: u32,
    pub paths: u32,
    /// Instructions in all fetched blocks.
    pub instructions: u64,
    /// Lengths of each stream before and after compression.
    pub streams: [(u32, u32); STREAMS],
    /// XXH3 of the streams as stored.
    pub checksum: u64,
}

impl SegmentHeader {
    /// Bytes of all streams as stored.
    pub fn payload(&self) -> u64 {
        self.streams.iter().map(|&(_, stored)| stored as u64).sum()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SEGMENT_HEADER);
        out.extend(SEGMENT_MAGIC);
        out.extend(self.first_ref.to_le_bytes());
        for n in
            [self.first_block, self.blocks, self.refs, self.fetches, self.loads, self.stores, self.events, self.forms]
        {
            out.extend(n.to_le_bytes());
        }
        out.extend(self.paths.to_le_bytes());
        out.extend(self.instructions.to_le_bytes());
        for (raw, stored) in self.streams {
            out.extend(raw.to_le_bytes());
            out.extend(stored.to_le_bytes());
        }
        out.extend(self.checksum.to_le_bytes());
        out.extend(xxh3_64(&out).to_le_bytes());
        debug_assert_eq!(out.len(), SEGMENT_HEADER);
        out
    }

    /// Reads and verifies a header: what it announces can be trusted not to exhaust memory.
    pub fn decode(bytes: &[u8; SEGMENT_HEADER]) -> Result<SegmentHeader, Bad> {
        let mut c = Cursor(bytes);
        if c.take(4)? != SEGMENT_MAGIC {
            return Err(Bad("no segment"));
        }
        let (fields, checksum) = bytes.split_at(SEGMENT_HEADER - 8);
        if !is_intact(fields, u64::from_le_bytes(checksum.try_into().expect("eight bytes remain"))) {
            return Err(Bad("a segment header with a wrong checksum"));
        }
        let first_ref = c.u64()?;
        let mut header = SegmentHeader { first_ref, ..Default::default() };
        let fields = [
            &mut header.first_block,
            &mut header.blocks,
            &mut header.refs,
            &mut header.fetches,
            &mut header.loads,
            &mut header.stores,
            &mut header.events,
            &mut header.forms,
        ];
        for field in fields {
            *field = c.u32()?;
        }
        header.paths = c.u32()?;
        header.instructions = c.u64()?;
        for stream in &mut header.streams {
            *stream = (c.u32()?, c.u32()?);
        }
        header.checksum = c.u64()?;
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), Bad> {
        let data = self.loads as u64 + self.stores as u64;
        let raw = self.streams.map(|(raw, _)| raw as u64);
        let consistent = self.refs <= MAX_REFS
            && self.blocks <= MAX_ITEMS
            && self.events <= MAX_ITEMS
            && self.forms as u64 + self.paths as u64 <= MAX_FORMS as u64
            && self.fetches as u64 + data == self.refs as u64
            && raw[BLOCKS] >= 3 * self.blocks as u64
            && raw[BLOCKS] <= MAX_STREAM as u64
            && raw[EVENTS] >= 2 * self.events as u64
            && raw[EVENTS] <= MAX_STREAM as u64
            && raw[FORMS] >= 2 * self.forms as u64 + 5 * self.paths as u64
            && raw[FORMS]
                <= self.forms as u64 * (6 + 3 * MAX_FORM_DATA as u64)
                    + self.paths as u64 * (1 + 2 * MAX_PATH_FORMS as u64)
            && raw[SEQUENCE].is_multiple_of(2)
            && raw[SEQUENCE] <= 2 * self.refs as u64
            && raw[CONTROL] == data
            && raw[NEAR_BYTES] <= 2 * data
            && raw[FAR_BYTES] <= 6 * data
            && raw[STEPS] <= MAX_STREAM as u64
            && raw[VISITS].is_multiple_of(2)
            && raw[VISITS] <= 4 * self.refs as u64
            && raw[PAGES] <= 3 * raw[VISITS]
            && self.first_block.checked_add(self.blocks).is_some()
            && self.first_ref.checked_add(self.refs as u64).is_some()
            && self.streams.iter().all(|&(raw, stored)| (raw == 0) == (stored == 0));
        if consistent { Ok(()) } else { Err(Bad("a segment header whose numbers contradict each other")) }
    }
}

/// Where a segment is: a line of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Of the segment's header, in bytes from the start of the file.
    pub at: u64,
    /// Bytes of header and streams.
    pub len: u64,
    pub first_ref: u64,
    pub refs: u32,
    pub first_block: u32,
    pub blocks: u32,
    pub events: u32,
}

const ENTRY: usize = 40;

impl Entry {
    pub fn of(header: &SegmentHeader, at: u64) -> Entry {
        Entry {
            at,
            len: SEGMENT_HEADER as u64 + header.payload(),
            first_ref: header.first_ref,
            refs: header.refs,
            first_block: header.first_block,
            blocks: header.blocks,
            events: header.events,
        }
    }
}

/// Bytes of the trailer: where the index is, how long it is, its checksum, magic.
pub(super) const TRAILER: usize = 32;

/// The index and the trailer that ends the file, for an index that starts at byte `at`.
pub(super) fn encode_index(entries: &[Entry], at: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + entries.len() * ENTRY + TRAILER);
    out.extend(INDEX_MAGIC);
    for e in entries {
        out.extend(e.at.to_le_bytes());
        out.extend(e.len.to_le_bytes());
        out.extend(e.first_ref.to_le_bytes());
        for n in [e.refs, e.first_block, e.blocks, e.events] {
            out.extend(n.to_le_bytes());
        }
    }
    let (len, checksum) = (out.len() as u64, xxh3_64(&out));
    for n in [at, len, checksum] {
        out.extend(n.to_le_bytes());
    }
    out.extend(TRAILER_MAGIC);
    out
}

/// Where the trailer says that the index is: (start, length, checksum). `None` where there is no trailer.
pub(super) fn decode_trailer(bytes: &[u8; TRAILER], file_len: u64) -> Option<(u64, u64, u64)> {
    let mut c = Cursor(bytes);
    let (at, len, checksum) = (c.u64().ok()?, c.u64().ok()?, c.u64().ok()?);
    let fits = at.checked_add(len)?.checked_add(TRAILER as u64)? == file_len;
    (c.0 == TRAILER_MAGIC && fits && len >= 4 && (len - 4) % ENTRY as u64 == 0).then_some((at, len, checksum))
}

/// The index's lines, where it is intact and its segments lie one after the other from `first` on.
pub(super) fn decode_index(bytes: &[u8], checksum: u64, first: u64, at: u64) -> Option<Vec<Entry>> {
    if !is_intact(bytes, checksum) {
        return None;
    }
    let mut c = Cursor(bytes.strip_prefix(&INDEX_MAGIC)?);
    let mut entries = Vec::with_capacity(c.0.len() / ENTRY);
    let (mut expected, mut refs, mut blocks) = (first, 0, 0);
    while !c.is_empty() {
        let (at, len, first_ref) = (c.u64().ok()?, c.u64().ok()?, c.u64().ok()?);
        let mut next = || c.u32().ok();
        let e = Entry { at, len, first_ref, refs: next()?, first_block: next()?, blocks: next()?, events: next()? };
        if (e.at, e.first_ref, e.first_block) != (expected, refs, blocks) || e.len < SEGMENT_HEADER as u64 {
            return None;
        }
        expected = e.at.checked_add(e.len)?;
        refs = refs.checked_add(e.refs as u64)?;
        blocks = blocks.checked_add(e.blocks)?;
        entries.push(e);
    }
    (expected == at).then_some(entries)
}
