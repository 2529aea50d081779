//! Checks of what a hook asks for, and the names that it uses.

use crate::error::{failed, refused};
use pyo3::prelude::*;
use reach_core::{Asid, Label, PageShift, Pfn, Vpn};
use reach_os::{Counters, FaultKind, FrameKind, PastEnd, Process, Superpages, Vm};

/// Questions to a memory manager whose answers a hook's arguments must agree with.
pub trait Checked {
    /// Returns a live process: this one, or the one that runs.
    fn live(&self, process: Option<u32>) -> PyResult<(Asid, &Process)>;
    /// Returns the first of `count` base pages that the machine can address.
    fn extent_of(&self, page: u64, count: u64) -> PyResult<Vpn>;
    /// Returns a page size of the machine.
    fn page_size(&self, bytes: u64) -> PyResult<PageShift>;
    /// Returns the size of a block of frames.
    fn block(&self, bytes: u64) -> PyResult<PageShift>;
    /// Returns a page that is aligned to its size.
    fn aligned(&self, page: u64, size: PageShift) -> PyResult<Vpn>;
    /// Returns an aligned extent of a region of the running process in which nothing is mapped.
    fn absent(&self, page: u64, size: PageShift) -> PyResult<Vpn>;
    /// Does the same for a page of the machine.
    fn unmapped(&self, page: u64, bytes: u64) -> PyResult<(Vpn, PageShift)>;
    /// Does the same for a page of another process.
    fn unmapped_in(&self, asid: Asid, page: u64, bytes: u64) -> PyResult<(Vpn, PageShift)>;
    /// Checks that no page larger than `size` is mapped there, and that regions cover both ends.
    fn mapped_within(&self, asid: Asid, vpn: Vpn, size: PageShift) -> PyResult<()>;
    /// Returns a block of frames that was allocated by a hook and is not mapped.
    fn own_block(&self, frame: u64, size: PageShift) -> PyResult<Pfn>;
    /// Refuses where the system makes no reservations.
    fn needs_reservations(&self) -> PyResult<()>;
    /// Refuses what must be decided before the first process.
    fn before_processes(&self, what: &str) -> PyResult<()>;
}

/// Returns whether regions cover both ends of an extent.
fn is_covered(process: &Process, vpn: Vpn, pages: u64, base: PageShift) -> bool {
    let covered = |page: Vpn| process.space().page(page, 1, base).is_some();
    covered(vpn) && covered(vpn + (pages - 1))
}

fn check_absent(vm: &Vm, asid: Asid, vpn: Vpn, size: PageShift) -> PyResult<Vpn> {
    let (process, pages) = (vm.live(Some(asid.0))?.1, size.base_pages(vm.base()));
    if !is_covered(process, vpn, pages, vm.base()) {
        return Err(refused(format!("page {:#x}: no region of process {} has {pages} pages there", vpn.0, asid.0)));
    }
    if !vm.nothing_mapped(asid, vpn, pages) {
        return Err(refused(format!("page {:#x}: a page is mapped there already; unmap or migrate it", vpn.0)));
    }
    Ok(vpn)
}

impl Checked for Vm {
    fn live(&self, process: Option<u32>) -> PyResult<(Asid, &Process)> {
        let asid = process.map_or(self.current(), Asid);
        self.process(asid).map(|process| (asid, process)).ok_or_else(|| refused(format!("no process {}", asid.0)))
    }

    fn extent_of(&self, page: u64, count: u64) -> PyResult<Vpn> {
        let most = 1_u64 << (self.options().layout.address_bits() - self.base().0);
        if count == 0 || page.checked_add(count).is_none_or(|end| end > most) {
            return Err(refused(format!("page {page:#x}, count {count}: expected 1 or more pages below {most:#x}")));
        }
        Ok(Vpn(page))
    }

    fn page_size(&self, bytes: u64) -> PyResult<PageShift> {
        let sizes = &self.options().sizes;
        sizes.iter().copied().find(|size| size.bytes() == bytes).ok_or_else(|| {
            let known: Vec<_> = sizes.iter().map(|size| size.bytes().to_string()).collect();
            refused(format!("size {bytes}: the machine's page sizes are {} bytes", known.join(", ")))
        })
    }

    fn block(&self, bytes: u64) -> PyResult<PageShift> {
        let (base, order) = (self.base(), self.frames().buddy().max_order());
        let most = base.bytes() << order;
        if !bytes.is_power_of_two() || bytes < base.bytes() || bytes > most {
            return Err(refused(format!(
                "size {bytes}: expected a power of two from {} to {most} bytes",
                base.bytes()
            )));
        }
        Ok(PageShift(bytes.ilog2() as u8))
    }

    fn aligned(&self, page: u64, size: PageShift) -> PyResult<Vpn> {
        let vpn = self.extent_of(page, size.base_pages(self.base()))?;
        match vpn.is_aligned(size, self.base()) {
            true => Ok(vpn),
            false => Err(refused(format!("page {page:#x}: expected one that is aligned to {size}"))),
        }
    }

    fn absent(&self, page: u64, size: PageShift) -> PyResult<Vpn> {
        check_absent(self, self.current(), self.aligned(page, size)?, size)
    }

