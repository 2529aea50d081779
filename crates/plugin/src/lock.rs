//! A lock that can be held across a fork and let go in the child, and across callbacks: no guard, no owner.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Guards a value. For sections that are short or rarely contended: waiting is yielding.
pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only by `with`, under the lock, or by whoever holds the lock.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Lock<T> {
        Lock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the lock; [`Lock::release`] must follow, from whatever function.
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

    /// Lets the lock go.
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
