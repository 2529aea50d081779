//! Decodes the references of a segment, a chunk at a time. Every simulation from a file runs this code.

use super::error::Damage;
use super::expand::{Expanded, MAX_PATH_REFS, PADDING};
use super::layout::SegmentHeader;
use super::predict::{FARTHEST, NEAR};
use super::stream::Stream;
use super::streams::Streams;
use super::version::Version;
use super::{blocks, events};
use reach_core::fold::{PAGE_SHIFT, PageFilter, Sink};
use reach_core::{BlockTable, Chunk, Event, Ref};
use std::collections::VecDeque;
use std::io;

/// The addresses of the last data references, shifted left by 16 bits. The shift makes 64-bit arithmetic modulo 2^48,
/// and one rotation puts an address and the upper bits of its reference into place.
#[derive(Clone, Copy)]
struct History {
    /// A ring in the first half. The second half stays zero; slots without a base read it.
    ring: [u64; 2 * (FARTHEST + 1)],
    next: usize,
}

const NO_HISTORY: History = History { ring: [0; 2 * (FARTHEST + 1)], next: 0 };

/// Holds one segment and gives its references from front to back.
pub(super) struct SegmentDecoder {
    version: Version,
    streams: Streams,
    expanded: Expanded,
    events: VecDeque<(u32, Event)>,
    history: History,
    header: SegmentHeader,
    given: Given,
}

/// How much of a segment has been given.
#[derive(Clone, Copy, Default)]
struct Given {
    /// Bytes read of the sequence, control, near and far streams.
    sequence: usize,
    control: usize,
    near: usize,
    far: usize,
    refs: u32,
    fetches: u32,
}

impl SegmentDecoder {
    pub fn new(version: Version) -> io::Result<SegmentDecoder> {
        Ok(SegmentDecoder {
            version,
            streams: Streams::new()?,
            expanded: Expanded::default(),
            events: VecDeque::new(),
            history: NO_HISTORY,
            header: SegmentHeader::default(),
            given: Given::default(),
        })
    }

    /// Drops the segment.
    pub fn clear(&mut self) {
        self.streams.clear();
        self.expanded.clear();
        self.events.clear();
        self.history = NO_HISTORY;
        self.header = SegmentHeader::default();
        self.given = Given::default();
    }

    /// Adds the segment's blocks to `table`. `payload` must hold at least the block stream.
    pub fn blocks(&mut self, header: &SegmentHeader, payload: &[u8], table: &mut BlockTable) -> Result<(), Damage> {
        self.streams.decompress(Stream::Blocks, header, payload)?;
        blocks::decode(&self.streams.raw[Stream::Blocks], header.blocks, table)
    }

    /// Returns the segment's events. `payload` must hold at least the block and event streams.
    pub fn events(&mut self, header: &SegmentHeader, payload: &[u8]) -> Result<Vec<(u32, Event)>, Damage> {
        self.streams.decompress(Stream::Events, header, payload)?;
        events::decode(&self.streams.raw[Stream::Events], header.events, header.refs, self.version)
    }

    /// Loads a segment. `table` must hold its blocks and those of all earlier segments.
    pub fn load(&mut self, header: &SegmentHeader, payload: &[u8], table: &BlockTable) -> Result<(), Damage> {
        self.clear();
        self.events = self.events(header, payload)?.into();
        for stream in [Stream::Forms, Stream::Sequence, Stream::Control, Stream::Near, Stream::Far] {
            self.streams.decompress(stream, header, payload)?;
        }
        self.expanded.decode(&self.streams.raw[Stream::Forms], header, table)?;
        if (header.refs == 0) != self.streams.raw[Stream::Sequence].is_empty() {
            return Err(MISMATCH);
        }
        self.header = header.clone();
        Ok(())
    }

    /// Returns whether the whole segment has been given.
    pub fn is_done(&self) -> bool {
        self.given.sequence == self.streams.raw[Stream::Sequence].len() && self.events.is_empty()
    }

    /// Returns the number in the file of the next reference.
    pub fn position(&self) -> u64 {
        self.header.first_ref + self.given.refs as u64
    }

    /// Appends references to an empty `chunk` until it has at least `wanted` or the segment ends, with the events
    /// between them.
    pub fn fill(&mut self, chunk: &mut Chunk, wanted: usize) -> Result<(), Damage> {
        debug_assert!(chunk.is_empty());
        self.references(chunk, wanted)?;
        let start = self.given.refs;
        self.given.refs += chunk.refs.len() as u32;
        self.given.fetches += chunk.fetched.len() as u32;
        let given = self.given;
        let last = given.sequence == self.streams.raw[Stream::Sequence].len();
        if last
            && ((given.refs, given.fetches) != (self.header.refs, self.header.fetches)
                || given.control != self.streams.raw[Stream::Control].len()
                || given.near != self.streams.raw[Stream::Near].len()
                || given.far != self.streams.raw[Stream::Far].len())
        {
            return Err(MISMATCH);
        }
        let due = if last { self.events.len() } else { self.events.partition_point(|&(at, _)| at < given.refs) };
        chunk.events.extend(self.events.drain(..due).map(|(at, event)| (at - start, event)));
        Ok(())
    }

