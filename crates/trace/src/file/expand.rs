//! The forms and paths of a segment, laid out for execution: a path is no more work than a form.

use super::Bad;
use super::bytes::Cursor;
use super::layout::{MAX_FORM_DATA, MAX_PATH_FORMS, SegmentHeader};
use super::predict::{FARTHEST, REPEAT};
use reach_core::fold::PAGE_SHIFT;
use reach_core::{BlockId, BlockTable, Ref};

/// What a form or path executes as: a piece of each of the lists `templates`, `blocks`, `entries` and `turns`.
#[derive(Clone, Copy, Default)]
pub(super) struct Path {
    pub template: u32,
    pub refs: u32,
    pub block: u32,
    pub fetches: u32,
    pub entry: u32,
    pub data: u32,
    pub turn: u32,
    pub turns: u32,
}

/// Where a path's fetches come to another page, as folding sees it ([`reach_core::fold`]).
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub page: u64,
    /// The fetch's place among the path's references.
    pub place: u32,
    /// Data references before it.
    pub data: u32,
}

/// A data reference of a path.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub slot: u32,
    /// Where it stands among the path's references.
    pub place: u32,
}

/// A place in a form, and what is known of the addresses there.
pub(super) struct Slot {
    /// Distance from the base, as last seen, shifted left by 16 bits.
    pub step: u64,
    /// The predictor: how many data references ago the base was.
    pub back: u8,
    /// [`NO_BASE`] where the base is zero, or 0.
    pub none: u8,
    /// Kind, size and instruction index of the reference: the upper bits of the `Ref`.
    pub upper: u16,
    /// The last place in a page, in bytes, from which such a reference does not reach into the next.
    pub last: u16,
}

/// Added to an index in the ring of addresses, this gives one where it is always zero.
const NO_BASE: u8 = FARTHEST as u8 + 1;

/// Fetches and blocks are copied by so many at once, so that the processor need not guess how many copies it takes.
pub(super) const COPY: usize = 8;
/// The most references of a path.
pub(super) const MAX_PATH_REFS: usize = MAX_FORM_DATA + MAX_PATH_FORMS;

/// All forms and then all paths, by number, and the lists that they are pieces of.
#[derive(Default)]
pub(super) struct Expanded {
    pub paths: Vec<Path>,
    /// The references of each path, of which only the fetches count, and [`COPY`] more.
    pub templates: Vec<Ref>,
    /// The blocks that each path fetches, and [`COPY`] more.
    pub blocks: Vec<BlockId>,
    pub entries: Vec<Entry>,
    pub slots: Vec<Slot>,
    pub turns: Vec<Turn>,
}

impl Expanded {
    pub fn clear(&mut self) {
        self.paths.clear();
        self.templates.clear();
        self.blocks.clear();
        self.entries.clear();
        self.slots.clear();
        self.turns.clear();
    }

    /// Reads the definitions of forms and paths.
    pub fn decode(&mut self, bytes: &[u8], header: &SegmentHeader, table: &BlockTable) -> Result<(), Bad> {
        let mut cursor = Cursor(bytes);
        for _ in 0..header.forms {
            let block = cursor.varint()?;
            let len = cursor.u8()? as usize;
            if len > MAX_FORM_DATA || (block == 0 && len == 0) {
                return Err(Bad("a form of impossible length"));
            }
            let path = self.begin_path();
            if let Some(block) = block.checked_sub(1) {
                if block >= table.len() as u64 {
                    return Err(Bad("a form of a block that is not defined"));
                }
                let block = BlockId(block as u32);
                self.blocks.push(block);
                self.templates.push(table.get(block).fetch());
            }
            for _ in 0..len {
                let (upper, predictor) = (cursor.u16()?, cursor.u8()?);
                if !matches!(upper & 3, 1 | 2) || upper >= 1 << 14 || predictor as usize > FARTHEST {
                    return Err(Bad("a form with an impossible reference"));
                }
                let place = self.templates.len() as u32 - path.template;
                self.entries.push(Entry { slot: self.slots.len() as u32, place });
                self.templates.push(Ref(0));
                let size = 1 << (upper >> 2 & 7);
                let none = if predictor == REPEAT { NO_BASE } else { 0 };
                self.slots.push(Slot { step: 0, back: predictor, none, upper, last: PAGE - size });
            }
            self.end_path(path);
        }
        for _ in 0..header.paths {
            let len = cursor.u8()? as usize;
            if !(2..=MAX_PATH_FORMS).contains(&len) {
                return Err(Bad("a path of impossible length"));
            }
            let path = self.begin_path();
            for _ in 0..len {
                let number = cursor.u16()? as usize;
                let form = *self.paths[..header.forms as usize].get(number).ok_or(Bad("a path of undefined forms"))?;
                let place = self.templates.len() as u32 - path.template;
                self.templates.extend_from_within(form.template as usize..(form.template + form.refs) as usize);
                self.blocks.extend_from_within(form.block as usize..(form.block + form.fetches) as usize);
                for i in form.entry..form.entry + form.data {
                    let entry = self.entries[i as usize];
                    self.entries.push(Entry { place: entry.place + place, ..entry });
                }
            }
            if self.entries.len() - path.entry as usize > MAX_FORM_DATA {
                return Err(Bad("a path with too many references"));
            }
            self.end_path(path);
        }
        self.templates.extend([Ref(0); COPY]);
        self.blocks.extend([BlockId(0); COPY]);
        if cursor.is_empty() { Ok(()) } else { Err(Bad("more forms than announced")) }
    }

    fn begin_path(&self) -> Path {
        Path {
            template: self.templates.len() as u32,
            block: self.blocks.len() as u32,
            entry: self.entries.len() as u32,
            turn: self.turns.len() as u32,
            ..Path::default()
        }
    }

    fn end_path(&mut self, path: Path) {
        let refs = &self.templates[path.template as usize..];
        let mut data = 0;
        let mut on = None;
        for (place, fetch) in refs.iter().enumerate() {
            // Data has no address yet, but it has a place.
            if self.entries.get(path.entry as usize + data).is_some_and(|entry| entry.place as usize == place) {
                data += 1;
                continue;
            }
            // No fetch is longer than a page.
            for page in [fetch.addr(), fetch.last()].map(|at| at.0 >> PAGE_SHIFT) {
                if on != Some(page) {
                    self.turns.push(Turn { page, place: place as u32, data: data as u32 });
                    on = Some(page);
                }
            }
        }
        self.paths.push(Path {
            refs: refs.len() as u32,
            fetches: self.blocks.len() as u32 - path.block,
            data: self.entries.len() as u32 - path.entry,
            turns: self.turns.len() as u32 - path.turn,
            ..path
        });
    }
}

/// Bytes of the pages that folding knows.
const PAGE: u16 = 1 << PAGE_SHIFT;
