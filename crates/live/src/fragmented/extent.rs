//! An extent of memory that starts and ends at the boundary of a huge page, addressed by base pages.

use crate::elf::BASE;
use crate::layout::SUPERPAGE;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a base page.
pub const PAGE: usize = BASE as usize;
/// Bytes of a huge page.
const HUGE: usize = SUPERPAGE as usize;
/// Base pages of a huge page.
pub const PAGES: usize = HUGE / PAGE;

const RIGHTS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
const FLAGS: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);

/// Memory of this process that holds nothing of interest. Nothing borrows from it.
pub struct Extent {
    mapping: *mut c_void,
    /// Bytes from `mapping` to the first boundary of a huge page.
    before: usize,
    /// Huge pages.
    blocks: usize,
}

impl Extent {
    /// Reserves addresses for this many huge pages.
    pub fn new(blocks: usize) -> io::Result<Extent> {
        let bytes = (blocks + 1) * HUGE;
        // SAFETY: a new mapping, at an address of the kernel's choice, affects no other memory.
        let mapping = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, RIGHTS, FLAGS) }?;
        let before = (mapping as usize).next_multiple_of(HUGE) - mapping as usize;
        Ok(Extent { mapping, before, blocks })
    }

    /// The number of its base pages.
    pub fn pages(&self) -> usize {
        self.blocks * PAGES
    }

    /// Returns the address of a page.
    fn at(&self, page: usize) -> *mut c_void {
        assert!(page < self.pages(), "page {page} of {}", self.pages());
        self.mapping.wrapping_byte_add(self.before + page * PAGE)
    }

    /// Writes to a page.
    pub fn touch(&self, page: usize) {
        // SAFETY: the byte lies in the mapping, which is writable, and from which nothing borrows.
        unsafe { self.at(page).cast::<u8>().write_volatile(1) }
    }

    /// Returns whether a page is in memory.
    pub fn is_resident(&self, page: usize) -> io::Result<bool> {
        let mut state = 0;
        // SAFETY: the call writes one byte for the one page, which lies in the mapping.
        match unsafe { libc::mincore(self.at(page), PAGE, &raw mut state) } {
            0 => Ok(state & 1 == 1),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Advises the kernel about these pages.
    pub fn advise(&self, pages: Range<usize>, advice: Advice) -> io::Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        self.at(pages.end - 1);
        // SAFETY: the pages lie in the mapping, from which nothing borrows, and whose contents do not matter.
        Ok(unsafe { madvise(self.at(pages.start), pages.len() * PAGE, advice) }?)
    }

    /// Replaces the huge page that starts at this page, and its page table, by a new mapping.
    pub fn map_again(&self, first: usize) -> io::Result<()> {
        assert!(first.is_multiple_of(PAGES), "page {first}");
        // SAFETY: a huge page that starts in the mapping ends in it, and nothing borrows from it.
        unsafe { mmap_anonymous(self.at(first), HUGE, RIGHTS, FLAGS | MapFlags::FIXED) }?;
        Ok(())
    }

    /// Has a pipe refer to a page.
    pub fn splice(&self, page: usize, pipe: BorrowedFd) -> io::Result<()> {
        let bytes = libc::iovec { iov_base: self.at(page), iov_len: PAGE };
        // SAFETY: the page lies in the mapping, and its content does not matter to whoever reads the pipe: nobody does.
        match unsafe { libc::vmsplice(pipe.as_raw_fd(), &raw const bytes, 1, libc::SPLICE_F_NONBLOCK) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing borrows from it.
        let _ = unsafe { munmap(self.mapping, (self.blocks + 1) * HUGE) };
    }
}
