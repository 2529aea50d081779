//! Memory that the kernel reads and writes for the program: buffers and strings of system calls. No instruction refers
//! to it, yet the first touch of a page faults, and Linux counts that fault as any other.
//!
//! Only frequent calls are covered. A page is reported once, until mappings change or the process forks, so a loop of
//! reads into one buffer makes one message.

use crate::{guest, lane};
use reach_core::ring::Message;
use reach_core::{Advice, Span, VirtAddr};
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;

/// The most parts of a vector that are read: UIO_FASTIOV, up to which the kernel allocates no memory.
const MAX_PARTS: u64 = 8;

/// Direct-mapped table of reported pages, as [`key`]s. Each slot holds the last page that mapped to it.
static REPORTED: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

/// Encodes a page and the kind of access. Never 0 for pages of programs.
fn key(page: u64, write: bool) -> u64 {
    page << 1 | u64::from(write)
}

/// Forgets all reported pages, because they may have been unmapped or copied.
pub fn forget() {
    REPORTED.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
}

/// Reports that the kernel read or wrote `len` bytes at `start`.
pub fn report(vcpu: u32, start: u64, len: u64, write: bool) {
    if start < PAGE || len == 0 || start.checked_add(len).is_none() {
        return;
    }
    let (first, end) = (start / PAGE, (start + len).div_ceil(PAGE));
    let is_new = |&page: &u64| {
        let key = key(page, write);
        REPORTED[(key % REPORTED.len() as u64) as usize].swap(key, Ordering::Relaxed) != key
    };
    // Buffers longer than the table are reported as a whole.
    let new = if end - first > REPORTED.len() as u64 { first..end } else { hull((first..end).filter(is_new)) };
    if !new.is_empty() {
        let span = Span { start: VirtAddr(new.start * PAGE), len: (new.end - new.start) * PAGE };
        let advice = if write { Advice::PopulateWrite } else { Advice::PopulateRead };
        lane::send(vcpu, &Message::Advise(span, advice));
    }
}

/// Returns the range from the first page to the last.
fn hull(pages: impl Iterator<Item = u64>) -> std::ops::Range<u64> {
    pages.fold(0..0, |all, page| if all.is_empty() { page..page + 1 } else { all.start..page + 1 })
}

/// Reports the memory that the kernel touched in a system call that returned `result`.
pub fn report_call(vcpu: u32, number: libc::c_long, [a1, a2, a3, a4, a5, _]: [u64; 6], result: i64) {
    if result == -i64::from(libc::EFAULT) {
        return;
    }
    let path = |at| report(vcpu, at, 1, false);
    match number {
        libc::SYS_open
        | libc::SYS_access
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_statfs
        | libc::SYS_readlink => {
            path(a1);
        }
        libc::SYS_openat
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_readlinkat => path(a2),
        _ => {}
    }
    let Ok(done) = u64::try_from(result) else { return };
    let filled = |at, len| report(vcpu, at, len, true);
    match number {
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_recvfrom | libc::SYS_getdents64 | libc::SYS_readlink => {
            filled(a2, done.min(a3));
        }
        libc::SYS_readlinkat => filled(a3, done.min(a4)),
        libc::SYS_getrandom | libc::SYS_getcwd => filled(a1, done.min(a2)),
        libc::SYS_sched_getaffinity => filled(a3, done.min(a2)),
        libc::SYS_readv | libc::SYS_preadv => vector(vcpu, a2, a3, done, true),
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_sendto => report(vcpu, a2, done.min(a3), false),
        libc::SYS_writev | libc::SYS_pwritev => vector(vcpu, a2, a3, done, false),
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_fstat => filled(a2, size_of::<libc::stat>() as u64),
        libc::SYS_newfstatat => filled(a3, size_of::<libc::stat>() as u64),
        libc::SYS_statx => filled(a5, size_of::<libc::statx>() as u64),
        libc::SYS_statfs | libc::SYS_fstatfs => filled(a2, size_of::<libc::statfs>() as u64),
        libc::SYS_uname => filled(a1, size_of::<libc::utsname>() as u64),
        libc::SYS_sysinfo => filled(a1, size_of::<libc::sysinfo>() as u64),
        libc::SYS_pipe | libc::SYS_pipe2 => filled(a1, 8),
        libc::SYS_getrusage => filled(a2, size_of::<libc::rusage>() as u64),
        libc::SYS_clock_gettime | libc::SYS_getrlimit => filled(a2, 16),
        libc::SYS_prlimit64 => filled(a4, 16),
        libc::SYS_rt_sigprocmask => filled(a3, 8),
        libc::SYS_rt_sigaction => filled(a3, 32),
        libc::SYS_poll => filled(a1, a2.saturating_mul(size_of::<libc::pollfd>() as u64)),
        libc::SYS_wait4 => {
            filled(a2, 4);
            filled(a4, size_of::<libc::rusage>() as u64);
        }
        _ => {}
    }
}

/// Reports the first `done` bytes of a vector of buffers.
fn vector(vcpu: u32, parts: u64, count: u64, mut done: u64, write: bool) {
    for part in 0..count.min(MAX_PARTS) {
        let at = parts.wrapping_add(part * 16);
        let (Some(start), Some(len)) = (guest::word(at), guest::word(at.wrapping_add(8))) else { return };
        report(vcpu, start, len.min(done), write);
        done = done.saturating_sub(len);
        if done == 0 {
            return;
        }
    }
}