    /// Appends references to `chunk`, and the pages that folding keeps of them.
    fn references(&mut self, chunk: &mut Chunk, wanted: usize) -> Result<(), Damage> {
        let left = (self.header.refs - self.given.refs) as usize;
        chunk.refs.reserve(left.min(wanted + MAX_PATH_REFS) + PADDING);
        chunk.fetched.reserve(left.min(wanted + MAX_PATH_REFS) + PADDING);
        let sequence = &self.streams.raw[Stream::Sequence][self.given.sequence..];
        let control = &self.streams.raw[Stream::Control][self.given.control..];
        let mut escapes = Escapes {
            near: &self.streams.raw[Stream::Near][self.given.near..],
            far: &self.streams.raw[Stream::Far][self.given.far..],
            ended: false,
        };
        let History { mut ring, mut next } = self.history;
        let Expanded { paths, templates, blocks, data: data_refs, slots, page_changes } = &mut self.expanded;
        let (mut read, mut executed) = (0, 0);
        // References are folded here because this loop knows more than `core::fold` can: the pages of fetches are known
        // beforehand, and a reference is known to be code or data.
        let mut filter = PageFilter::default();
        let Chunk { refs, fetched, page_refs: kept, .. } = chunk;
        // Room for two pages of each reference, including those of the path that is executed last.
        let mut kept = Sink::new(kept, 2 * (left.min(wanted) + MAX_PATH_REFS) + 2);
        for number in sequence.chunks_exact(2) {
            if refs.len() >= wanted {
                break;
            }
            executed += 1;
            let number = u16::from_le_bytes([number[0], number[1]]);
            let path = paths.get(number as usize).ok_or(Damage("a form that is not defined"))?;
            copy(fetched, &blocks[path.block as usize..], path.fetches as usize);
            let (start, data) = (refs.len(), path.data as usize);
            copy(refs, &templates[path.template as usize..], path.refs as usize);
            let out = &mut refs[start..];
            let codes = control.get(read..read + data).ok_or(MISMATCH)?;
            let data_refs = &data_refs[path.data_start as usize..][..data];
            let mut page_changes = page_changes[path.page_change as usize..][..path.page_changes as usize].iter();
            let mut done = 0;
            loop {
                let page_change = page_changes.next();
                let until = page_change.map_or(data, |change| change.data as usize);
                let stretch = data_refs[done..until].iter().zip(&codes[done..until]);
                for (i, (data_ref, &code)) in (done..).zip(stretch) {
                    let now = next.wrapping_add(i);
                    let slot = &mut slots[data_ref.slot as usize];
                    let base = ring[now.wrapping_sub(slot.back as usize) & FARTHEST | slot.no_base as usize];
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
                    out[data_ref.place as usize] = r;
                    let crosses = (addr >> 16) as u16 & PAGE_MASK > slot.last_inside;
                    filter.data(start + data_ref.place as usize, r, crosses, &mut kept);
                }
                let Some(change) = page_change else { break };
                filter.fetch(start + change.place as usize, change.page, &mut kept);
                done = until;
            }
            next = next.wrapping_add(data);
            read += data;
        }
        drop(kept);
        chunk.folded = chunk.refs.len();
        if escapes.ended || chunk.refs.len() > left {
            return Err(MISMATCH);
        }
        self.given.near = self.streams.raw[Stream::Near].len() - escapes.near.len();
        self.given.far = self.streams.raw[Stream::Far].len() - escapes.far.len();
        self.given.sequence += 2 * executed;
        self.given.control += read;
        self.history = History { ring, next };
        Ok(())
    }
}

/// Appends the first `len` items of `from`, which must have at least [`PADDING`] more. Copies in fixed sizes, so that the
/// processor need not predict the length.
#[inline(always)]
fn copy<T: Copy>(to: &mut Vec<T>, from: &[T], len: usize) {
    let start = to.len();
    for copied in (0..len).step_by(PADDING) {
        to.extend_from_slice(&from[copied..][..PADDING]);
    }
    to.truncate(start + len);
}

/// The rest of the near and far streams. Escapes are rare and stay out of the hot loop.
struct Escapes<'a> {
    near: &'a [u8],
    far: &'a [u8],
    /// Whether a stream ended too early.
    ended: bool,
}

impl Escapes<'_> {
    /// Returns a slot's new step for an escape. `base` and steps are shifted left by 16 bits.
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
        self.ended = true;
        step
    }
}

/// The bits of an address that are its offset in a page.
const PAGE_MASK: u16 = (1 << PAGE_SHIFT) - 1;

const MISMATCH: Damage = Damage("a segment whose streams do not match its counts");
