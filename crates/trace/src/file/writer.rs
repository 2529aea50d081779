//! Writes a trace segment by segment, in place: the segments are readable whenever the recorder dies. The state in the
//! header, rewritten at the end, tells whether it did.

use super::Metadata;
use super::blocks::BlockEncoder;
use super::check::{ChunkChecker, EVENT_BYTES, MAX_TEXT, text_of};
use super::checksum::checksum;
use super::encode::SegmentEncoder;
use super::events::EventEncoder;
use super::forms::is_fetch;
use super::index::{IndexEntry, MAX_ENDING, encode_end};
use super::layout::{HEADER_FIXED, MAGIC, MAX_BLOCKS, MAX_EVENTS, MAX_METADATA, MAX_REFS, MAX_STREAM, SegmentHeader};
use super::limits::Totals;
use super::outline::OutlineEncoder;
use super::state::State;
use super::version::VERSION;
use crate::{Ending, TraceError};
use reach_core::{BlockId, BlockTable, Chunk, Event, Kind, Ref};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The references in a segment. Forms and addresses start anew in every segment: a quarter of this costs 0.08 bytes a
/// reference more on gcc; four times as many gain 0.03 bytes, and lose more when the recorder is killed.
const SEGMENT_REFS: usize = 1 << 20;
/// The bytes of blocks, or of events, that also complete a segment.
const SEGMENT_BYTES: usize = 1 << 22;

/// The mode of a recording.
const OWNER_ONLY: u32 = 0o600;

/// Writes a `.reach` trace.
///
/// Call [`Writer::finish`] at the end: it writes the last segment, the index and the ending of the program. A file without
/// them is readable up to the last whole segment, and readers say that it was never finished.
/// [`Reader`](super::Reader) has an example.
pub struct Writer<W: Write> {
    out: W,
    path: PathBuf,
    /// Bytes written so far.
    at: u64,
    encoder: SegmentEncoder,
    /// `None` where nobody reads outlines.
    outline: Option<OutlineEncoder>,
    index: Vec<IndexEntry>,
    totals: Totals,
    // The segment that is being collected.
    refs: Vec<Ref>,
    fetched: Vec<BlockId>,
    blocks: BlockEncoder,
    events: Vec<(u32, Event)>,
    event_bytes: usize,
    checker: ChunkChecker,
    /// References and blocks in segments already written.
    first_ref: u64,
    first_block: u32,
    /// The output once more and the place of its state in bytes, where the state can be rewritten.
    state: Option<(File, u64)>,
    failed: bool,
    /// References that were given to [`Writer::write`], those included that a failed output lost.
    given: u64,
}

impl Writer<File> {
    /// Creates the file `path`, or empties it. Nobody but its owner can read it: it holds the program's command line, addresses
    /// and code.
    ///
    /// Fails with [`TraceError::Io`] where the file cannot be written or `metadata` has more than a megabyte.
    pub fn create(path: impl AsRef<Path>, metadata: &Metadata) -> Result<Writer<File>, TraceError> {
        let path = path.as_ref();
        let open = || {
            let file = File::options().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(path)?;
            // Only regular files can be rewritten.
            if !file.metadata()?.is_file() {
                return Ok((file, None));
            }
            // A file that existed has kept its mode. Another user's file, and a file system without modes, keep it for good.
            let _ = file.set_permissions(Permissions::from_mode(OWNER_ONLY));
            Ok((file.try_clone()?, Some(file)))
        };
        let (file, again) = open().map_err(|source| TraceError::Io { path: path.to_owned(), source })?;
        Writer::with_path(file, again, path.to_owned(), metadata)
    }
}

impl<W: Write> Writer<W> {
    /// Writes to `out`, from its present position on and front to back: a cut file cannot say how much is missing. Fails as
    /// [`Writer::create`] does.
    pub fn new(out: W, metadata: &Metadata) -> Result<Writer<W>, TraceError> {
        Writer::with_path(out, None, PathBuf::from("trace"), metadata)
    }

    /// Leaves out the outlines of segments, which only simulations that count read. Such a trace must not leave this process:
    /// files have outlines.
    pub(crate) fn without_outlines(self) -> Writer<W> {
        Writer { outline: None, ..self }
    }

