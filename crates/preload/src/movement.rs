//! Moving code: all copies are made and looked at first; then each takes the place of its window, in one system call.

use crate::maps;
use crate::plan::{SUPERPAGE, Window};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::ptr;

/// What came of it.
pub struct Moved {
    pub done: usize,
    pub possible: usize,
    /// Why it is not all, if it is not.
    pub why: &'static str,
}

/// What free memory beside code is filled with: it traps.
const FILL: u8 = 0xcc;

/// A copy of a window, on a superpage elsewhere.
struct Copy<'w> {
    window: &'w Window,
    at: usize,
    file: i32,
}

/// Moves windows. Those that cannot be moved stay.
pub fn all(windows: &[Window]) -> Result<Moved, String> {
    let mut files = HashMap::new();
    let mut moved = Moved { done: 0, possible: windows.len(), why: "" };
    let mut copies = Vec::new();
    for window in windows {
        match prepare(window, &mut files) {
            Ok(copy) => copies.push(copy),
            Err(why) => moved.why = why,
        }
    }
    let listed = maps::read().map_err(|error| format!("/proc/self/smaps: {error}"))?;
    for copy in copies {
        // Adjacent copies are one mapping, all of which must be superpages.
        let huge = listed
            .iter()
            .any(|mapping| mapping.contains(copy.at) && mapping.huge * 1024 == mapping.end - mapping.start);
        if !huge {
            moved.why = "no superpages to be had: memory is short or fragmented, or they are off for this process";
            discard(copy.at);
        } else if replace(&copy) {
            moved.done += 1;
        } else {
            moved.why = "the kernel refused to move some";
            discard(copy.at);
        }
    }
    Ok(moved)
}

/// Copies a window to a superpage of its own, which can be executed and not written.
fn prepare<'w>(window: &'w Window, files: &mut HashMap<String, Option<File>>) -> Result<Copy<'w>, &'static str> {
    let piece = &window.pieces[0];
    let file = files.entry(piece.path.clone()).or_insert_with(|| File::open(&piece.path).ok()).as_ref();
    let file = file.filter(|file| file.metadata().is_ok_and(|metadata| metadata.ino() == piece.inode));
    // Without the file, nothing could be put back.
    let file = file.ok_or("a file has been replaced or cannot be read")?.as_raw_fd();
    let at = superpage().ok_or("not enough memory")?;
    // SAFETY: `at` is new, ours alone, and of 2 MB; the pieces lie in the window, can be read, and nobody writes them.
    let executable = unsafe {
        ptr::write_bytes(at as *mut u8, FILL, SUPERPAGE);
        for piece in &window.pieces {
            let to = at + (piece.start - window.start);
            ptr::copy_nonoverlapping(piece.start as *const u8, to as *mut u8, piece.end - piece.start);
        }
        libc::madvise(at as *mut libc::c_void, SUPERPAGE, libc::MADV_COLLAPSE);
        libc::mprotect(at as *mut libc::c_void, SUPERPAGE, libc::PROT_READ | libc::PROT_EXEC) == 0
    };
    if executable {
        Ok(Copy { window, at, file })
    } else {
        discard(at);
        Err("copies may not be executed here (a security module forbids it)")
    }
}

/// Anonymous memory of 2 MB, aligned to it, that asks for a superpage.
fn superpage() -> Option<usize> {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory at an address of the kernel's choice; what is cut off was never used.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), 2 * SUPERPAGE, rights, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return None;
        }
        let (start, at) = (start as usize, (start as usize).next_multiple_of(SUPERPAGE));
        if at > start {
            libc::munmap(start as *mut libc::c_void, at - start);
        }
        libc::munmap((at + SUPERPAGE) as *mut libc::c_void, start + SUPERPAGE - at);
        libc::madvise(at as *mut libc::c_void, SUPERPAGE, libc::MADV_HUGEPAGE);
        Some(at)
    }
}

fn discard(at: usize) {
    // SAFETY: a copy that is not used.
    unsafe { libc::munmap(at as *mut libc::c_void, SUPERPAGE) };
}

/// Puts a copy in the place of its window. If the kernel fails on the way, what was there is mapped from its file again:
/// code that does this must not lie in a window, and call nothing that may.
#[inline(never)]
fn replace(copy: &Copy) -> bool {
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    // SAFETY: the new memory holds the same bytes as the old, so that whoever executes them sees no difference.
    let result = unsafe { syscall(libc::SYS_mremap, [copy.at, SUPERPAGE, SUPERPAGE, flags, copy.window.start, 0]) };
    if result == copy.window.start as isize {
        return true;
    }
    for piece in &copy.window.pieces {
        let rights = libc::PROT_READ | if piece.execute { libc::PROT_EXEC } else { 0 };
        let (flags, length) = (libc::MAP_PRIVATE | libc::MAP_FIXED, piece.end - piece.start);
        let file = copy.file as usize;
        // SAFETY: the same bytes under the same rights as before.
        unsafe {
            syscall(
                libc::SYS_mmap,
                [piece.start, length, rights as usize, flags as usize, file, piece.offset as usize],
            );
        }
    }
    false
}

/// A system call, with no help of the C library, whose code may just be gone.
///
/// # Safety
/// That of the system call.
#[inline(always)]
unsafe fn syscall(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the kernel's convention; what else it does is the caller's promise.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b, in("x2") c,
            in("x3") d, in("x4") e, in("x5") f, options(nostack));
    }
    result
}
