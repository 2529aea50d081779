//! Moves code: first makes and verifies all copies, and then remaps each over its region with one system call.

use crate::maps;
use crate::plan::{Region, SUPERPAGE};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;

/// The result of a move, in numbers of regions.
pub struct Moved {
    pub done: usize,
    pub possible: usize,
    /// Why the last region that failed was not moved. `None` if all were.
    pub failure: Option<&'static str>,
}

/// The byte that fills unmapped parts of a region: an instruction that traps.
const FILL: u8 = 0xcc;

/// A copy of a region, on a superpage at another address.
struct Copy<'r> {
    region: &'r Region,
    at: usize,
    file: i32,
}

/// Moves regions. A region that cannot be moved stays as it is.
pub fn move_all(regions: &[Region]) -> Result<Moved, String> {
    let mut files = HashMap::new();
    let mut moved = Moved { done: 0, possible: regions.len(), failure: None };
    let mut copies = Vec::new();
    for region in regions {
        match prepare(region, &mut files) {
            Ok(copy) => copies.push(copy),
            Err(failure) => moved.failure = Some(failure),
        }
    }
    let listed = maps::read().map_err(|error| format!("/proc/self/smaps: {error}"))?;
    for copy in copies {
        // The kernel merges adjacent copies into one mapping, so all of the mapping must be superpages.
        let huge = listed
            .iter()
            .any(|mapping| mapping.contains(copy.at) && mapping.huge * 1024 == mapping.end - mapping.start);
        if !huge {
            moved.failure =
                Some("no superpage was allocated: memory is short or fragmented, or the process has them disabled");
            discard(copy.at);
        } else if replace(&copy) {
            moved.done += 1;
        } else {
            moved.failure = Some("the kernel refused to remap a copy");
            discard(copy.at);
        }
    }
    Ok(moved)
}

/// Copies a region to a superpage, and makes the copy executable and read-only.
fn prepare<'r>(
    region: &'r Region,
    files: &mut HashMap<String, Option<(File, maps::File)>>,
) -> Result<Copy<'r>, &'static str> {
    let piece = &region.pieces[0];
    let open = || {
        let file = File::open(&piece.path).ok()?;
        let identity = maps::identity(&file)?;
        Some((file, identity))
    };
    let file = files.entry(piece.path.clone()).or_insert_with(open).as_ref();
    // Without the file, a region could not be mapped again after a failure.
    let file = file.filter(|(_, identity)| *identity == piece.file()).map(|(file, _)| file);
    let file = file.ok_or("a file has been replaced or cannot be read")?.as_raw_fd();
    let at = superpage().ok_or("not enough memory")?;
    // SAFETY: `at` points to 2 MB of new memory that nothing else refers to; the pieces lie in the region, and are mapped
    // readable and not writable. A file that was cut ends the program (SIGBUS), as executing the code would.
    let executable = unsafe {
        ptr::write_bytes(at as *mut u8, FILL, SUPERPAGE);
        for piece in &region.pieces {
            let to = at + (piece.start - region.start);
            ptr::copy_nonoverlapping(piece.start as *const u8, to as *mut u8, piece.end - piece.start);
        }
        libc::madvise(at as *mut libc::c_void, SUPERPAGE, libc::MADV_COLLAPSE);
        libc::mprotect(at as *mut libc::c_void, SUPERPAGE, libc::PROT_READ | libc::PROT_EXEC) == 0
    };
    if executable {
        Ok(Copy { region, at, file })
    } else {
        discard(at);
        Err("a security module forbids executable copies")
    }
}

/// Allocates 2 MB of anonymous memory at a multiple of 2 MB, with MADV_HUGEPAGE. `None` if the kernel refuses.
fn superpage() -> Option<usize> {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice; the parts that are unmapped were never used.
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

/// Unmaps a copy.
fn discard(at: usize) {
    // SAFETY: the copy was not remapped, and nothing refers to it.
    unsafe { libc::munmap(at as *mut libc::c_void, SUPERPAGE) };
}

/// Remaps a copy over its region. Returns whether that succeeded; if not, maps the region from its file again, because
/// mremap may have unmapped it. This code must not lie in a region, nor call code that may.
#[inline(never)]
fn replace(copy: &Copy) -> bool {
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    // SAFETY: the copy holds the same bytes as the region, so code that executes there sees no difference.
    let result = unsafe { syscall(libc::SYS_mremap, [copy.at, SUPERPAGE, SUPERPAGE, flags, copy.region.start, 0]) };
    if result == copy.region.start as isize {
        return true;
    }
    for piece in &copy.region.pieces {
        let rights = libc::PROT_READ | if piece.execute { libc::PROT_EXEC } else { 0 };
        let (flags, length) = (libc::MAP_PRIVATE | libc::MAP_FIXED, piece.end - piece.start);
        let file = copy.file as usize;
        // SAFETY: the mapping has the same bytes and permissions as before.
        unsafe {
            syscall(
                libc::SYS_mmap,
                [piece.start, length, rights as usize, flags as usize, file, piece.offset as usize],
            );
        }
    }
    false
}

/// Makes a system call without the C library, whose code may be unmapped at this moment.
///
/// # Safety
/// The same as that of the system call.
#[inline(always)]
unsafe fn syscall(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the registers follow the kernel's calling convention; the caller guarantees that the call itself is
    // sound.
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
