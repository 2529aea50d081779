//! Reads a trace front to back, or from any segment on.

use super::container::Container;
use super::decode::SegmentDecoder;
use super::error::Damage;
use super::index::IndexEntry;
use super::layout::SegmentHeader;
use super::limits::Totals;
use super::metadata::Metadata;
use super::outline::{OutlineDecoder, OutlineEncoder};
use super::recording::Recording;
use super::stream::{STREAMS, Stream, StreamLength};
use crate::{Ending, Missing, Part, Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Event};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

/// The references in a chunk: a quarter of a megabyte, which fits a second-level cache.
const CHUNK_REFS: usize = 1 << 15;

/// Reads a `.reach` trace, of version 2 or later of the format.
///
/// As a [`Source`], it ends the program where the file is damaged or incomplete, and says so in its ending. Where not even
/// the first reference can be read, it fails.
///
/// ```
/// use reach_core::{BlockTable, Chunk, Event, Ref, VirtAddr};
/// use reach_trace::{Ending, Source};
/// use reach_trace::file::{Metadata, Reader, Writer};
///
/// let mut written = Chunk::default();
/// written.push_event(Event::Switch { asid: Default::default(), thread: Default::default() });
/// written.refs.push(Ref::load(VirtAddr(0x1000)));
/// let mut writer = Writer::new(Vec::new(), &Metadata::default())?;
/// writer.write(&written, &BlockTable::default())?;
/// let bytes = writer.finish(&Ending::default())?;
///
/// let mut reader = Reader::new(std::io::Cursor::new(bytes), "example.reach")?;
/// let mut read = Chunk::default();
/// assert!(reader.fill(&mut read)?);
/// assert_eq!((read.refs, read.events), (written.refs, written.events));
/// assert!(reader.ending().missing.is_empty());
/// # Ok::<(), reach_trace::TraceError>(())
/// ```
pub struct Reader {
    container: Container,
    name: String,
    table: BlockTable,
    /// The number of segments, from the first on, whose blocks are in `table`.
    gathered: usize,
    /// What is in `table`.
    totals: Totals,
    /// The segment to load next.
    next: usize,
    decoder: SegmentDecoder,
    /// Used in place of `decoder` while the reader gives outlines.
    outline: Option<OutlineDecoder>,
    /// The start of the loaded segment in bytes, for error messages.
    at: u64,
    /// Whether a chunk has been given since the program was begun or a place was sought.
    given: bool,
    /// The damage that ended the program, if any did.
    damage: Option<Missing>,
}

/// The place of a segment and the counts of its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The start of the segment, in bytes from the start of the file.
    pub at: u64,
    /// The length in bytes, with the header.
    pub bytes: u64,
    /// The number in the file of the segment's first reference.
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
    /// Blocks that the segment defines.
    pub blocks: u32,
    /// Forms: blocks with the shapes of their data references.
    pub forms: u32,
    /// Paths: runs of forms that have a number of their own.
    pub paths: u32,
    /// The lengths of the streams: blocks, events, forms, sequence, control, near, far, and of the outline steps, visits
    /// and pages.
    pub streams: [StreamLength; STREAMS],
}

impl Segment {
    /// Returns the bytes of the outline's streams before compression.
    pub(crate) fn outline_bytes(&self) -> usize {
        Stream::OUTLINE.iter().map(|&stream| self.streams[stream as usize].raw as usize).sum()
    }
}

