//! Aligns code to superpages: changes the addresses of a program to those it would have if its files of code were linked
//! with segments a superpage apart and loaded at multiples of a superpage (Zhou et al. 2023, section 6, as FreeBSD 11 links
//! and its padding aligns).
//!
//! Only addresses change. Each file of code moves as a whole to a place of its own. Its written data moves one superpage
//! further, so that the last superpage of code has no writable pages.

use crate::{Ending, Progress, Source, TraceError};
use reach_core::{
    Asid, Backing, BlockId, BlockTable, Chunk, Event, FileId, Kind, Map, Ref, Remap, Role, Span, VirtAddr,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The bytes of a superpage of code.
const SUPERPAGE: u64 = 2 << 20;
/// The addresses that code moves to. They are in the kernel's half: no Linux program on x86-64 uses it, while some programs
/// (V8) ask for memory anywhere in the other half.
const TARGET: std::ops::Range<u64> = 0x9000_0000_0000..0xa000_0000_0000;
/// The bytes reserved for each executable, whose length is unknown when its first segment is mapped.
const IMAGE_BYTES: u64 = 1 << 30;

/// The files of code to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alignment {
    /// Executables only: FreeBSD 11 links them with this alignment, but its loader packs libraries.
    Programs,
    /// Executables and shared objects: the paper's kernel aligns shared objects too when it pads.
    All,
}

/// A program with aligned code.
pub struct Aligned<S> {
    source: S,
    alignment: Alignment,
    /// The blocks of the source at their new addresses. A block that runs at several addresses is here several times.
    blocks: BlockTable,
    /// The number of each moved block, by the source's number and the distance moved.
    moved_blocks: HashMap<(BlockId, u64), BlockId>,
    /// For each block of the source, the distance and number of the moved block that ran last.
    last_block: Vec<Option<(u64, BlockId)>>,
    /// The shared objects to move, which their names identify.
    libraries: BTreeSet<FileId>,
    /// The new address of each file, by its number and old address: the same in all processes.
    places: BTreeMap<(FileId, u64), u64>,
    /// The first address of [`TARGET`] that is free.
    next_place: u64,
    /// The moved files of each address space, by their old addresses.
    spaces: HashMap<Asid, BTreeMap<u64, MovedFile>>,
    asid: Asid,
    /// The piece of the last reference of each kind.
    last_piece: [Piece; 3],
}

/// A moved file of code in an address space. Its addresses are the old ones.
#[derive(Clone, Copy, Debug)]
struct MovedFile {
    file: FileId,
    end: u64,
    /// The start of written data; `u64::MAX` if there is none.
    data: u64,
    /// The distance that code moves, modulo 2⁶⁴.
    distance: u64,
    /// Whether the file is an executable.
    image: bool,
}

/// A range of old addresses that move by the same distance.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    start: u64,
    len: u64,
    distance: u64,
}

impl<S: Source> Aligned<S> {
    /// Aligns the code of `source`, which must be at its start.
    pub fn new(source: S, alignment: Alignment) -> Aligned<S> {
        Aligned {
            source,
            alignment,
            blocks: BlockTable::default(),
            moved_blocks: HashMap::new(),
            last_block: Vec::new(),
            libraries: BTreeSet::new(),
            places: BTreeMap::new(),
            next_place: TARGET.start,
            spaces: HashMap::new(),
            asid: Asid(0),
            last_piece: [Piece::default(); 3],
        }
    }

    /// Returns the piece that contains the old address `at`.
    fn piece(&self, at: u64) -> Piece {
        let none = BTreeMap::new();
        let files = self.spaces.get(&self.asid).unwrap_or(&none);
        let before = files.range(..=at).next_back();
        let next = files.range(at.saturating_add(1)..).next().map_or(u64::MAX, |(&start, _)| start);
        let (start, end, distance) = match before {
            Some((&start, file)) if at < file.end.min(file.data) => (start, file.end.min(file.data), file.distance),
            Some((_, file)) if at < file.end => (file.data, file.end, file.distance.wrapping_add(SUPERPAGE)),
            Some((_, file)) => (file.end, next, 0),
            None => (0, next, 0),
        };
        Piece { start, len: end.min(next) - start, distance }
    }

    /// Returns the distance that a reference moves.
    #[inline(always)]
    fn distance(&mut self, r: Ref) -> u64 {
        let (at, kind) = (r.addr().0, r.kind() as usize);
        if at.wrapping_sub(self.last_piece[kind].start) >= self.last_piece[kind].len {
            self.last_piece[kind] = self.piece(at);
        }
        self.last_piece[kind].distance
    }

    /// Returns the number of the source's block `id`, moved by `distance`.
    fn block(&mut self, id: BlockId, distance: u64) -> BlockId {
        let at = id.0 as usize;
        if let Some(&Some((known, moved))) = self.last_block.get(at)
            && known == distance
        {
            return moved;
        }
        let moved = *self.moved_blocks.entry((id, distance)).or_insert_with(|| {
            let mut block = self.source.blocks().get(id).clone();
            block.pc = VirtAddr(block.pc.0.wrapping_add(distance));
            self.blocks.push(block)
        });
        self.last_block.resize(self.last_block.len().max(at + 1), None);
        self.last_block[at] = Some((distance, moved));
        moved
    }

