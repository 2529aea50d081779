//! Writes and reads the outline of a segment: all that a simulation needs that only counts ([`Chunk::is_outline`]).
//!
//! Most of the time of reading a trace goes into addresses, and folding drops most of the references that they are
//! rebuilt for. The outline stores the references that folding keeps: each distinct page once, and then by number.

use super::bytes::{Cursor, put_varint};
use super::error::Damage;
use super::events;
use super::forms::Identity;
use super::layout::SegmentHeader;
use super::stream::Stream;
use super::streams::Streams;
use super::version::Version;
use reach_core::fold::{PageRef, outline};
use reach_core::{BlockId, BlockTable, Chunk, Counts, Event, Ref, Step, StepCutter};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::io;

/// The most references in a step. It bounds the size of a reader's chunks.
const STEP_REFS: usize = 1 << 15;
/// The number that means the next entry of the page stream, which gets the next number if there is one left.
const NEW: u16 = u16::MAX;
/// Bytes of an entry in the page stream.
const ENTRY_BYTES: usize = 6;
/// The entries that complete a chunk: a tenth of a megabyte.
const CHUNK_ENTRIES: usize = 1 << 13;
/// The steps that complete a chunk: half a megabyte.
const CHUNK_STEPS: usize = 1 << 12;

/// Makes the outlines of segments. Segments must be encoded in order, because ticks count instructions from the start.
#[derive(Default)]
pub(crate) struct OutlineEncoder {
    cutter: StepCutter,
    numbers: EntryNumbers,
    entries: Vec<PageRef>,
    /// The streams of the segment that was encoded last: steps, visits, pages.
    pub streams: [Vec<u8>; 3],
}

impl OutlineEncoder {
    /// Adds the blocks of `table` that were not added before.
    pub fn learn(&mut self, table: &BlockTable) {
        self.cutter.learn(table);
    }

    /// Encodes a segment: its references, its fetched blocks and its events.
    pub fn encode(&mut self, refs: &[Ref], fetched: &[BlockId], events: &[(u32, Event)]) {
        self.begin();
        let (mut start, mut fetch, mut first_event) = (0, 0, 0);
        while start < refs.len() || first_event < events.len() {
            let end = (start + STEP_REFS).min(refs.len());
            let end_event = if end == refs.len() {
                events.len()
            } else {
                first_event + events[first_event..].partition_point(|(at, _)| (*at as usize) < end)
            };
            let piece_events: Vec<_> =
                events[first_event..end_event].iter().map(|(at, e)| (at - start as u32, e.clone())).collect();
            fetch += self.encode_piece(&refs[start..end], &fetched[fetch..], &piece_events);
            (start, first_event) = (end, end_event);
        }
    }

    /// Begins a segment.
    fn begin(&mut self) {
        self.streams.iter_mut().for_each(Vec::clear);
        self.numbers.clear();
    }

    /// Encodes the next [`STEP_REFS`] references, or the rest of the segment. `fetched` begins with their blocks. Returns the
    /// number of fetches.
    fn encode_piece(&mut self, refs: &[Ref], fetched: &[BlockId], events: &[(u32, Event)]) -> usize {
        let mut fetches = 0;
        for step in self.cutter.cut(refs, fetched, events) {
            self.encode_step(&step, &refs[step.refs.clone()]);
            fetches += step.counts.fetches as usize;
        }
        fetches
    }

    fn encode_step(&mut self, step: &Step, refs: &[Ref]) {
        self.entries.clear();
        outline(refs, &mut self.entries);
        let [steps, visits, pages] = &mut self.streams;
        let Counts { instructions, fetches, loads, stores } = step.counts;
        for n in [(self.entries.len() as u64) << 1 | u64::from(step.tick), fetches, loads, stores, instructions] {
            put_varint(steps, n);
        }
        for entry in &self.entries {
            let number = self.numbers.number(entry.bits());
            visits.extend_from_slice(&number.to_le_bytes());
            if number == NEW {
                pages.extend_from_slice(&entry.bits().to_le_bytes()[..ENTRY_BYTES]);
            }
        }
    }
}

/// Makes the outline of a segment that is given chunk by chunk, so that it need not be in memory as a whole.
pub(crate) struct OutlineStream<'a> {
    encoder: &'a mut OutlineEncoder,
    /// The most bytes of the outline's streams together.
    limit: usize,
    /// References that are not encoded yet: more than [`STEP_REFS`] only while a chunk is added.
    pending: Chunk,
}

