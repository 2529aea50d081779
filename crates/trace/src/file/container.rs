//! Reads the frame of a file: header, segment headers, index and trailer. It does not decode streams.

use super::checksum::is_intact;
use super::error::Damage;
use super::index::{EndDecoder, IndexEntry, decode_trailer, trailer_bytes};
use super::layout::{HEADER_FIXED, MAGIC, MAX_METADATA, SEGMENT_HEADER, SegmentHeader};
use super::limits::Totals;
use super::metadata::Metadata;
use super::recording::{Facts, Recording};
use super::state::{STATE, State};
use super::version::{VERSION, Version};
use crate::{Ending, Missing, TraceError};
use reach_core::Shown;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// The bytes of index and ending that are read at once.
const INDEX_PIECE: u64 = 1 << 16;

trait Input: Read + Seek + Send {}
impl<T: Read + Seek + Send> Input for T {}

/// An open file, its index and what it says about the end of its program.
pub(super) struct Container {
    input: Box<dyn Input>,
    path: PathBuf,
    pub len: u64,
    pub version: Version,
    pub metadata: Metadata,
    pub index: Vec<IndexEntry>,
    /// How the recording ended.
    pub recording: Recording,
    /// The part of the recording that the file lacks.
    pub missing: Option<Missing>,
    /// The ending of the program, as the file has it; the default where it has none.
    pub ending: Ending,
    /// The end of the last whole segment, in bytes from the start of the file.
    end: u64,
    /// The bytes that were read last.
    bytes: Vec<u8>,
}

impl Container {
    /// Opens `input`, which error messages call `path`. Rebuilds the index from the segment headers where the file has
    /// none or a damaged one.
    ///
    /// Fails with [`TraceError::Damaged`] where the header is damaged or of a version that cannot be read.
    pub fn open(input: impl Read + Seek + Send + 'static, path: PathBuf) -> Result<Container, TraceError> {
        let mut container = Container {
            input: Box::new(input),
            path,
            len: 0,
            version: Version::CURRENT,
            metadata: Metadata::default(),
            index: Vec::new(),
            recording: Recording::Unknown,
            missing: None,
            ending: Ending::default(),
            end: 0,
            bytes: Vec::new(),
        };
        container.len = container.input.seek(SeekFrom::End(0)).map_err(|e| container.io_error(e))?;
        let header = container.read_header()?;
        let (state, first) = container.read_state(header)?;
        let has_end = container.read_end(first)?;
        if !has_end {
            container.rebuild_index(first)?;
        }
        container.check_totals()?;
        let facts = Facts {
            path: &container.path,
            tool: &container.metadata.tool,
            version: container.version,
            state,
            state_at: header,
            has_end,
            refs: container.refs(),
            len: container.len,
            end: container.end,
        };
        (container.recording, container.missing) = facts.judge();
        Ok(container)
    }

    /// Returns the number of references in the segments of the index.
    pub fn refs(&self) -> u64 {
        self.index.last().map_or(0, |entry| entry.first_ref + entry.refs as u64)
    }

    /// Returns the bytes that were read last.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads the header of a segment and verifies it against the index.
    pub fn read_segment_header(&mut self, entry: IndexEntry) -> Result<SegmentHeader, TraceError> {
        self.read_at(entry.at, SEGMENT_HEADER)?;
        let header = SegmentHeader::decode(self.bytes[..].try_into().expect("a header's length was read"));
        let header = header.map_err(|damage| self.damaged(damage, entry.at))?;
        if IndexEntry::of(&header, entry.at) != entry {
            return Err(self.damaged(Damage("a segment header that contradicts the index"), entry.at));
        }
        Ok(header)
    }

    /// Reads the first `len` bytes of a segment's streams, at most those of its entry. The caller must rely on the streams' own checksums.
    pub fn read_payload_start(&mut self, entry: IndexEntry, len: usize) -> Result<(), TraceError> {
        self.read_at(entry.at + SEGMENT_HEADER as u64, len)
    }

    /// Reads all streams of a segment and verifies their checksum.
    pub fn read_payload(&mut self, header: &SegmentHeader, entry: IndexEntry) -> Result<(), TraceError> {
        self.read_payload_start(entry, header.payload() as usize)?;
        if is_intact(&self.bytes, header.checksum) {
            return Ok(());
        }
        Err(self.damaged(Damage("a segment with a wrong checksum"), entry.at))
    }

    /// Returns the error for damage in the segment at byte `at`.
    pub fn damaged(&self, damage: Damage, at: u64) -> TraceError {
        let todo = format!("earlier segments are good; run `reach trace check {}` for details", self.path.shown());
        TraceError::Damaged { path: self.path.clone(), what: format!("damaged: {}", damage.0), at, todo }
    }

    /// Returns the error for more contents than the bytes of the file allow. `what` are the contents, up to the segment at byte
    /// `at`.
    pub fn over_limit(&self, what: String, at: u64) -> TraceError {
        self.damaged_file(&what, at, "no recorder writes such a file; record again")
    }

