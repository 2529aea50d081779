//! The memory manager as hooks see it: `reach.Vm`.
//!
//! A hook borrows the `Vm` of its simulation ([`Loan`]). Its arguments are checked here, because the Rust API trusts its callers:
//! processes must live, pages be aligned, frames be the hook's own. Every change goes through the translation API, so that costs
//! are charged as they are for systems in Rust.

mod checked;
mod loan;

use crate::error::{Error, refused};
use crate::event::Event;
use crate::page::{Fault, Page, Populate, Region, Rights, View};
use checked::Checked;
pub use loan::Loan;
use pyo3::create_exception;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use reach_core::Pte;
use reach_os::{FrameKind, Mechanism, Superpage, contiguity, soft};
use std::sync::Arc;

create_exception!(reach, OutOfMemory, Error, "Simulated memory is used up.");

/// The memory manager of the simulated operating system. Valid during a hook only.
#[pyclass(frozen, module = "reach")]
pub struct Vm(pub Arc<Loan>);

impl Vm {
    fn with<T>(&self, act: impl FnOnce(&mut reach_os::Vm) -> PyResult<T>) -> PyResult<T> {
        self.0.with(act)
    }

    /// Calls `act`, which may run out of simulated memory.
    fn change<T>(
        &self,
        act: impl FnOnce(&mut reach_os::Vm) -> PyResult<Result<T, reach_os::OutOfMemory>>,
    ) -> PyResult<T> {
        self.with(|vm| act(vm)?.map_err(|error| OutOfMemory::new_err(error.to_string())))
    }
}

#[pymethods]
impl Vm {
    // The machine and its memory.

