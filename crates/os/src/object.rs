//! Memory objects: the files and zero-filled memory that regions map, with their pages in the page cache.

use reach_core::{Asid, FileId, Pfn};
use std::collections::{BTreeMap, BTreeSet};

/// The number of a memory object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

impl ObjectId {
    /// No object: the owner of frames that hold no object's page.
    pub const NONE: ObjectId = ObjectId(u32::MAX);
}

impl Default for ObjectId {
    fn default() -> Self {
        ObjectId::NONE
    }
}

/// The kind of memory that an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Zero-filled memory of one address space. Its pages are found by page tables alone. The object gives them an
    /// identity, which reservations need.
    Private(Asid),
    /// Zero-filled memory that several address spaces may share.
    Shared,
    /// A file. It outlives its mappings.
    File(FileId),
}

/// A block of frames that holds several pages of an object as one: a large folio of Linux's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// Index of its first page in the object, a multiple of `pages`.
    pub first: u64,
    /// Number of its base pages, a power of two.
    pub pages: u64,
    /// The frame of its first page. The others follow.
    pub pfn: Pfn,
}

/// A memory object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its kind.
    pub kind: ObjectKind,
    /// Length in bytes: of a file when the source first saw it, of shared memory without a file when it was mapped. `None` where it is
    /// unknown, and for private memory.
    pub len: Option<u64>,
    /// Number of pages to which its code is padded, where that is more than it has; 0 where it is not.
    pub padded: u64,
    /// The path by which the program opened it. `None` where it is unknown.
    pub path: Option<Box<str>>,
    /// Whether it is a file in memory (tmpfs, memfd). Its shared mappings map another object (`Objects::shared_file`).
    pub in_memory: bool,
    /// Resident pages of shared memory and files, by index in base pages.
    pub pages: BTreeMap<u64, Pfn>,
    /// Numbers of base pages of the blocks that hold several pages as one, by the index of their first page. A block ends with
    /// its first page that is not resident any more.
    pub(crate) folios: BTreeMap<u64, u64>,
    /// Indices of shared-memory pages that are in swap.
    pub swapped: BTreeSet<u64>,
    /// Bytes that regions map, counted once for each region.
    pub mapped: u64,
}

impl Object {
    /// Returns the block that holds page `index`. `None` where the page is absent or has a frame of its own.
    pub fn folio(&self, index: u64) -> Option<Folio> {
        let (&first, &pages) = self.folios.range(..=index).next_back()?;
        (index < first + pages).then(|| Folio { first, pages, pfn: self.pages[&first] })
    }
}

/// All objects.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    all: Vec<Option<Object>>,
    unused: Vec<ObjectId>,
    files: BTreeMap<FileId, ObjectId>,
    /// Shared memory that is mapped as a file.
    shared_files: BTreeMap<FileId, ObjectId>,
    /// Number of files with resident pages.
    backed: u64,
    /// The kernel's page of code, once a program has mapped it.
    vdso: Option<ObjectId>,
}

impl Objects {
    /// Makes an object without pages.
    pub fn create(&mut self, kind: ObjectKind, len: Option<u64>) -> ObjectId {
        let object = Some(Object {
            kind,
            len,
            padded: 0,
            path: None,
            in_memory: false,
            pages: BTreeMap::new(),
            folios: BTreeMap::new(),
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

    /// Returns the object of a file, which is made on first use.
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

    /// Returns the object of the shared mappings of a file: the file itself, or shared memory for a file in memory, which is
    /// neither read in nor written back. The latter ends with its last mapping; private mappings of the same file do not see it.
    pub(crate) fn shared_file(&mut self, file: FileId) -> ObjectId {
        let object = self.file(file);
        if !self.get(object).in_memory {
            return object;
        }
        match self.shared_files.get(&file) {
            Some(&id) => id,
            None => {
                let (len, path) = (self.get(object).len, self.get(object).path.clone());
                let id = self.create(ObjectKind::Shared, len);
                self.get_mut(id).path = path;
                self.shared_files.insert(file, id);
                id
            }
        }
    }

    /// Returns the object of the vDSO, the kernel's page of code, which is made on first use. It counts as mapped for good,
    /// so that all processes share one page.
    pub(crate) fn vdso(&mut self) -> ObjectId {
        match self.vdso {
            Some(object) => object,
            None => {
                let object = self.create(ObjectKind::Shared, None);
                self.retain(object, 1);
                *self.vdso.insert(object)
            }
        }
    }

    /// Returns how many bytes the kernel itself maps of an object.
    pub(crate) fn mapped_by_kernel(&self, id: ObjectId) -> u64 {
        u64::from(self.vdso == Some(id))
    }

    /// Returns an object.
    ///
    /// # Panics
    /// When it does not exist.
    pub fn get(&self, id: ObjectId) -> &Object {
        self.all[id.0 as usize].as_ref().expect("regions and frames name live objects")
    }

    /// Returns an object, to be changed.
    pub(crate) fn get_mut(&mut self, id: ObjectId) -> &mut Object {
        self.all[id.0 as usize].as_mut().expect("regions and frames name live objects")
    }

    /// Records that page `index` of `id` is resident at `pfn`.
    pub(crate) fn add_page(&mut self, id: ObjectId, index: u64, pfn: Pfn) {
        let object = self.get_mut(id);
        let first = object.pages.is_empty() && matches!(object.kind, ObjectKind::File(_));
        object.pages.insert(index, pfn);
        self.backed += u64::from(first);
    }

    /// Records that page `index` of `id` is no longer resident.
    pub(crate) fn remove_page(&mut self, id: ObjectId, index: u64) {
        let object = self.get_mut(id);
        if let Some(folio) = object.folio(index) {
            object.folios.remove(&folio.first);
        }
        let gone = object.pages.remove(&index).is_some();
        let last = gone && object.pages.is_empty() && matches!(object.kind, ObjectKind::File(_));
        self.backed -= u64::from(last);
    }

    /// Returns the number of files with resident pages.
    pub(crate) fn files_in_memory(&self) -> u64 {
        self.backed
    }

    /// Returns whether the object exists.
    pub(crate) fn exists(&self, id: ObjectId) -> bool {
        self.all.get(id.0 as usize).is_some_and(Option::is_some)
    }

    /// Returns all objects, by number.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.all.iter().enumerate().filter_map(|(i, object)| Some((ObjectId(i as u32), object.as_ref()?)))
    }

    /// Returns all files with their objects, by file number.
    pub fn files(&self) -> impl Iterator<Item = (FileId, ObjectId)> + '_ {
        self.files.iter().map(|(&file, &id)| (file, id))
    }

    /// Records that `bytes` more of `id` are mapped.
    pub(crate) fn retain(&mut self, id: ObjectId, bytes: u64) {
        self.get_mut(id).mapped += bytes;
    }

    /// Records that `bytes` of `id` are no longer mapped. An object that is no file ends with its last mapped byte; its
    /// resident pages are returned then.
    #[must_use]
    pub(crate) fn release(&mut self, id: ObjectId, bytes: u64) -> Vec<Pfn> {
        let object = self.get_mut(id);
        object.mapped -= bytes;
        if object.mapped > 0 || matches!(object.kind, ObjectKind::File(_)) {
            return Vec::new();
        }
        let pages = std::mem::take(&mut object.pages).into_values().collect();
        self.all[id.0 as usize] = None;
        self.shared_files.retain(|_, object| *object != id);
        self.unused.push(id);
        pages
    }
}
