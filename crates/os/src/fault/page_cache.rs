//! The page cache: pages of files and of shared memory by object and index. All processes share it, and it outlives them.

use crate::{FrameKind, ObjectId, ObjectKind, OutOfMemory, Region, Vm};
use reach_core::{Bytes, Label, Pfn, Vpn};

/// A page of the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cached {
    pub(crate) pfn: Pfn,
    /// The page had to be read in.
    pub(crate) read_in: bool,
}

impl Vm {
    /// Returns page `index` of `object`. `None` when it is not resident. A warm cache holds every page of every file.
    pub(crate) fn cached(&mut self, object: ObjectId, index: u64, label: Label) -> Result<Option<Pfn>, OutOfMemory> {
        if let Some(pfn) = self.resident(object, index) {
            return Ok(Some(pfn));
        }
        let file = matches!(self.objects.get(object).kind, ObjectKind::File(_));
        if file && self.options().warm {
            // The file was read before the program started, so that the program pays nothing.
            let before = self.accounting.ledger.clone();
            self.fill_window(object, index, label)?;
            self.charge_frame_work(label);
            self.accounting.ledger = before;
            return Ok(self.resident(object, index));
        }
        Ok(None)
    }

    /// Returns page `index` of `object`. `None` when it is not in memory. A cache page becomes active again.
    fn resident(&mut self, object: ObjectId, index: u64) -> Option<Pfn> {
        let pfn = *self.objects.get(object).pages.get(&index)?;
        if self.frames.get(pfn).kind == FrameKind::Cache {
            self.frames.reactivate(pfn);
            self.count_paging(|counts| counts.reactivated += 1);
        }
        self.pin(Some(pfn));
        Some(pfn)
    }

    /// Returns the page that `vpn` of `region` maps. A page that is not resident is made so: shared memory is zeroed, files are
    /// read in by the window.
    pub(crate) fn cache_page(&mut self, region: &Region, vpn: Vpn, label: Label) -> Result<Cached, OutOfMemory> {
        let (object, index) = (region.object, region.index(vpn, self.base()));
        self.frames.align(object, index, vpn.0);
        if let Some(pfn) = self.cached(object, index, label)? {
            return Ok(Cached { pfn, read_in: false });
        }
        if !matches!(self.objects.get(object).kind, ObjectKind::File(_)) {
            let pfn = self.allocate_page(FrameKind::Anonymous, object, index, Some((region, vpn)))?;
            let swapped = self.objects.get_mut(object).swapped.remove(&index);
            if swapped {
                self.charge_swap_in();
                self.frames.get_mut(pfn).dirty = true;
            } else {
                self.zero(pfn, 1, label);
            }
            self.add_to_cache(object, index, pfn);
            self.pin(Some(pfn));
            return Ok(Cached { pfn, read_in: swapped });
        }
        let pages = self.fill_window(object, index, label)?;
        self.accounting.file_read(1, pages << self.base().0, label);
        let pfn = self.resident(object, index).ok_or_else(|| self.out_of_memory(0))?;
        Ok(Cached { pfn, read_in: true })
    }

    /// Allocates frames for all absent pages of the aligned read-in window around `index`, up to the end of the file;
    /// contiguous ones where that is possible, as for large folios. Returns their number.
    fn fill_window(&mut self, object: ObjectId, index: u64, label: Label) -> Result<u64, OutOfMemory> {
        if let Some(pages) = self.fill_with_folio(object, index) {
            return Ok(pages);
        }
        let (base, wanted) = (self.base(), index);
        let window = (self.options().read_in >> base.0).max(1);
        let first = index & !(window - 1);
        let file_pages = self.objects.get(object).len.map_or(u64::MAX, |len| len.div_ceil(base.bytes()));
        // A touch beyond the end of the file, a bus error on a real system, still has to be answered.
        let end = (first + window).min(file_pages).max(index + 1);
        let absent: Vec<u64> =
            (first..end).filter(|index| !self.objects.get(object).pages.contains_key(index)).collect();
        if absent.len() as u64 == window
            && self.frames.reservations.is_none()
            && let Some(block) = self.frames.allocate(window.ilog2() as u8, FrameKind::File, object, first)
        {
            for (i, &index) in absent.iter().enumerate() {
                self.add_to_cache(object, index, block + i as u64);
            }
            return Ok(window);
        }
        for &index in &absent {
            let pfn = self.allocate_page(FrameKind::File, object, index, None)?;
            self.charge_digest(label);
            self.add_to_cache(object, index, pfn);
            if index != wanted {
                // The neighbours of the wanted page are not in use yet.
                self.frames.deactivate(pfn);
            }
        }
        Ok(absent.len() as u64)
    }

    /// Adds a page to the page cache.
    pub(crate) fn add_to_cache(&mut self, object: ObjectId, index: u64, pfn: Pfn) {
        self.frames.cache(pfn);
        self.objects.add_page(object, index, pfn);
    }

    /// Allocates a block of `2^order` frames, after reclaiming memory if there is none.
    ///
    /// # Errors
    /// When reclaiming does not yield such a block.
    pub fn allocate(&mut self, order: u8, kind: FrameKind, object: ObjectId, index: u64) -> Result<Pfn, OutOfMemory> {
        let mut pfn = self.frames.allocate(order, kind, object, index);
        if pfn.is_none() {
            self.make_room(order)?;
            pfn = self.frames.allocate(order, kind, object, index);
        }
        self.forget_dropped();
        pfn.ok_or_else(|| self.out_of_memory(order))
    }

    /// Removes from their files the cache pages whose frames were allocated to others.
    pub(crate) fn forget_dropped(&mut self) {
        for (object, index) in self.frames.take_dropped() {
            if self.objects.exists(object) {
                self.objects.remove_page(object, index);
            }
        }
    }

    /// Returns the error for a block of `2^order` frames.
    pub(crate) fn out_of_memory(&self, order: u8) -> OutOfMemory {
        OutOfMemory { wanted: Bytes(self.base().bytes() << order), memory: Bytes(self.options().memory) }
    }
}
