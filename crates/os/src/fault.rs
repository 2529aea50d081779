//! Demand paging as Linux does it, for the running process: first touches, fault-around, copy on write, stack growth.
//!
//! Functions name their models in Linux's `mm/memory.c`. Systems with superpages handle their own faults and leave the rest to
//! [`Vm::demand_fault`].

mod folio;
mod page_cache;
mod preferred;
mod superpage;

pub use superpage::Superpage;

use crate::{FaultKind, FrameKind, ObjectId, ObjectKind, OutOfMemory, PageView, Region, Vm, soft};
use reach_core::{Asid, Fault, Kind, Label, MappedPage, PageShift, Pfn, Protection, Pte, Role, Vpn};

/// Returns whether these rights allow this kind of reference. As on the simulated machines, memory that can be written or
/// executed can be read.
fn allows(rights: Protection, kind: Kind) -> bool {
    match kind {
        Kind::Fetch => rights.execute,
        Kind::Load => rights.read || rights.write || rights.execute,
        Kind::Store => rights.write,
    }
}

impl Vm {
    /// Answers a fault of the running process with base pages, so that the reference can be retried.
    ///
    /// # Errors
    /// When memory is used up.
    pub fn demand_fault(&mut self, fault: Fault) -> Result<(), OutOfMemory> {
        let view = self.fault_view(fault)?;
        self.demand_fault_in(fault, view)
    }

    /// Does what [`Vm::demand_fault`] does, for a page that [`Vm::fault_view`] has looked up. Call both once per fault.
    pub fn demand_fault_in(&mut self, fault: Fault, view: PageView) -> Result<(), OutOfMemory> {
        let asid = self.current();
        let done = match self.at(asid).table().page(fault.vpn) {
            Some(entry) => self.present_fault(asid, fault, view, entry),
            None if self.in_swap(asid, fault.vpn) => self.swap_in(asid, fault, &view),
            None if view.region.anonymous() => self.anonymous_fault(asid, fault, view),
            None => self.object_fault(asid, fault, view),
        };
        self.pin(None);
        done
    }

    /// Returns the region of the page on which the running process faulted, and the page's rights. Without a region, the
    /// stack grows or an implicit region is made. A reference without a right to the page is let through and counted: the
    /// program did run, so either it handled the signal or the source missed a change of rights.
    pub fn fault_view(&mut self, fault: Fault) -> Result<PageView, OutOfMemory> {
        let asid = self.current();
        self.ensure_process(asid)?;
        let mut view = match self.at(asid).space.page(fault.vpn, 1, self.base()) {
            Some(view) => view,
            None => self.grow_stack(asid, fault.vpn).unwrap_or_else(|| self.map_implicitly(asid, fault.vpn)),
        };
        if !allows(view.protection, fault.kind) {
            self.tally(asid, |c| c.violations += 1);
            match fault.kind {
                Kind::Fetch => view.protection.execute = true,
                Kind::Load => view.protection.read = true,
                Kind::Store => view.protection.write = true,
            }
        }
        Ok(view)
    }

    /// Returns an entry for a page with these rights, of which `writable` further restricts the right to write.
    pub fn entry(&self, pfn: Pfn, shift: PageShift, rights: Protection, writable: bool) -> Pte {
        Pte::new(pfn, shift).with_executable(rights.execute).with_writable(rights.write && writable)
    }

    /// Allocates a frame for the private page `vpn` of `region`; the caller fills it.
    pub(crate) fn private_frame(&mut self, asid: Asid, region: &Region, vpn: Vpn) -> Result<Pfn, OutOfMemory> {
        self.note_private_pages(asid, vpn, 1);
        // A private copy of a file's page does not belong to the file.
        if region.file || region.shared {
            return self.allocate(0, FrameKind::Anonymous, ObjectId::NONE, 0);
        }
        let index = region.index(vpn, self.base());
        self.allocate_page(FrameKind::Anonymous, region.object, index, Some((region, vpn)))
    }

    /// Answers a first touch of private anonymous memory (`do_anonymous_page`).
    fn anonymous_fault(&mut self, asid: Asid, fault: Fault, view: PageView) -> Result<(), OutOfMemory> {
        let base = self.base();
        if fault.kind != Kind::Store && self.options().zero_page {
            self.charge_fault(asid, FaultKind::ZeroPage, false);
            let pte = self.entry(self.zero_page(), base, view.protection, false);
            return self.map(asid, fault.vpn, pte, Label::Fault);
        }
        self.charge_fault(asid, FaultKind::Anonymous, false);
        let pfn = self.private_frame(asid, &view.region, fault.vpn)?;
        self.zero(pfn, 1, Label::Fault);
        let pte = self.touched(self.entry(pfn, base, view.protection, true), fault.kind);
        self.map(asid, fault.vpn, pte, Label::Fault)
    }