impl OutlineStream<'_> {
    /// Begins a segment. Its outline is given up once its streams have more than `limit` bytes together.
    pub fn new(encoder: &mut OutlineEncoder, limit: usize) -> OutlineStream<'_> {
        encoder.begin();
        OutlineStream { encoder, limit, pending: Chunk::default() }
    }

    /// Adds the next chunk, whose blocks are in `table`. Returns whether the outline is within its limit.
    pub fn add(&mut self, chunk: &Chunk, table: &BlockTable) -> bool {
        self.encoder.learn(table);
        self.pending.append(chunk);
        // The last piece has the events after the last reference, so it waits for the end.
        while self.pending.refs.len() > STEP_REFS {
            let Chunk { refs, fetched, events, .. } = &mut self.pending;
            let first_events: Vec<_> =
                events.drain(..events.partition_point(|(at, _)| (*at as usize) < STEP_REFS)).collect();
            let fetches = self.encoder.encode_piece(&refs[..STEP_REFS], fetched, &first_events);
            refs.drain(..STEP_REFS);
            fetched.drain(..fetches);
            events.iter_mut().for_each(|(at, _)| *at -= STEP_REFS as u32);
        }
        self.encoder.streams.iter().map(Vec::len).sum::<usize>() <= self.limit
    }

    /// Ends the segment. The outline is in [`OutlineEncoder::streams`] then.
    pub fn finish(self) {
        let Chunk { refs, fetched, events, .. } = &self.pending;
        if !refs.is_empty() || !events.is_empty() {
            self.encoder.encode_piece(refs, fetched, events);
        }
    }
}

/// The numbers of a segment's entries.
struct EntryNumbers {
    known: HashMap<u64, u16, BuildHasherDefault<Identity>>,
    /// A direct-mapped cache of `known`, by hash. Most look-ups end here.
    cache: Vec<(u64, u16)>,
}

impl Default for EntryNumbers {
    fn default() -> EntryNumbers {
        EntryNumbers { known: HashMap::default(), cache: vec![EntryNumbers::EMPTY; 1 << EntryNumbers::CACHE_BITS] }
    }
}

impl EntryNumbers {
    /// The binary logarithm of the entries of the cache.
    const CACHE_BITS: u32 = 12;
    /// An empty place of the cache: no entry has this hash.
    const EMPTY: (u64, u16) = (u64::MAX, NEW);

    fn clear(&mut self) {
        self.known.clear();
        self.cache.fill(EntryNumbers::EMPTY);
    }

    /// Returns the number of the entry with these bits. Returns [`NEW`] for a new entry, which gets the next number if
    /// there is one left.
    fn number(&mut self, bits: u64) -> u16 {
        // Multiplication by an odd number and rotation are bijections, so hashes are as distinct as entries.
        let hash = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
        let cached = &mut self.cache[(hash >> 20) as usize & ((1 << EntryNumbers::CACHE_BITS) - 1)];
        if cached.0 == hash {
            return cached.1;
        }
        let next = self.known.len() as u16;
        match self.known.get(&hash) {
            Some(&number) => {
                *cached = (hash, number);
                number
            }
            None => {
                if next < NEW {
                    self.known.insert(hash, next);
                }
                NEW
            }
        }
    }
}

/// Holds the outline of one segment and gives it from front to back.
pub(super) struct OutlineDecoder {
    version: Version,
    streams: Streams,
    events: VecDeque<(u32, Event)>,
    header: SegmentHeader,
    known: Vec<PageRef>,
    /// Bytes read of the step, visit and page streams.
    step: usize,
    visit: usize,
    page: usize,
    /// The counts of all steps that were given.
    given: Counts,
    /// The most steps that may follow.
    steps: u64,
}

impl OutlineDecoder {
    pub fn new(version: Version) -> io::Result<OutlineDecoder> {
        Ok(OutlineDecoder {
            version,
            streams: Streams::new()?,
            events: VecDeque::new(),
            header: SegmentHeader::default(),
            known: Vec::new(),
            step: 0,
            visit: 0,
            page: 0,
            given: Counts::default(),
            steps: 0,
        })
    }

    /// Drops the segment.
    pub fn clear(&mut self) {
        self.streams.clear();
        self.events.clear();
        self.header = SegmentHeader::default();
        self.known.clear();
        (self.step, self.visit, self.page, self.given) = (0, 0, 0, Counts::default());
    }

    /// Loads a segment.
    pub fn load(&mut self, header: &SegmentHeader, payload: &[u8]) -> Result<(), Damage> {
        self.clear();
        for stream in [Stream::Events, Stream::Steps, Stream::Visits, Stream::Pages] {
            self.streams.decompress(stream, header, payload)?;
        }
        self.events =
            events::decode(&self.streams.raw[Stream::Events], header.events, header.refs, self.version)?.into();
        if (header.refs == 0 && header.events == 0) != self.streams.raw[Stream::Steps].is_empty() {
            return Err(MISMATCH);
        }
        self.header = header.clone();
        self.steps = most_steps(header);
        Ok(())
    }

    /// Returns the three streams of the segment: steps, visits, pages.
    pub fn streams(&self) -> [&[u8]; 3] {
        Stream::OUTLINE.map(|stream| self.streams.raw[stream].as_slice())
    }

