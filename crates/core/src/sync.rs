//! Atomics and cells: those of the standard library, or of loom, which runs a test under every order of their operations.

#[cfg(loom)]
pub(crate) use loom::{cell::UnsafeCell, sync::atomic};

#[cfg(not(loom))]
pub(crate) use std::sync::atomic;

/// A cell that gives its address to a closure, as loom's does.
#[cfg(not(loom))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Lets other threads run.
pub(crate) fn pause(tries: u32) {
    #[cfg(loom)]
    {
        let _ = tries;
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    match tries {
        0..64 => std::thread::yield_now(),
        _ => std::thread::sleep(std::time::Duration::from_micros(20)),
    }
}
