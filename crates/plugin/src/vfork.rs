//! vfork. Linux suspends the parent until the child execs or exits; the emulator instead forks, and lets the parent
//! run. Here the parent waits as under Linux, so that accesses of both to the memory that they would share come in the
//! right order.
//!
//! The child holds the write end of a pipe, which exec and any kind of death close.

use crate::descriptor::duplicate;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// The write end that this process holds as a child; negative for none.
static HELD: AtomicI32 = AtomicI32::new(-1);

/// The pipe of the current fork. Forks are serialised by the mapping lock.
static READ: AtomicI32 = AtomicI32::new(-1);
static WRITE: AtomicI32 = AtomicI32::new(-1);

/// Makes the pipe, before a fork whose child shares memory. When no descriptors are left, the parent will not wait.
pub fn before() {
    let mut ends = [-1; 2];
    // SAFETY: the kernel writes two descriptors to `ends`.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return;
    }
    let [read, write] = ends.map(|low| {
        let high = duplicate(low, libc::F_DUPFD_CLOEXEC);
        close(low);
        high.map_or(-1, IntoRawFd::into_raw_fd)
    });
    if read < 0 || write < 0 {
        close(read);
        close(write);
        return;
    }
    READ.store(read, Ordering::Relaxed);
    WRITE.store(write, Ordering::Relaxed);
}

/// Returns the read end in the parent, after the fork; `None` when it need not wait.
pub fn in_parent() -> Option<i32> {
    close(WRITE.swap(-1, Ordering::Relaxed));
    Some(READ.swap(-1, Ordering::Relaxed)).filter(|&read| read >= 0)
}

/// Keeps the write end of this fork in the child, and closes that of its parent. Call it after every fork.
pub fn in_child() {
    close(READ.swap(-1, Ordering::Relaxed));
    close(HELD.swap(WRITE.swap(-1, Ordering::Relaxed), Ordering::Relaxed));
}

/// Waits until the child has exec'd or died, and closes the pipe.
pub fn wait(read: i32) {
    let mut byte = 0u8;
    // SAFETY: the kernel writes at most one byte, to `byte`. No process ever sends one: the read ends at end of file.
    unsafe { while libc::read(read, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {} }
    close(read);
}

fn close(descriptor: i32) {
    if descriptor >= 0 {
        // SAFETY: this module opened the descriptor and closes it once.
        unsafe { libc::close(descriptor) };
    }
}