impl Reader {
    /// Opens the file `path`.
    ///
    /// Fails with [`TraceError::Io`] where the file cannot be read, and with [`TraceError::Damaged`] where its header is
    /// damaged or of a version that cannot be read. A missing or damaged index is no error; see [`Reader::missing`].
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, TraceError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| TraceError::Io { path: path.to_owned(), source })?;
        Reader::new(file, path)
    }

    /// Reads from `input`, which error messages call `path`. Fails as [`Reader::open`] does.
    pub fn new(input: impl Read + Seek + Send + 'static, path: impl AsRef<Path>) -> Result<Reader, TraceError> {
        let path = path.as_ref();
        let container = Container::open(input, path.to_owned())?;
        let decoder = SegmentDecoder::new(container.version).map_err(|e| container.io_error(e))?;
        let name = match container.metadata.program.as_str() {
            "" => crate::name_of(path),
            program => program.chars().filter(|c| !c.is_control()).collect(),
        };
        Ok(Reader {
            container,
            name,
            table: BlockTable::default(),
            gathered: 0,
            totals: Totals::default(),
            next: 0,
            decoder,
            outline: None,
            at: 0,
            given: false,
            damage: None,
        })
    }

    /// Returns the version of the file's format.
    pub fn version(&self) -> u32 {
        self.container.version as u32
    }

    /// Returns the facts that the recorder stored with the trace.
    pub fn metadata(&self) -> &Metadata {
        &self.container.metadata
    }

    /// Returns the length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.container.len
    }

    /// Returns how the recording ended.
    pub fn recording(&self) -> Recording {
        self.container.recording
    }

    /// Returns the part that the file lacks by its header and trailer; `None` if it lacks none. Damage within segments shows
    /// when they are read.
    pub fn missing(&self) -> Option<&Missing> {
        self.container.missing.as_ref()
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> usize {
        self.container.index.len()
    }

    /// Returns the number of references in the file.
    pub fn refs(&self) -> u64 {
        self.container.refs()
    }

    /// Returns the number in the file of the reference that [`Source::fill`] gives next.
    pub fn position(&self) -> u64 {
        if !self.is_done() {
            return self.outline.as_ref().map_or_else(|| self.decoder.position(), OutlineDecoder::position);
        }
        self.container.index.get(self.next).map_or_else(|| self.refs(), |entry| entry.first_ref)
    }

    /// Continues at the start of segment number `segment`, or at the end of the file where there is no such segment.
    ///
    /// Events before the segment are not repeated: a caller that needs the address spaces must read from the start.
    pub fn seek_segment(&mut self, segment: usize) -> Result<(), TraceError> {
        self.decoder.clear();
        self.outline.iter_mut().for_each(OutlineDecoder::clear);
        (self.given, self.damage) = (false, None);
        self.next = segment.min(self.container.index.len());
        if self.outline.is_some() { Ok(()) } else { self.gather_blocks(self.next) }
    }

    /// Returns whether the whole loaded segment has been given.
    fn is_done(&self) -> bool {
        self.outline.as_ref().map_or_else(|| self.decoder.is_done(), OutlineDecoder::is_done)
    }

    /// Continues at the start of the segment that holds reference number `number`. Returns the number of that segment's
    /// first reference. Events directly before that reference may be at the end of the previous segment.
    pub fn seek(&mut self, number: u64) -> Result<u64, TraceError> {
        // A segment of events alone counts as preceding the next reference.
        let before = |entry: &IndexEntry| (entry.first_ref + entry.refs as u64, entry.refs == 0) < (number, true);
        let segment = self.container.index.partition_point(before);
        self.seek_segment(segment)?;
        Ok(self.position())
    }

    /// Returns the place and the counts of segment number `segment`. Panics unless it is below [`Reader::segments`].
    pub fn segment(&mut self, segment: usize) -> Result<Segment, TraceError> {
        let entry = self.container.index[segment];
        let header = self.container.read_segment_header(entry)?;
        Ok(Segment {
            at: entry.at,
            bytes: entry.len,
            first_ref: header.first_ref,
            refs: header.refs,
            fetches: header.fetches,
            loads: header.loads,
            stores: header.stores,
            instructions: header.instructions,
            events: header.events,
            blocks: header.blocks,
            forms: header.forms,
            paths: header.paths,
            streams: header.streams.0,
        })
    }

    /// Verifies the checksum of segment number `segment`.
    pub(crate) fn verify_segment(&mut self, segment: usize) -> Result<(), TraceError> {
        let entry = self.container.index[segment];
        let header = self.container.read_segment_header(entry)?;
        self.container.read_payload(&header, entry)
    }

    /// Verifies that the outline of segment number `segment` is the one that `encoder` made last. `encoder` must have
    /// encoded all earlier segments too.
    pub(crate) fn verify_outline(&mut self, segment: usize, encoder: &OutlineEncoder) -> Result<(), TraceError> {
        let container = &mut self.container;
        let entry = container.index[segment];
        let header = container.read_segment_header(entry)?;
        container.read_payload(&header, entry)?;
        let mut outline = OutlineDecoder::new(container.version).map_err(|e| container.io_error(e))?;
        outline.load(&header, container.bytes()).map_err(|damage| container.damaged(damage, entry.at))?;
        if outline.streams().into_iter().eq(encoder.streams.iter().map(Vec::as_slice)) {
            return Ok(());
        }
        Err(container.damaged(Damage("an outline that does not match its segment's references"), entry.at))
    }

    /// Returns the events of segment number `segment`, each with the number in the segment of the reference that it
    /// precedes. Panics unless the segment is below [`Reader::segments`].
    pub fn segment_events(&mut self, segment: usize) -> Result<Vec<(u32, Event)>, TraceError> {
        let container = &mut self.container;
        let entry = container.index[segment];
        if entry.events == 0 {
            return Ok(Vec::new());
        }
        let header = container.read_segment_header(entry)?;
        let stored = header.streams[Stream::Blocks].stored + header.streams[Stream::Events].stored;
        container.read_payload_start(entry, stored as usize)?;
        let mut decoder = SegmentDecoder::new(container.version).map_err(|e| container.io_error(e))?;
        decoder.events(&header, container.bytes()).map_err(|damage| container.damaged(damage, entry.at))
    }

    /// Gathers the blocks of all segments before `segment`.
    fn gather_blocks(&mut self, segment: usize) -> Result<(), TraceError> {
        while self.gathered < segment {
            let entry = self.container.index[self.gathered];
            if entry.blocks > 0 {
                let header = self.container.read_segment_header(entry)?;
                self.container.read_payload_start(entry, header.streams[Stream::Blocks].stored as usize)?;
                self.decode_blocks(&header, entry)?;
            }
            self.gathered += 1;
        }
        Ok(())
    }

    fn decode_blocks(&mut self, header: &SegmentHeader, entry: IndexEntry) -> Result<(), TraceError> {
        self.totals.add_blocks(header);
        self.totals.check(entry.at + entry.len).map_err(|what| self.container.over_limit(what, entry.at))?;
        let decoded = self.decoder.blocks(header, self.container.bytes(), &mut self.table);
        decoded.map_err(|damage| self.container.damaged(damage, entry.at))
    }

    /// Loads the next segment.
    fn load(&mut self) -> Result<(), TraceError> {
        let entry = self.container.index[self.next];
        self.at = entry.at;
        self.decoder.clear();
        let header = self.container.read_segment_header(entry)?;
        self.container.read_payload(&header, entry)?;
        if let Some(outline) = &mut self.outline {
            let loaded = outline.load(&header, self.container.bytes());
            loaded.map_err(|damage| self.container.damaged(damage, entry.at))?;
            self.next += 1;
            return Ok(());
        }
        if self.gathered == self.next {
            self.decode_blocks(&header, entry)?;
            self.gathered += 1;
        }
        let loaded = self.decoder.load(&header, self.container.bytes(), &self.table);
        loaded.map_err(|damage| self.container.damaged(damage, entry.at))?;
        self.next += 1;
        Ok(())
    }
}

