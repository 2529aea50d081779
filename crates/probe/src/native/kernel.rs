//! What the kernel's own work costs on this computer: system calls, page faults, zeroing, entries at fork.

use super::{ADDITIONS, files, seconds_of_additions};
use crate::bench::BenchError;
use crate::pass::Pass;
use crate::pattern::Page;
use std::io;
use std::ptr;
use std::time::Instant;

/// Repetitions, the shortest of which counts.
const TRIES: usize = 7;
/// System calls of a repetition.
const CALLS: u32 = 2000;
/// Pages that are touched in a repetition: 64 MB, more than most last-level caches hold, so that frames are not cached since the
/// repetition before.
const SMALL_PAGES: usize = 16_384;
const HUGE_PAGES: usize = 32;
/// Pages of the process that forks, beyond its own, in the larger of two forks.
const FORKED_PAGES: usize = 16_384;
/// A mapping that goes away with its value.
struct Mapping {
    start: *mut u8,
    length: usize,
}

impl Mapping {
    /// Maps memory of pages of this size, none of it touched.
    fn new(page: Page, pages: usize) -> io::Result<Mapping> {
        let length = pages * page.bytes() as usize + Page::Huge.bytes() as usize;
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Mapping { start: start.cast(), length };
        let advice = if page == Page::Small { libc::MADV_NOHUGEPAGE } else { libc::MADV_HUGEPAGE };
        // SAFETY: the advice is on this mapping alone. A kernel that does not know it has small pages only.
        unsafe { libc::madvise(mapping.start.cast(), length, advice) };
        Ok(mapping)
    }

    /// Writes to the first byte of `pages` pages, from the first boundary of 2 MB on.
    fn touch(&self, page: Page, pages: usize) {
        let skip = self.start.align_offset(Page::Huge.bytes() as usize);
        for i in 0..pages {
            // SAFETY: the mapping has room for `pages` pages behind its first boundary of 2 MB.
            unsafe { self.start.add(skip + i * page.bytes() as usize).write_volatile(1) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// Returns the core cycles of the shortest of some repetitions. `prepare` is not timed.
pub(super) fn shortest<T>(
    mut prepare: impl FnMut() -> io::Result<T>,
    mut run: impl FnMut(&mut T) -> io::Result<()>,
) -> io::Result<f64> {
    let (mut best, mut addition) = (f64::MAX, f64::MAX);
    for _ in 0..TRIES {
        let mut prepared = prepare()?;
        addition = addition.min(seconds_of_additions() / ADDITIONS as f64);
        let begin = Instant::now();
        run(&mut prepared)?;
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok(best / addition)
}

/// Returns the cycles of the first touch of a page.
fn fault(page: Page, pages: usize) -> io::Result<f64> {
    let touched = shortest(
        || Mapping::new(page, pages),
        |mapping| {
            mapping.touch(page, pages);
            Ok(())
        },
    )?;
    Ok(touched / pages as f64)
}

/// Returns the cycles of unmapping a small page that was touched.
fn unmap(pages: usize) -> io::Result<f64> {
    let touched = || {
        let mapping = Mapping::new(Page::Small, pages)?;
        mapping.touch(Page::Small, pages);
        Ok(Some(mapping))
    };
    let unmapped = shortest(touched, |mapping| {
        drop(mapping.take());
        Ok(())
    })?;
    Ok(unmapped / pages as f64)
}

/// Returns the cycles of a fork with `pages` more pages, as the parent sees it.
fn fork(pages: usize) -> io::Result<f64> {
    let memory = Mapping::new(Page::Small, pages)?;
    memory.touch(Page::Small, pages);
    let mut best = f64::MAX;
    let mut addition = f64::MAX;
    for _ in 0..TRIES {
        addition = addition.min(seconds_of_additions() / ADDITIONS as f64);
        let begin = Instant::now();
        // SAFETY: the child only ends itself, by a call that runs no code of this process.
        let child = unsafe { libc::fork() };
        match child {
            // SAFETY: as above.
            0 => unsafe { libc::_exit(0) },
            -1 => return Err(io::Error::last_os_error()),
            _ => best = best.min(begin.elapsed().as_secs_f64()),
        }
        // SAFETY: the child is this process's own; its status is not asked for.
        unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
    }
    Ok(best / addition)
}

/// Measures the kernel's work, and enters it into `pass`, in cycles: `os.syscall`, `os.fault.4k`, `os.fault.2m` (first touches,
/// with zeroing), `os.unmap`, `os.fault.file`, `os.fault.around`, `os.zero` (thousandths of a cycle for a byte) and `os.fork.page`.
pub(super) fn measure(pass: &mut Pass, has_huge: bool) {
    let syscall = shortest(
        || Ok(()),
        |()| {
            for _ in 0..CALLS {
                // SAFETY: the call takes nothing and cannot fail. The library does not answer it itself.
                unsafe { libc::syscall(libc::SYS_getppid) };
            }
            Ok(())
        },
    );
    enter(pass, "os.syscall", syscall.map(|cycles| cycles / f64::from(CALLS)));
    let small = fault(Page::Small, SMALL_PAGES);
    if let (Ok(small), true) = (&small, has_huge) {
        let huge = fault(Page::Huge, HUGE_PAGES);
        let more = (Page::Huge.bytes() - Page::Small.bytes()) as f64;
        if let Ok(huge) = &huge {
            // All that grows with the page is zeroing.
            pass.enter("os.zero", 1000.0 * (huge - small) / more);
        }
        enter(pass, "os.fault.2m", huge);
    }
    enter(pass, "os.fault.4k", small);
    enter(pass, "os.unmap", unmap(SMALL_PAGES));
    let page = fork(1).and_then(|small| Ok((fork(FORKED_PAGES)? - small) / FORKED_PAGES as f64));
    enter(pass, "os.fork.page", page);
    let (file, around) = match files::measure() {
        Ok(faults) => (Ok(faults.fault), faults.around.map_err(io::Error::other)),
        Err(error) => (Err(io::Error::other(error.to_string())), Err(error)),
    };
    enter(pass, "os.fault.file", file);
    enter(pass, "os.fault.around", around);
}

fn enter(pass: &mut Pass, name: &str, cycles: io::Result<f64>) {
    match cycles {
        Ok(cycles) => pass.enter(name, cycles),
        Err(error) => pass.lack(name, &BenchError::Failed(error.to_string())),
    }
}
