//! Reads a trace front to back or from any segment on.

use super::decode::SegmentDecoder;
use super::layout::{
    BLOCKS, EVENTS, Entry, HEADER_FIXED, MAGIC, MAX_METADATA, SEGMENT_HEADER, SegmentHeader, TRAILER, VERSION,
    decode_index, decode_trailer,
};
use super::metadata::Metadata;
use super::outline::{OutlineDecoder, OutlineEncoder};
use super::{Bad, is_intact};
use crate::{Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Event};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How many references a chunk gets: a quarter of a megabyte, which stays in a second-level cache.
const CHUNK_REFS: usize = 1 << 15;

trait Input: Read + Seek + Send {}
impl<T: Read + Seek + Send> Input for T {}

/// A `.reach` trace.
pub struct Reader {
    input: Box<dyn Input>,
    path: PathBuf,
    name: String,
    metadata: Metadata,
    file_len: u64,
    index: Vec<Entry>,
    rebuilt: bool,
    /// Where the whole segments end.
    end: u64,
    table: BlockTable,
    /// Segments whose blocks are in `table`.
    gathered: usize,
    /// The segment that is loaded next.
    next: usize,
    decoder: SegmentDecoder,
    /// Where outlines are given, in its place.
    outline: Option<OutlineDecoder>,
    payload: Vec<u8>,
    /// Where the segment in hand starts, for messages.
    at: u64,
}

/// What a segment's header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it starts, in bytes.
    pub at: u64,
    /// Its length in bytes, header included.
    pub bytes: u64,
    /// Number in the file of its first reference.
    pub first_ref: u64,
    /// References.
    pub refs: u32,
    /// Block fetches.
    pub fetches: u32,
    /// Loads.
    pub loads: u32,
    /// Stores.
    pub stores: u32,
    /// Instructions in the fetched blocks.
    pub instructions: u64,
    /// Events.
    pub events: u32,
    /// Blocks that are defined in it.
    pub blocks: u32,
    /// Forms: blocks with the shapes of their data references.
    pub forms: u32,
    /// Paths: runs of forms that have a number of their own.
    pub paths: u32,
    /// Bytes before and after compression of blocks, events, forms, sequence, control, near and far stream, and of the
    /// outline's steps, visits and pages.
    pub streams: [(u32, u32); 10],
}