    /// Writes to `out`. `again` is the same file once more, if what was written can be rewritten.
    fn with_path(out: W, again: Option<File>, path: PathBuf, metadata: &Metadata) -> Result<Writer<W>, TraceError> {
        let encoder = SegmentEncoder::new().map_err(|source| TraceError::Io { path: path.clone(), source })?;
        let mut writer = Writer {
            out,
            path,
            at: 0,
            encoder,
            outline: Some(OutlineEncoder::default()),
            index: Vec::new(),
            totals: Totals::default(),
            refs: Vec::new(),
            fetched: Vec::new(),
            blocks: BlockEncoder::default(),
            events: Vec::new(),
            event_bytes: 0,
            checker: ChunkChecker::default(),
            first_ref: 0,
            first_block: 0,
            state: None,
            failed: false,
            given: 0,
        };
        let text = serde_json::to_vec(metadata).map_err(|e| writer.io_error(e.into()))?;
        if text.len() > MAX_METADATA {
            return Err(writer.refused("metadata of more than a megabyte"));
        }
        let mut header = Vec::with_capacity(HEADER_FIXED + text.len() + 8);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend((text.len() as u32).to_le_bytes());
        header.extend(text);
        header.extend(checksum(&header).to_le_bytes());
        writer.state = again.map(|file| (file, header.len() as u64));
        header.extend(if writer.state.is_some() { State::Open } else { State::Streamed }.encode());
        writer.put(&header)?;
        Ok(writer)
    }

    /// Appends `chunk`, whose blocks are in `table`. All calls must pass the same table; it may grow between calls.
    ///
    /// Fails where the output fails, and from then on; such chunks are counted nevertheless. Also fails where the chunk breaks a law of [`Chunk`]; nothing of
    /// such a chunk is written.
    pub fn write(&mut self, chunk: &Chunk, table: &BlockTable) -> Result<(), TraceError> {
        if self.failed {
            self.given += chunk.refs.len() as u64;
            return Err(self.io_error(io::Error::other("an earlier write failed; nothing more is written")));
        }
        for id in self.checker.blocks()..table.len() {
            let block = table.get(BlockId(id as u32));
            self.blocks.put(block).map_err(|what| self.refused(what))?;
            self.checker.add(block);
            if self.blocks.bytes.len() >= SEGMENT_BYTES || self.blocks.count == MAX_BLOCKS {
                self.flush()?;
            }
        }
        self.outline.iter_mut().for_each(|outline| outline.learn(table));
        self.checker.check(chunk).map_err(|what| self.refused(what))?;
        self.given += chunk.refs.len() as u64;
        let (mut at, mut fetch) = (0, 0);
        let mut events = chunk.events.iter().peekable();
        loop {
            while let Some((_, event)) = events.next_if(|(before, _)| *before as usize == at) {
                self.events.push((self.refs.len() as u32, event.clone()));
                self.event_bytes += EVENT_BYTES + text_of(event).len();
                if self.event_bytes >= SEGMENT_BYTES || self.events.len() == MAX_EVENTS as usize {
                    self.flush()?;
                }
            }
            if at == chunk.refs.len() {
                return Ok(());
            }
            // A segment ends before a fetch, so that the data references of a block stay together.
            if self.refs.len() >= SEGMENT_REFS && is_fetch(chunk.refs[at]) || self.refs.len() >= MAX_REFS as usize {
                self.flush()?;
            }
            let room = SEGMENT_REFS.saturating_sub(self.refs.len()).max(1);
            let until_event = events.peek().map_or(chunk.refs.len(), |(before, _)| *before as usize);
            let piece = &chunk.refs[at..until_event.min(at + room)];
            let fetches = piece.iter().filter(|r| is_fetch(**r)).count();
            self.refs.extend_from_slice(piece);
            self.fetched.extend_from_slice(&chunk.fetched[fetch..fetch + fetches]);
            (at, fetch) = (at + piece.len(), fetch + fetches);
        }
    }

