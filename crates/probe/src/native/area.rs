//! Memory for patterns, in pages of one size.

use crate::bench::BenchError;
use crate::pattern::{Page, Pattern};
use std::collections::BTreeSet;
use std::io;
use std::ptr;

/// Bytes of an area, of which only visited pages take memory.
pub(super) const BYTES: u64 = 1 << 41;

/// Address space whose pages are of one size.
pub(super) struct Area {
    page: Page,
    /// The first byte: a multiple of the page.
    start: *mut u8,
    /// What mmap returned, and its length.
    mapping: (*mut libc::c_void, usize),
    /// Pages that have been written, by number.
    present: BTreeSet<u64>,
}

impl Area {
    /// Reserves address space.
    pub fn new(page: Page) -> Result<Area, BenchError> {
        let length = (BYTES + Page::Huge.bytes()) as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let mapping = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            return Err(BenchError::Failed(format!("cannot reserve 2 TB of addresses ({error}); raise `ulimit -v`")));
        }
        let start = mapping.cast::<u8>().map_addr(|at| at.next_multiple_of(Page::Huge.bytes() as usize));
        let area = Area { page, start, mapping: (mapping, length), present: BTreeSet::new() };
        let advice = match page {
            Page::Small => libc::MADV_NOHUGEPAGE,
            Page::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: the advice is on this area's own mapping, which nothing refers to yet.
        let advised = unsafe { libc::madvise(mapping, length, advice) };
        // A kernel without transparent huge pages refuses both, and has small pages only.
        if advised != 0 && page == Page::Huge && Area::has_huge_pages() {
            return Err(BenchError::Failed(format!("madvise: {}", io::Error::last_os_error())));
        }
        Ok(area)
    }

    /// Returns whether this kernel gives pages of 2 MB where it is asked to.
    pub fn has_huge_pages() -> bool {
        let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        text.contains("[always]") || text.contains("[madvise]")
    }

    /// Writes the chains of a pattern of loads, and returns the address of the first place of each. Keeps no more than `most` pages.
    pub fn write(&mut self, pattern: &Pattern, most: u64) -> Result<Vec<*const u8>, BenchError> {
        self.write_places(pattern, most, |area, chain, i| {
            let next = area.place(chain[(i + 1) % chain.len()]);
            // SAFETY: `write_places` gives places of this area only, all of them multiples of 64, and nothing else refers to
            // the memory there.
            unsafe { area.place(chain[i]).cast::<*const u8>().cast_mut().write(next) };
        })?;
        Ok(pattern.chains.iter().map(|chain| self.place(chain[0])).collect())
    }

    /// Calls `write` for each place of a pattern, with its chain and its number there. All places are multiples of 64 within the
    /// area, which must be writable. Keeps no more than `most` pages.
    pub fn write_places(
        &mut self,
        pattern: &Pattern,
        most: u64,
        write: impl Fn(&Area, &[u64], usize),
    ) -> Result<(), BenchError> {
        if pattern.end() > BYTES {
            return Err(BenchError::Failed(format!("a pattern of {} bytes: expected at most {BYTES}", pattern.end())));
        }
        let wanted: BTreeSet<u64> = pattern.chains.iter().flatten().map(|at| at >> self.page.shift()).collect();
        if wanted.len() as u64 > most {
            return Err(BenchError::Failed(format!("a pattern of {} pages: expected at most {most}", wanted.len())));
        }
        let new = wanted.difference(&self.present).count() as u64;
        if self.present.len() as u64 + new > most {
            self.drop_pages()?;
        }
        for chain in &pattern.chains {
            (0..chain.len()).for_each(|i| write(self, chain, i));
        }
        if new > 0 {
            self.present.extend(wanted);
            self.verify()?;
        }
        Ok(())
    }

    /// Gives the whole area these rights.
    pub fn protect(&mut self, rights: libc::c_int) -> Result<(), BenchError> {
        // SAFETY: the mapping is this area's own, and the borrow is exclusive: nobody visits its places meanwhile.
        if unsafe { libc::mprotect(self.mapping.0, self.mapping.1, rights) } != 0 {
            return Err(BenchError::Failed(format!("mprotect: {}", io::Error::last_os_error())));
        }
        Ok(())
    }

    /// Returns the address of a place.
    pub fn place(&self, offset: u64) -> *const u8 {
        self.start.wrapping_add(offset as usize)
    }

    /// Gives all pages back.
    fn drop_pages(&mut self) -> Result<(), BenchError> {
        // SAFETY: the pages are of this area's own mapping, and chains of earlier patterns are not followed any more.
        if unsafe { libc::madvise(self.mapping.0, self.mapping.1, libc::MADV_DONTNEED) } != 0 {
            return Err(BenchError::Failed(format!("madvise: {}", io::Error::last_os_error())));
        }
        self.present.clear();
        Ok(())
    }

    /// Checks that the kernel has given pages of the size that was asked for.
    fn verify(&self) -> Result<(), BenchError> {
        let huge =
            huge_bytes(self.start as u64).map_err(|error| BenchError::Failed(format!("/proc/self/smaps: {error}")))?;
        let expected = if self.page == Page::Huge { self.present.len() as u64 * self.page.bytes() } else { 0 };
        if huge == expected {
            return Ok(());
        }
        let (huge, expected) = (huge >> 21, expected >> 21);
        let why = format!("the kernel gave {huge} where {expected} were expected; memory may be fragmented");
        Err(BenchError::NoPages { page: self.page, why })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is this area's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.mapping.0, self.mapping.1) };
    }
}

/// Returns the bytes in transparent huge pages of the mapping that holds `address`.
fn huge_bytes(address: u64) -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps")?;
    let mut within = false;
    for line in text.lines() {
        let first = line.split_whitespace().next().unwrap_or("");
        if let Some((start, end)) = first.split_once('-') {
            let hex = |text| u64::from_str_radix(text, 16).unwrap_or(0);
            within = (hex(start)..hex(end)).contains(&address);
        } else if within && let Some(rest) = line.strip_prefix("AnonHugePages:") {
            let kilobytes: u64 = rest.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
            return Ok(kilobytes << 10);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}
