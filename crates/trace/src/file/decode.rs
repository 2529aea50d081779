//! A segment's bytes back to references, a chunk at a time. This is on the way of every simulation from a file.

use super::Bad;
use super::bytes::Cursor;
use super::layout::{
    BLOCKS, CONTROL, EVENTS, FAR_BYTES, FORMS, MAX_FORM_DATA, NEAR_BYTES, SEQUENCE, STREAMS, SegmentHeader,
};
use super::predict::{ADDR_MASK, FARTHEST, History, NEAR, STRIDE, Slot};
use super::{blocks, events};
use reach_core::{BlockId, BlockTable, Chunk, Event, Ref};
use std::collections::VecDeque;
use std::io;
use std::slice::ChunksExact;

/// What decoding executes a form with.
struct Form {
    /// The fetch, whole; `u64::MAX` for a form without a block.
    fetch: u64,
    block: u32,
    first: u32,
    len: u32,
}

const NO_FETCH: u64 = u64::MAX;

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
            history: History::new(),
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
        self.history = History::new();
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
                    (Ref::fetch(table.get(block).pc).0, block.0)
                }
                Some(_) => return Err(Bad("a form of a block that is not defined")),
            };
            self.forms.push(Form { fetch, block, first: self.slots.len() as u32, len: len as u32 });
            for _ in 0..len {
                let (upper, predictor) = (cursor.u16()?, cursor.u8()?);
                if !matches!(upper & 3, 1 | 2) || upper >= 1 << 14 || predictor as usize > STRIDE as usize + FARTHEST {
                    return Err(Bad("a form with an impossible reference"));
                }
                self.slots.push(Slot::new(upper, predictor));
            }
        }
        if !cursor.is_empty() {
            return Err(Bad("more forms than announced"));
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
            return Err(Bad("a segment whose streams do not match its counts"));
        }
        while let Some((at, event)) = self.events.pop_front_if(|&mut (at, _)| last || at < self.refs) {
            chunk.events.push((at - start, event));
        }
        Ok(())
    }

    fn references(&mut self, chunk: &mut Chunk, want: usize) -> Result<(), Bad> {
        let sequence = self.raw[SEQUENCE][self.sequence..].chunks_exact(2);
        let mut control = &self.raw[CONTROL][self.control..];
        let mut near = self.raw[NEAR_BYTES][self.near..].chunks_exact(2);
        let mut far = self.raw[FAR_BYTES][self.far..].chunks_exact(6);
        let left = (self.header.refs - self.refs) as usize;
        chunk.refs.reserve(left.min(want + MAX_FORM_DATA));
        let history = &mut self.history;
        let mut lacking = false;
        let mut executed = 0;
        for id in sequence {
            if chunk.refs.len() >= want {
                break;
            }
            executed += 1;
            let id = u16::from_le_bytes([id[0], id[1]]);
            let form = self.forms.get(id as usize).ok_or(Bad("a form that is not defined"))?;
            if form.fetch != NO_FETCH {
                chunk.refs.push(Ref(form.fetch));
                chunk.fetched.push(BlockId(form.block));
            }
            let Some((codes, rest)) = control.split_at_checked(form.len as usize) else {
                return Err(Bad("a control stream that ends too early"));
            };
            control = rest;
            let slots = &mut self.slots[form.first as usize..][..form.len as usize];
            chunk.refs.extend(slots.iter_mut().zip(codes).map(|(slot, &code)| {
                let base = slot.base(history);
                let predicted = slot.predict(base);
                let addr = if (code as i8) > NEAR as i8 {
                    predicted.wrapping_add(code as i8 as u64)
                } else if code == NEAR {
                    let bytes = near.next().unwrap_or_else(|| {
                        lacking = true;
                        &[0; 2]
                    });
                    predicted.wrapping_add(i16::from_le_bytes([bytes[0], bytes[1]]) as u64)
                } else {
                    let b = far.next().unwrap_or_else(|| {
                        lacking = true;
                        &[0; 6]
                    });
                    u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], 0, 0])
                } & ADDR_MASK;
                slot.learn(base, addr);
                history.push(addr);
                Ref(slot.upper | addr)
            }));
        }
        if lacking {
            return Err(Bad("an address stream that ends too early"));
        }
        self.sequence += 2 * executed;
        self.control = self.raw[CONTROL].len() - control.len();
        self.near = self.raw[NEAR_BYTES].len() - remaining(&near, 2);
        self.far = self.raw[FAR_BYTES].len() - remaining(&far, 6);
        Ok(())
    }
}

/// Bytes not yet taken, those of an incomplete last piece included.
fn remaining(pieces: &ChunksExact<'_, u8>, size: usize) -> usize {
    pieces.len() * size + pieces.remainder().len()
}
