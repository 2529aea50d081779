//! The kernel's own records, which take wired memory and so make fragmentation permanent (Navarro et al. §5.2).
//!
//! As in FreeBSD 4, records of one kind come from a zone of pages of their own, which takes a page when its pages are full and never
//! frees one (`vm_zone.c`). Record sizes are estimates for 64-bit pointers, from the structures of 4.3 with 32-bit ones: they may be
//! off by a quarter.

use crate::{OutOfMemory, Vm};

/// Bytes of a `pv_entry`: one per translation of a base page.
const TRANSLATION: u64 = 56;
/// Bytes of a `vm_map_entry`: one per region.
const REGION: u64 = 96;
/// Bytes of the vnode, inode, name-cache entry and memory object of a file. A vnode is not reused while pages of its file are in
/// memory.
const FILE: u64 = 320 + 512 + 128 + 176;
/// Bytes of `proc`, user area and kernel stack: 16.5 KB per process.
const PROCESS: u64 = 16 * 1024 + 512;

/// The number of pages of each zone.
#[derive(Default)]
pub(crate) struct Zones {
    pub(super) pages: [u64; 4],
}

impl Vm {
    /// Allocates wired memory for the kernel's records, where there is a page daemon. Do not call while translations are being
    /// changed.
    ///
    /// # Errors
    /// When reclaiming memory does not yield a frame.
    pub(crate) fn reserve_kernel_records(&mut self) -> Result<(), OutOfMemory> {
        if self.pager.as_ref().is_none_or(|pager| pager.running) {
            return Ok(());
        }
        self.as_daemon(Vm::stock_pool)?;
        let regions = self.processes.iter().map(|(_, process)| process.space.count()).sum();
        let records = [
            (self.frames.translated, TRANSLATION),
            (regions, REGION),
            (self.objects.files_in_memory(), FILE),
            (self.processes.count() as u64, PROCESS),
        ];
        let Some(has) = self.pager.as_ref().map(|pager| pager.zones.pages) else { return Ok(()) };
        for (zone, (count, bytes)) in records.into_iter().enumerate() {
            for _ in has[zone]..(count * bytes).div_ceil(self.base().bytes()) {
                if self.frames.wire().is_none() {
                    self.make_room(0)?;
                    self.frames.wire().ok_or_else(|| self.out_of_memory(0))?;
                }
                if let Some(pager) = &mut self.pager {
                    pager.zones.pages[zone] += 1;
                }
            }
        }
        self.forget_dropped();
        Ok(())
    }
}

impl crate::Frames {
    /// Returns the number of wired frames that hold nothing: in the pool, in the emergency store, and roots that are not in use.
    pub(crate) fn unused_kernel_frames(&self) -> u64 {
        let pooled = self.wired.as_ref().map_or(0, crate::memory::WiredPool::unused);
        let roots: u64 = self.spare_roots.iter().map(|&(_, order)| 1 << order).sum();
        pooled + roots + self.emergency.len() as u64
    }
}
