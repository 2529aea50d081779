//! How scattered the frames are that this Linux gives to base pages.
//!
//! In a guest, a walk also reads the host's entry for the frame. A line of the host's page table holds the entries of eight
//! frames, so it serves up to eight pages where frames are contiguous, and one where they are scattered, as on a computer that
//! has run for days.

use crate::elf::BASE;
use crate::frames::{Entry, PageMap};
use std::collections::HashSet;
use std::io;

/// Pages that are looked at: 64 MB.
const PAGES: u64 = 16384;

/// Frames whose entries share a line of a page table.
const GROUP: u64 = 8;

/// Anonymous memory without huge pages, which is unmapped when it is dropped.
struct Memory(*mut libc::c_void);

impl Memory {
    const BYTES: usize = (PAGES * BASE) as usize;

    fn touched() -> io::Result<Memory> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at an address that the kernel chooses, affects no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = Memory(start);
        // SAFETY: the range is this mapping, to which there are no references; the advice changes no content.
        if unsafe { libc::madvise(start, Self::BYTES, libc::MADV_NOHUGEPAGE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        for page in 0..PAGES {
            // SAFETY: the byte lies in this mapping, which is writable.
            unsafe { start.cast::<u8>().add((page * BASE) as usize).write_volatile(1) };
        }
        Ok(memory)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, to which there are no references.
        unsafe { libc::munmap(self.0, Self::BYTES) };
    }
}

/// Returns the aligned groups of eight frames that new pages lie in, for each page: 1/8 where they are contiguous, 1 where each
/// is alone in its group. `None` if the kernel hides frames from this user.
///
/// # Errors
/// If there is no memory for the pages, or the page table cannot be read.
pub fn groups_per_page() -> io::Result<Option<f64>> {
    let memory = Memory::touched()?;
    let start = memory.0 as u64;
    let mut groups = HashSet::new();
    PageMap::of(None)?.read(start..start + PAGES * BASE, |_, entries| {
        groups.extend(entries.iter().filter_map(|entry| Entry::frame(*entry)).map(|frame| frame / GROUP));
    })?;
    Ok((!groups.is_empty()).then(|| groups.len() as f64 / PAGES as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_between_those_of_contiguous_and_of_single_frames() {
        match groups_per_page().unwrap() {
            Some(groups) => assert!((0.1..=1.0).contains(&groups), "{groups}"),
            None => eprintln!("skipped: page frames are visible to root only"),
        }
    }
}
