//! Lending the memory manager of a simulation to a hook.

use crate::error::{failed, panicked};
use pyo3::PyResult;
use reach_os::Vm;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError, TryLockError};

/// The memory manager of a simulation while a hook runs; nothing between hooks.
#[derive(Default)]
pub struct Loan(Mutex<Option<Lent>>);

/// A memory manager that a hook has borrowed.
struct Lent(NonNull<Vm>);

// SAFETY: the pointer is used only while the thread that owns the memory manager waits for the hook, under the lock.
unsafe impl Send for Lent {}

/// Takes the memory manager back when it is dropped.
pub struct Lending<'a> {
    loan: &'a Loan,
    _vm: &'a mut Vm,
}

impl Loan {
    /// Lends `vm` to a hook until the returned value is dropped.
    pub fn lend<'a>(&'a self, vm: &'a mut Vm) -> Lending<'a> {
        let lent = Lent(NonNull::from(&mut *vm));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(lent);
        Lending { loan: self, _vm: vm }
    }

    /// Calls `act` with the memory manager that a hook has borrowed. A panic becomes an exception.
    pub fn with<T>(&self, act: impl FnOnce(&mut Vm) -> PyResult<T>) -> PyResult<T> {
        let lent = match self.0.try_lock() {
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
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        *self.loan.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
