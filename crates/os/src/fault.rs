//! Demand paging as Linux does it, for the running process: first touches, fault-around, copy on write, stack growth.
//!
//! Function names of Linux's `mm/memory.c` are given where one is followed. Systems with superpages handle what is
//! theirs and leave the rest to [`Vm::demand_fault`].

mod page_cache;
mod preferred;
mod superpage;

pub use superpage::Superpage;

use crate::{FaultKind, FrameKind, ObjectId, ObjectKind, OutOfMemory, PageView, Region, Vm, soft};
use reach_core::{Asid, Fault, Kind, Label, MappedPage, PageShift, Pfn, Protection, Pte, Role, Shootdown, Vpn};

/// Whether these rights allow this kind of reference. As on the simulated machines, whoever may write or fetch may read.
fn allows(rights: Protection, kind: Kind) -> bool {
    match kind {
        Kind::Fetch => rights.execute,
        Kind::Load => rights.read || rights.write || rights.execute,
        Kind::Store => rights.write,
    }
}

impl Vm {
    /// Answers a fault of the running process with base pages, so that the reference can be retried.
    pub fn demand_fault(&mut self, fault: Fault) -> Result<(), OutOfMemory> {
        let view = self.fault_view(fault)?;
        self.demand_fault_in(fault, view)
    }

    /// [`Vm::demand_fault`] when the region has been looked up by [`Vm::fault_view`], once for each fault.
    pub fn demand_fault_in(&mut self, fault: Fault, view: PageView) -> Result<(), OutOfMemory> {
        let asid = self.current;
        let done = match self.at(asid).table().page(fault.vpn) {
            Some(entry) => self.present_fault(asid, fault, view, entry),
            None if self.in_swap(asid, fault.vpn) => self.swap_in(asid, fault, &view),
            None if view.region.anonymous() => self.anonymous_fault(asid, fault, view),
            None => self.object_fault(asid, fault, view),
        };
        self.pin(None);
        done
    }