    fn unmapped(&self, page: u64, bytes: u64) -> PyResult<(Vpn, PageShift)> {
        self.unmapped_in(self.current(), page, bytes)
    }

    fn unmapped_in(&self, asid: Asid, page: u64, bytes: u64) -> PyResult<(Vpn, PageShift)> {
        let size = self.page_size(bytes)?;
        Ok((check_absent(self, asid, self.aligned(page, size)?, size)?, size))
    }

    fn mapped_within(&self, asid: Asid, vpn: Vpn, size: PageShift) -> PyResult<()> {
        let (process, pages) = (self.live(Some(asid.0))?.1, size.base_pages(self.base()));
        if !is_covered(process, vpn, pages, self.base()) {
            return Err(refused(format!("page {:#x}: no region of process {} has {pages} pages there", vpn.0, asid.0)));
        }
        let larger = process.table().page(vpn).filter(|page| page.pte.shift() > size);
        match larger {
            Some(page) => Err(refused(format!(
                "page {:#x}: it is mapped by a page of {}; demote that first",
                vpn.0,
                page.pte.shift()
            ))),
            None => Ok(()),
        }
    }

    fn own_block(&self, frame: u64, size: PageShift) -> PyResult<Pfn> {
        let (pages, all) = (size.base_pages(self.base()), self.frames().buddy().frames());
        let ends = frame.checked_add(pages).is_some_and(|end| end <= all);
        let is_own = |at: u64| {
            let found = self.frames().get(Pfn(at));
            found.kind == FrameKind::Anonymous && found.maps == 0 && !found.cached
        };
        if !ends || !frame.is_multiple_of(pages) || !(frame..frame + pages).all(is_own) {
            let what = "expected a block that `allocate` gave for this size, and that nothing maps";
            return Err(refused(format!("frame {frame:#x}, size {size}: {what}")));
        }
        Ok(Pfn(frame))
    }

    fn needs_reservations(&self) -> PyResult<()> {
        match self.frames().reservations() {
            Some(_) => Ok(()),
            None => Err(failed("the system makes no reservations; call use_reservations in boot")),
        }
    }

    fn before_processes(&self, what: &str) -> PyResult<()> {
        match self.processes().next() {
            None => Ok(()),
            Some(_) => Err(failed(format!("{what} is for boot only"))),
        }
    }
}

/// Returns the label of the operating system's work with this name.
pub fn label(name: &str) -> PyResult<Label> {
    let known = [Label::Fault, Label::Copy, Label::Remap, Label::Daemon, Label::Handler];
    known
        .into_iter()
        .find(|label| label.name() == name)
        .ok_or_else(|| refused(format!("label {name:?}: expected {}", known.map(Label::name).join(", "))))
}

/// Returns the kind of fault with this name.
pub fn fault_kind(name: &str) -> PyResult<FaultKind> {
    Ok(match name {
        "anonymous" => FaultKind::Anonymous,
        "zero-page" => FaultKind::ZeroPage,
        "file" => FaultKind::File,
        "cow" => FaultKind::Cow,
        "write-notify" => FaultKind::WriteNotify,
        "spurious" => FaultKind::Spurious,
        _ => {
            let known = "anonymous, zero-page, file, cow, write-notify or spurious";
            return Err(refused(format!("kind {name:?}: expected {known}")));
        }
    })
}

/// Returns the main counters, under the names that results use.
pub fn counters(counters: &Counters) -> [(&'static str, u64); 10] {
    [
        ("page_faults", counters.page_faults),
        ("promotions", counters.promotions),
        ("demotions", counters.demotions),
        ("superpage_faults", counters.superpage_faults),
        ("superpage_fallbacks", counters.superpage_fallbacks),
        ("reservations", counters.reservations),
        ("preemptions", counters.preemptions),
        ("shootdowns", counters.shootdowns),
        ("resident_bytes", counters.resident_bytes.current),
        ("page_table_bytes", counters.page_table_bytes.current),
    ]
}

/// Returns reservations of these sizes, the base page and others of the machine: FreeBSD's, with a threshold in per cent.
pub fn superpages(vm: &Vm, sizes: Option<Vec<u64>>, threshold: u64) -> PyResult<Superpages> {
    let mut chosen = match sizes {
        Some(sizes) => sizes.into_iter().map(|size| vm.page_size(size)).collect::<PyResult<Vec<_>>>()?,
        None => vm.options().sizes.clone(),
    };
    chosen.push(vm.base());
    chosen.sort_unstable();
    chosen.dedup();
    if chosen.len() < 2 {
        return Err(refused("sizes: expected a page size of the machine above the base page"));
    }
    if !(1..=100).contains(&threshold) {
        return Err(refused(format!("threshold {threshold}: expected 1 to 100 per cent")));
    }
    Ok(Superpages {
        sizes: chosen,
        renewed_by_freeing: true,
        past_end: PastEnd::Anonymous,
        step: 0,
        partly_dirty: false,
        digest: None,
        promote: true,
        first_full: false,
        demote_to_unmap: false,
        watch_all: false,
        map_full: true,
        threshold,
    })
}