    pub fn io_error(&self, source: io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), source }
    }

    fn damaged_file(&self, what: &str, at: u64, todo: &str) -> TraceError {
        TraceError::Damaged { path: self.path.clone(), what: what.to_owned(), at, todo: todo.to_owned() }
    }

    fn read_at(&mut self, at: u64, len: usize) -> Result<(), TraceError> {
        self.bytes.resize(len, 0);
        let read = self.input.seek(SeekFrom::Start(at)).and_then(|_| self.input.read_exact(&mut self.bytes));
        read.map_err(|e| self.io_error(e))
    }

    /// Reads the state after a header of `header` bytes. Returns it, `None` where the version has none, and the start of the
    /// first segment in bytes.
    fn read_state(&mut self, header: u64) -> Result<(Option<Result<State, Damage>>, u64), TraceError> {
        if self.version < Version::V4 {
            return Ok((None, header));
        }
        let first = header + STATE as u64;
        if self.len < first {
            return Err(self.damaged_file("the file header is cut short", self.len, "record again"));
        }
        self.read_at(header, STATE)?;
        let state = State::decode(self.bytes[..].try_into().expect("a state's length was read"));
        Ok((Some(state), first))
    }

    /// Reads the header of the file. Returns its length in bytes.
    fn read_header(&mut self) -> Result<u64, TraceError> {
        let len = self.len.min((HEADER_FIXED + MAX_METADATA + 8) as u64) as usize;
        self.read_at(0, len.min(HEADER_FIXED))?;
        if self.bytes.is_empty() || !self.bytes.starts_with(&MAGIC[..self.bytes.len().min(8)]) {
            return Err(self.damaged_file("not a .reach trace", 0, "give a file that `reach record` wrote"));
        }
        let cut = "the file header is cut short";
        if len < HEADER_FIXED {
            return Err(self.damaged_file(cut, len as u64, "record again"));
        }
        let word = |i: usize| u32::from_le_bytes(self.bytes[i..i + 4].try_into().expect("four bytes"));
        let (number, metadata) = (word(8), word(12) as usize);
        let Some(version) = Version::of(number) else {
            let what = format!("format version {number}, expected {} to {VERSION}", Version::V2 as u32);
            let todo = "read it with the version of Reach that wrote it, or record again";
            return Err(self.damaged_file(&what, 8, todo));
        };
        self.version = version;
        let all = HEADER_FIXED.saturating_add(metadata).saturating_add(8);
        if metadata > MAX_METADATA {
            let what = format!("metadata of {metadata} bytes, expected at most {MAX_METADATA}");
            return Err(self.damaged_file(&what, 12, "record again"));
        }
        if all > len {
            return Err(self.damaged_file(cut, len as u64, "record again"));
        }
        self.read_at(0, all)?;
        let (bytes, stored) = self.bytes.split_at(all - 8);
        if !is_intact(bytes, u64::from_le_bytes(stored.try_into().expect("eight bytes were split off"))) {
            let what = "the file header has a wrong checksum";
            return Err(self.damaged_file(what, 0, "fetch the file again or record again"));
        }
        match serde_json::from_slice::<Metadata>(&bytes[HEADER_FIXED..]) {
            Ok(metadata) => self.metadata = metadata,
            Err(e) => {
                let what = format!("the metadata cannot be read ({e})");
                return Err(self.damaged_file(&what, HEADER_FIXED as u64, "record again"));
            }
        }
        Ok(all as u64)
    }

    /// Reads index and ending of a file whose segments start at byte `first`. Returns whether they are good.
    fn read_end(&mut self, first: u64) -> Result<bool, TraceError> {
        let trailer = trailer_bytes(self.version);
        if self.len < first + trailer as u64 {
            return Ok(false);
        }
        self.read_at(self.len - trailer as u64, trailer)?;
        let Some(place) = decode_trailer(&self.bytes, self.version, self.len) else { return Ok(false) };
        let mut end = EndDecoder::new(self.version, place, first);
        let mut at = place.at;
        // Piece by piece: the index of a file with holes may be longer than memory, and its first entry is wrong.
        while at < self.len {
            let piece = (self.len - at).min(INDEX_PIECE);
            self.read_at(at, piece as usize)?;
            at += piece;
            if end.add(&self.bytes).is_none() {
                return Ok(false);
            }
        }
        let Some((index, ending)) = end.finish() else { return Ok(false) };
        (self.index, self.ending, self.end) = (index, ending, place.at);
        Ok(true)
    }

    /// Rebuilds the index from the segment headers, up to the last whole segment.
    fn rebuild_index(&mut self, first: u64) -> Result<(), TraceError> {
        self.end = first;
        let (mut refs, mut blocks) = (0, 0);
        while self.end + SEGMENT_HEADER as u64 <= self.len {
            self.read_at(self.end, SEGMENT_HEADER)?;
            let header = SegmentHeader::decode(self.bytes[..].try_into().expect("a header's length was read"));
            let Ok(header) = header else { break };
            let entry = IndexEntry::of(&header, self.end);
            let continues = (entry.first_ref, entry.first_block) == (refs, blocks);
            if !continues || entry.len > self.len - self.end {
                break;
            }
            refs += entry.refs as u64;
            blocks += entry.blocks;
            self.end += entry.len;
            self.index.push(entry);
        }
        Ok(())
    }

    /// Fails if the segments hold more than their bytes allow.
    fn check_totals(&self) -> Result<(), TraceError> {
        let mut totals = Totals::default();
        for entry in &self.index {
            totals.add(entry.refs, entry.events);
            totals.check(entry.at + entry.len).map_err(|what| self.over_limit(what, entry.at))?;
        }
        Ok(())
    }
}
