//! The memory manager as hooks see it: `reach.Vm`.
//!
//! A hook borrows the `Vm` of its simulation ([`Loan`]). What it asks for is checked here, because the Rust API trusts its callers:
//! processes must live, pages be aligned, frames be the hook's own. Every change goes through the translation API, so that costs
//! are charged as they are for systems in Rust.

mod checked;

use crate::error::{Error, failed, panicked, refused};
use crate::event::Event;
use crate::page::{Fault, Page, Populate, Region, Rights, View};
use checked::Checked;
use pyo3::create_exception;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use reach_core::{Cycles, Pte, Vpn};
use reach_os::{FrameKind, Mechanism, Superpage, contiguity, soft};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

create_exception!(reach, OutOfMemory, Error, "Simulated memory is used up.");

/// The memory manager of a simulation while a hook runs; nothing between hooks.
#[derive(Default)]
pub struct Loan(Mutex<Option<Lent>>);

/// A memory manager that a hook has borrowed.
struct Lent(NonNull<reach_os::Vm>);

// SAFETY: the pointer is used only while the thread that owns the memory manager waits for the hook, under the lock.
unsafe impl Send for Lent {}

/// Takes the memory manager back when it is dropped.
pub struct Lending<'a> {
    loan: &'a Loan,
    _vm: &'a mut reach_os::Vm,
}

impl Loan {
    /// Lends `vm` to a hook until the returned value is dropped.
    pub fn lend<'a>(&'a self, vm: &'a mut reach_os::Vm) -> Lending<'a> {
        let lent = Lent(NonNull::from(&mut *vm));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(lent);
        Lending { loan: self, _vm: vm }
    }
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        *self.loan.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The memory manager of the simulated operating system. Valid during a hook only.
#[pyclass(frozen, module = "reach")]
pub struct Vm(pub Arc<Loan>);

impl Vm {
    /// Calls `act` with the memory manager that the hook has borrowed. A panic becomes an exception.
    fn with<T>(&self, act: impl FnOnce(&mut reach_os::Vm) -> PyResult<T>) -> PyResult<T> {
        let lent = match self.0.0.try_lock() {
            Ok(lent) => lent,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(failed("the Vm is in use by another thread")),
        };
        let Some(Lent(vm)) = &*lent else {
            return Err(failed("this Vm is valid during a hook only; use the one that the hook is given"));
        };
        // SAFETY: the owner has lent it exclusively (`Loan::lend`) and takes it back under this lock, and nothing that `act` calls
        // comes back here.
        let vm = unsafe { &mut *vm.as_ptr() };
        catch_unwind(AssertUnwindSafe(|| act(vm))).unwrap_or_else(|payload| Err(panicked(&*payload)))
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

    #[getter]
    fn base(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.base().bytes()))
    }

    #[getter]
    fn sizes(&self) -> PyResult<Vec<u64>> {
        self.with(|vm| Ok(vm.options().sizes.iter().map(|size| size.bytes()).collect()))
    }

