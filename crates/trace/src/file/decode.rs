//! A segment's bytes back to references, a chunk at a time. This is on the way of every simulation from a file.

use super::Bad;
use super::bytes::Cursor;
use super::layout::{
    BLOCKS, CONTROL, EVENTS, FAR_BYTES, FORMS, MAX_FORM_DATA, NEAR_BYTES, SEQUENCE, STREAMS, SegmentHeader,
};
use super::predict::{ADDR_MASK, FARTHEST, NEAR};
use super::{blocks, events};
use reach_core::{BlockId, BlockTable, Chunk, Event, Ref};
use std::collections::VecDeque;
use std::io;

/// What decoding executes a form with.
struct Form {
    /// The fetch, whole; [`NO_FETCH`] for a form without a block.
    fetch: u64,
    block: u32,
    /// Its first slot.
    first: u32,
    /// How many data references it has.
    len: u32,
}

const NO_FETCH: u64 = u64::MAX;

/// A place in a form.
struct Slot {
    /// Kind, size and instruction index of the reference, where a `Ref` has them; the predictor in the low bits.
    upper_and_back: u64,
    /// Distance from the base, as last seen.
    step: u64,
}

/// The addresses of the last data references, modulo 2^48.
#[derive(Clone, Copy)]
struct History {
    ring: [u64; FARTHEST + 1],
    next: usize,
}

const NO_HISTORY: History = History { ring: [0; FARTHEST + 1], next: 0 };

