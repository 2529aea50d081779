//! Taking a page from memory, and bringing it back.

use crate::{FaultKind, FrameKind, ObjectId, ObjectKind, OutOfMemory, PageView, Vm};
use reach_core::{Asid, Fault, Kind, Label, Pfn, Vpn};

impl Vm {
    /// The page at `pfn` leaves memory: its translations go, what is dirty is written out, and the frame is free, or,
    /// if it holds a page of a file, a cache page.
    pub(crate) fn evict(&mut self, pfn: Pfn) -> Result<(), OutOfMemory> {
        let dirty = self.is_dirty(pfn);
        if dirty {
            self.write_out(pfn);
        }
        // Demotion may need memory, too; it is not to come from here.
        self.hold(pfn, 1);
        let done = self.take_out(pfn, dirty);
        self.let_go(1);
        self.frames.top_up();
        self.forget_dropped();
        done
    }

    fn take_out(&mut self, pfn: Pfn, dirty: bool) -> Result<(), OutOfMemory> {
        let frame = self.frames.get(pfn);
        // A private frame is freed with its last translation, and each of them will look for it in swap.
        for (asid, vpn) in self.frames.translations(pfn) {
            self.unmap(asid, vpn, 1, Label::Daemon)?;
            if dirty && !frame.cached {
                self.at_mut(asid).swapped.insert(vpn.0);
            }
        }
        if !frame.cached {
            return Ok(());
        }
        self.frames.clean(pfn);
        if frame.kind == FrameKind::File && self.pager.as_ref().is_some_and(|pager| pager.how.cache) {
            self.frames.shelve(pfn);
            self.paged(|counts| counts.cached += 1);
            return Ok(());
        }
        self.objects.leave(frame.object, frame.index);
        // What is dirty of a file has gone to the file.
        if dirty && frame.kind != FrameKind::File {
            self.objects.get_mut(frame.object).swapped.insert(frame.index);
        }
        self.frames.uncache(pfn);
        Ok(())
    }

    /// Charges for the dirty page at `pfn` being written to the disk, in clusters as large as what is read in at once.
    /// Where digests are kept it is hashed first, and not written if it is unchanged.
    pub(crate) fn write_out(&mut self, pfn: Pfn) {
        let file = self.frames.get(pfn).kind == FrameKind::File;
        if file && self.hash_page(Label::Daemon) && !self.frames.get(pfn).written {
            self.paged(|counts| counts.unchanged += 1);
            return;
        }
        self.flush_shadow(pfn);
        let bytes = self.base().bytes();
        let costs = &self.options.costs;
        let cluster = (self.options.read_in / bytes).max(1);
        let cycles = costs.file_read / cluster + bytes * costs.file_read_millicycles_per_byte / 1000;
        self.ledger.charge(Label::Daemon, cycles);
        self.paged(|counts| counts.out += 1);
    }

    /// Charges for the digest of a page. Returns whether digests are kept.
    pub(crate) fn hash_page(&mut self, label: Label) -> bool {
        let Some(millicycles) = self.superpages.as_ref().and_then(|how| how.digest) else { return false };
        self.ledger.charge(label, self.base().bytes() * millicycles / 1000);
        true
    }

    /// A store to `pfn` was seen.
    pub(crate) fn note_written(&mut self, pfn: Pfn) {
        if self.superpages.as_ref().is_some_and(|how| how.digest.is_some()) {
            self.frames.get_mut(pfn).written = true;
        }
    }

    /// Nobody maps this file any more. What is dirty of it is written, as the syncer would soon do; clean pages become
    /// inactive where the page daemon wants that (§5.1).
    pub(crate) fn last_close(&mut self, id: ObjectId) {
        let object = self.objects.get(id);
        let file = matches!(object.kind, ObjectKind::File(_));
        let Some(inactive) = self.pager.as_ref().map(|pager| pager.how.last_close) else { return };
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
                self.frames.clean(pfn);
            }
            if inactive {
                self.frames.deactivate(pfn);
            }
        }
    }

    /// Charges for one page read from swap, for which the program waits.
    pub(crate) fn read_back(&mut self) {
        let costs = &self.options.costs;
        let cycles = costs.file_read + self.base().bytes() * costs.file_read_millicycles_per_byte / 1000;
        self.ledger.charge(Label::Fault, cycles);
        self.paged(|counts| counts.swapped_in += 1);
    }

    /// Answers a fault on a private page that is in swap. The copy there is given up.
    pub(crate) fn swap_in(&mut self, asid: Asid, fault: Fault, view: &PageView) -> Result<(), OutOfMemory> {
        self.charge_fault(asid, FaultKind::Anonymous, true);
        let pfn = self.private_frame(asid, &view.region, fault.vpn)?;
        self.read_back();
        let pte = self.entry(pfn, self.base(), view.protection, true);
        // Only memory holds it now.
        let pte = self.touched(pte, Kind::Store).with_dirty(true);
        self.map(asid, fault.vpn, pte, Label::Fault)
    }

    /// Whether the page is in swap.
    pub fn in_swap(&self, asid: Asid, vpn: Vpn) -> bool {
        self.pager.is_some() && self.at(asid).swapped.contains(&vpn.0)
    }

    /// Pages of this range that are in swap, from its start.
    pub(crate) fn swapped(&self, asid: Asid, vpn: Vpn, pages: u64) -> Vec<u64> {
        self.at(asid).swapped.range(vpn.0..vpn.0.saturating_add(pages)).map(|&at| at - vpn.0).collect()
    }

    /// Whatever of this range is in swap is given up.
    pub(crate) fn forget_swapped(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        if self.pager.is_some() {
            for offset in self.swapped(asid, vpn, pages) {
                self.at_mut(asid).swapped.remove(&(vpn.0 + offset));
            }
        }
    }
}