    /// The size of a base page in bytes.
    #[getter]
    fn base(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.base().bytes()))
    }

    /// The machine's page sizes in bytes, ascending; the first is the base page.
    #[getter]
    fn sizes(&self) -> PyResult<Vec<u64>> {
        self.with(|vm| Ok(vm.options().sizes.iter().map(|size| size.bytes()).collect()))
    }

    /// Physical memory in bytes.
    #[getter]
    fn memory(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.options().memory))
    }

    /// Cycles in a second.
    #[getter]
    fn hertz(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.options().hertz))
    }

    /// Cycles to examine a base page in a daemon's scan.
    #[getter]
    fn scan_cost(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.options().costs.scan_per_page))
    }

    /// Free memory in bytes.
    #[getter]
    fn free(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.frames().buddy().free_frames() << vm.base().0))
    }

    /// Free blocks of the buddy allocator by order: element n counts blocks of 2^n base pages.
    #[getter]
    fn free_blocks(&self) -> PyResult<Vec<u64>> {
        self.with(|vm| Ok(vm.frames().buddy().free_by_order()))
    }

    /// The largest free block in bytes; 0 where nothing is free.
    #[getter]
    fn largest_free(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.frames().buddy().largest_free().map_or(0, |order| vm.base().bytes() << order)))
    }

    /// The share of free memory in blocks as large as superpages, from 0 to 1.
    #[getter]
    fn contiguity(&self) -> PyResult<f64> {
        self.with(|vm| Ok(contiguity(vm.frames().buddy(), &vm.options().sizes)))
    }

    /// Counts since boot, of all processes, under the names of results; resident and page-table bytes are of now.
    #[getter]
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.with(|vm| Ok(checked::counters(vm.counters())))?;
        let all = PyDict::new(py);
        counters.into_iter().try_for_each(|(name, count)| all.set_item(name, count))?;
        Ok(all)
    }

    /// Reservations now, and the base pages that they hold: two numbers.
    #[getter]
    fn reservations(&self) -> PyResult<(u64, u64)> {
        self.with(|vm| Ok(vm.frames().reservations().map_or((0, 0), |all| (all.count(), all.held()))))
    }

    // Processes, and what they have mapped.

    /// The running address space.
    #[getter]
    fn process(&self) -> PyResult<u32> {
        self.with(|vm| Ok(vm.current().0))
    }

    /// The running thread.
    #[getter]
    fn thread(&self) -> PyResult<u32> {
        self.with(|vm| Ok(vm.thread().0))
    }

    /// All live address spaces.
    #[getter]
    fn processes(&self) -> PyResult<Vec<u32>> {
        self.with(|vm| Ok(vm.processes().map(|(asid, _)| asid.0).collect()))
    }

    /// Returns the regions of a process, ascending.
    #[pyo3(signature = (process = None))]
    fn regions(&self, process: Option<u32>) -> PyResult<Vec<Region>> {
        self.with(|vm| Ok(vm.live(process)?.1.space().regions().map(|region| Region(*region)).collect()))
    }

    /// Returns the mapped page that holds a base page; None where none is mapped.
    #[pyo3(signature = (page, process = None))]
    fn page(&self, page: u64, process: Option<u32>) -> PyResult<Option<Page>> {
        self.with(|vm| {
            let vpn = vm.extent_of(page, 1)?;
            Ok(vm.live(process)?.1.table().page(vpn).map(|mapped| Page::of(mapped, vm)))
        })
    }

    /// Returns the mapped pages that overlap `count` base pages.
    #[pyo3(signature = (page, count, process = None))]
    fn pages(&self, page: u64, count: u64, process: Option<u32>) -> PyResult<Vec<Page>> {
        self.with(|vm| {
            let vpn = vm.extent_of(page, count)?;
            let mapped = vm.live(process)?.1.table().pages(vpn, count);
            Ok(mapped.into_iter().map(|mapped| Page::of(mapped, vm)).collect())
        })
    }

    /// Returns the first base page of the aligned extent of `size` bytes around a page, if the extent lies in the region and nothing in
    /// it is mapped; else None.
    #[pyo3(signature = (page, size, region, process = None))]
    fn extent(&self, page: u64, size: u64, region: &Region, process: Option<u32>) -> PyResult<Option<u64>> {
        self.with(|vm| {
            let (vpn, size) = (vm.extent_of(page, 1)?, vm.block(size)?);
            let asid = vm.live(process)?.0;
            Ok(vm.extent_within(asid, vpn, size, &region.0).map(|first| first.0))
        })
    }

    /// Returns whether the aligned extent around a page lies in the region and is aligned in its file, too.
    fn suits(&self, region: &Region, page: u64, size: u64) -> PyResult<bool> {
        self.with(|vm| Ok(vm.suits(&region.0, vm.extent_of(page, 1)?, vm.block(size)?)))
    }

    // Faults, as the parts of systems answer them.

    /// Returns the region and rights of the page of a fault. Call once for each fault. Without a region, the stack grows or an
    /// implicit region is made.
    fn fault_view(&self, fault: &Fault) -> PyResult<View> {
        self.change(|vm| Ok(vm.fault_view(fault.0).map(View)))
    }

    /// Answers a fault with base pages, as Linux does: first touch, file, copy on write. `view` is that of `fault_view`, if called.
    #[pyo3(signature = (fault, view = None))]
    fn demand_fault(&self, fault: &Fault, view: Option<&View>) -> PyResult<()> {
        self.change(|vm| {
            Ok(match view {
                Some(view) => vm.demand_fault_in(fault.0, view.0),
                None => vm.demand_fault(fault.0),
            })
        })
    }

    /// Answers a first touch with a zeroed page of `size` bytes at `first`, an extent of which nothing is mapped. Returns False, and
    /// counts the failure, where no block is free. A `whole` page stays one while it is mapped.
    #[pyo3(signature = (first, view, size, *, writable = true, whole = false))]
    fn map_superpage(&self, first: u64, view: &View, size: u64, writable: bool, whole: bool) -> PyResult<bool> {
        self.change(|vm| {
            let (vpn, shift) = vm.unmapped(first, size)?;
            let page = Superpage { shift, rights: view.0.protection, writable, whole };
            Ok(vm.map_superpage(vpn, &view.0, page))
        })
    }

    /// Answers a first store with a zeroed block of `size` bytes, mapped by the largest pages that fit. Returns as `map_superpage`.
    fn map_folio(&self, first: u64, view: &View, size: u64) -> PyResult<bool> {
        self.change(|vm| {
            let size = vm.block(size)?;
            let vpn = vm.absent(first, size)?;
            Ok(vm.map_folio(vpn, &view.0, size))
        })
    }

    /// Returns whether a page of a file or of shared memory is in memory.
    fn is_cached(&self, region: &Region, page: u64) -> PyResult<bool> {
        self.with(|vm| Ok(vm.is_cached(&region.0, vm.extent_of(page, 1)?)))
    }

    /// Gives an absent page of a file or of shared memory, with its neighbours, a block of `size` bytes. Returns whether it did.
    fn cache_folio(&self, region: &Region, page: u64, size: u64) -> PyResult<bool> {
        self.with(|vm| {
            if region.0.anonymous() {
                return Err(refused("cache_folio: expected a region of a file or of shared memory"));
            }
            let (vpn, size) = (vm.extent_of(page, 1)?, vm.block(size)?);
            Ok(vm.cache_folio(&region.0, vpn, size))
        })
    }

    /// Answers a first touch by one page of `size` bytes, where a block of the page cache holds all of it. Returns whether it did.
    #[pyo3(signature = (fault, view, size, *, whole = false))]
    fn map_cached(&self, fault: &Fault, view: &View, size: u64, whole: bool) -> PyResult<bool> {
        let bits = if whole { soft::WHOLE } else { soft::REFAULT };
        self.change(|vm| {
            let size = vm.page_size(size)?;
            Ok(vm.map_cached_superpage(fault.0, &view.0, size, bits))
        })
    }

    /// Answers a fault by reservation, and promotes what has become full. Needs `use_reservations`.
    fn reserved_fault(&self, fault: &Fault) -> PyResult<()> {
        self.change(|vm| {
            vm.needs_reservations()?;
            Ok(vm.reserved_fault(fault.0))
        })
    }

    /// Promotes the largest full reservation around a page. Needs `use_reservations`.
    fn promote_around(&self, page: u64) -> PyResult<()> {
        self.change(|vm| {
            vm.needs_reservations()?;
            let (vpn, asid) = (vm.extent_of(page, 1)?, vm.live(None)?.0);
            Ok(vm.promote_around(asid, vpn))
        })
    }

    /// Answers the first write to a watched page: ends the watch; with reservations, demotes a clean superpage first.
    fn first_write(&self, page: u64) -> PyResult<()> {
        self.change(|vm| {
            let (vpn, asid) = (vm.extent_of(page, 1)?, vm.live(None)?.0);
            if vm.frames().reservations().is_some() {
                return Ok(vm.first_write(vpn));
            }
            let unwatched = |_: &reach_os::Vm, entry: &reach_core::MappedPage| entry.pte.with_watched(false);
            Ok(vm.protect(asid, vpn, 1, reach_core::Label::Fault, unwatched))
        })
    }

    /// Applies an event as Linux does. Returns what the program wants populated, or None.
    fn apply(&self, event: &Event) -> PyResult<Option<Populate>> {
        let populate = self.change(|vm| Ok(vm.apply(&event.0)))?;
        Ok(populate.map(|populate| {
            let (start, end, write) = (populate.pages.start, populate.pages.end, populate.write);
            Populate { start, end, write }
        }))
    }

    /// Sets whether the kernel itself takes the faults to come, so that they cost no trap.
    fn populating(&self, on: bool) -> PyResult<()> {
        self.with(|vm| {
            vm.populating(on);
            Ok(())
        })
    }

    // Frames.

    /// Allocates a block of `size` bytes for a page of a region. Returns its first frame; None, counted, where no block is free. Map,
    /// migrate to or release it.
    fn allocate(&self, size: u64, region: &Region, page: u64) -> PyResult<Option<u64>> {
        self.with(|vm| {
            let (vpn, size) = (vm.extent_of(page, 1)?, vm.block(size)?);
            let (asid, base) = (vm.current(), vm.base());
            let (object, index) = (region.0.object, region.0.index(vpn, base));
            let block = vm.frames_mut().allocate(size.order(base), FrameKind::Anonymous, object, index);
            if block.is_none() && size > base {
                vm.tally(asid, |counters| counters.superpage_fallbacks += 1);
            }
            Ok(block.map(|pfn| pfn.0))
        })
    }

    /// Frees a block of `allocate` that nothing maps.
    fn release(&self, frame: u64, size: u64) -> PyResult<()> {
        self.with(|vm| {
            let size = vm.block(size)?;
            let (pfn, base) = (vm.own_block(frame, size)?, vm.base());
            vm.frames_mut().free(pfn, size.base_pages(base));
            Ok(())
        })
    }

    /// Zeroes a block of `allocate`: as traffic where caches are modelled, else as cycles.
    #[pyo3(signature = (frame, size, *, label = "fault"))]
    fn zero(&self, frame: u64, size: u64, label: &str) -> PyResult<()> {
        self.with(|vm| {
            let (size, label) = (vm.block(size)?, checked::label(label)?);
            let (pfn, base) = (vm.own_block(frame, size)?, vm.base());
            vm.zero(pfn, size.base_pages(base), label);
            Ok(())
        })
    }

    /// Drops file pages that nothing maps.
    fn drop_idle_file_pages(&self) -> PyResult<()> {
        self.with(|vm| {
            vm.drop_idle_file_pages();
            Ok(())
        })
    }

    // The translation API.

    /// Maps a block of `allocate` at a page, where nothing is mapped, with the rights of a view or region.
    #[pyo3(signature = (page, frame, size, rights, *, writable = true, label = "fault", process = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn map(
        &self,
        page: u64,
        frame: u64,
        size: u64,
        rights: Rights<'_>,
        writable: bool,
        label: &str,
        process: Option<u32>,
    ) -> PyResult<()> {
        let rights = rights.protection();
        self.change(|vm| {
            let (asid, label) = (vm.live(process)?.0, checked::label(label)?);
            let (vpn, shift) = vm.unmapped_in(asid, page, size)?;
            let pte = vm.entry(vm.own_block(frame, shift)?, shift, rights, writable);
            vm.note_private_pages(asid, vpn, shift.base_pages(vm.base()));
            Ok(vm.map(asid, vpn, pte, label))
        })
    }

    /// Unmaps all pages in `count` base pages. Pages that reach beyond are demoted first.
    #[pyo3(signature = (page, count, *, label = "daemon", process = None))]
    fn unmap(&self, page: u64, count: u64, label: &str, process: Option<u32>) -> PyResult<()> {
        self.change(|vm| {
            let (asid, label, vpn) = (vm.live(process)?.0, checked::label(label)?, vm.extent_of(page, count)?);
            Ok(vm.unmap(asid, vpn, count, label))
        })
    }

    /// Makes one page of an aligned extent whose frames lie in order. Returns None, or why it cannot be.
    #[pyo3(signature = (page, size, *, label = "remap", process = None))]
    fn promote(&self, page: u64, size: u64, label: &str, process: Option<u32>) -> PyResult<Option<String>> {
        self.with(|vm| {
            let (asid, label, shift) = (vm.live(process)?.0, checked::label(label)?, vm.page_size(size)?);
            let vpn = vm.aligned(page, shift)?;
            Ok(vm.promote(asid, vpn, shift, label).err().map(|refusal| refusal.to_string()))
        })
    }

    /// Breaks the page that holds a base page into pages of `size` bytes.
    #[pyo3(signature = (page, size, *, label = "remap", process = None))]
    fn demote(&self, page: u64, size: u64, label: &str, process: Option<u32>) -> PyResult<()> {
        self.change(|vm| {
            let (asid, label, shift) = (vm.live(process)?.0, checked::label(label)?, vm.page_size(size)?);
            let vpn = vm.extent_of(page, 1)?;
            Ok(vm.demote(asid, vpn, shift, label))
        })
    }

    /// Copies what is mapped in an aligned extent to a block of `allocate`, zeroes the rest of it, and maps the block there.
    #[pyo3(signature = (page, frame, size, rights, *, writable = true, label = "copy", process = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn migrate(
        &self,
        page: u64,
        frame: u64,
        size: u64,
        rights: Rights<'_>,
        writable: bool,
        label: &str,
        process: Option<u32>,
    ) -> PyResult<()> {
        let rights = rights.protection();
        self.change(|vm| {
            let (asid, label, block) = (vm.live(process)?.0, checked::label(label)?, vm.block(size)?);
            let (vpn, pfn) = (vm.aligned(page, block)?, vm.own_block(frame, block)?);
            vm.mapped_within(asid, vpn, block)?;
            let pte = vm.entry(pfn, vm.page_within(block), rights, writable);
            vm.note_private_pages(asid, vpn, block.base_pages(vm.base()));
            Ok(vm.migrate_block(asid, vpn, pte, block, label))
        })
    }

    /// Sets rights and marks of all pages in `count` base pages; None leaves one as it is. Taking one away costs a shootdown.
    #[pyo3(signature = (page, count, *, writable = None, executable = None, accessed = None, dirty = None, watched = None,
                        label = "daemon", process = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn protect(
        &self,
        page: u64,
        count: u64,
        writable: Option<bool>,
        executable: Option<bool>,
        accessed: Option<bool>,
        dirty: Option<bool>,
        watched: Option<bool>,
        label: &str,
        process: Option<u32>,
    ) -> PyResult<()> {
        let change = |pte: Pte| {
            let pte = writable.map_or(pte, |on| pte.with_writable(on));
            let pte = executable.map_or(pte, |on| pte.with_executable(on));
            let pte = accessed.map_or(pte, |on| pte.with_accessed(on));
            let pte = dirty.map_or(pte, |on| pte.with_dirty(on));
            watched.map_or(pte, |on| pte.with_watched(on))
        };
        self.change(|vm| {
            let (asid, label, vpn) = (vm.live(process)?.0, checked::label(label)?, vm.extent_of(page, count)?);
            Ok(vm.protect(asid, vpn, count, label, |_, entry| change(entry.pte)))
        })
    }

    /// Copies an extent that is mapped throughout into a new block, mapped by one page. Returns None, or why it was not built.
    #[pyo3(signature = (page, size, process = None))]
    fn build_superpage(&self, page: u64, size: u64, process: Option<u32>) -> PyResult<Option<String>> {
        let built = self.change(|vm| {
            let (asid, shift) = (vm.live(process)?.0, vm.page_size(size)?);
            let vpn = vm.aligned(page, shift)?;
            Ok(vm.build_superpage(asid, vpn, shift, Mechanism::Copy))
        })?;
        Ok(built.err().map(|why| why.to_string()))
    }

    // Costs, and what is decided at boot.

    /// Charges cycles of the operating system's work: label "fault", "copy", "remap", "daemon" or "handler".
    fn charge(&self, label: &str, cycles: u64) -> PyResult<()> {
        self.with(|vm| {
            vm.charge(checked::label(label)?, cycles);
            Ok(())
        })
    }

    /// Charges for a fault that no function here answers, and counts it: kind "anonymous", "zero-page", "file", "cow",
    /// "write-notify" or "spurious".
    #[pyo3(signature = (kind, *, major = false))]
    fn charge_fault(&self, kind: &str, major: bool) -> PyResult<()> {
        self.with(|vm| {
            let (kind, asid) = (checked::fault_kind(kind)?, vm.live(None)?.0);
            vm.charge_fault(asid, kind, major);
            Ok(())
        })
    }

    /// Sets whether first loads from untouched memory share a page of zeroes. For boot.
    fn share_zeroes(&self, on: bool) -> PyResult<()> {
        self.with(|vm| {
            vm.before_processes("share_zeroes")?;
            vm.share_zeroes(on);
            Ok(())
        })
    }

    /// Makes reservations as FreeBSD does, of the sizes given in bytes (default: all of the machine). `threshold`: per cent of one
    /// that must be populated for the rest to be. For boot.
    #[pyo3(signature = (sizes = None, *, threshold = 100))]
    fn use_reservations(&self, sizes: Option<Vec<u64>>, threshold: u64) -> PyResult<()> {
        self.with(|vm| {
            vm.before_processes("use_reservations")?;
            let policy = checked::superpages(vm, sizes, threshold)?;
            vm.use_superpages(policy);
            Ok(())
        })
    }

    /// Returns the base page of an address in bytes.
    fn page_of(&self, address: u64) -> PyResult<u64> {
        self.with(|vm| Ok(address >> vm.base().0))
    }
}