    /// Answers a first touch of a file's page or of shared memory (`do_cow_fault`, `do_shared_fault`, `do_read_fault`).
    fn object_fault(&mut self, asid: Asid, fault: Fault, view: PageView) -> Result<(), OutOfMemory> {
        let base = self.base();
        let region = view.region;
        let store = fault.kind == Kind::Store;
        let page = self.cache_page(&region, fault.vpn, Label::Fault)?;
        self.frames.activate(page.pfn);
        if store && !region.shared {
            self.charge_fault(asid, FaultKind::Cow, page.read_in);
            let pfn = self.private_frame(asid, &region, fault.vpn)?;
            self.copy(page.pfn, pfn, 1, Label::Fault);
            let pte = self.touched(self.entry(pfn, base, view.protection, true), Kind::Store);
            return self.map(asid, fault.vpn, pte, Label::Fault);
        }
        self.charge_fault(asid, FaultKind::File, page.read_in);
        let pte = self.entry(page.pfn, base, view.protection, writable_at_once(&region) || store);
        let pte = self.touched(pte, fault.kind);
        if store {
            self.note_written(page.pfn);
        }
        self.map(asid, fault.vpn, pte, Label::Fault)?;
        if !store {
            self.fault_around(asid, fault.vpn, &view)?;
        }
        Ok(())
    }

    /// Maps resident pages near a page that was just read, within its window, its region and its page-table node; and all of each
    /// block that the window touches, where region and node hold it (`do_fault_around`, and `filemap_map_folio_range` since Linux 6.18).
    fn fault_around(&mut self, asid: Asid, vpn: Vpn, view: &PageView) -> Result<(), OutOfMemory> {
        let base = self.base();
        let region = &view.region;
        let window = self.options().fault_around >> base.0;
        if window <= 1 {
            return Ok(());
        }
        let pages = region.pages(base);
        let node_end = (vpn.0 | ((1 << self.options().layout.bits[0]) - 1)) + 1;
        // A window that the region's start cuts off keeps its full length: Linux counts it from there.
        let first = (vpn.0 & !(window - 1)).max(pages.start);
        let end = (first + window).min(node_end).min(pages.end);
        let object = self.objects().get(region.object);
        let object_end = match object.kind {
            ObjectKind::File(_) => object.len.map_or(u64::MAX, |len| len.div_ceil(base.bytes())),
            _ => u64::MAX,
        };
        let mut mapped = 0;
        let mut next = first;
        while next < end {
            let block = self.whole_folio(region, Vpn(next)).unwrap_or(next..next + 1);
            next = block.end;
            for at in block.map(Vpn) {
                let index = region.index(at, base);
                let process = self.at(asid);
                let mine = process.space.page(at, 1, base).is_some_and(|view| view.region.start == region.start);
                if !mine || index >= object_end || process.table().find(at).is_some() || self.in_swap(asid, at) {
                    continue;
                }
                if let Some(pfn) = self.cached(region.object, index, Label::Fault)? {
                    let pte = self.watch(self.entry(pfn, base, view.protection, writable_at_once(region)));
                    self.map(asid, at, pte, Label::Fault)?;
                    mapped += 1;
                }
            }
        }
        self.charge(Label::Fault, mapped * self.options.costs.fault_around_page);
        self.tally(asid, |c| c.fault_around_pages += mapped);
        Ok(())
    }

