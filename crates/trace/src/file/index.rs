//! The index of a file and the trailer that says where it is.

use super::bytes::Cursor;
use super::checksum::{checksum, is_intact};
use super::layout::{SEGMENT_HEADER, SegmentHeader};

const INDEX_MAGIC: [u8; 4] = *b"Indx";
const TRAILER_MAGIC: [u8; 8] = *b"ReachEnd";

/// Bytes of an index entry.
const ENTRY_BYTES: usize = 40;
/// Bytes of the trailer: start of the index, its length, its checksum, magic.
pub(super) const TRAILER: usize = 32;

/// The place and the counts of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// The start of the segment header, in bytes from the start of the file.
    pub at: u64,
    /// The bytes of header and streams.
    pub len: u64,
    pub first_ref: u64,
    pub refs: u32,
    pub first_block: u32,
    pub blocks: u32,
    pub events: u32,
}

impl IndexEntry {
    pub fn of(header: &SegmentHeader, at: u64) -> IndexEntry {
        IndexEntry {
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

/// Returns the index and the trailer, for an index that starts at byte `at` of the file.
pub(super) fn encode_index(entries: &[IndexEntry], at: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + entries.len() * ENTRY_BYTES + TRAILER);
    out.extend(INDEX_MAGIC);
    for entry in entries {
        out.extend(entry.at.to_le_bytes());
        out.extend(entry.len.to_le_bytes());
        out.extend(entry.first_ref.to_le_bytes());
        for n in [entry.refs, entry.first_block, entry.blocks, entry.events] {
            out.extend(n.to_le_bytes());
        }
    }
    let (len, sum) = (out.len() as u64, checksum(&out));
    for n in [at, len, sum] {
        out.extend(n.to_le_bytes());
    }
    out.extend(TRAILER_MAGIC);
    out
}

/// The place of the index, as the trailer gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexPlace {
    /// The start, in bytes from the start of the file.
    pub at: u64,
    /// The length in bytes.
    pub len: u64,
    /// The checksum of the index.
    pub checksum: u64,
}

/// Reads the trailer of a file of `file_len` bytes. Returns `None` where the bytes are no trailer.
pub(super) fn decode_trailer(bytes: &[u8; TRAILER], file_len: u64) -> Option<IndexPlace> {
    let mut cursor = Cursor(bytes);
    let (at, len, checksum) = (cursor.u64().ok()?, cursor.u64().ok()?, cursor.u64().ok()?);
    let fits = at.checked_add(len)?.checked_add(TRAILER as u64)? == file_len;
    let is_trailer = cursor.0 == TRAILER_MAGIC && fits && len >= 4 && (len - 4) % ENTRY_BYTES as u64 == 0;
    is_trailer.then_some(IndexPlace { at, len, checksum })
}

/// Reads the index at `place`. Returns `None` where it is damaged, or where its segments do not fill the file from byte
/// `first` up to the index.
pub(super) fn decode_index(bytes: &[u8], place: IndexPlace, first: u64) -> Option<Vec<IndexEntry>> {
    if !is_intact(bytes, place.checksum) {
        return None;
    }
    let mut cursor = Cursor(bytes.strip_prefix(&INDEX_MAGIC)?);
    let mut entries = Vec::with_capacity(cursor.0.len() / ENTRY_BYTES);
    let (mut expected, mut refs, mut blocks) = (first, 0, 0);
    while !cursor.is_empty() {
        let (at, len, first_ref) = (cursor.u64().ok()?, cursor.u64().ok()?, cursor.u64().ok()?);
        let mut next = || cursor.u32().ok();
        let entry =
            IndexEntry { at, len, first_ref, refs: next()?, first_block: next()?, blocks: next()?, events: next()? };
        let continues = (entry.at, entry.first_ref, entry.first_block) == (expected, refs, blocks);
        if !continues || entry.len < SEGMENT_HEADER as u64 {
            return None;
        }
        expected = entry.at.checked_add(entry.len)?;
        refs = refs.checked_add(entry.refs as u64)?;
        blocks = blocks.checked_add(entry.blocks)?;
        entries.push(entry);
    }
    (expected == place.at).then_some(entries)
}