/// Holds one segment and gives out its references from front to back.
pub(super) struct SegmentDecoder {
    zstd: zstd::bulk::Decompressor<'static>,
    raw: [Vec<u8>; STREAMS],
    forms: Vec<Form>,
    slots: Vec<Slot>,
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
            zstd: zstd::bulk::Decompressor::new()?,
            raw: Default::default(),
            forms: Vec::new(),
            slots: Vec::new(),
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
        self.raw.iter_mut().for_each(Vec::clear);
        self.forms.clear();
        self.slots.clear();
        self.events.clear();
        self.history = NO_HISTORY;
        self.header = SegmentHeader::default();
        (self.sequence, self.control, self.near, self.far, self.refs, self.fetches) = (0, 0, 0, 0, 0, 0);
    }

    fn decompress(&mut self, stream: usize, header: &SegmentHeader, payload: &[u8]) -> Result<(), Bad> {
        let skip: usize = header.streams[..stream].iter().map(|&(_, stored)| stored as usize).sum();
        let (raw, stored) = header.streams[stream];
        let out = &mut self.raw[stream];
        out.clear();
        if raw == 0 {
            return Ok(());
        }
        let stored = payload.get(skip..skip + stored as usize).ok_or(Bad("a segment that is cut short"))?;
        out.reserve(raw as usize);
        match self.zstd.decompress_to_buffer(stored, out) {
            Ok(n) if n == raw as usize => Ok(()),
            _ => Err(Bad("a stream that does not decompress to its length")),
        }
    }

    /// Adds the segment's blocks to `table`. `payload` must hold at least the block stream.
    pub fn blocks(&mut self, header: &SegmentHeader, payload: &[u8], table: &mut BlockTable) -> Result<(), Bad> {
        self.decompress(BLOCKS, header, payload)?;
        blocks::decode(&self.raw[BLOCKS], header.blocks, table)
    }

    /// The segment's events. `payload` must hold at least the block and event streams.
    pub fn events(&mut self, header: &SegmentHeader, payload: &[u8]) -> Result<Vec<(u32, Event)>, Bad> {
        self.decompress(EVENTS, header, payload)?;
        events::decode(&self.raw[EVENTS], header.events, header.refs)
    }

    /// Takes up a segment whose blocks are in `table`.
    pub fn load(&mut self, header: &SegmentHeader, payload: &[u8], table: &BlockTable) -> Result<(), Bad> {
        self.clear();
        self.events = self.events(header, payload)?.into();
        for stream in [FORMS, SEQUENCE, CONTROL, NEAR_BYTES, FAR_BYTES] {
            self.decompress(stream, header, payload)?;
        }
        let mut cursor = Cursor(&self.raw[FORMS]);
        for _ in 0..header.forms {
            let block = cursor.varint()?;
            let len = cursor.u8()? as usize;
            if len > MAX_FORM_DATA || (block == 0 && len == 0) {
                return Err(Bad("a form of impossible length"));
            }
            let (fetch, block) = match block.checked_sub(1) {
                None => (NO_FETCH, 0),
                Some(block) if block < table.len() as u64 => {
                    let block = BlockId(block as u32);
                    (table.get(block).fetch().0, block.0)
                }
                Some(_) => return Err(Bad("a form of a block that is not defined")),
            };
            self.forms.push(Form { fetch, block, first: self.slots.len() as u32, len: len as u32 });
            for _ in 0..len {
                let (upper, predictor) = (cursor.u16()?, cursor.u8()?);
                if !matches!(upper & 3, 1 | 2) || upper >= 1 << 14 || predictor as usize > FARTHEST {
                    return Err(Bad("a form with an impossible reference"));
                }
                self.slots.push(Slot { upper_and_back: (upper as u64) << 48 | predictor as u64, step: 0 });
            }
        }
        if !cursor.is_empty() {
            return Err(Bad("more forms than announced"));
        }
        if (header.refs == 0) != self.raw[SEQUENCE].is_empty() {
            return Err(MISMATCH);
        }
        self.header = header.clone();
        Ok(())
    }

    /// Whether all has been given out.
    pub fn is_done(&self) -> bool {
        self.sequence == self.raw[SEQUENCE].len() && self.events.is_empty()
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
        let last = self.sequence == self.raw[SEQUENCE].len();
        if last
            && ((self.refs, self.fetches) != (self.header.refs, self.header.fetches)
                || self.control != self.raw[CONTROL].len()
                || self.near != self.raw[NEAR_BYTES].len()
                || self.far != self.raw[FAR_BYTES].len())
        {
            return Err(MISMATCH);
        }
        let due = if last { self.events.len() } else { self.events.partition_point(|&(at, _)| at < self.refs) };
        chunk.events.extend(self.events.drain(..due).map(|(at, event)| (at - start, event)));
        Ok(())
    }

    fn references(&mut self, chunk: &mut Chunk, want: usize) -> Result<(), Bad> {
        let left = (self.header.refs - self.refs) as usize;
        let room = left.min(want + MAX_FORM_DATA + 1);
        chunk.refs.resize(room, Ref(0));
        chunk.fetched.reserve(room);
        let sequence = &self.raw[SEQUENCE][self.sequence..];
        let control = &self.raw[CONTROL][self.control..];
        let mut escapes =
            Escapes { near: &self.raw[NEAR_BYTES][self.near..], far: &self.raw[FAR_BYTES][self.far..], lacking: false };
        let History { mut ring, mut next } = self.history;
        let (mut at, mut read, mut executed) = (0, 0, 0);
        for number in sequence.chunks_exact(2) {
            if at >= want {
                break;
            }
            executed += 1;
            let number = u16::from_le_bytes([number[0], number[1]]);
            let form = self.forms.get(number as usize).ok_or(Bad("a form that is not defined"))?;
            if form.fetch != NO_FETCH {
                *chunk.refs.get_mut(at).ok_or(MISMATCH)? = Ref(form.fetch);
                at += 1;
                chunk.fetched.push(BlockId(form.block));
            }
            let len = form.len as usize;
            let slots = &mut self.slots[form.first as usize..][..len];
            let codes = control.get(read..read + len).ok_or(MISMATCH)?;
            let out = chunk.refs.get_mut(at..at + len).ok_or(MISMATCH)?;
            for ((slot, &code), out) in slots.iter_mut().zip(codes).zip(out) {
                let back = slot.upper_and_back as usize & FARTHEST;
                let ago = ring[next.wrapping_sub(back) & FARTHEST];
                let base = if back == 0 { 0 } else { ago };
                let change = code as i8;
                slot.step = if change > NEAR as i8 {
                    slot.step.wrapping_add(change as u64)
                } else {
                    escapes.step(change, base, slot.step)
                };
                let addr = base.wrapping_add(slot.step);
                ring[next & FARTHEST] = addr;
                next = next.wrapping_add(1);
                *out = Ref(slot.upper_and_back & !ADDR_MASK | addr & ADDR_MASK);
            }
            at += len;
            read += len;
        }
        if escapes.lacking {
            return Err(MISMATCH);
        }
        self.near = self.raw[NEAR_BYTES].len() - escapes.near.len();
        self.far = self.raw[FAR_BYTES].len() - escapes.far.len();
        self.sequence += 2 * executed;
        self.control += read;
        self.history = History { ring, next };
        chunk.refs.truncate(at);
        Ok(())
    }
}

/// The near and the far stream, apart from the hot loop.
struct Escapes<'a> {
    near: &'a [u8],
    far: &'a [u8],
    /// Whether one of them has ended too early.
    lacking: bool,
}

impl Escapes<'_> {
    /// A slot's new step.
    #[inline(never)]
    fn step(&mut self, code: i8, base: u64, step: u64) -> u64 {
        if code == NEAR as i8 {
            if let Some((b, rest)) = self.near.split_first_chunk() {
                self.near = rest;
                return step.wrapping_add(i16::from_le_bytes(*b) as u64);
            }
        } else if let Some((&[a, b, c, d, e, f], rest)) = self.far.split_first_chunk() {
            self.far = rest;
            return u64::from_le_bytes([a, b, c, d, e, f, 0, 0]).wrapping_sub(base);
        }
        self.lacking = true;
        step
    }
}

const MISMATCH: Bad = Bad("a segment whose streams do not match its counts");