    /// Splits `span` into parts that move by one distance. Returns their new addresses.
    fn new_spans(&self, span: Span) -> Vec<Span> {
        let (mut at, end) = (span.start.0, span.start.0.saturating_add(span.len));
        let mut spans = Vec::new();
        while at < end {
            let piece = self.piece(at);
            let to = piece.start.saturating_add(piece.len).min(end);
            spans.push(Span { start: VirtAddr(at.wrapping_add(piece.distance)), len: to - at });
            at = to;
        }
        match spans.is_empty() {
            true => vec![Span { start: VirtAddr(at.wrapping_add(self.piece(at).distance)), len: 0 }],
            false => spans,
        }
    }

    /// Adds a new mapping to the moved files, if it belongs to one.
    ///
    /// Fails where the program maps memory in [`TARGET`], or more code than fits there.
    fn add_mapping(&mut self, map: &Map, chunk: &mut Chunk) -> Result<(), TraceError> {
        let (start, end) = (map.span.start.0, map.span.end().0);
        if start < TARGET.end && end > TARGET.start {
            return Err(TraceError::Invalid(format!(
                "{}: maps memory at {start:#x}, where moved code would be; run it without aligning code",
                self.source.name()
            )));
        }
        let image = map.role == Role::Image;
        let files = self.spaces.entry(self.asid).or_default();
        if let Some((&from, file)) = files.range_mut(..=start).next_back() {
            // The segments of an executable are mapped one by one, and its zero-filled data after the last.
            let continues = match map.backing {
                Backing::File { file: other, .. } => other == file.file && end - from < IMAGE_BYTES - 2 * SUPERPAGE,
                Backing::Anonymous => start <= file.end,
            };
            if image && file.image && continues {
                file.end = file.end.max(end);
            }
            if start < file.end {
                if map.protection.write && file.data == u64::MAX {
                    file.data = start;
                    // The loader's first mapping of a library covers all of it. Its part from here on has moved further.
                    let stale = Span { start: VirtAddr(start.wrapping_add(file.distance)), len: file.end - start };
                    chunk.push_event(Event::Unmap(stale));
                }
                return Ok(());
            }
        }
        let Backing::File { file, offset } = map.backing else { return Ok(()) };
        if map.shared || !image && (offset != 0 || map.protection.write || !self.libraries.contains(&file)) {
            return Ok(());
        }
        let reserved = if image { IMAGE_BYTES } else { (end - start).next_multiple_of(SUPERPAGE) + SUPERPAGE };
        let next_place = &mut self.next_place;
        // The first segment may begin inside the file; the start of the file is what must be aligned.
        let first = start.wrapping_sub(offset);
        let place = *self.places.entry((file, first)).or_insert_with(|| {
            let place = *next_place;
            *next_place += reserved;
            place
        });
        if place + reserved > TARGET.end {
            let what = "maps more code than can be moved; run it without aligning code";
            return Err(TraceError::Invalid(format!("{}: {what}", self.source.name())));
        }
        let distance = place.wrapping_sub(first);
        files.insert(start, MovedFile { file, end, data: u64::MAX, distance, image });
        Ok(())
    }

    /// Drops the moved files that lie entirely in `span`.
    fn remove_files(&mut self, span: Span) {
        if let Some(files) = self.spaces.get_mut(&self.asid) {
            files.retain(|&start, file| start < span.start.0 || file.end > span.end().0);
        }
    }

    /// Appends `event` with new addresses to `chunk`: as several events if its span has several parts.
    fn move_event(&mut self, event: Event, chunk: &mut Chunk) -> Result<(), TraceError> {
        match event {
            Event::Map(map) => {
                self.add_mapping(&map, chunk)?;
                let mut offset = 0;
                for span in self.new_spans(map.span) {
                    let backing = match map.backing {
                        Backing::File { file, offset: from } => Backing::File { file, offset: from + offset },
                        Backing::Anonymous => Backing::Anonymous,
                    };
                    chunk.push_event(Event::Map(Map { span, backing, ..map }));
                    offset += span.len;
                }
            }
            Event::Unmap(span) => {
                self.new_spans(span).into_iter().for_each(|span| chunk.push_event(Event::Unmap(span)));
                self.remove_files(span);
            }
            Event::Protect(span, to) => {
                self.new_spans(span).into_iter().for_each(|span| chunk.push_event(Event::Protect(span, to)));
            }
            Event::Advise(span, advice) => {
                self.new_spans(span).into_iter().for_each(|span| chunk.push_event(Event::Advise(span, advice)));
            }
            Event::Remap(remap) => {
                let place = |span: Span| Span { len: span.len, ..self.new_spans(span)[0] };
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
        self.last_piece = [Piece::default(); 3];
        Ok(())
    }
}

/// Returns whether a file's name is that of a shared object: `libc.so.6`, `plpgsql.so`.
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
        let input = std::mem::take(chunk);
        chunk.refs.reserve(input.refs.len());
        let (mut events, mut fetched) = (events.into_iter().peekable(), input.fetched.into_iter());
        for (at, r) in input.refs.into_iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before as usize <= at) {
                self.move_event(event, chunk)?;
            }
            let distance = self.distance(r);
            chunk.refs.push(r.offset_by(distance));
            if r.kind() == Kind::Fetch {
                let id = fetched.next().expect("a fetch has its block");
                let id = self.block(id, distance);
                chunk.fetched.push(id);
            }
        }
        events.try_for_each(|(_, event)| self.move_event(event, chunk))?;
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

    fn waited(&self) -> Duration {
        self.source.waited()
    }

    fn ending(&mut self) -> Ending {
        self.source.ending()
    }
}

#[cfg(test)]
mod tests;
