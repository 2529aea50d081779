//! Memory objects: what stands behind mappings, and what files are to the page cache.

use reach_core::{Asid, FileId, Pfn};
use std::collections::{BTreeMap, BTreeSet};

/// A memory object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

impl ObjectId {
    /// Of frames that hold no object's page.
    pub const NONE: ObjectId = ObjectId(u32::MAX);
}

impl Default for ObjectId {
    fn default() -> Self {
        ObjectId::NONE
    }
}

/// What kind of memory an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Zero-filled memory of one address space. Its pages are found by page tables alone; the object gives them an
    /// identity, which reservations need.
    Private(Asid),
    /// Zero-filled memory that several address spaces may share.
    Shared,
    /// A file. It outlives its mappings.
    File(FileId),
}

/// An object.
#[derive(Clone, Debug)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Its length in bytes, where one is known (files).
    pub len: Option<u64>,
    /// To how many pages its code is padded, where that is more than it has; 0 where it is not.
    pub padded: u64,
    /// Where its path is known: what the program calls it.
    pub path: Option<Box<str>>,
    /// Pages in memory by index in base pages, for shared memory and files.
    pub pages: BTreeMap<u64, Pfn>,
    /// Pages of shared memory that are in swap.
    pub swapped: BTreeSet<u64>,
    /// Bytes of it that regions map, counted once for each region.
    pub mapped: u64,
}

/// All objects.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    all: Vec<Option<Object>>,
    unused: Vec<ObjectId>,
    files: BTreeMap<FileId, ObjectId>,
    /// Files with pages in memory.
    backed: u64,
}

impl Objects {
    /// A new object without pages.
    pub fn create(&mut self, kind: ObjectKind, len: Option<u64>) -> ObjectId {
        let object = Some(Object {
            kind,
            len,
            padded: 0,
            path: None,
            pages: BTreeMap::new(),
            swapped: BTreeSet::new(),
            mapped: 0,
        });
        match self.unused.pop() {
            Some(id) => {
                self.all[id.0 as usize] = object;
                id
            }
            None => {
                self.all.push(object);
                ObjectId(self.all.len() as u32 - 1)
            }
        }
    }

    /// The object of a file, made on first use.
    pub fn file(&mut self, file: FileId) -> ObjectId {
        match self.files.get(&file) {
            Some(&id) => id,
            None => {
                let id = self.create(ObjectKind::File(file), None);
                self.files.insert(file, id);
                id
            }
        }
    }

    /// An object that exists.
    pub fn get(&self, id: ObjectId) -> &Object {
        self.all[id.0 as usize].as_ref().expect("regions and frames name live objects")
    }

    /// An object that exists, to change.
    pub(crate) fn get_mut(&mut self, id: ObjectId) -> &mut Object {
        self.all[id.0 as usize].as_mut().expect("regions and frames name live objects")
    }

    /// Page `index` of `id` is in memory, at `pfn`.
    pub(crate) fn enter(&mut self, id: ObjectId, index: u64, pfn: Pfn) {
        let object = self.get_mut(id);
        let first = object.pages.is_empty() && matches!(object.kind, ObjectKind::File(_));
        object.pages.insert(index, pfn);
        self.backed += u64::from(first);
    }

    /// Page `index` of `id` is no longer in memory.
    pub(crate) fn leave(&mut self, id: ObjectId, index: u64) {
        let object = self.get_mut(id);
        let gone = object.pages.remove(&index).is_some();
        let last = gone && object.pages.is_empty() && matches!(object.kind, ObjectKind::File(_));
        self.backed -= u64::from(last);
    }

    /// How many files have pages in memory.
    pub(crate) fn backed(&self) -> u64 {
        self.backed
    }

    /// Whether it exists.
    pub(crate) fn lives(&self, id: ObjectId) -> bool {
        self.all.get(id.0 as usize).is_some_and(Option::is_some)
    }

    /// All objects that exist, by number.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.all.iter().enumerate().filter_map(|(i, object)| Some((ObjectId(i as u32), object.as_ref()?)))
    }

    /// All files with their objects, by number.
    pub fn files(&self) -> impl Iterator<Item = (FileId, ObjectId)> + '_ {
        self.files.iter().map(|(&file, &id)| (file, id))
    }

    /// `bytes` more of `id` are mapped.
    pub(crate) fn retain(&mut self, id: ObjectId, bytes: u64) {
        self.get_mut(id).mapped += bytes;
    }

    /// `bytes` of `id` are no longer mapped. When that was the last of an object that is no file, the object ends and
    /// its cached pages are returned.
    #[must_use]
    pub(crate) fn release(&mut self, id: ObjectId, bytes: u64) -> Vec<Pfn> {
        let object = self.get_mut(id);
        object.mapped -= bytes;
        if object.mapped > 0 || matches!(object.kind, ObjectKind::File(_)) {
            return Vec::new();
        }
        let pages = std::mem::take(&mut object.pages).into_values().collect();
        self.all[id.0 as usize] = None;
        self.unused.push(id);
        pages
    }
}
