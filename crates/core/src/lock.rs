//! Locks for code in an emulator's process, which forks at any time and calls back: they can be held across a fork and
//! released in the child, and held from one call-back to another. The standard library's mutex can do neither.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{UnsafeCell, pause};

/// A lock without a value and without an owner. It waits by yielding, for sections that are short or rarely contended.
///
/// It orders what its users do. It protects no memory, so that releasing it too early is an error, but never unsound.
pub struct RawLock {
    held: AtomicBool,
}

/// A lock that protects a value. Nothing but [`Held`] releases it, also when a panic unwinds.
pub struct Lock<T> {
    raw: RawLock,
    value: UnsafeCell<T>,
}

/// The possession of a lock, which ends when this is dropped. In a forked child, the copy of the forking thread's
/// possession releases the child's copy of the lock.
pub struct Held<'l>(&'l RawLock);

// SAFETY: only `with` reaches the value, while it alone possesses the lock; so sharing the lock sends the value at most.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: as for any container of a value.
#[cfg(loom)]
unsafe impl<T: Send> Send for Lock<T> {}

/// Declares a constructor that is constant, except under loom.
macro_rules! constructor {
    ($(#[$about:meta])* ($($argument:ident: $type:ty)?) -> $result:ty $body:block) => {
        $(#[$about])*
        #[cfg(not(loom))]
        pub const fn new($($argument: $type)?) -> $result $body
        $(#[$about])*
        #[cfg(loom)]
        pub fn new($($argument: $type)?) -> $result $body
    };
}

impl RawLock {
    constructor! {
        /// Makes a lock that is free.
        #[allow(clippy::new_without_default)]
        () -> RawLock { RawLock { held: AtomicBool::new(false) } }
    }

    /// Takes the lock. [`RawLock::release`] must follow, in this or another function.
    pub fn take(&self) {
        let mut tries = 0;
        while self.held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            pause(tries);
            tries += 1;
        }
    }

    /// Releases the lock.
    pub fn release(&self) {
        self.held.store(false, Ordering::Release);
    }
}

impl<T> Lock<T> {
    constructor! {
        /// Makes a lock that is free.
        (value: T) -> Lock<T> { Lock { raw: RawLock::new(), value: UnsafeCell::new(value) } }
    }

    /// Takes the lock without access to the value.
    pub fn hold(&self) -> Held<'_> {
        self.raw.take();
        Held(&self.raw)
    }

    /// Calls `f` on the value, under the lock. Never returns if the calling thread possesses the lock already.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let _held = self.hold();
        // SAFETY: `_held` is the only possession of the lock until this function ends, also by a panic, and only `with`
        // makes references to the value.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_under_the_lock_releases_it() {
        let lock = Lock::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            lock.with(|value| {
                *value = 2;
                panic!("under the lock");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(lock.with(|value| *value), 2);
    }

    #[test]
    fn threads_change_the_value_one_at_a_time() {
        static LOCK: Lock<u64> = Lock::new(0);
        const EACH: u64 = if cfg!(miri) { 100 } else { 20_000 };
        let threads = (0..3).map(|_| std::thread::spawn(|| (0..EACH).for_each(|_| LOCK.with(|value| *value += 1))));
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(LOCK.with(|value| *value), 3 * EACH);
    }

    #[test]
    fn a_possession_keeps_others_out_until_it_is_dropped() {
        let lock = Lock::new(0);
        let held = lock.hold();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| lock.with(|value| std::mem::replace(value, 1)));
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(!other.is_finished());
            drop(held);
            assert_eq!(other.join().unwrap(), 0);
        });
        let raw = RawLock::new();
        raw.take();
        raw.release();
        raw.take();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Loom's cell fails the test where two threads may reach the value at a time, in any order of their operations.
    #[test]
    fn no_order_of_operations_gives_two_threads_the_value() {
        loom::model(|| {
            let lock = Arc::new(Lock::new(0));
            let other = Arc::clone(&lock);
            let thread = thread::spawn(move || other.with(|value| *value += 1));
            let held = lock.hold();
            drop(held);
            lock.with(|value| *value += 1);
            thread.join().unwrap();
            assert_eq!(lock.with(|value| *value), 2);
        });
    }
}
