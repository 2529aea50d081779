//! The end of a file: the index of its segments, the ending of its program, and the trailer that says where they are.

use super::bytes::Cursor;
use super::checksum::{checksum, is_intact};
use super::layout::{SEGMENT_HEADER, SegmentHeader};
use super::version::Version;
use crate::Ending;

const INDEX_MAGIC: [u8; 4] = *b"Indx";
const TRAILER_MAGIC: [u8; 8] = *b"ReachEnd";

/// Bytes of an index entry.
const ENTRY_BYTES: usize = 40;
/// The most bytes of an ending. Programs that could not be captured are few, and so are programs of a multiprogram.
pub(super) const MAX_ENDING: usize = 1 << 20;

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

/// Returns the bytes of the trailer: start of the index, its length, since version 4 the length of the ending, a checksum,
/// magic.
pub(super) const fn trailer_bytes(version: Version) -> usize {
    match version {
        Version::V2 | Version::V3 => 32,
        Version::V4 => 40,
    }
}

/// Returns index, ending and trailer, for an index that starts at byte `at` of the file.
pub(super) fn encode_end(entries: &[IndexEntry], ending: &[u8], at: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + entries.len() * ENTRY_BYTES + ending.len() + trailer_bytes(Version::CURRENT));
    out.extend(INDEX_MAGIC);
    for entry in entries {
        out.extend(entry.at.to_le_bytes());
        out.extend(entry.len.to_le_bytes());
        out.extend(entry.first_ref.to_le_bytes());
        for n in [entry.refs, entry.first_block, entry.blocks, entry.events] {
            out.extend(n.to_le_bytes());
        }
    }
    let len = out.len() as u64;
    out.extend(ending);
    for n in [at, len, ending.len() as u64] {
        out.extend(n.to_le_bytes());
    }
    out.extend(checksum(&out).to_le_bytes());
    out.extend(TRAILER_MAGIC);
    out
}

/// The place of index and ending, as the trailer gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndPlace {
    /// The start of the index, in bytes from the start of the file.
    pub at: u64,
    /// The length of the index in bytes.
    pub index: u64,
    /// The length of the ending, which follows the index, in bytes; 0 before version 4.
    pub ending: u64,
    checksum: u64,
}

/// Reads the trailer of a file of `file_len` bytes. Returns `None` where the bytes are no trailer.
pub(super) fn decode_trailer(bytes: &[u8], version: Version, file_len: u64) -> Option<EndPlace> {
    let mut cursor = Cursor(bytes);
    let (at, index) = (cursor.u64().ok()?, cursor.u64().ok()?);
    let ending = if version < Version::V4 { 0 } else { cursor.u64().ok()? };
    let checksum = cursor.u64().ok()?;
    let fits = at.checked_add(index)?.checked_add(ending)?.checked_add(trailer_bytes(version) as u64)? == file_len;
    let is_trailer = cursor.0 == TRAILER_MAGIC
        && fits
        && ending <= MAX_ENDING as u64
        && index >= 4
        && (index - 4).is_multiple_of(ENTRY_BYTES as u64);
    is_trailer.then_some(EndPlace { at, index, ending, checksum })
}

/// Reads index, ending and trailer, which are `bytes`, from `place` to the end of the file. Returns `None` where they are
/// damaged, or where the segments do not fill the file from byte `first` up to the index.
pub(super) fn decode_end(
    bytes: &[u8],
    version: Version,
    place: EndPlace,
    first: u64,
) -> Option<(Vec<IndexEntry>, Ending)> {
    let (index, rest) = bytes.split_at_checked(place.index as usize)?;
    // Since version 4, the checksum covers everything before it; before, it covered the index.
    let covered = if version < Version::V4 { index } else { &bytes[..bytes.len().checked_sub(16)?] };
    if !is_intact(covered, place.checksum) {
        return None;
    }
    let ending = match version {
        Version::V2 | Version::V3 => Ending::default(),
        Version::V4 => serde_json::from_slice(rest.get(..place.ending as usize)?).ok()?,
    };
    let mut cursor = Cursor(index.strip_prefix(&INDEX_MAGIC)?);
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
    (expected == place.at).then_some((entries, ending))
}
