//! The outline of a segment, written and read: what machines see of it that only count ([`Chunk::is_outline`]).
//!
//! Addresses take most of the time of reading a trace, and folding drops most of the references that they are rebuilt
//! for. So what folding keeps stands in the file too, named once and then by number.

use super::Bad;
use super::bytes::{Cursor, put_varint};
use super::events;
use super::forms::Identity;
use super::layout::{EVENTS, PAGES, STEPS, SegmentHeader, VISITS};
use super::streams::Streams;
use reach_core::fold::{PageRef, outline};
use reach_core::{BlockId, BlockTable, Chunk, Counts, Event, Ref, Step, StepCutter};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::io;

/// A step has at most this many references, so that readers can go on in pieces of convenient size.
const STEP_REFS: usize = 1 << 15;
/// In place of a number: the next entry of the page stream follows, and gets the next number if there is one left.
const NEW: u16 = u16::MAX;
/// Bytes of an entry in the page stream.
const ENTRY: usize = 6;
/// How many entries a chunk gets at least, before the segment ends: a tenth of a megabyte.
const CHUNK_ENTRIES: usize = 1 << 13;

/// Makes the outlines of segments, which must come in order.
#[derive(Default)]
pub(crate) struct OutlineEncoder {
    cutter: StepCutter,
    numbers: Numbers,
    entries: Vec<PageRef>,
    /// The streams of the last segment: steps, visits, pages.
    pub streams: [Vec<u8>; 3],
}

impl OutlineEncoder {
    /// Learns the blocks of `table` that it did not have before.
    pub fn learn(&mut self, table: &BlockTable) {
        self.cutter.learn(table);
    }

    /// Encodes a segment: its references, the blocks that its fetches fetch, and its events.
    pub fn encode(&mut self, refs: &[Ref], fetched: &[BlockId], events: &[(u32, Event)]) {
        self.streams.iter_mut().for_each(Vec::clear);
        self.numbers.clear();
        let (mut start, mut fetch, mut past) = (0, 0, 0);
        while start < refs.len() || past < events.len() {
            let end = (start + STEP_REFS).min(refs.len());
            let due = if end == refs.len() {
                events.len()
            } else {
                past + events[past..].partition_point(|(at, _)| (*at as usize) < end)
            };
            let mine: Vec<_> = events[past..due].iter().map(|(at, e)| (at - start as u32, e.clone())).collect();
            let piece = &refs[start..end];
            for step in self.cutter.cut(piece, &fetched[fetch..], &mine) {
                self.step(&step, &piece[step.refs.clone()]);
                fetch += step.counts.fetches as usize;
            }
            (start, past) = (end, due);
        }
    }

    fn step(&mut self, step: &Step, refs: &[Ref]) {
        self.entries.clear();
        outline(refs, &mut self.entries);
        let [steps, visits, pages] = &mut self.streams;
        let Counts { instructions, fetches, loads, stores } = step.counts;
        for n in [(self.entries.len() as u64) << 1 | u64::from(step.tick), fetches, loads, stores, instructions] {
            put_varint(steps, n);
        }
        for entry in &self.entries {
            let number = self.numbers.of(entry.bits());
            visits.extend_from_slice(&number.to_le_bytes());
            if number == NEW {
                pages.extend_from_slice(&entry.bits().to_le_bytes()[..ENTRY]);
            }
        }
    }
}

/// The numbers of a segment's entries.
struct Numbers {
    known: HashMap<u64, u16, BuildHasherDefault<Identity>>,
    /// Some of them, each where its hash says: most entries are found here.
    near: Vec<(u64, u16)>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers { known: HashMap::default(), near: vec![Numbers::NOTHING; 1 << Numbers::NEAR] }
    }
}

impl Numbers {
    const NEAR: u32 = 12;
    /// The hash of no entry.
    const NOTHING: (u64, u16) = (u64::MAX, NEW);

    fn clear(&mut self) {
        self.known.clear();
        self.near.fill(Numbers::NOTHING);
    }

