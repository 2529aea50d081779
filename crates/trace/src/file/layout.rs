//! The limits of the format, and the bytes of a segment header. `docs/trace-format.md` is the specification.

use super::bytes::Cursor;
use super::checksum::{checksum, is_intact};
use super::error::Damage;
use super::limits;
use super::stream::{PerStream, STREAMS, Stream, StreamLength};

/// The first bytes of every file. The high bit, the line ends and the ^Z show what a text-mode transfer did to it.
pub(crate) const MAGIC: [u8; 8] = *b"\x93Reach\r\n";
/// Bytes of the file header before the metadata: magic, version, length of the metadata. The state follows the header.
pub(super) const HEADER_FIXED: usize = 16;
/// The most bytes of metadata.
pub(super) const MAX_METADATA: usize = 1 << 20;

const SEGMENT_MAGIC: [u8; 4] = *b"Segm";

/// The most references in a segment.
pub(super) const MAX_REFS: u32 = 1 << 22;
/// The most forms and paths together in a segment: their numbers have 16 bits.
pub(super) const MAX_FORMS: usize = 1 << 16;
/// The most data references in a form.
pub(super) const MAX_FORM_DATA: usize = 64;
/// The most forms in a path.
pub(super) const MAX_PATH_FORMS: usize = 32;
/// The most bytes of the block stream or event stream of a segment, before compression. One block and one event always
/// fit.
pub(super) const MAX_STREAM: usize = 1 << 26;
/// The most blocks in a segment.
pub(super) const MAX_BLOCKS: u32 = 1 << 20;
/// The most events in a segment. A reader holds them all at once, at 72 bytes each.
pub(super) const MAX_EVENTS: u32 = 1 << 16;

/// Bytes of a segment header.
pub(super) const SEGMENT_HEADER: usize = 48 + STREAMS * 8 + 24;

/// The header of a segment, which precedes its streams.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct SegmentHeader {
    /// The number in the file of the segment's first reference.
    pub first_ref: u64,
    /// The number in the file of the first block that the segment defines.
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
    pub streams: PerStream<StreamLength>,
    /// The checksum of the streams as stored.
    pub checksum: u64,
}

impl SegmentHeader {
    /// Returns the bytes of all streams as stored.
    pub fn payload(&self) -> u64 {
        self.streams.0.iter().map(|length| u64::from(length.stored)).sum()
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
        for length in &self.streams.0 {
            out.extend(length.raw.to_le_bytes());
            out.extend(length.stored.to_le_bytes());
        }
        out.extend(self.checksum.to_le_bytes());
        out.extend(checksum(&out).to_le_bytes());
        debug_assert_eq!(out.len(), SEGMENT_HEADER);
        out
    }

    /// Reads and verifies a header. The lengths in a header that this returns are within the limits of the format, and
    /// those before compression are in proportion to those as stored. Whether the file has the stored bytes, the caller
    /// must verify.
    pub fn decode(bytes: &[u8; SEGMENT_HEADER]) -> Result<SegmentHeader, Damage> {
        let mut cursor = Cursor(bytes);
        if cursor.take(4)? != SEGMENT_MAGIC {
            return Err(Damage("no segment header"));
        }
        let (fields, stored) = bytes.split_at(SEGMENT_HEADER - 8);
        if !is_intact(fields, u64::from_le_bytes(stored.try_into().expect("eight bytes remain"))) {
            return Err(Damage("a segment header with a wrong checksum"));
        }
        let first_ref = cursor.u64()?;
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
            *field = cursor.u32()?;
        }
        header.paths = cursor.u32()?;
        header.instructions = cursor.u64()?;
        for length in &mut header.streams.0 {
            *length = StreamLength { raw: cursor.u32()?, stored: cursor.u32()? };
        }
        header.checksum = cursor.u64()?;
        header.check()?;
        Ok(header)
    }

    /// Verifies that the header's numbers agree with each other and are within the limits of the format.
    fn check(&self) -> Result<(), Damage> {
        let data = u64::from(self.loads) + u64::from(self.stores);
        let raw = |stream| u64::from(self.streams[stream].raw);
        let consistent = self.refs <= MAX_REFS
            && self.blocks <= MAX_BLOCKS
            && self.events <= MAX_EVENTS
            && self.forms as u64 + self.paths as u64 <= MAX_FORMS as u64
            && self.fetches as u64 + data == self.refs as u64
            && self.instructions <= u64::from(self.fetches) * u64::from(u16::MAX)
            && raw(Stream::Blocks) >= 3 * self.blocks as u64
            && raw(Stream::Blocks) <= MAX_STREAM as u64
            && raw(Stream::Events) >= 2 * self.events as u64
            && raw(Stream::Events) <= MAX_STREAM as u64
            && raw(Stream::Forms) >= 2 * self.forms as u64 + 5 * self.paths as u64
            && raw(Stream::Forms)
                <= self.forms as u64 * (6 + 3 * MAX_FORM_DATA as u64)
                    + self.paths as u64 * (1 + 2 * MAX_PATH_FORMS as u64)
            && raw(Stream::Sequence).is_multiple_of(2)
            && raw(Stream::Sequence) <= 2 * self.refs as u64
            && raw(Stream::Control) == data
            && raw(Stream::Near) <= 2 * data
            && raw(Stream::Far) <= 6 * data
            && raw(Stream::Steps) <= MAX_STREAM as u64
            && raw(Stream::Visits).is_multiple_of(2)
            && raw(Stream::Visits) <= 4 * self.refs as u64
            && raw(Stream::Pages) <= 3 * raw(Stream::Visits)
            && self.first_block.checked_add(self.blocks).is_some()
            && self.first_ref.checked_add(self.refs as u64).is_some()
            && self.streams.0.iter().all(|length| (length.raw == 0) == (length.stored == 0));
        if !consistent {
            return Err(Damage("a segment header whose numbers contradict each other"));
        }
        if self.payload() < limits::least_payload(self) {
            return Err(Damage("a segment whose streams are too long for their stored bytes"));
        }
        if self.payload() > limits::most_payload(self) {
            return Err(Damage("a segment whose streams are too short for their stored bytes"));
        }
        Ok(())
    }
}