    /// Returns whether the whole segment has been given.
    pub fn is_done(&self) -> bool {
        self.step == self.streams.raw[Stream::Steps].len()
    }

    /// Returns the number in the file of the first reference of the next step.
    pub fn position(&self) -> u64 {
        self.header.first_ref + self.given.references()
    }

    /// Appends steps to an empty `chunk` until it has [`CHUNK_ENTRIES`] entries or the segment ends.
    pub fn fill(&mut self, chunk: &mut Chunk) -> Result<(), Damage> {
        while !self.is_done() && chunk.page_refs.len() < CHUNK_ENTRIES && chunk.outline.len() < CHUNK_STEPS {
            self.steps = self.steps.checked_sub(1).ok_or(MISMATCH)?;
            self.decode_step(chunk)?;
        }
        let h = &self.header;
        let announced = [h.fetches, h.loads, h.stores].map(u64::from);
        let exact = self.visit == self.streams.raw[Stream::Visits].len()
            && self.page == self.streams.raw[Stream::Pages].len()
            && self.events.is_empty()
            && [self.given.fetches, self.given.loads, self.given.stores] == announced
            && self.given.instructions == h.instructions;
        if self.is_done() && !exact { Err(MISMATCH) } else { Ok(()) }
    }

    /// Appends the next step.
    fn decode_step(&mut self, chunk: &mut Chunk) -> Result<(), Damage> {
        let mut cursor = Cursor(&self.streams.raw[Stream::Steps][self.step..]);
        let (kept, fetches, loads) = (cursor.varint()?, cursor.varint()?, cursor.varint()?);
        let (stores, instructions) = (cursor.varint()?, cursor.varint()?);
        self.step = self.streams.raw[Stream::Steps].len() - cursor.0.len();
        let counts = Counts { instructions, fetches, loads, stores };
        let fits = [fetches, loads, stores].iter().all(|&n| n <= self.header.refs.into())
            && counts.references() <= u64::from(self.header.refs) - self.given.references()
            && counts.references() <= STEP_REFS as u64
            && instructions <= self.header.instructions - self.given.instructions
            && kept >> 1 <= 2 * counts.references()
            && (kept >> 1 == 0) == (counts.references() == 0);
        if !fits {
            return Err(MISMATCH);
        }
        let (events, entries) = (chunk.events.len(), chunk.page_refs.len());
        let position = self.given.references();
        while let Some((_, event)) = self.events.pop_front_if(|(at, _)| u64::from(*at) <= position) {
            chunk.events.push((entries as u32, event));
        }
        self.decode_entries((kept >> 1) as usize, &mut chunk.page_refs)?;
        self.given.absorb(&counts);
        chunk.outline.push(Step {
            tick: kept & 1 != 0,
            slice: false,
            events: events..chunk.events.len(),
            refs: 0..0,
            fetched: 0..0,
            page_refs: entries..chunk.page_refs.len(),
            last_lines: 0..0,
            last_pages: 0..0,
            counts,
        });
        Ok(())
    }

    /// Appends the next `count` entries to `entries`.
    fn decode_entries(&mut self, count: usize, entries: &mut Vec<PageRef>) -> Result<(), Damage> {
        let visits = self.streams.raw[Stream::Visits].get(self.visit..self.visit + 2 * count).ok_or(MISMATCH)?;
        self.visit += 2 * count;
        entries.reserve(count);
        for number in visits.as_chunks().0 {
            let number = u16::from_le_bytes(*number);
            let entry = match self.known.get(usize::from(number)) {
                Some(&entry) => entry,
                None if number != NEW => return Err(Damage("a page that is not defined")),
                None => {
                    let page =
                        self.streams.raw[Stream::Pages][self.page..].first_chunk::<ENTRY_BYTES>().ok_or(MISMATCH)?;
                    self.page += ENTRY_BYTES;
                    let &[a, b, c, d, e, f] = page;
                    let bits = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
                    let entry = PageRef::from_outline_bits(bits).ok_or(Damage("an impossible page"))?;
                    if self.known.len() < usize::from(NEW) {
                        self.known.push(entry);
                    }
                    entry
                }
            };
            entries.push(entry);
        }
        Ok(())
    }
}

/// Returns the most steps of a segment. A step begins at an event, at a tick, after [`STEP_REFS`] references, or at the start;
/// one before a tick may be empty.
fn most_steps(header: &SegmentHeader) -> u64 {
    let ticks = (header.instructions >> 20) + 1;
    u64::from(header.events) + 2 * ticks + u64::from(header.refs) / STEP_REFS as u64 + 2
}

const MISMATCH: Damage = Damage("an outline that does not match its segment's counts");
const _: () = assert!(PageRef::OUTLINE_BITS as usize <= 8 * ENTRY_BYTES);