    /// The number of an entry, by its bits; [`NEW`] where it had none, and gets the next if there is one left.
    fn of(&mut self, bits: u64) -> u16 {
        // Spread over all bits of a hash; no two become one.
        let hash = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
        let near = &mut self.near[(hash >> 20) as usize & ((1 << Numbers::NEAR) - 1)];
        if near.0 == hash {
            return near.1;
        }
        let next = self.known.len() as u16;
        match self.known.get(&hash) {
            Some(&number) => {
                *near = (hash, number);
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

/// Holds the outline of one segment and gives it out from front to back.
pub(super) struct OutlineDecoder {
    streams: Streams,
    events: VecDeque<(u32, Event)>,
    header: SegmentHeader,
    known: Vec<PageRef>,
    /// How far each stream has been read, in bytes.
    step: usize,
    visit: usize,
    page: usize,
    /// What was given out.
    given: Counts,
}

impl OutlineDecoder {
    pub fn new() -> io::Result<OutlineDecoder> {
        Ok(OutlineDecoder {
            streams: Streams::new()?,
            events: VecDeque::new(),
            header: SegmentHeader::default(),
            known: Vec::new(),
            step: 0,
            visit: 0,
            page: 0,
            given: Counts::default(),
        })
    }

    /// Forgets the segment.
    pub fn clear(&mut self) {
        self.streams.clear();
        self.events.clear();
        self.header = SegmentHeader::default();
        self.known.clear();
        (self.step, self.visit, self.page, self.given) = (0, 0, 0, Counts::default());
    }

    /// Takes up a segment.
    pub fn load(&mut self, header: &SegmentHeader, payload: &[u8]) -> Result<(), Bad> {
        self.clear();
        for stream in [EVENTS, STEPS, VISITS, PAGES] {
            self.streams.decompress(stream, header, payload)?;
        }
        self.events = events::decode(&self.streams.raw[EVENTS], header.events, header.refs)?.into();
        if (header.refs == 0 && header.events == 0) != self.streams.raw[STEPS].is_empty() {
            return Err(MISMATCH);
        }
        self.header = header.clone();
        Ok(())
    }

    /// The three streams of the segment.
    pub fn streams(&self) -> [&[u8]; 3] {
        [STEPS, VISITS, PAGES].map(|stream| self.streams.raw[stream].as_slice())
    }

    /// Whether all has been given out.
    pub fn is_done(&self) -> bool {
        self.step == self.streams.raw[STEPS].len()
    }

    /// Number in the file of the first reference that has not been given out.
    pub fn position(&self) -> u64 {
        self.header.first_ref + self.given.references()
    }

    /// Appends steps to an empty `chunk` until it is of convenient size or the segment ends.
    pub fn fill(&mut self, chunk: &mut Chunk) -> Result<(), Bad> {
        while !self.is_done() && chunk.page_refs.len() < CHUNK_ENTRIES {
            self.one(chunk)?;
        }
        let h = &self.header;
        let told = [h.fetches, h.loads, h.stores].map(u64::from);
        let exact = self.visit == self.streams.raw[VISITS].len()
            && self.page == self.streams.raw[PAGES].len()
            && self.events.is_empty()
            && [self.given.fetches, self.given.loads, self.given.stores] == told
            && self.given.instructions == h.instructions;
        if self.is_done() && !exact { Err(MISMATCH) } else { Ok(()) }
    }

    /// The next step.
    fn one(&mut self, chunk: &mut Chunk) -> Result<(), Bad> {
        let mut cursor = Cursor(&self.streams.raw[STEPS][self.step..]);
        let (kept, fetches, loads) = (cursor.varint()?, cursor.varint()?, cursor.varint()?);
        let (stores, instructions) = (cursor.varint()?, cursor.varint()?);
        self.step = self.streams.raw[STEPS].len() - cursor.0.len();
        let counts = Counts { instructions, fetches, loads, stores };
        let fits = [fetches, loads, stores].iter().all(|&n| n <= self.header.refs.into())
            && counts.references() <= u64::from(self.header.refs) - self.given.references()
            && instructions <= self.header.instructions - self.given.instructions
            && kept >> 1 <= 2 * counts.references()
            && (kept >> 1 == 0) == (counts.references() == 0);
        if !fits {
            return Err(MISMATCH);
        }
        let (events, entries) = (chunk.events.len(), chunk.page_refs.len());
        let now = self.given.references();
        while let Some((_, event)) = self.events.pop_front_if(|(at, _)| u64::from(*at) <= now) {
            chunk.events.push((entries as u32, event));
        }
        self.entries((kept >> 1) as usize, &mut chunk.page_refs)?;
        self.given.absorb(&counts);
        chunk.outline.push(Step {
            tick: kept & 1 != 0,
            slice: false,
            events: events..chunk.events.len(),
            refs: 0..0,
            fetched: 0..0,
            page_refs: entries..chunk.page_refs.len(),
            counts,
        });
        Ok(())
    }

    /// Appends the next `many` entries.
    fn entries(&mut self, many: usize, to: &mut Vec<PageRef>) -> Result<(), Bad> {
        let visits = self.streams.raw[VISITS].get(self.visit..self.visit + 2 * many).ok_or(MISMATCH)?;
        self.visit += 2 * many;
        to.reserve(many);
        for number in visits.as_chunks().0 {
            let number = u16::from_le_bytes(*number);
            let entry = match self.known.get(usize::from(number)) {
                Some(&entry) => entry,
                None if number != NEW => return Err(Bad("a page that is not defined")),
                None => {
                    let page = self.streams.raw[PAGES][self.page..].first_chunk::<ENTRY>().ok_or(MISMATCH)?;
                    self.page += ENTRY;
                    let &[a, b, c, d, e, f] = page;
                    let bits = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
                    let entry = PageRef::from_outline_bits(bits).ok_or(Bad("an impossible page"))?;
                    if self.known.len() < usize::from(NEW) {
                        self.known.push(entry);
                    }
                    entry
                }
            };
            to.push(entry);
        }
        Ok(())
    }
}

const MISMATCH: Bad = Bad("an outline that does not match its segment's counts");
const _: () = assert!(PageRef::OUTLINE_BITS as usize <= 8 * ENTRY);
