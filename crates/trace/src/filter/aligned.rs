//! Code where superpages can begin: a program as it would be, had its files of code been linked with segments that are a
//! superpage apart and been loaded at multiples of one (Zhou et al. 2023, section 6, as FreeBSD 11 links and its padding
//! aligns).
//!
//! Addresses change and nothing else does: each file of code moves as a whole to a place of its own, and what of it is
//! written moves one superpage further, so that the last superpage of code has no neighbour that may be written.

use crate::{Progress, Source, TraceError};
use reach_core::{
    Asid, Backing, BlockId, BlockTable, Chunk, Event, FileId, Kind, Map, Ref, Remap, Role, Span, VirtAddr,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of a superpage of code.
const SUPERPAGE: u64 = 2 << 20;
/// Where code is moved to: the half of the addresses that no program of Linux on x86-64 has; in the other, some ask for memory
/// anywhere (V8).
const PLACES: std::ops::Range<u64> = 0x9000_0000_0000..0xa000_0000_0000;
/// Addresses for each executable, whose length is not known when its first segment is.
const IMAGE: u64 = 1 << 30;

/// Which files of code are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alignment {
    /// Executables: FreeBSD 11 links them so; its loader packs libraries.
    Programs,
    /// Shared objects, too: the paper's kernel aligns them where it pads.
    All,
}

/// A program with its code moved.
pub struct Aligned<S> {
    source: S,
    alignment: Alignment,
    /// Those of the source at their new addresses: several where one runs in several places.
    blocks: BlockTable,
    /// What each is called, by the source's name and by how much it was moved.
    copies: HashMap<(BlockId, u64), BlockId>,
    /// For each block of the source the one of these that ran last.
    last: Vec<Option<(u64, BlockId)>>,
    /// Files that are shared objects by their names, where those are moved.
    libraries: BTreeSet<FileId>,
    /// Where each file that was mapped at some address is now: the same for all processes.
    places: BTreeMap<(FileId, u64), u64>,
    next: u64,
    /// For each address space the files that were moved, by their old starts.
    spaces: HashMap<Asid, BTreeMap<u64, Moved>>,
    asid: Asid,
    /// The piece that each kind of reference was in last.
    recent: [Piece; 3],
}

/// A file of code in an address space, at its old addresses.
#[derive(Clone, Copy, Debug)]
struct Moved {
    file: FileId,
    end: u64,
    /// From here on it is written.
    data: u64,
    /// What is added to the addresses of code, modulo 2⁶⁴.
    by: u64,
    image: bool,
}

/// Addresses that move alike.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    start: u64,
    len: u64,
    by: u64,
}

impl<S: Source> Aligned<S> {
    /// Aligns the code of `source`, of which nothing has been read.
    pub fn new(source: S, alignment: Alignment) -> Aligned<S> {
        Aligned {
            source,
            alignment,
            blocks: BlockTable::default(),
            copies: HashMap::new(),
            last: Vec::new(),
            libraries: BTreeSet::new(),
            places: BTreeMap::new(),
            next: PLACES.start,
            spaces: HashMap::new(),
            asid: Asid(0),
            recent: [Piece::default(); 3],
        }
    }

    fn piece(&self, at: u64) -> Piece {
        let none = BTreeMap::new();
        let files = self.spaces.get(&self.asid).unwrap_or(&none);
        let before = files.range(..=at).next_back();
        let next = files.range(at.saturating_add(1)..).next().map_or(u64::MAX, |(&start, _)| start);
        let (start, end, by) = match before {
            Some((&start, file)) if at < file.end.min(file.data) => (start, file.end.min(file.data), file.by),
            Some((_, file)) if at < file.end => (file.data, file.end, file.by.wrapping_add(SUPERPAGE)),
            Some((_, file)) => (file.end, next, 0),
            None => (0, next, 0),
        };
        Piece { start, len: end.min(next) - start, by }
    }

    /// By how much a reference moves.
    #[inline(always)]
    fn by(&mut self, r: Ref) -> u64 {
        let (at, kind) = (r.addr().0, r.kind() as usize);
        if at.wrapping_sub(self.recent[kind].start) >= self.recent[kind].len {
            self.recent[kind] = self.piece(at);
        }
        self.recent[kind].by
    }

    /// What the source's block `id` is called where it was moved by `by`.
    fn block(&mut self, id: BlockId, by: u64) -> BlockId {
        let at = id.0 as usize;
        if let Some(&Some((known, moved))) = self.last.get(at)
            && known == by
        {
            return moved;
        }
        let moved = *self.copies.entry((id, by)).or_insert_with(|| {
            let mut block = self.source.blocks().get(id).clone();
            block.pc = VirtAddr(block.pc.0.wrapping_add(by));
            self.blocks.push(block)
        });
        self.last.resize(self.last.len().max(at + 1), None);
        self.last[at] = Some((by, moved));
        moved
    }

    /// The parts of `span` that move alike, each where it is now.
    fn spans(&self, span: Span) -> Vec<Span> {
        let (mut at, end) = (span.start.0, span.start.0.saturating_add(span.len));
        let mut spans = Vec::new();
        while at < end {
            let piece = self.piece(at);
            let to = piece.start.saturating_add(piece.len).min(end);
            spans.push(Span { start: VirtAddr(at.wrapping_add(piece.by)), len: to - at });
            at = to;
        }
        match spans.is_empty() {
            true => vec![Span { start: VirtAddr(at.wrapping_add(self.piece(at).by)), len: 0 }],
            false => spans,
        }
    }