    #[getter]
    fn memory(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.options().memory))
    }

    #[getter]
    fn hertz(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.options().hertz))
    }

    #[getter]
    fn scan_cost(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.options().costs.scan_per_page))
    }

    #[getter]
    fn free(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.frames().buddy().free_frames() << vm.base().0))
    }

    #[getter]
    fn free_blocks(&self) -> PyResult<Vec<u64>> {
        self.with(|vm| Ok(vm.frames().buddy().free_by_order()))
    }

    #[getter]
    fn largest_free(&self) -> PyResult<u64> {
        self.with(|vm| Ok(vm.frames().buddy().largest_free().map_or(0, |order| vm.base().bytes() << order)))
    }

    #[getter]
    fn contiguity(&self) -> PyResult<f64> {
        self.with(|vm| Ok(contiguity(vm.frames().buddy(), &vm.options().sizes)))
    }

    #[getter]
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.with(|vm| Ok(checked::counters(vm.counters())))?;
        let all = PyDict::new(py);
        counters.into_iter().try_for_each(|(name, count)| all.set_item(name, count))?;
        Ok(all)
    }

    #[getter]
    fn reservations(&self) -> PyResult<(u64, u64)> {
        self.with(|vm| Ok(vm.frames().reservations().map_or((0, 0), |all| (all.count(), all.held()))))
    }

    // Processes, and what they have mapped.

    #[getter]
    fn process(&self) -> PyResult<u32> {
        self.with(|vm| Ok(vm.current().0))
    }

    #[getter]
    fn thread(&self) -> PyResult<u32> {
        self.with(|vm| Ok(vm.thread().0))
    }

    #[getter]
    fn processes(&self) -> PyResult<Vec<u32>> {
        self.with(|vm| Ok(vm.processes().map(|(asid, _)| asid.0).collect()))
    }

    #[pyo3(signature = (process = None))]
    fn regions(&self, process: Option<u32>) -> PyResult<Vec<Region>> {
        self.with(|vm| Ok(vm.live(process)?.1.space().regions().map(|region| Region(*region)).collect()))
    }

    #[pyo3(signature = (page, process = None))]
    fn page(&self, page: u64, process: Option<u32>) -> PyResult<Option<Page>> {
        self.with(|vm| {
            let vpn = vm.extent_of(page, 1)?;
            Ok(vm.live(process)?.1.table().page(vpn).map(|mapped| Page::of(mapped, vm)))
        })
    }

    #[pyo3(signature = (page, count, process = None))]
    fn pages(&self, page: u64, count: u64, process: Option<u32>) -> PyResult<Vec<Page>> {
        self.with(|vm| {
            let vpn = vm.extent_of(page, count)?;
            let mapped = vm.live(process)?.1.table().pages(vpn, count);
            Ok(mapped.into_iter().map(|mapped| Page::of(mapped, vm)).collect())
        })
    }

    #[pyo3(signature = (page, size, region, process = None))]
    fn extent(&self, page: u64, size: u64, region: &Region, process: Option<u32>) -> PyResult<Option<u64>> {
        self.with(|vm| {
            let (vpn, size) = (vm.extent_of(page, 1)?, vm.block(size)?);
            let asid = vm.live(process)?.0;
            Ok(vm.extent_within(asid, vpn, size, &region.0).map(|first| first.0))
        })
    }

    fn suits(&self, region: &Region, page: u64, size: u64) -> PyResult<bool> {
        self.with(|vm| Ok(vm.suits(&region.0, vm.extent_of(page, 1)?, vm.block(size)?)))
    }

    // Faults, as the parts of systems answer them.

    fn fault_view(&self, fault: &Fault) -> PyResult<View> {
        self.change(|vm| Ok(vm.fault_view(fault.0).map(View)))
    }

    #[pyo3(signature = (fault, view = None))]
    fn demand_fault(&self, fault: &Fault, view: Option<&View>) -> PyResult<()> {
        self.change(|vm| {
            Ok(match view {
                Some(view) => vm.demand_fault_in(fault.0, view.0),
                None => vm.demand_fault(fault.0),
            })
        })
    }

    #[pyo3(signature = (first, view, size, *, writable = true, whole = false))]
    fn map_superpage(&self, first: u64, view: &View, size: u64, writable: bool, whole: bool) -> PyResult<bool> {
        self.change(|vm| {
            let (vpn, shift) = vm.unmapped(first, size)?;
            let page = Superpage { shift, rights: view.0.protection, writable, whole };
            Ok(vm.map_superpage(vpn, &view.0, page))
        })
    }

    fn map_folio(&self, first: u64, view: &View, size: u64) -> PyResult<bool> {
        self.change(|vm| {
            let size = vm.block(size)?;
            let vpn = vm.absent(first, size)?;
            Ok(vm.map_folio(vpn, &view.0, size))
        })
    }

    fn is_cached(&self, region: &Region, page: u64) -> PyResult<bool> {
        self.with(|vm| Ok(vm.is_cached(&region.0, vm.extent_of(page, 1)?)))
    }

    fn cache_folio(&self, region: &Region, page: u64, size: u64) -> PyResult<bool> {
        self.with(|vm| {
            if region.0.anonymous() {
                return Err(refused("cache_folio: expected a region of a file or of shared memory"));
            }
            let (vpn, size) = (vm.extent_of(page, 1)?, vm.block(size)?);
            Ok(vm.cache_folio(&region.0, vpn, size))
        })
    }

    #[pyo3(signature = (fault, view, size, *, whole = false))]
    fn map_cached(&self, fault: &Fault, view: &View, size: u64, whole: bool) -> PyResult<bool> {
        let bits = if whole { soft::WHOLE } else { soft::REFAULT };
        self.change(|vm| {
            let size = vm.page_size(size)?;
            Ok(vm.map_cached_superpage(fault.0, &view.0, size, bits))
        })
    }

    fn reserved_fault(&self, fault: &Fault) -> PyResult<()> {
        self.change(|vm| {
            vm.needs_reservations()?;
            Ok(vm.reserved_fault(fault.0))
        })
    }

    fn promote_around(&self, page: u64) -> PyResult<()> {
        self.change(|vm| {
            vm.needs_reservations()?;
            let (vpn, asid) = (vm.extent_of(page, 1)?, vm.live(None)?.0);
            Ok(vm.promote_around(asid, vpn))
        })
    }

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

    fn apply(&self, event: &Event) -> PyResult<Option<Populate>> {
        let populate = self.change(|vm| Ok(vm.apply(&event.0)))?;
        Ok(populate.map(|populate| {
            let (start, end, write) = (populate.pages.start, populate.pages.end, populate.write);
            Populate { start, end, write }
        }))
    }

    fn populating(&self, on: bool) -> PyResult<()> {
        self.with(|vm| {
            vm.populating(on);
            Ok(())
        })
    }

    // Frames.

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

    fn release(&self, frame: u64, size: u64) -> PyResult<()> {
        self.with(|vm| {
            let size = vm.block(size)?;
            let (pfn, base) = (vm.own_block(frame, size)?, vm.base());
            vm.frames_mut().free(pfn, size.base_pages(base));
            Ok(())
        })
    }

    #[pyo3(signature = (frame, size, *, label = "fault"))]
    fn zero(&self, frame: u64, size: u64, label: &str) -> PyResult<()> {
        self.with(|vm| {
            let (size, label) = (vm.block(size)?, checked::label(label)?);
            let (pfn, base) = (vm.own_block(frame, size)?, vm.base());
            vm.zero(pfn, size.base_pages(base), label);
            Ok(())
        })
    }

    fn drop_idle_file_pages(&self) -> PyResult<()> {
        self.with(|vm| {
            vm.drop_idle_file_pages();
            Ok(())
        })
    }

    // The translation API.

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

    #[pyo3(signature = (page, count, *, label = "daemon", process = None))]
    fn unmap(&self, page: u64, count: u64, label: &str, process: Option<u32>) -> PyResult<()> {
        self.change(|vm| {
            let (asid, label, vpn) = (vm.live(process)?.0, checked::label(label)?, vm.extent_of(page, count)?);
            Ok(vm.unmap(asid, vpn, count, label))
        })
    }

    #[pyo3(signature = (page, size, *, label = "remap", process = None))]
    fn promote(&self, page: u64, size: u64, label: &str, process: Option<u32>) -> PyResult<Option<String>> {
        self.with(|vm| {
            let (asid, label, shift) = (vm.live(process)?.0, checked::label(label)?, vm.page_size(size)?);
            let vpn = vm.aligned(page, shift)?;
            Ok(vm.promote(asid, vpn, shift, label).err().map(|refusal| refusal.to_string()))
        })
    }

    #[pyo3(signature = (page, size, *, label = "remap", process = None))]
    fn demote(&self, page: u64, size: u64, label: &str, process: Option<u32>) -> PyResult<()> {
        self.change(|vm| {
            let (asid, label, shift) = (vm.live(process)?.0, checked::label(label)?, vm.page_size(size)?);
            let vpn = vm.extent_of(page, 1)?;
            Ok(vm.demote(asid, vpn, shift, label))
        })
    }

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

    fn charge(&self, label: &str, cycles: u64) -> PyResult<()> {
        self.with(|vm| {
            vm.charge(checked::label(label)?, Cycles(cycles).0);
            Ok(())
        })
    }

    #[pyo3(signature = (kind, *, major = false))]
    fn charge_fault(&self, kind: &str, major: bool) -> PyResult<()> {
        self.with(|vm| {
            let (kind, asid) = (checked::fault_kind(kind)?, vm.live(None)?.0);
            vm.charge_fault(asid, kind, major);
            Ok(())
        })
    }

    fn share_zeroes(&self, on: bool) -> PyResult<()> {
        self.with(|vm| {
            vm.before_processes("share_zeroes")?;
            vm.share_zeroes(on);
            Ok(())
        })
    }

    #[pyo3(signature = (sizes = None, *, threshold = 100))]
    fn use_reservations(&self, sizes: Option<Vec<u64>>, threshold: u64) -> PyResult<()> {
        self.with(|vm| {
            vm.before_processes("use_reservations")?;
            let policy = checked::superpages(vm, sizes, threshold)?;
            vm.use_superpages(policy);
            Ok(())
        })
    }

    /// Returns the base page of an address.
    fn page_of(&self, address: u64) -> PyResult<u64> {
        self.with(|vm| Ok(Vpn(address >> vm.base().0).0))
    }
}