impl Reader {
    /// Opens the file `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, TraceError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| TraceError::Io { path: path.to_owned(), source })?;
        Reader::new(file, path)
    }

    /// Reads from `input`, which messages call `path`.
    pub fn new(input: impl Read + Seek + Send + 'static, path: impl AsRef<Path>) -> Result<Reader, TraceError> {
        let path = path.as_ref().to_owned();
        let decoder = SegmentDecoder::new().map_err(|source| TraceError::Io { path: path.clone(), source })?;
        let mut reader = Reader {
            input: Box::new(input),
            name: crate::name_of(&path),
            path,
            metadata: Metadata::default(),
            file_len: 0,
            index: Vec::new(),
            rebuilt: false,
            end: 0,
            table: BlockTable::default(),
            gathered: 0,
            next: 0,
            decoder,
            outline: None,
            payload: Vec::new(),
            at: 0,
        };
        reader.file_len = reader.input.seek(SeekFrom::End(0)).map_err(|e| reader.io_error(e))?;
        let first = reader.read_header()?;
        if !reader.read_index(first)? {
            reader.rebuild_index(first)?;
        }
        Ok(reader)
    }

    /// What the trace says about itself.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.file_len
    }

    /// Whether the index was missing or damaged, because the recorder was killed, and has been rebuilt.
    pub fn index_was_rebuilt(&self) -> bool {
        self.rebuilt
    }

    /// Bytes behind the last whole segment of a file without an index; they are not read.
    pub fn lost_bytes(&self) -> u64 {
        if self.rebuilt { self.file_len - self.end } else { 0 }
    }

    /// How many segments the file has.
    pub fn segments(&self) -> usize {
        self.index.len()
    }

    /// How many references the file has.
    pub fn refs(&self) -> u64 {
        self.index.last().map_or(0, |e| e.first_ref + e.refs as u64)
    }

    /// Number in the file of the reference that [`Source::fill`] gives next.
    pub fn position(&self) -> u64 {
        if !self.is_done() {
            return self.outline.as_ref().map_or_else(|| self.decoder.position(), OutlineDecoder::position);
        }
        self.index.get(self.next).map_or_else(|| self.refs(), |e| e.first_ref)
    }

    /// Goes on reading at the start of segment number `segment`, or at the end where there is none.
    ///
    /// Events before it are not repeated: who needs the address spaces reads from the start.
    pub fn seek_segment(&mut self, segment: usize) -> Result<(), TraceError> {
        self.decoder.clear();
        self.outline.iter_mut().for_each(OutlineDecoder::clear);
        self.next = segment.min(self.index.len());
        if self.outline.is_some() { Ok(()) } else { self.gather(self.next) }
    }

    /// Whether all of the segment in hand has been given out.
    fn is_done(&self) -> bool {
        self.outline.as_ref().map_or_else(|| self.decoder.is_done(), OutlineDecoder::is_done)
    }

    /// Goes on reading at the start of the segment that holds reference number `number`. Gives the number of that
    /// segment's first reference. Events directly before that one may stand at the end of the segment before.
    pub fn seek(&mut self, number: u64) -> Result<u64, TraceError> {
        // A segment of events alone counts as standing before the reference that follows it.
        let before = |e: &Entry| (e.first_ref + e.refs as u64, e.refs == 0) < (number, true);
        let segment = self.index.partition_point(before);
        self.seek_segment(segment)?;
        Ok(self.position())
    }

    /// What the header of segment number `segment` (below [`Reader::segments`]) says.
    pub fn segment(&mut self, segment: usize) -> Result<Segment, TraceError> {
        let entry = self.index[segment];
        let h = self.read_segment_header(entry)?;
        Ok(Segment {
            at: entry.at,
            bytes: entry.len,
            first_ref: h.first_ref,
            refs: h.refs,
            fetches: h.fetches,
            loads: h.loads,
            stores: h.stores,
            instructions: h.instructions,
            events: h.events,
            blocks: h.blocks,
            forms: h.forms,
            paths: h.paths,
            streams: h.streams,
        })
    }

    /// Verifies the checksum of segment number `segment`.
    pub(crate) fn verify_segment(&mut self, segment: usize) -> Result<(), TraceError> {
        let entry = self.index[segment];
        let header = self.read_segment_header(entry)?;
        self.read_checked_payload(&header, entry)
    }

    /// Verifies that the outline of segment number `segment` is what `encoder`, which has made those of all segments
    /// before it, made of its references.
    pub(crate) fn verify_outline(&mut self, segment: usize, encoder: &OutlineEncoder) -> Result<(), TraceError> {
        let entry = self.index[segment];
        let header = self.read_segment_header(entry)?;
        self.read_checked_payload(&header, entry)?;
        let mut outline = OutlineDecoder::new().map_err(|e| self.io_error(e))?;
        outline.load(&header, &self.payload).map_err(|bad| self.damaged(bad, entry.at))?;
        if outline.streams().into_iter().eq(encoder.streams.iter().map(Vec::as_slice)) {
            return Ok(());
        }
        Err(self.damaged(Bad("an outline of something else than its segment"), entry.at))
    }

    /// The events of segment number `segment`, each with the number in the segment of the reference it stands before.
    pub fn segment_events(&mut self, segment: usize) -> Result<Vec<(u32, Event)>, TraceError> {
        let entry = self.index[segment];
        if entry.events == 0 {
            return Ok(Vec::new());
        }
        let header = self.read_segment_header(entry)?;
        let stored = (header.streams[BLOCKS].1 + header.streams[EVENTS].1) as usize;
        self.read_payload(entry, stored)?;
        let mut decoder = SegmentDecoder::new().map_err(|e| self.io_error(e))?;
        decoder.events(&header, &self.payload).map_err(|bad| self.damaged(bad, entry.at))
    }

    /// Gathers the blocks of the segments before `segment`.
    fn gather(&mut self, segment: usize) -> Result<(), TraceError> {
        while self.gathered < segment {
            let entry = self.index[self.gathered];
            if entry.blocks > 0 {
                let header = self.read_segment_header(entry)?;
                self.read_payload(entry, header.streams[BLOCKS].1 as usize)?;
                self.take_blocks(&header, entry)?;
            }
            self.gathered += 1;
        }
        Ok(())
    }

    fn take_blocks(&mut self, header: &SegmentHeader, entry: Entry) -> Result<(), TraceError> {
        let blocks = self.decoder.blocks(header, &self.payload, &mut self.table);
        blocks.map_err(|bad| self.damaged(bad, entry.at))
    }

    /// Takes up the next segment.
    fn load(&mut self) -> Result<(), TraceError> {
        let entry = self.index[self.next];
        self.at = entry.at;
        self.decoder.clear();
        let header = self.read_segment_header(entry)?;
        self.read_checked_payload(&header, entry)?;
        if let Some(outline) = &mut self.outline {
            outline.load(&header, &self.payload).map_err(|bad| self.damaged(bad, entry.at))?;
            self.next += 1;
            return Ok(());
        }
        if self.gathered == self.next {
            self.take_blocks(&header, entry)?;
            self.gathered += 1;
        }
        let loaded = self.decoder.load(&header, &self.payload, &self.table);
        loaded.map_err(|bad| self.damaged(bad, entry.at))?;
        self.next += 1;
        Ok(())
    }

    fn read_at(&mut self, at: u64, len: usize) -> Result<(), TraceError> {
        self.payload.resize(len, 0);
        let read = self.input.seek(SeekFrom::Start(at)).and_then(|_| self.input.read_exact(&mut self.payload));
        read.map_err(|e| self.io_error(e))
    }

    fn read_payload(&mut self, entry: Entry, len: usize) -> Result<(), TraceError> {
        self.read_at(entry.at + SEGMENT_HEADER as u64, len)
    }

    fn read_checked_payload(&mut self, header: &SegmentHeader, entry: Entry) -> Result<(), TraceError> {
        self.read_payload(entry, header.payload() as usize)?;
        if is_intact(&self.payload, header.checksum) {
            return Ok(());
        }
        Err(self.damaged(Bad("a segment with a wrong checksum"), entry.at))
    }

    fn read_segment_header(&mut self, entry: Entry) -> Result<SegmentHeader, TraceError> {
        self.read_at(entry.at, SEGMENT_HEADER)?;
        let header = SegmentHeader::decode(self.payload[..].try_into().expect("a header's length was read"));
        let header = header.map_err(|bad| self.damaged(bad, entry.at))?;
        if Entry::of(&header, entry.at) != entry {
            return Err(self.damaged(Bad("a segment that the index describes otherwise"), entry.at));
        }
        Ok(header)
    }

    /// Reads the file's header and gives its length.
    fn read_header(&mut self) -> Result<u64, TraceError> {
        let len = self.file_len.min((HEADER_FIXED + MAX_METADATA + 8) as u64) as usize;
        self.read_at(0, len.min(HEADER_FIXED))?;
        if self.payload.is_empty() || !self.payload.starts_with(&MAGIC[..self.payload.len().min(8)]) {
            return Err(self.damaged_file("this is no .reach trace", 0, "give a file that `reach record` wrote"));
        }
        let cut = "the header is cut short";
        if len < HEADER_FIXED {
            return Err(self.damaged_file(cut, len as u64, "record again"));
        }
        let word = |i: usize| u32::from_le_bytes(self.payload[i..i + 4].try_into().expect("four bytes"));
        let (version, text) = (word(8), word(12) as usize);
        if version != VERSION {
            let what = format!("format version {version} where this program reads version {VERSION}");
            return Err(self.damaged_file(
                &what,
                8,
                "read it with the version of Reach that wrote it, or record again",
            ));
        }
        let all = HEADER_FIXED.saturating_add(text).saturating_add(8);
        if text > MAX_METADATA {
            return Err(self.damaged_file("metadata of impossible length", 12, "record again"));
        }
        if all > len {
            return Err(self.damaged_file(cut, len as u64, "record again"));
        }
        self.read_at(0, all)?;
        let (bytes, checksum) = self.payload.split_at(all - 8);
        if !is_intact(bytes, u64::from_le_bytes(checksum.try_into().expect("eight bytes were split off"))) {
            return Err(self.damaged_file(
                "the header has a wrong checksum",
                0,
                "fetch the file again or record again",
            ));
        }
        match serde_json::from_slice::<Metadata>(&bytes[HEADER_FIXED..]) {
            Ok(metadata) => self.metadata = metadata,
            Err(e) => {
                let what = format!("the metadata is not as expected ({e})");
                return Err(self.damaged_file(&what, HEADER_FIXED as u64, "record again"));
            }
        }
        if !self.metadata.program.is_empty() {
            self.name = self.metadata.program.chars().filter(|c| !c.is_control()).collect();
        }
        Ok(all as u64)
    }

    /// Reads the index; `false` where there is no good one.
    fn read_index(&mut self, first: u64) -> Result<bool, TraceError> {
        if self.file_len < first + TRAILER as u64 {
            return Ok(false);
        }
        self.read_at(self.file_len - TRAILER as u64, TRAILER)?;
        let trailer = self.payload[..].try_into().expect("a trailer's length was read");
        let Some((at, len, checksum)) = decode_trailer(trailer, self.file_len) else { return Ok(false) };
        self.read_at(at, len as usize)?;
        let Some(index) = decode_index(&self.payload, checksum, first, at) else { return Ok(false) };
        (self.index, self.end) = (index, at);
        Ok(true)
    }

    /// Makes the index from the segments' headers, up to the last whole segment.
    fn rebuild_index(&mut self, first: u64) -> Result<(), TraceError> {
        self.rebuilt = true;
        self.end = first;
        let (mut refs, mut blocks) = (0, 0);
        while self.end + SEGMENT_HEADER as u64 <= self.file_len {
            self.read_at(self.end, SEGMENT_HEADER)?;
            let header = SegmentHeader::decode(self.payload[..].try_into().expect("a header's length was read"));
            let Ok(header) = header else { break };
            let entry = Entry::of(&header, self.end);
            let continues = (entry.first_ref, entry.first_block) == (refs, blocks);
            if !continues || entry.len > self.file_len - self.end {
                break;
            }
            refs += entry.refs as u64;
            blocks += entry.blocks;
            self.end += entry.len;
            self.index.push(entry);
        }
        Ok(())
    }

    fn io_error(&self, source: io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), source }
    }

    fn damaged(&self, bad: Bad, at: u64) -> TraceError {
        let todo = format!("what stands before is good; `reach trace check {}` tells more", self.path.display());
        TraceError::Damaged { path: self.path.clone(), what: format!("damaged: {}", bad.0), at, todo }
    }

    fn damaged_file(&self, what: &str, at: u64, todo: &str) -> TraceError {
        TraceError::Damaged { path: self.path.clone(), what: what.to_owned(), at, todo: todo.to_owned() }
    }
}

impl Source for Reader {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        while chunk.is_empty() {
            if self.is_done() {
                if self.next == self.index.len() {
                    return Ok(false);
                }
                self.load()?;
            }
            let filled = match &mut self.outline {
                Some(outline) => outline.fill(chunk),
                None => self.decoder.fill(chunk, CHUNK_REFS),
            };
            filled.map_err(|bad| self.damaged(bad, self.at))?;
        }
        Ok(true)
    }

    fn outline(&mut self, on: bool) -> Result<bool, TraceError> {
        self.outline = if on { Some(OutlineDecoder::new().map_err(|e| self.io_error(e))?) } else { None };
        self.seek_segment(0)?;
        Ok(true)
    }

    fn blocks(&self) -> &BlockTable {
        &self.table
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> Progress {
        Progress { done: self.position(), total: Some(self.refs()) }
    }
}
