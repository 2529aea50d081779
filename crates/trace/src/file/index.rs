//! The end of a file: the index of its segments, the ending of its program, and the trailer that says where they are.

use super::bytes::Cursor;
use super::checksum::checksum;
use super::layout::{SEGMENT_HEADER, SegmentHeader};
use super::version::Version;
use crate::Ending;
use xxhash_rust::xxh3::Xxh3Default;

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
        Version::V4 | Version::V5 => 40,
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

/// Reads index, ending and trailer, given in pieces.
pub(super) struct EndDecoder {
    version: Version,
    place: EndPlace,
    checksum: Xxh3Default,
    /// Bytes that the checksum still covers. Since version 4, it covers everything before it; before, the index.
    covered: u64,
    /// Bytes of the index that are still to come.
    index: u64,
    entries: Vec<IndexEntry>,
    /// The entry that is due: where it starts, and what came before it.
    next: IndexEntry,
    /// The part of the index that is no whole entry yet, and then the ending and trailer.
    pending: Vec<u8>,
}

impl EndDecoder {
    /// Makes a decoder of what is at `place` in a file whose segments start at byte `first`.
    pub fn new(version: Version, place: EndPlace, first: u64) -> EndDecoder {
        let trailer = trailer_bytes(version) as u64;
        EndDecoder {
            version,
            place,
            checksum: Xxh3Default::new(),
            covered: if version < Version::V4 { place.index } else { place.index + place.ending + trailer - 16 },
            index: place.index,
            entries: Vec::new(),
            next: IndexEntry { at: first, len: 0, first_ref: 0, refs: 0, first_block: 0, blocks: 0, events: 0 },
            pending: Vec::new(),
        }
    }

    /// Adds the next bytes. Returns `None` where an entry does not continue the one before.
    pub fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let covered = bytes.len().min(usize::try_from(self.covered).unwrap_or(usize::MAX));
        self.checksum.update(&bytes[..covered]);
        self.covered -= covered as u64;
        self.pending.extend_from_slice(bytes);
        let index = self.pending.len().min(usize::try_from(self.index).unwrap_or(usize::MAX));
        let (before, mut cursor) = (index, Cursor(&self.pending[..index]));
        if self.index == self.place.index && cursor.take(INDEX_MAGIC.len()).ok()? != INDEX_MAGIC {
            return None;
        }
        while cursor.0.len() >= ENTRY_BYTES {
            let (at, len, first_ref) = (cursor.u64().ok()?, cursor.u64().ok()?, cursor.u64().ok()?);
            let mut word = || cursor.u32().ok();
            let (refs, first_block, blocks, events) = (word()?, word()?, word()?, word()?);
            let entry = IndexEntry { at, len, first_ref, refs, first_block, blocks, events };
            let next = &mut self.next;
            let continues = (at, first_ref, first_block) == (next.at, next.first_ref, next.first_block);
            if !continues || len < SEGMENT_HEADER as u64 {
                return None;
            }
            next.at = at.checked_add(len)?;
            next.first_ref = first_ref.checked_add(refs.into())?;
            next.first_block = first_block.checked_add(blocks)?;
            self.entries.push(entry);
        }
        let read = before - cursor.0.len();
        self.index -= read as u64;
        self.pending.drain(..read);
        Some(())
    }

    /// Returns index and ending. Returns `None` where they are damaged, or where the segments do not fill the file up to the
    /// index. All bytes must have been added.
    pub fn finish(self) -> Option<(Vec<IndexEntry>, Ending)> {
        if !cfg!(fuzzing) && self.checksum.digest() != self.place.checksum {
            return None;
        }
        let ending = match self.version {
            Version::V2 | Version::V3 => Ending::default(),
            Version::V4 | Version::V5 => {
                serde_json::from_slice(self.pending.get(..self.place.ending as usize)?).ok()?
            }
        };
        (self.index == 0 && self.next.at == self.place.at).then_some((self.entries, ending))
    }
}
