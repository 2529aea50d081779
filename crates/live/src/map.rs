//! Maps part of a file, to examine or fill its page cache.

use crate::elf::BASE;
use crate::layout::SUPERPAGE;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;

/// Advice to the kernel about a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// No readahead: touching a page reads no other.
    Random,
    /// Prefer superpages: readahead uses folios of 2 MB.
    Huge,
    /// Map all pages now. A page that cannot be read is an error instead of a signal.
    Populate,
    /// Collapse the resident pages to superpages now (Linux 6.1; of files, only on tmpfs).
    Collapse,
}

/// Part of a file, mapped privately and read-only at a multiple of 2 MB.
pub struct FileMap {
    base: *mut libc::c_void,
    length: usize,
    reserved: Range<usize>,
}

impl FileMap {
    /// Maps `range` of `file`. Its start must be a multiple of the base page size.
    ///
    /// # Errors
    /// The errors of mmap.
    pub fn new(file: &File, range: Range<u64>) -> io::Result<FileMap> {
        let length = (range.end - range.start).next_multiple_of(BASE) as usize;
        let reserve = length + SUPERPAGE as usize;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let reserved = unsafe {
            libc::mmap(ptr::null_mut(), reserve, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if reserved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = reserved as usize;
        let (flags, offset) = (libc::MAP_PRIVATE | libc::MAP_FIXED, range.start as libc::off_t);
        let base = start.next_multiple_of(SUPERPAGE as usize) as *mut libc::c_void;
        // SAFETY: within the address range that was just reserved, and that nobody else knows of.
        let mapped = unsafe { libc::mmap(base, length, libc::PROT_READ, flags, file.as_raw_fd(), offset) };
        // From here on, dropping the value unmaps the reservation.
        let map = FileMap { base, length, reserved: start..start + reserve };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(map) }
    }

    /// Returns the address of its first byte.
    pub fn address(&self) -> u64 {
        self.base as u64
    }

    /// Advises the kernel about `bytes`, offsets within the mapping.
    ///
    /// # Errors
    /// The errors of madvise. `Populate` fails if a page cannot be read, `Collapse` if a page cannot be collapsed.
    ///
    /// # Panics
    /// If `bytes` exceeds the mapping.
    pub fn advise(&self, bytes: Range<u64>, advice: Advice) -> io::Result<()> {
        assert!(bytes.end <= self.length as u64 && bytes.start <= bytes.end);
        let advice = match advice {
            Advice::Random => libc::MADV_RANDOM,
            Advice::Huge => libc::MADV_HUGEPAGE,
            Advice::Populate => libc::MADV_POPULATE_READ,
            Advice::Collapse => libc::MADV_COLLAPSE,
        };
        let (start, length) = (self.base.wrapping_byte_add(bytes.start as usize), (bytes.end - bytes.start) as usize);
        // SAFETY: the range lies in this mapping, of which no references exist; this advice changes no content.
        match unsafe { libc::madvise(start, length, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns which of its base pages are in the page cache. For users who cannot write the file, the kernel answers that
    /// all are.
    ///
    /// # Errors
    /// The errors of mincore.
    pub fn resident(&self) -> io::Result<Vec<bool>> {
        let mut pages = vec![0u8; self.length / BASE as usize];
        // SAFETY: the range lies in this mapping, and there is a byte for each of its pages.
        match unsafe { libc::mincore(self.base, self.length, pages.as_mut_ptr()) } {
            0 => Ok(pages.into_iter().map(|page| page & 1 != 0).collect()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Writes the dirty pages of `range` of a file, and waits until they are written. Writes no other page and no metadata. Has no
/// effect on the files of an overlay.
///
/// # Errors
/// The errors of sync_file_range.
pub fn write_back(file: &File, range: &Range<u64>) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let (start, length) = (range.start as libc::off64_t, (range.end - range.start) as libc::off64_t);
    // SAFETY: the call takes a descriptor and numbers.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), start, length, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: all of it was made by `new`, and goes.
        unsafe { libc::munmap(self.reserved.start as *mut libc::c_void, self.reserved.len()) };
    }
}

/// Makes the kernel compact memory to free 2 MB of contiguous frames, by allocating and freeing an anonymous superpage.
/// For folios of files, the kernel does not compact. May have no effect; callers verify the result.
pub fn make_room() {
    let (length, rights) = (2 * SUPERPAGE as usize, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping at an address of the kernel's choice, unmapped before the function returns.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), length, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        if start == libc::MAP_FAILED {
            return;
        }
        let aligned = (start as usize).next_multiple_of(SUPERPAGE as usize) as *mut libc::c_void;
        libc::madvise(aligned, SUPERPAGE as usize, libc::MADV_HUGEPAGE);
        libc::madvise(aligned, libc::sysconf(libc::_SC_PAGESIZE) as usize, libc::MADV_POPULATE_WRITE);
        libc::munmap(start, length);
    }
}
