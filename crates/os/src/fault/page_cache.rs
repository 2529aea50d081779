//! The page cache: pages of files and of shared memory by (object, index), for all processes, outliving them.

use crate::{FrameKind, ObjectId, ObjectKind, OutOfMemory, Region, Vm};
use reach_core::{Bytes, Label, Pfn, Vpn};

/// A page found in, or brought into, the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cached {
    pub(crate) pfn: Pfn,
    /// It had to be read in.
    pub(crate) read_in: bool,
}

impl Vm {
    /// Page `index` of `object`, if it counts as resident. A warm cache holds every page of every file.
    pub(crate) fn cached(&mut self, object: ObjectId, index: u64, label: Label) -> Result<Option<Pfn>, OutOfMemory> {
        if let Some(pfn) = self.resident(object, index) {
            return Ok(Some(pfn));
        }
        let file = matches!(self.objects.get(object).kind, ObjectKind::File(_));
        if file && self.options().warm {
            // That was before the program, so that it has not cost it anything.
            let before = self.ledger.clone();
            self.fill_window(object, index, label)?;
            self.account(label);
            self.ledger = before;
            return Ok(self.resident(object, index));
        }
        Ok(None)
    }

    /// Page `index` of `object`, if it is in memory. A cache page is in use again.
    fn resident(&mut self, object: ObjectId, index: u64) -> Option<Pfn> {
        let pfn = *self.objects.get(object).pages.get(&index)?;
        if self.frames.get(pfn).kind == FrameKind::Cache {
            self.frames.revive(pfn);
            self.paged(|counts| counts.reactivated += 1);
        }
        self.pin(Some(pfn));
        Some(pfn)
    }

    /// The page behind `vpn` of `region`, brought in if need be: shared memory is zeroed, files are read in by the window.
    pub(crate) fn cache_page(&mut self, region: &Region, vpn: Vpn, label: Label) -> Result<Cached, OutOfMemory> {
        let (object, index) = (region.object, region.index(vpn, self.base()));
        self.frames.align(object, index, vpn.0);
        if let Some(pfn) = self.cached(object, index, label)? {
            return Ok(Cached { pfn, read_in: false });
        }
        if !matches!(self.objects.get(object).kind, ObjectKind::File(_)) {
            let pfn = self.page_frame(FrameKind::Anonymous, object, index, Some((region, vpn)))?;
            let swapped = self.objects.get_mut(object).swapped.remove(&index);
            if swapped {
                self.read_back();
                self.frames.get_mut(pfn).dirty = true;
            } else {
                self.zero(pfn, 1, label);
            }
            self.enter(object, index, pfn);
            self.pin(Some(pfn));
            return Ok(Cached { pfn, read_in: swapped });
        }
        let pages = self.fill_window(object, index, label)?;
        self.charge_read(1, pages << self.base().0, label);
        let pfn = self.resident(object, index).ok_or_else(|| self.out_of_memory(0))?;
        Ok(Cached { pfn, read_in: true })
    }

    /// Charges for reading a file: so many requests, so many bytes.
    pub(crate) fn charge_read(&mut self, requests: u64, bytes: u64, label: Label) {
        self.counters.bytes_read_in += bytes;
        let costs = &self.options.costs;
        let cycles = requests * costs.file_read + bytes * costs.file_read_millicycles_per_byte / 1000;
        self.ledger.charge(label, cycles);
    }

    /// Gives frames to all pages of the aligned read-in window around `index` that have none, up to the end of the
    /// file; contiguous ones where that is possible, as large folios are. Returns how many.
    fn fill_window(&mut self, object: ObjectId, index: u64, label: Label) -> Result<u64, OutOfMemory> {
        let (base, wanted) = (self.base(), index);
        let window = (self.options().read_in >> base.0).max(1);
        let first = index & !(window - 1);
        let file_pages = self.objects.get(object).len.map_or(u64::MAX, |len| len.div_ceil(base.bytes()));
        // A touch beyond the end of the file (a bus error in life) still has to be answered.
        let end = (first + window).min(file_pages).max(index + 1);
        let absent: Vec<u64> =
            (first..end).filter(|index| !self.objects.get(object).pages.contains_key(index)).collect();
        if absent.len() as u64 == window
            && self.frames.reservations.is_none()
            && let Some(block) = self.frames.allocate(window.ilog2() as u8, FrameKind::File, object, first)
        {
            for (i, &index) in absent.iter().enumerate() {
                self.enter(object, index, block + i as u64);
            }
            return Ok(window);
        }
        for &index in &absent {
            let pfn = self.page_frame(FrameKind::File, object, index, None)?;
            self.hash_page(label);
            self.enter(object, index, pfn);
            if index != wanted {
                // What is read in besides is not in use yet.
                self.frames.deactivate(pfn);
            }
        }
        Ok(absent.len() as u64)
    }

    pub(crate) fn enter(&mut self, object: ObjectId, index: u64, pfn: Pfn) {
        self.frames.cache(pfn);
        self.objects.enter(object, index, pfn);
    }

    /// A block of `2^order` frames. When there is none, room is made ([`Vm::make_room`]), and it is tried once more.
    pub fn allocate(&mut self, order: u8, kind: FrameKind, object: ObjectId, index: u64) -> Result<Pfn, OutOfMemory> {
        let mut pfn = self.frames.allocate(order, kind, object, index);
        if pfn.is_none() {
            self.make_room(order)?;
            pfn = self.frames.allocate(order, kind, object, index);
        }
        self.forget_dropped();
        pfn.ok_or_else(|| self.out_of_memory(order))
    }

    /// Files no longer have those cache pages whose frames went to others.
    pub(crate) fn forget_dropped(&mut self) {
        for (object, index) in self.frames.take_dropped() {
            if self.objects.lives(object) {
                self.objects.leave(object, index);
            }
        }
    }

    pub(crate) fn out_of_memory(&self, order: u8) -> OutOfMemory {
        OutOfMemory { wanted: Bytes(self.base().bytes() << order), memory: Bytes(self.options().memory) }
    }
}
