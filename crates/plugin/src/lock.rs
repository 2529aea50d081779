//! A lock without guard or owner, which can be held across a fork and released in the child, and held across callbacks.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Protects a value. It waits by yielding, for sections that are short or rarely contended.
pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only `with` reaches the value, while it holds the lock.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Lock<T> {
        Lock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the lock. [`Lock::release`] must follow, in this or another function.
    pub fn take(&self) {
        let mut tries = 0;
        while self.held.swap(true, Ordering::Acquire) {
            tries += 1;
            if tries < 64 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(std::time::Duration::from_micros(20));
            }
        }
    }

    /// Releases the lock.
    pub fn release(&self) {
        self.held.store(false, Ordering::Release);
    }

    /// Calls `f` on the value, under the lock.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.take();
        // SAFETY: the lock is held, so this is the only reference.
        let result = f(unsafe { &mut *self.value.get() });
        self.release();
        result
    }
}
