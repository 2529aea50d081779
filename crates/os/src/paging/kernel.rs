//! The kernel's own records, which take wired memory: what makes contiguity irrecoverable (Navarro et al. §5.2).
//!
//! As in FreeBSD 4, records of one kind come from a zone of pages of their own, which takes a page when all it has are
//! full and never gives one back (`vm_zone.c`). Sizes are estimates for 64-bit pointers, from the structures of 4.3 with
//! 32-bit ones: they may be a quarter smaller or larger.

use crate::{OutOfMemory, Vm};

/// `pv_entry`: one for each translation of a base page.
const TRANSLATION: u64 = 56;
/// `vm_map_entry`: one for each region.
const REGION: u64 = 96;
/// Vnode, inode, name-cache entry and memory object of a file. A vnode is not used for another file while pages of
/// its own are in memory.
const FILE: u64 = 320 + 512 + 128 + 176;
/// `proc`, user area and kernel stack: 16 KB and a half.
const PROCESS: u64 = 16 * 1024 + 512;

/// Pages that each zone has.
#[derive(Default)]
pub(crate) struct Zones {
    pages: [u64; 4],
}

impl Vm {
    /// Sees to it that the kernel has room for its records, where the system has wired memory at all. Not while
    /// translations are being changed.
    pub(crate) fn keep_records(&mut self) -> Result<(), OutOfMemory> {
        if self.pager.as_ref().is_none_or(|pager| pager.running) {
            return Ok(());
        }
        self.as_daemon(Vm::stock_pool)?;
        let regions = self.processes.values().map(|process| process.space.count()).sum();
        let records = [
            (self.frames.translated, TRANSLATION),
            (regions, REGION),
            (self.objects.backed(), FILE),
            (self.processes.len() as u64, PROCESS),
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

impl super::Pager {
    /// Pages that hold the kernel's records.
    pub(crate) fn recorded(&self) -> u64 {
        self.zones.pages.iter().sum()
    }
}

impl crate::Frames {
    /// Wired pages that hold nothing: in the pool, in the emergency store, and roots that are not in use.
    pub(crate) fn kept_for_the_kernel(&self) -> u64 {
        let pooled = self.wired.as_ref().map_or(0, crate::memory::WiredPool::unused);
        let roots: u64 = self.spare_roots.iter().map(|&(_, order)| 1 << order).sum();
        pooled + roots + self.emergency.len() as u64
    }
}