    /// Writes all collected references, blocks and events as one or more segments, and flushes the output.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        while !(self.refs.is_empty() && self.events.is_empty() && self.blocks.count == 0) {
            let (refs, fetches) = self.encoder.forms.collect(&self.refs, &self.fetched);
            let events = if refs == self.refs.len() {
                self.events.len()
            } else {
                self.events.partition_point(|&(before, _)| (before as usize) < refs)
            };
            if let Some(outline) = &mut self.outline {
                outline.encode(&self.refs[..refs], &self.fetched[..fetches], &self.events[..events]);
            }
            let mut encoded = EventEncoder::default();
            for (before, event) in self.events.drain(..events) {
                encoded.put(before, &event);
            }
            let stores =
                self.refs[..refs].iter().map(|r| (r.0 >> 48 & 3 == Kind::Store as u64) as usize).sum::<usize>();
            let header = SegmentHeader {
                first_ref: self.first_ref,
                first_block: self.first_block,
                blocks: self.blocks.count,
                refs: refs as u32,
                fetches: fetches as u32,
                loads: (refs - fetches - stores) as u32,
                stores: stores as u32,
                events: encoded.count,
                instructions: self.checker.instructions(&self.fetched[..fetches]),
                ..Default::default()
            };
            let nothing = Default::default();
            let streams = self.outline.as_ref().map_or(&nothing, |outline| &outline.streams);
            let header = self.encoder.encode(&self.blocks.bytes, &encoded.bytes, streams, header);
            let header = header.map_err(|e| self.io_error(e))?;
            self.totals.add(header.refs, header.events);
            self.totals.add_blocks(&header);
            let at = self.at;
            let header = self.encoder.pad(header, self.totals.least_len().saturating_sub(at));
            let bytes = std::mem::take(&mut self.encoder.out);
            let written = self.put(&bytes);
            self.encoder.out = bytes;
            written?;
            self.index.push(IndexEntry::of(&header, at));
            self.first_ref += refs as u64;
            self.first_block += header.blocks;
            self.blocks = BlockEncoder::default();
            self.refs.drain(..refs);
            self.fetched.drain(..fetches);
            self.events.iter_mut().for_each(|(before, _)| *before -= refs as u32);
            self.event_bytes = self.events.iter().map(|(_, event)| EVENT_BYTES + text_of(event).len()).sum();
        }
        Ok(())
    }

    /// Writes the last segment, the index and the `ending` of the program, and returns the output.
    ///
    /// Where the output has failed, fails, and notes in the file how much it lacks. So call this only after all of the program
    /// was given to [`Writer::write`], failed or not; drop the writer otherwise.
    pub fn finish(mut self, ending: &Ending) -> Result<W, TraceError> {
        match self.write_end(ending) {
            Ok(()) => Ok(self.out),
            Err(error) => {
                // A second failure changes nothing: the file stays open in the eyes of readers.
                let _ = self.set_state(State::Failed { refs: Some(self.refs()) });
                Err(error)
            }
        }
    }

    fn write_end(&mut self, ending: &Ending) -> Result<(), TraceError> {
        if self.failed {
            return Err(self.io_error(io::Error::other("an earlier write failed, so the file cannot be finished")));
        }
        self.flush()?;
        let ending = serde_json::to_vec(ending).map_err(|e| self.io_error(e.into()))?;
        if ending.len() > MAX_ENDING {
            return Err(self.refused("an ending of more than a megabyte"));
        }
        let end = encode_end(&self.index, &ending, self.at);
        self.put(&end)?;
        self.set_state(State::Finished { refs: self.first_ref, bytes: self.at }).map_err(|e| self.io_error(e))
    }

    /// Rewrites the state in the header, where that is possible.
    fn set_state(&mut self, state: State) -> io::Result<()> {
        self.state.as_ref().map_or(Ok(()), |(file, at)| file.write_all_at(&state.encode(), *at))
    }

    /// Returns the number of references that were given to [`Writer::write`].
    pub fn refs(&self) -> u64 {
        self.given
    }

    /// Returns the number of bytes written so far; collected references are not among them.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        if let Err(e) = self.out.write_all(bytes).and_then(|()| self.out.flush()) {
            self.failed = true;
            let _ = self.set_state(State::Failed { refs: None });
            return Err(self.io_error(e));
        }
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Makes the output fail, for tests.
    #[cfg(test)]
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    fn io_error(&self, source: io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), source }
    }

    fn refused(&self, what: &str) -> TraceError {
        let message = format!("a chunk that no trace can hold: {what}; report the program or trace that it came from");
        self.io_error(io::Error::new(io::ErrorKind::InvalidInput, message))
    }
}

const _: () = assert!(2 * SEGMENT_BYTES + MAX_TEXT < MAX_STREAM && SEGMENT_REFS < MAX_REFS as usize);
