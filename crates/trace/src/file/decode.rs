//! A segment's bytes back to references, a chunk at a time. This is on the way of every simulation from a file.

use super::Bad;
use super::expand::{COPY, Expanded, MAX_PATH_REFS};
use super::layout::{BLOCKS, CONTROL, EVENTS, FAR_BYTES, FORMS, NEAR_BYTES, SEQUENCE, SegmentHeader};
use super::predict::{FARTHEST, NEAR};
use super::streams::Streams;
use super::{blocks, events};
use reach_core::fold::{PAGE_SHIFT, PageFilter, Sink};
use reach_core::{BlockTable, Chunk, Event, Ref};
use std::collections::VecDeque;
use std::io;

/// The addresses of the last data references, shifted left by 16 bits: so arithmetic is modulo 2^48 by itself, and a
/// rotation puts an address and the upper bits of its reference in their places.
#[derive(Clone, Copy)]
struct History {
    /// The second half stays zero: there lies the base of slots that have none.
    ring: [u64; 2 * (FARTHEST + 1)],
    next: usize,
}

const NO_HISTORY: History = History { ring: [0; 2 * (FARTHEST + 1)], next: 0 };

/// Holds one segment and gives out its references from front to back.
pub(super) struct SegmentDecoder {
    streams: Streams,
    expanded: Expanded,
    events: VecDeque<(u32, Event)>,
    history: History,
    header: SegmentHeader,
    /// How far each stream has been read, in bytes.
    sequence: usize,
    control: usize,
    near: usize,
    far: usize,
    /// References and fetches given out.
    refs: u32,
    fetches: u32,
}

impl SegmentDecoder {
    pub fn new() -> io::Result<SegmentDecoder> {
        Ok(SegmentDecoder {
            streams: Streams::new()?,
            expanded: Expanded::default(),
            events: VecDeque::new(),
            history: NO_HISTORY,
            header: SegmentHeader::default(),
            sequence: 0,
            control: 0,
            near: 0,
            far: 0,
            refs: 0,
            fetches: 0,
        })
    }

    /// Forgets the segment.
    pub fn clear(&mut self) {
        self.streams.clear();
        self.expanded.clear();
        self.events.clear();
        self.history = NO_HISTORY;
        self.header = SegmentHeader::default();
        (self.sequence, self.control, self.near, self.far, self.refs, self.fetches) = (0, 0, 0, 0, 0, 0);
    }

    /// Adds the segment's blocks to `table`. `payload` must hold at least the block stream.
    pub fn blocks(&mut self, header: &SegmentHeader, payload: &[u8], table: &mut BlockTable) -> Result<(), Bad> {
        self.streams.decompress(BLOCKS, header, payload)?;
        blocks::decode(&self.streams.raw[BLOCKS], header.blocks, table)
    }

    /// The segment's events. `payload` must hold at least the block and event streams.
    pub fn events(&mut self, header: &SegmentHeader, payload: &[u8]) -> Result<Vec<(u32, Event)>, Bad> {
        self.streams.decompress(EVENTS, header, payload)?;
        events::decode(&self.streams.raw[EVENTS], header.events, header.refs)
    }

    /// Takes up a segment whose blocks are in `table`.
    pub fn load(&mut self, header: &SegmentHeader, payload: &[u8], table: &BlockTable) -> Result<(), Bad> {
        self.clear();
        self.events = self.events(header, payload)?.into();
        for stream in [FORMS, SEQUENCE, CONTROL, NEAR_BYTES, FAR_BYTES] {
            self.streams.decompress(stream, header, payload)?;
        }
        self.expanded.decode(&self.streams.raw[FORMS], header, table)?;
        if (header.refs == 0) != self.streams.raw[SEQUENCE].is_empty() {
            return Err(MISMATCH);
        }
        self.header = header.clone();
        Ok(())
    }

    /// Whether all has been given out.
    pub fn is_done(&self) -> bool {
        self.sequence == self.streams.raw[SEQUENCE].len() && self.events.is_empty()
    }

    /// Number in the file of the next reference.
    pub fn position(&self) -> u64 {
        self.header.first_ref + self.refs as u64
    }

    /// Appends references to an empty `chunk` until it has `want` or the segment ends, with the events between them.
    pub fn fill(&mut self, chunk: &mut Chunk, want: usize) -> Result<(), Bad> {
        debug_assert!(chunk.is_empty());
        self.references(chunk, want)?;
        let start = self.refs;
        self.refs += chunk.refs.len() as u32;
        self.fetches += chunk.fetched.len() as u32;
        let last = self.sequence == self.streams.raw[SEQUENCE].len();
        if last
            && ((self.refs, self.fetches) != (self.header.refs, self.header.fetches)
                || self.control != self.streams.raw[CONTROL].len()
                || self.near != self.streams.raw[NEAR_BYTES].len()
                || self.far != self.streams.raw[FAR_BYTES].len())
        {
            return Err(MISMATCH);
        }
        let due = if last { self.events.len() } else { self.events.partition_point(|&(at, _)| at < self.refs) };
        chunk.events.extend(self.events.drain(..due).map(|(at, event)| (at - start, event)));
        Ok(())
    }