    /// The region that a fault of the running process is about, grown or made if there is none, and the rights of the
    /// page. A reference that the program has no right to is let through and counted: the program did run, so either
    /// it handled the signal or the source missed a change of rights.
    pub fn fault_view(&mut self, fault: Fault) -> Result<PageView, OutOfMemory> {
        let asid = self.current;
        self.ensure(asid)?;
        let mut view = match self.at(asid).space.page(fault.vpn, 1, self.base()) {
            Some(view) => view,
            None => self.grow_stack(asid, fault.vpn).unwrap_or_else(|| self.map_stray(asid, fault.vpn)),
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

    /// Charges for a fault and counts it. `major`: it waited for a file.
    pub fn charge_fault(&mut self, asid: Asid, kind: FaultKind, major: bool) {
        let costs = &self.options().costs;
        let path = if kind == FaultKind::File { costs.file_fault } else { costs.fault };
        // Pages that the kernel populates count as faults (GUP does so in Linux) but nobody traps.
        let trap = if self.from_kernel { 0 } else { costs.trap };
        self.ledger.charge(Label::Fault, path + trap);
        self.tally(asid, |c| {
            c.fault(kind);
            c.major_faults += u64::from(major);
        });
    }

    /// An entry for a page with these rights; `writable` further restricts them.
    pub fn entry(&self, pfn: Pfn, shift: PageShift, rights: Protection, writable: bool) -> Pte {
        Pte::new(pfn, shift).with_executable(rights.execute).with_writable(rights.write && writable)
    }

    /// A zeroed frame for the private page `vpn` of `region`.
    pub(crate) fn private_frame(&mut self, asid: Asid, region: &Region, vpn: Vpn) -> Result<Pfn, OutOfMemory> {
        self.own(asid, vpn, 1);
        // A private copy of a file's page is no page of the file.
        if region.file || region.shared {
            return self.allocate(0, FrameKind::Anonymous, ObjectId::NONE, 0);
        }
        let index = region.index(vpn, self.base());
        self.page_frame(FrameKind::Anonymous, region.object, index, Some((region, vpn)))
    }

    /// `do_anonymous_page`.
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

    /// `do_cow_fault`, `do_shared_fault` and `do_read_fault`: first touch of a file's page or of shared memory.
    fn object_fault(&mut self, asid: Asid, fault: Fault, view: PageView) -> Result<(), OutOfMemory> {
        let base = self.base();
        let region = view.region;
        let store = fault.kind == Kind::Store;
        let page = self.cache_page(&region, fault.vpn, Label::Fault)?;
        self.frames.enqueue(page.pfn);
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

    /// `do_fault_around`: maps resident pages near a page that was just read, within its window, its region and its
    /// page-table node.
    fn fault_around(&mut self, asid: Asid, vpn: Vpn, view: &PageView) -> Result<(), OutOfMemory> {
        let base = self.base();
        let region = &view.region;
        let window = self.options().fault_around >> base.0;
        if window <= 1 {
            return Ok(());
        }
        let pages = region.pages(base);
        let node_end = (vpn.0 | ((1 << self.options().layout.bits[0]) - 1)) + 1;
        // A window that the region's start cuts off is as long as any: Linux counts it from there.
        let first = (vpn.0 & !(window - 1)).max(pages.start);
        let end = (first + window).min(node_end).min(pages.end);
        let object = self.objects().get(region.object);
        let object_end = match object.kind {
            ObjectKind::File(_) => object.len.map_or(u64::MAX, |len| len.div_ceil(base.bytes())),
            _ => u64::MAX,
        };
        let mut mapped = 0;
        for at in (first..end).map(Vpn) {
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
        self.ledger.charge(Label::Fault, mapped * self.options().costs.fault_around_page);
        self.tally(asid, |c| c.fault_around_pages += mapped);
        Ok(())
    }

    /// There is a translation, but it did not do: copy on write, a right newly given, or nothing at all.
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
            self.shootdowns.push(Shootdown { asid, vpn: entry.vpn, pages });
            return self
                .protect(asid, entry.vpn, pages, Label::Fault, |_, entry| entry.pte.with_executable(executable));
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
        // A shared page made as one is copied as one (`hugetlb_wp`).
        if entry.pte.soft() & soft::WHOLE != 0
            && let Ok(pfn) = self.allocate(entry.pte.shift().order(base), FrameKind::Anonymous, ObjectId::NONE, 0)
        {
            let new = entry.pte.with_pfn(pfn).with_writable(true).with_executable(executable);
            let new = self.touched(new, Kind::Store);
            return self.migrate(asid, entry.vpn, new, Label::Fault);
        }
        // Any other shared superpage is broken, and the base page copied (`do_huge_pmd_wp_page`).
        self.demote_for(asid, fault.vpn, Label::Fault)?;
        let pte = self.at(asid).table().lookup(fault.vpn).expect("demotion keeps the page");
        if self.sole_owner(pte.pfn(), 1) {
            return self.protect(asid, fault.vpn, 1, Label::Fault, Vm::stored);
        }
        let pfn = self.private_frame(asid, &view.region, fault.vpn)?;
        let new = Pte::new(pfn, base).with_executable(executable).with_writable(true);
        self.migrate(asid, fault.vpn, self.touched(new, Kind::Store), Label::Fault)
    }

    /// Whether nobody else maps these frames, and no cache holds them.
    pub fn sole_owner(&self, pfn: Pfn, frames: u64) -> bool {
        (pfn.0..pfn.0 + frames).all(|at| {
            let frame = self.frames.get(Pfn(at));
            frame.kind == FrameKind::Anonymous && frame.maps == 1 && !frame.cached
        })
    }

    /// Extends the stack above `vpn` down to it, if there is one that may grow so far (`expand_stack`).
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

    /// Makes an implicit anonymous mapping where there is none: a capture may miss what the kernel maps by itself, and
    /// foreign traces know no mappings at all.
    fn map_stray(&mut self, asid: Asid, vpn: Vpn) -> PageView {
        let base = self.base();
        let at = vpn.0 << base.0;
        let process = self.at(asid);
        let size = if process.maps_seen { base.bytes() } else { self.options().implicit_region.max(base.bytes()) };
        let low = at & !(size - 1);
        let floor = process.space.overlapping(low, at).last().map_or(low, |region| region.end);
        let end = process.space.next(at).map_or(low + size, |next| next.start.min(low + size));
        let region = Region::anonymous_at(floor, end, Protection { read: true, write: true, execute: true });
        self.tally(asid, |c| c.stray += 1);
        self.add_region(asid, region);
        self.at(asid).space.page(vpn, 1, base).expect("the region was just made")
    }
}

/// Whether translations of this region may be writable before the first store. Stores to files are noticed (for
/// write-back), those to shared memory are not.
fn writable_at_once(region: &Region) -> bool {
    region.shared && !region.file
}
