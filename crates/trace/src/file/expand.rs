//! Expands the forms and paths of a segment for execution, so that a path costs the decoder no more than a form.

use super::bytes::Cursor;
use super::error::Damage;
use super::layout::{MAX_FORM_DATA, MAX_PATH_FORMS, SegmentHeader};
use super::limits::ExpandedSize;
use super::predict::{FARTHEST, REPEAT};
use reach_core::fold::PAGE_SHIFT;
use reach_core::{BlockId, BlockTable, Ref};

/// An expanded form or path: a start and a length in each list of [`Expanded`].
#[derive(Clone, Copy, Default)]
pub(super) struct ExpandedPath {
    pub template: u32,
    pub refs: u32,
    pub block: u32,
    pub fetches: u32,
    pub data_start: u32,
    pub data: u32,
    pub page_change: u32,
    pub page_changes: u32,
}

/// A fetch of a path that is to another page than the one before, as [`reach_core::fold`] sees it.
#[derive(Clone, Copy)]
pub(super) struct PageChange {
    pub page: u64,
    /// The fetch's place among the path's references.
    pub place: u32,
    /// The path's data references before it.
    pub data: u32,
}

/// A data reference of a path.
#[derive(Clone, Copy)]
pub(super) struct DataRef {
    pub slot: u32,
    /// The place among the path's references.
    pub place: u32,
}

/// A data reference of a form, and the state of its address prediction.
pub(super) struct Slot {
    /// The last distance from the base, shifted left by 16 bits.
    pub step: u64,
    /// The predictor: the distance to the base in data references.
    pub back: u8,
    /// [`NO_BASE`] if the base is zero, else 0.
    pub no_base: u8,
    /// The upper bits of the reference: kind, size and instruction index.
    pub upper: u16,
    /// The last offset in a page, in bytes, at which the reference does not cross into the next page.
    pub last_inside: u16,
}

/// Moves an index of the address ring into the half that is always zero.
const NO_BASE: u8 = FARTHEST as u8 + 1;

/// Items after the end of `templates` and `blocks`. The decoder copies this many at once.
pub(super) const PADDING: usize = 8;
/// The templates that are kept allocated from segment to segment. More are rare.
const KEPT_TEMPLATES: usize = 1 << 18;
/// The most references of a path.
pub(super) const MAX_PATH_REFS: usize = MAX_FORM_DATA + MAX_PATH_FORMS;

/// All forms and then all paths, by number, and the lists that they refer to.
#[derive(Default)]
pub(super) struct Expanded {
    pub paths: Vec<ExpandedPath>,
    /// The references of each path, with zeros in place of data, and [`PADDING`] more.
    pub templates: Vec<Ref>,
    /// The blocks that each path fetches, and [`PADDING`] more.
    pub blocks: Vec<BlockId>,
    pub data: Vec<DataRef>,
    pub slots: Vec<Slot>,
    pub page_changes: Vec<PageChange>,
}

impl Expanded {
    pub fn clear(&mut self) {
        if self.templates.capacity() > KEPT_TEMPLATES {
            *self = Expanded::default();
        }
        self.paths.clear();
        self.templates.clear();
        self.blocks.clear();
        self.data.clear();
        self.slots.clear();
        self.page_changes.clear();
    }

    /// Fails if the size of all lists is out of proportion to the segment.
    fn check_size(&self, payload: u64) -> Result<(), Damage> {
        let size = ExpandedSize {
            paths: self.paths.len() as u64,
            fetches: self.blocks.len() as u64,
            data: self.data.len() as u64,
            slots: self.slots.len() as u64,
        };
        if size.fits(payload) {
            Ok(())
        } else {
            Err(Damage("forms and paths that are too long for their stored bytes"))
        }
    }