    fn references(&mut self, chunk: &mut Chunk, want: usize) -> Result<(), Bad> {
        let left = (self.header.refs - self.refs) as usize;
        chunk.refs.reserve(left.min(want + MAX_PATH_REFS) + COPY);
        chunk.fetched.reserve(left.min(want + MAX_PATH_REFS) + COPY);
        let sequence = &self.streams.raw[SEQUENCE][self.sequence..];
        let control = &self.streams.raw[CONTROL][self.control..];
        let mut escapes = Escapes {
            near: &self.streams.raw[NEAR_BYTES][self.near..],
            far: &self.streams.raw[FAR_BYTES][self.far..],
            lacking: false,
        };
        let History { mut ring, mut next } = self.history;
        let Expanded { paths, templates, blocks, entries, slots, turns } = &mut self.expanded;
        let (mut read, mut executed) = (0, 0);
        // Folded on the way: of fetches the pages are known beforehand, of data the sides need not be told apart.
        let mut folder = PageFilter::default();
        let Chunk { refs, fetched, page_refs: kept, .. } = chunk;
        // Two pages for each reference, of the path that is executed last too.
        let mut kept = Sink::new(kept, 2 * (left.min(want) + MAX_PATH_REFS) + 2);
        for number in sequence.chunks_exact(2) {
            if refs.len() >= want {
                break;
            }
            executed += 1;
            let number = u16::from_le_bytes([number[0], number[1]]);
            let path = paths.get(number as usize).ok_or(Bad("a form that is not defined"))?;
            copy(fetched, &blocks[path.block as usize..], path.fetches as usize);
            let (start, data) = (refs.len(), path.data as usize);
            copy(refs, &templates[path.template as usize..], path.refs as usize);
            let out = &mut refs[start..];
            let codes = control.get(read..read + data).ok_or(MISMATCH)?;
            let entries = &entries[path.entry as usize..][..data];
            let mut turns = turns[path.turn as usize..][..path.turns as usize].iter();
            let mut done = 0;
            loop {
                let turn = turns.next();
                let until = turn.map_or(data, |turn| turn.data as usize);
                let stretch = entries[done..until].iter().zip(&codes[done..until]);
                for (i, (entry, &code)) in (done..).zip(stretch) {
                    let now = next.wrapping_add(i);
                    let slot = &mut slots[entry.slot as usize];
                    let base = ring[now.wrapping_sub(slot.back as usize) & FARTHEST | slot.none as usize];
                    let change = code as i8;
                    let step = if change > NEAR as i8 {
                        slot.step.wrapping_add((change as u64) << 16)
                    } else {
                        escapes.step(change, base, slot.step)
                    };
                    slot.step = step;
                    let addr = base.wrapping_add(step);
                    ring[now & FARTHEST] = addr;
                    let r = Ref((addr | slot.upper as u64).rotate_right(16));
                    out[entry.place as usize] = r;
                    let crosses = (addr >> 16) as u16 & PAGE_MASK > slot.last;
                    folder.data(start + entry.place as usize, r, crosses, &mut kept);
                }
                let Some(turn) = turn else { break };
                folder.fetch(start + turn.place as usize, turn.page, &mut kept);
                done = until;
            }
            next = next.wrapping_add(data);
            read += data;
        }
        drop(kept);
        chunk.folded = chunk.refs.len();
        if escapes.lacking || chunk.refs.len() > left {
            return Err(MISMATCH);
        }
        self.near = self.streams.raw[NEAR_BYTES].len() - escapes.near.len();
        self.far = self.streams.raw[FAR_BYTES].len() - escapes.far.len();
        self.sequence += 2 * executed;
        self.control += read;
        self.history = History { ring, next };
        Ok(())
    }
}

/// Appends the first `len` of `from`, which has at least [`COPY`] more.
#[inline(always)]
fn copy<T: Copy>(to: &mut Vec<T>, from: &[T], len: usize) {
    let start = to.len();
    for copied in (0..len).step_by(COPY) {
        to.extend_from_slice(&from[copied..][..COPY]);
    }
    to.truncate(start + len);
}

/// The near and the far stream, apart from the hot loop.
struct Escapes<'a> {
    near: &'a [u8],
    far: &'a [u8],
    /// Whether one of them has ended too early.
    lacking: bool,
}

impl Escapes<'_> {
    /// A slot's new step. Base and steps are shifted.
    #[inline(never)]
    fn step(&mut self, code: i8, base: u64, step: u64) -> u64 {
        if code == NEAR as i8 {
            if let Some((b, rest)) = self.near.split_first_chunk() {
                self.near = rest;
                return step.wrapping_add((i16::from_le_bytes(*b) as u64) << 16);
            }
        } else if let Some((&[a, b, c, d, e, f], rest)) = self.far.split_first_chunk() {
            self.far = rest;
            return u64::from_le_bytes([0, 0, a, b, c, d, e, f]).wrapping_sub(base);
        }
        self.lacking = true;
        step
    }
}

/// Where in its page an address lies.
const PAGE_MASK: u16 = (1 << PAGE_SHIFT) - 1;

const MISMATCH: Bad = Bad("a segment whose streams do not match its counts");
