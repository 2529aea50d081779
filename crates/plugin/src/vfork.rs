//! vfork: the emulator forks for it and lets the parent run on. Linux lets it wait until the child has left its memory,
//! so here it waits as well: what both do to the memory that they would share comes in the right order.
//!
//! The child holds one end of a pipe, which exec and every way to die close.

use std::sync::atomic::{AtomicI32, Ordering};

/// Descriptors above those that programs use.
const HIGH: i32 = 900;

/// The end that this process holds as a child; negative: none.
static HELD: AtomicI32 = AtomicI32::new(-1);

/// A pipe on its way through a fork. Forks come one at a time.
static READ: AtomicI32 = AtomicI32::new(-1);
static WRITE: AtomicI32 = AtomicI32::new(-1);

/// A fork comes whose child is to share memory. Without descriptors left, the parent will not wait.
pub fn before() {
    let mut ends = [-1; 2];
    // SAFETY: the kernel fills both numbers when it returns 0.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return;
    }
    let [read, write] = ends.map(|low| {
        // SAFETY: the descriptor was just made.
        let high = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, HIGH) };
        close(low);
        high
    });
    if read < 0 || write < 0 {
        close(read);
        close(write);
        return;
    }
    READ.store(read, Ordering::Relaxed);
    WRITE.store(write, Ordering::Relaxed);
}

/// After the fork: what the parent has to wait for.
pub fn in_parent() -> Option<i32> {
    close(WRITE.swap(-1, Ordering::Relaxed));
    Some(READ.swap(-1, Ordering::Relaxed)).filter(|&read| read >= 0)
}

/// After any fork: a child holds its own end, not that of its parent.
pub fn in_child() {
    close(READ.swap(-1, Ordering::Relaxed));
    close(HELD.swap(WRITE.swap(-1, Ordering::Relaxed), Ordering::Relaxed));
}

/// Waits until the child has left.
pub fn wait(read: i32) {
    let mut byte = 0u8;
    // SAFETY: at most one byte is written; nobody ever sends one.
    unsafe { while libc::read(read, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {} }
    close(read);
}

fn close(descriptor: i32) {
    if descriptor >= 0 {
        // SAFETY: it was opened here.
        unsafe { libc::close(descriptor) };
    }
}