    /// Reads the definitions of forms and paths.
    pub fn decode(&mut self, bytes: &[u8], header: &SegmentHeader, table: &BlockTable) -> Result<(), Damage> {
        let mut cursor = Cursor(bytes);
        let payload = header.payload();
        for _ in 0..header.forms {
            let block = cursor.varint()?;
            let len = cursor.u8()? as usize;
            if len > MAX_FORM_DATA || (block == 0 && len == 0) {
                return Err(Damage("a form of impossible length"));
            }
            let path = self.begin_path();
            if let Some(block) = block.checked_sub(1) {
                if block >= table.len() as u64 {
                    return Err(Damage("a form of a block that is not defined"));
                }
                let block = BlockId(block as u32);
                self.blocks.push(block);
                self.templates.push(table.get(block).fetch());
            }
            for _ in 0..len {
                let (upper, predictor) = (cursor.u16()?, cursor.u8()?);
                if !matches!(upper & 3, 1 | 2) || upper >= 1 << 14 || predictor as usize > FARTHEST {
                    return Err(Damage("a form with an impossible reference"));
                }
                let place = self.templates.len() as u32 - path.template;
                self.data.push(DataRef { slot: self.slots.len() as u32, place });
                self.templates.push(Ref(0));
                let size = 1 << (upper >> 2 & 7);
                let no_base = if predictor == REPEAT { NO_BASE } else { 0 };
                self.slots.push(Slot { step: 0, back: predictor, no_base, upper, last_inside: PAGE_BYTES - size });
            }
            self.end_path(path);
            self.check_size(payload)?;
        }
        for _ in 0..header.paths {
            let len = cursor.u8()? as usize;
            if !(2..=MAX_PATH_FORMS).contains(&len) {
                return Err(Damage("a path of impossible length"));
            }
            let path = self.begin_path();
            for _ in 0..len {
                let number = cursor.u16()? as usize;
                let form =
                    *self.paths[..header.forms as usize].get(number).ok_or(Damage("a path of undefined forms"))?;
                let place = self.templates.len() as u32 - path.template;
                self.templates.extend_from_within(form.template as usize..(form.template + form.refs) as usize);
                self.blocks.extend_from_within(form.block as usize..(form.block + form.fetches) as usize);
                for i in form.data_start..form.data_start + form.data {
                    let data_ref = self.data[i as usize];
                    self.data.push(DataRef { place: data_ref.place + place, ..data_ref });
                }
            }
            if self.data.len() - path.data_start as usize > MAX_FORM_DATA {
                return Err(Damage("a path with too many references"));
            }
            self.end_path(path);
            self.check_size(payload)?;
        }
        self.templates.extend([Ref(0); PADDING]);
        self.blocks.extend([BlockId(0); PADDING]);
        if cursor.is_empty() { Ok(()) } else { Err(Damage("more forms than announced")) }
    }

    fn begin_path(&self) -> ExpandedPath {
        ExpandedPath {
            template: self.templates.len() as u32,
            block: self.blocks.len() as u32,
            data_start: self.data.len() as u32,
            page_change: self.page_changes.len() as u32,
            ..ExpandedPath::default()
        }
    }

    fn end_path(&mut self, path: ExpandedPath) {
        let refs = &self.templates[path.template as usize..];
        let mut data = 0;
        let mut current = None;
        for (place, fetch) in refs.iter().enumerate() {
            // A data reference has no address yet, so its place identifies it.
            if self.data.get(path.data_start as usize + data).is_some_and(|data_ref| data_ref.place as usize == place) {
                data += 1;
                continue;
            }
            // A fetch is never longer than a page, so it touches at most these two.
            for page in [fetch.addr(), fetch.last()].map(|at| at.0 >> PAGE_SHIFT) {
                if current != Some(page) {
                    self.page_changes.push(PageChange { page, place: place as u32, data: data as u32 });
                    current = Some(page);
                }
            }
        }
        self.paths.push(ExpandedPath {
            refs: refs.len() as u32,
            fetches: self.blocks.len() as u32 - path.block,
            data: self.data.len() as u32 - path.data_start,
            page_changes: self.page_changes.len() as u32 - path.page_change,
            ..path
        });
    }
}

/// Bytes of a page, as folding counts them.
const PAGE_BYTES: u16 = 1 << PAGE_SHIFT;