impl Reader {
    /// Replaces the contents of `chunk` as [`Source::fill`] does, and fails at the first damage.
    pub fn read(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        while chunk.is_empty() {
            if self.is_done() {
                if self.next == self.container.index.len() {
                    return Ok(false);
                }
                self.load()?;
            }
            let filled = match &mut self.outline {
                Some(outline) => outline.fill(chunk),
                None => self.decoder.fill(chunk, CHUNK_REFS),
            };
            filled.map_err(|damage| self.container.damaged(damage, self.at))?;
        }
        Ok(true)
    }
}

impl Source for Reader {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.damage.is_some() {
            chunk.clear();
            return Ok(false);
        }
        // The reference that is not given because of damage: a decoder that fails has moved on.
        let position = self.position();
        let missing = match self.read(chunk) {
            Ok(true) => {
                self.given = true;
                return Ok(true);
            }
            Ok(false) => match &self.container.missing {
                Some(missing) if !self.given => missing.clone(),
                _ => return Ok(false),
            },
            Err(error) => {
                let whole = match &self.container.missing {
                    Some(Missing { part: Part::Rest { whole, .. }, .. }) => *whole,
                    _ => Some(self.refs()),
                };
                error.into_missing(position, whole)?
            }
        };
        chunk.clear();
        if !self.given {
            return Err(TraceError::Incomplete(missing));
        }
        self.damage = Some(missing);
        Ok(false)
    }

    fn ending(&mut self) -> Ending {
        let mut ending = self.container.ending.clone();
        // Damage within segments ends the program before the end of the file can matter.
        ending.missing.extend(self.damage.as_ref().or(self.container.missing.as_ref()).cloned());
        ending
    }

    fn outline(&mut self, on: bool) -> Result<bool, TraceError> {
        let outline = || OutlineDecoder::new(self.container.version).map_err(|e| self.container.io_error(e));
        self.outline = if on { Some(outline()?) } else { None };
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