    /// What a new mapping means for what moves.
    fn see(&mut self, map: &Map, chunk: &mut Chunk) -> Result<(), TraceError> {
        let (start, end) = (map.span.start.0, map.span.end().0);
        if start < PLACES.end && end > PLACES.start {
            return Err(TraceError::Invalid(format!(
                "{}: it maps memory at {start:#x}, where its code would be moved to; leave its code where it is",
                self.source.name()
            )));
        }
        let image = map.role == Role::Image;
        let files = self.spaces.entry(self.asid).or_default();
        if let Some((&from, file)) = files.range_mut(..=start).next_back() {
            // The segments of an executable come one by one, and what is zero at first behind the last.
            let follows = match map.backing {
                Backing::File { file: other, .. } => other == file.file && end - from < IMAGE - 2 * SUPERPAGE,
                Backing::Anonymous => start <= file.end,
            };
            if image && file.image && follows {
                file.end = file.end.max(end);
            }
            if start < file.end {
                if map.protection.write && file.data == u64::MAX {
                    file.data = start;
                    // What a library holds of its addresses at first ends where it is written.
                    let left = Span { start: VirtAddr(start.wrapping_add(file.by)), len: file.end - start };
                    chunk.push_event(Event::Unmap(left));
                }
                return Ok(());
            }
        }
        let Backing::File { file, offset } = map.backing else { return Ok(()) };
        if map.shared || !image && (offset != 0 || map.protection.write || !self.libraries.contains(&file)) {
            return Ok(());
        }
        let room = if image { IMAGE } else { (end - start).next_multiple_of(SUPERPAGE) + SUPERPAGE };
        let next = &mut self.next;
        // An executable's first segment may begin within the file, and superpages begin where those of the file do.
        let first = start.wrapping_sub(offset);
        let place = *self.places.entry((file, first)).or_insert_with(|| {
            let place = *next;
            *next += room;
            place
        });
        if place + room > PLACES.end {
            let what = "it maps more code than can be moved; leave its code where it is";
            return Err(TraceError::Invalid(format!("{}: {what}", self.source.name())));
        }
        files.insert(start, Moved { file, end, data: u64::MAX, by: place.wrapping_sub(first), image });
        Ok(())
    }

    /// Gives up what is unmapped as a whole.
    fn forget(&mut self, span: Span) {
        if let Some(files) = self.spaces.get_mut(&self.asid) {
            files.retain(|&start, file| start < span.start.0 || file.end > span.end().0);
        }
    }

    /// The event as it is now: several where its span moves in parts.
    fn event(&mut self, event: Event, chunk: &mut Chunk) -> Result<(), TraceError> {
        match event {
            Event::Map(map) => {
                self.see(&map, chunk)?;
                let mut offset = 0;
                for span in self.spans(map.span) {
                    let backing = match map.backing {
                        Backing::File { file, offset: from } => Backing::File { file, offset: from + offset },
                        Backing::Anonymous => Backing::Anonymous,
                    };
                    chunk.push_event(Event::Map(Map { span, backing, ..map }));
                    offset += span.len;
                }
            }
            Event::Unmap(span) => {
                self.spans(span).into_iter().for_each(|span| chunk.push_event(Event::Unmap(span)));
                self.forget(span);
            }
            Event::Protect(span, to) => {
                self.spans(span).into_iter().for_each(|span| chunk.push_event(Event::Protect(span, to)));
            }
            Event::Advise(span, advice) => {
                self.spans(span).into_iter().for_each(|span| chunk.push_event(Event::Advise(span, advice)));
            }
            Event::Remap(remap) => {
                let place = |span: Span| Span { len: span.len, ..self.spans(span)[0] };
                chunk.push_event(Event::Remap(Remap { from: place(remap.from), to: place(remap.to), ..remap }));
            }
            other => {
                match &other {
                    Event::File { file, path, .. } if self.alignment == Alignment::All && is_library(path) => {
                        self.libraries.insert(*file);
                    }
                    Event::Switch { asid, .. } => self.asid = *asid,
                    Event::Fork { child, .. } => {
                        let files = self.spaces.get(&self.asid).cloned().unwrap_or_default();
                        self.spaces.insert(*child, files);
                    }
                    Event::Exec { .. } | Event::Exit => {
                        self.spaces.remove(&self.asid);
                    }
                    _ => {}
                }
                chunk.push_event(other);
            }
        }
        self.recent = [Piece::default(); 3];
        Ok(())
    }
}

/// Whether a file is a shared object by its name: `libc.so.6`, `plpgsql.so`.
fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.ends_with(".so") || name.contains(".so.") && !name.ends_with(".cache")
}

impl<S: Source> Source for Aligned<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if !self.source.fill(chunk)? {
            return Ok(false);
        }
        let events = std::mem::take(&mut chunk.events);
        let whole = std::mem::take(chunk);
        chunk.refs.reserve(whole.refs.len());
        let (mut events, mut fetched) = (events.into_iter().peekable(), whole.fetched.into_iter());
        for (at, r) in whole.refs.into_iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before as usize <= at) {
                self.event(event, chunk)?;
            }
            let by = self.by(r);
            chunk.refs.push(r.offset_by(by));
            if r.kind() == Kind::Fetch {
                let id = fetched.next().expect("a fetch has its block");
                let id = self.block(id, by);
                chunk.fetched.push(id);
            }
        }
        events.try_for_each(|(_, event)| self.event(event, chunk))?;
        Ok(true)
    }

    fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }
}

#[cfg(test)]
mod tests;
