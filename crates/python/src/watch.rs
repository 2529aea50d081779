//! State that the thread that simulates and the thread that waits share: the request to end, and exceptions of hooks.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_long, c_ulong};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state of a run.
#[derive(Default)]
pub struct Watch {
    /// Ends the experiment ([`reach_lab::Experiment::stop`]).
    pub stop: Arc<AtomicBool>,
    error: Mutex<Option<PyErr>>,
    /// The threads that are in a hook, by Python's numbers.
    hooks: Mutex<Vec<c_ulong>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Keeps the first exception of a hook, and ends the experiment.
    pub fn fail(&self, error: PyErr) {
        lock(&self.error).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Takes the exception that has ended the experiment, if one has.
    pub fn take(&self) -> Option<PyErr> {
        lock(&self.error).take()
    }

    /// Returns whether the experiment is about to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Notes that this thread is in a hook, until the returned value is dropped.
    pub fn enter(&self, _: Python<'_>) -> Entered<'_> {
        // SAFETY: the call takes nothing and may be made by any thread.
        let thread = unsafe { ffi::PyThread_get_thread_ident() };
        lock(&self.hooks).push(thread);
        Entered { watch: self, thread }
    }

    /// Raises KeyboardInterrupt in all hooks, which might never return otherwise.
    pub fn interrupt_hooks(&self, py: Python<'_>) {
        for &thread in lock(&self.hooks).iter() {
            let exception = py.get_type::<PyKeyboardInterrupt>();
            // SAFETY: this thread is attached to the interpreter, and the exception is a class that lives for ever.
            unsafe { ffi::PyThreadState_SetAsyncExc(thread as c_long, exception.as_ptr()) };
        }
    }
}

/// A thread that is in a hook.
pub struct Entered<'a> {
    watch: &'a Watch,
    thread: c_ulong,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut hooks = lock(&self.watch.hooks);
        if let Some(at) = hooks.iter().position(|&thread| thread == self.thread) {
            hooks.swap_remove(at);
        }
    }
}
