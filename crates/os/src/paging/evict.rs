//! Eviction: taking a page from memory, and bringing it back from swap.

use crate::{FaultKind, FrameKind, ObjectId, ObjectKind, OutOfMemory, PageView, Vm};
use reach_core::{Asid, Fault, Kind, Label, Pfn, Vpn};

impl Vm {
    /// Evicts the page at `pfn`: removes its translations, writes it out if it is dirty, and frees the frame. A page of a file may
    /// become a cache page.
    pub(crate) fn evict(&mut self, pfn: Pfn) -> Result<(), OutOfMemory> {
        let dirty = self.is_dirty(pfn);
        if dirty {
            self.write_out(pfn);
        }
        // Demotion may need memory, too, which must not come from this frame.
        self.hold(pfn, 1);
        let done = self.remove_page(pfn, dirty);
        self.release_held(1);
        self.frames.top_up();
        self.forget_dropped();
        done
    }

    fn remove_page(&mut self, pfn: Pfn, dirty: bool) -> Result<(), OutOfMemory> {
        let frame = self.frames.get(pfn);
        // A private frame is freed with its last translation. Each process finds the page in swap later.
        for (asid, vpn) in self.frames.translations(pfn) {
            self.unmap(asid, vpn, 1, Label::Daemon)?;
            if dirty && !frame.cached {
                self.at_mut(asid).swapped.insert(vpn.0);
            }
        }
        if !frame.cached {
            return Ok(());
        }
        self.frames.mark_clean(pfn);
        if frame.kind == FrameKind::File && self.pager.as_ref().is_some_and(|pager| pager.settings.cache) {
            self.frames.make_cache_page(pfn);
            self.count_paging(|counts| counts.cached += 1);
            return Ok(());
        }
        self.objects.remove_page(frame.object, frame.index);
        // A dirty page of a file was written to the file.
        if dirty && frame.kind != FrameKind::File {
            self.objects.get_mut(frame.object).swapped.insert(frame.index);
        }
        self.frames.uncache(pfn);
        Ok(())
    }

    /// Charges for writing the dirty page at `pfn` to the disk, in clusters as large as a read-in. Where digests are kept, a page of
    /// a file is hashed first, and not written if it is unchanged.
    pub(crate) fn write_out(&mut self, pfn: Pfn) {
        let file = self.frames.get(pfn).kind == FrameKind::File;
        if file && self.charge_digest(Label::Daemon) && !self.frames.get(pfn).written {
            self.count_paging(|counts| counts.unchanged += 1);
            return;
        }
        self.flush_shadow(pfn);
        let bytes = self.base().bytes();
        let cluster = (self.options.read_in / bytes).max(1);
        self.accounting.disk(1, cluster, bytes, Label::Daemon);
        self.count_paging(|counts| counts.out += 1);
    }

    /// Charges for the digest of a page, where digests are kept. Returns whether they are.
    pub(crate) fn charge_digest(&mut self, label: Label) -> bool {
        let Some(cost) = self.superpages.as_ref().and_then(|policy| policy.digest) else { return false };
        self.charge(label, cost.times(self.base().bytes()).0);
        true
    }

    /// Records that a store to `pfn` was noticed, where digests are kept.
    pub(crate) fn note_written(&mut self, pfn: Pfn) {
        if self.superpages.as_ref().is_some_and(|policy| policy.digest.is_some()) {
            self.frames.get_mut(pfn).written = true;
        }
    }

    /// Handles the end of a file's last mapping. Dirty pages are written, as the syncer would soon do; clean pages become inactive
    /// if the page daemon is set so (§5.1). Does nothing while the file is mapped.
    pub(crate) fn last_close(&mut self, id: ObjectId) {
        let object = self.objects.get(id);
        let file = matches!(object.kind, ObjectKind::File(_));
        let Some(inactive) = self.pager.as_ref().map(|pager| pager.settings.last_close) else { return };
        if object.mapped > 0 || !file {
            return;
        }
        for pfn in object.pages.values().copied().collect::<Vec<_>>() {
            let frame = self.frames.get(pfn);
            if frame.kind != FrameKind::File || frame.maps > 0 {
                continue;
            }
            if frame.dirty {
                self.write_out(pfn);
                self.frames.mark_clean(pfn);
            }
            if inactive {
                self.frames.deactivate(pfn);
            }
        }
    }

    /// Charges for one page read from swap, for which the program waits.
    pub(crate) fn charge_swap_in(&mut self) {
        self.accounting.disk(1, 1, self.base().bytes(), Label::Fault);
        self.count_paging(|counts| counts.swapped_in += 1);
    }

    /// Answers a fault on a private page that is in swap. The copy in swap is dropped.
    pub(crate) fn swap_in(&mut self, asid: Asid, fault: Fault, view: &PageView) -> Result<(), OutOfMemory> {
        self.charge_fault(asid, FaultKind::Anonymous, true);
        let pfn = self.private_frame(asid, &view.region, fault.vpn)?;
        self.charge_swap_in();
        let pte = self.entry(pfn, self.base(), view.protection, true);
        // Only memory holds the page now.
        let pte = self.touched(pte, Kind::Store).with_dirty(true);
        self.map(asid, fault.vpn, pte, Label::Fault)
    }

    /// Returns whether the page is in swap.
    pub fn in_swap(&self, asid: Asid, vpn: Vpn) -> bool {
        self.pager.is_some() && self.at(asid).swapped.contains(&vpn.0)
    }

    /// Returns the private pages among the `pages` base pages from `vpn` on that are in swap, as offsets from `vpn`.
    pub(crate) fn swapped(&self, asid: Asid, vpn: Vpn, pages: u64) -> Vec<u64> {
        self.at(asid).swapped.range(vpn.0..vpn.0.saturating_add(pages)).map(|&at| at - vpn.0).collect()
    }

    /// Drops the copies in swap of the `pages` base pages from `vpn` on.
    pub(crate) fn forget_swapped(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        if self.pager.is_some() {
            for offset in self.swapped(asid, vpn, pages) {
                self.at_mut(asid).swapped.remove(&(vpn.0 + offset));
            }
        }
    }
}