    /// Answers a fault on a mapped page: copy on write, a right newly given, or nothing to do.
    fn present_fault(
        &mut self,
        asid: Asid,
        fault: Fault,
        view: PageView,
        entry: MappedPage,
    ) -> Result<(), OutOfMemory> {
        let base = self.base();
        let pages = entry.pte.shift().base_pages(base);
        let executable = entry.pte.executable() || fault.kind == Kind::Fetch;
        if fault.kind != Kind::Store || entry.pte.writable() {
            self.charge_fault(asid, FaultKind::Spurious, false);
            self.accounting.queue_shootdown(asid, entry.vpn, pages);
            return self
                .protect(asid, entry.vpn, pages, Label::Fault, |_, entry| entry.pte.with_executable(executable));
        }
        // The superpage of the page cache goes (`wp_huge_pmd`). Then the store is one to an absent page: of a private mapping here,
        // of a shared one when it is retried, because the system may map all of the superpage for it.
        if entry.pte.soft() & soft::REFAULT != 0 {
            self.demote(asid, fault.vpn, base, Label::Fault)?;
            return if view.region.shared { Ok(()) } else { self.object_fault(asid, fault, view) };
        }
        if view.region.shared {
            self.charge_fault(asid, FaultKind::WriteNotify, false);
            self.note_written(entry.pte.pfn() + (fault.vpn - entry.vpn));
            let (first, pages) = if self.partly_dirty() { (entry.vpn, pages) } else { (fault.vpn, 1) };
            return self.protect(asid, first, pages, Label::Fault, Vm::stored);
        }
        self.charge_fault(asid, FaultKind::Cow, false);
        if self.sole_owner(entry.pte.pfn(), pages) {
            return self.protect(asid, entry.vpn, pages, Label::Fault, Vm::stored);
        }
        // A shared page that must stay whole is copied as a whole (`hugetlb_wp`).
        if entry.pte.soft() & soft::WHOLE != 0
            && let Ok(pfn) = self.allocate(entry.pte.shift().order(base), FrameKind::Anonymous, ObjectId::NONE, 0)
        {
            let new = entry.pte.with_pfn(pfn).with_writable(true).with_executable(executable);
            let new = self.touched(new, Kind::Store);
            return self.migrate(asid, entry.vpn, new, Label::Fault);
        }
        // Any other shared superpage is demoted, and the base page copied (`do_huge_pmd_wp_page`).
        self.demote_for(asid, fault.vpn, Label::Fault)?;
        let pte = self.at(asid).table().lookup(fault.vpn).expect("demotion keeps the page");
        if self.sole_owner(pte.pfn(), 1) {
            return self.protect(asid, fault.vpn, 1, Label::Fault, Vm::stored);
        }
        let pfn = self.private_frame(asid, &view.region, fault.vpn)?;
        let new = Pte::new(pfn, base).with_executable(executable).with_writable(true);
        self.migrate(asid, fault.vpn, self.touched(new, Kind::Store), Label::Fault)
    }

    /// Returns whether exactly one translation points to each of these frames and the page cache holds none of them.
    pub fn sole_owner(&self, pfn: Pfn, frames: u64) -> bool {
        (pfn.0..pfn.0 + frames).all(|at| {
            let frame = self.frames.get(Pfn(at));
            frame.kind == FrameKind::Anonymous && frame.maps == 1 && !frame.cached
        })
    }

    /// Extends the stack above `vpn` down to it (`expand_stack`). Returns `None` when there is none that may grow so far.
    fn grow_stack(&mut self, asid: Asid, vpn: Vpn) -> Option<PageView> {
        let base = self.base();
        let start = vpn.0 << base.0;
        let stack = *self.at(asid).space.next(start)?;
        if stack.role != Role::Stack
            || stack.end - start > self.options().stack_limit
            || stack.offset < stack.start - start
        {
            return None;
        }
        let grown = stack.start - start;
        self.objects.retain(stack.object, grown);
        let region = Region { start, end: stack.start, offset: stack.offset - grown, ..stack };
        self.at_mut(asid).space.insert(region);
        self.at(asid).space.page(vpn, 1, base)
    }

    /// Makes an implicit anonymous mapping around `vpn`, where there is none: a capture may miss what the kernel maps by
    /// itself, and foreign traces know no mappings at all.
    fn map_implicitly(&mut self, asid: Asid, vpn: Vpn) -> PageView {
        let base = self.base();
        let at = vpn.0 << base.0;
        let process = self.at(asid);
        let size = if process.maps_seen { base.bytes() } else { self.options().implicit_region.max(base.bytes()) };
        let low = at & !(size - 1);
        let floor = process.space.overlapping(low, at).last().map_or(low, |region| region.end);
        let end = process.space.next(at).map_or(low + size, |next| next.start.min(low + size));
        let region = Region::anonymous_at(floor, end, Protection { read: true, write: true, execute: true });
        self.tally(asid, |c| c.implicit_mappings += 1);
        self.add_region(asid, region);
        self.at(asid).space.page(vpn, 1, base).expect("the region was just made")
    }
}

/// Returns whether translations of this region may be writable before the first store. Stores to files must be noticed (for
/// write-back); stores to shared memory need not.
fn writable_at_once(region: &Region) -> bool {
    region.shared && !region.file
}
