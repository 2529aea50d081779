//! How scattered the frames are that this Linux gives to base pages.
//!
//! In a guest, a walk also reads the host's entry for the frame. A line of the host's page table holds the entries of eight
//! frames, so it serves up to eight pages where frames are contiguous, and one where they are scattered, as on a computer that
//! has run for days. A table of the host holds the entries of 2 MB, and its place is cached for a few tables only.

use crate::elf::BASE;
use crate::frames::{Entry, PageMap};
use std::collections::HashSet;
use std::io;

/// Pages that are looked at: 64 MB.
const PAGES: u64 = 16384;

/// Frames whose entries share a line of a page table.
const GROUP: u64 = 8;

/// Frames whose entries share a page table.
const TABLE: u64 = 512;

/// How scattered the frames of new base pages are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frames {
    /// The aligned groups of eight frames that they lie in, for each page: 1/8 where they are contiguous, 1 where each is alone in
    /// its group.
    pub groups_per_page: f64,
    /// The share of pages whose frame lies in another aligned 2 MB than that of the page before: 1/512 where frames are
    /// contiguous.
    pub jumps_per_page: f64,
}

impl Frames {
    /// Returns how scattered `frames` are, in the order of their pages; `None` if there are none.
    fn of(frames: &[u64]) -> Option<Frames> {
        let groups: HashSet<u64> = frames.iter().map(|frame| frame / GROUP).collect();
        let jumps = frames.windows(2).filter(|pair| pair[0] / TABLE != pair[1] / TABLE).count();
        let per_page = |count: usize| count as f64 / frames.len() as f64;
        (!frames.is_empty())
            .then(|| Frames { groups_per_page: per_page(groups.len()), jumps_per_page: per_page(jumps) })
    }
}

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

/// Returns how scattered the frames of new base pages are. `None` if the kernel hides frames from this user.
///
/// # Errors
/// If there is no memory for the pages, or the page table cannot be read.
pub fn new_frames() -> io::Result<Option<Frames>> {
    let memory = Memory::touched()?;
    let start = memory.0 as u64;
    let mut frames = Vec::new();
    PageMap::of(None)?.read(start..start + PAGES * BASE, |_, entries| {
        frames.extend(entries.iter().filter_map(|entry| Entry::frame(*entry)));
    })?;
    Ok(Frames::of(&frames))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_between_contiguous_and_single_ones() {
        match new_frames().unwrap() {
            Some(Frames { groups_per_page, jumps_per_page }) => {
                assert!((0.1..=1.0).contains(&groups_per_page), "{groups_per_page}");
                assert!((0.001..=1.0).contains(&jumps_per_page), "{jumps_per_page}");
            }
            None => eprintln!("skipped: page frames are visible to root only"),
        }
    }

    #[test]
    fn groups_and_jumps_are_counted_for_each_page() {
        let of = |frames: &[u64]| Frames::of(frames).map(|f| (f.groups_per_page, f.jumps_per_page));
        assert_eq!(of(&(0..1024).collect::<Vec<_>>()), Some((0.125, 1.0 / 1024.0)));
        assert_eq!(of(&[7, 8, 519, 520]), Some((1.0, 0.25)), "511 is the last of its table");
        assert_eq!(of(&[0, 600, 1, 601]), Some((0.5, 0.75)));
        assert_eq!(of(&[]), None);
    }
}
