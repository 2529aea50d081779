//! The addresses that Linux chooses for new mappings: `mm/mmap.c`, `mm/huge_memory.c` and `mm/hugetlb.c` of Linux 6.18, for
//! 64-bit programs on x86-64.
//!
//! | Linux | here |
//! |---|---|
//! | `mmap_base` | [`MappingArea::top_for`] |
//! | `unmapped_area_topdown` | `MappingArea::highest_gap` |
//! | `__thp_get_unmapped_area` | `MappingArea::superpage_aligned` |
//! | `shmem_get_unmapped_area` | `MappingArea::congruent` |
//! | `__get_unmapped_area` | [`MappingArea::place`] |
//!
//! Capture places the program's mappings by these rules, because the places decide where huge pages fit. So the references
//! of a program depend neither on the emulator's version nor on the kernel that the capture runs on.

use std::collections::BTreeMap;
use std::ops::Range;

const PAGE: u64 = 4096;

/// The bytes of a huge page (`PMD_SIZE`).
const HUGE: u64 = 2 << 20;

/// The least distance from the end of the stack to the mappings below it (`SIZE_128M`), in bytes.
const MIN_STACK_GAP: u64 = 128 << 20;

/// The gap that the kernel keeps below a stack (`stack_guard_gap`), in bytes.
const STACK_GUARD_GAP: u64 = 1 << 20;

/// The contents of a new mapping, as far as its place depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Private anonymous memory: from a multiple of 2 MB on if its length is one.
    Anonymous,
    /// A file on a disk, from `offset` bytes on: congruent to its offset modulo 2 MB if that gives it a huge page.
    File {
        /// The offset in the file, in bytes.
        offset: u64,
    },
    /// Shared memory (tmpfs, memfd, MAP_SHARED without a file): at any page.
    SharedMemory,
    /// Shared memory that may have huge pages (`shmem_enabled`, or `huge=` of a tmpfs mount), from `offset` bytes on: congruent to its
    /// offset modulo 2 MB if that gives it a huge page.
    HugeSharedMemory {
        /// The offset in the file, in bytes.
        offset: u64,
    },
    /// Pages of hugetlbfs (MAP_HUGETLB), with the binary logarithm of their size.
    HugePages(u8),
}

/// The part of an address space in which Linux chooses addresses, with the spans that are in use.
#[derive(Clone, Debug)]
pub struct MappingArea {
    /// The addresses from which one is chosen. The highest are taken first.
    area: Range<u64>,
    /// The ends of the spans in use, by start. Spans neither overlap nor adjoin.
    taken: BTreeMap<u64, u64>,
}

impl MappingArea {
    /// Returns an unused area. Both ends must be multiples of 4096.
    pub fn new(area: Range<u64>) -> MappingArea {
        debug_assert!(area.start.is_multiple_of(PAGE) && area.end.is_multiple_of(PAGE));
        MappingArea { area, taken: BTreeMap::new() }
    }

    /// Returns the end of the area below a stack that ends at `stack_end` and may grow to `stack_limit` bytes.
    pub fn top_for(stack_end: u64, stack_limit: u64) -> u64 {
        let gap = stack_limit.saturating_add(STACK_GUARD_GAP).clamp(MIN_STACK_GAP, stack_end / 6 * 5);
        (stack_end - gap).next_multiple_of(PAGE)
    }

    /// Returns whether the area has an address of `span`.
    pub fn touches(&self, span: &Range<u64>) -> bool {
        span.start < self.area.end && span.end > self.area.start
    }

    /// Returns whether `span` lies in the area and no byte of it is in use.
    pub fn is_free(&self, span: &Range<u64>) -> bool {
        let before = self.taken.range(..span.end).next_back();
        span.start >= self.area.start && span.end <= self.area.end && before.is_none_or(|(_, &end)| end <= span.start)
    }

    /// Returns the address of a new mapping of `len` bytes without a hint, and does not take it. `None` when no gap is
    /// large enough.
    pub fn place(&self, len: u64, contents: Contents) -> Option<u64> {
        let len = len.checked_next_multiple_of(PAGE)?;
        let aligned = match contents {
            Contents::Anonymous if len.is_multiple_of(HUGE) => self.superpage_aligned(len, 0),
            Contents::File { offset } => self.superpage_aligned(len, offset),
            Contents::HugePages(shift) => {
                let size = 1u64.checked_shl(shift.into())?;
                return self.highest_gap(len.checked_next_multiple_of(size)?, size - 1);
            }
            Contents::HugeSharedMemory { offset } => self.congruent(len, offset),
            Contents::Anonymous | Contents::SharedMemory => None,
        };
        aligned.or_else(|| self.highest_gap(len, 0))
    }

    /// Returns the address congruent to `offset` modulo 2 MB in the highest gap that holds `len` bytes and 2 MB more. `None`
    /// when the mapping would have no huge page, or when no gap is large enough.
    fn superpage_aligned(&self, len: u64, offset: u64) -> Option<u64> {
        let first = offset.checked_next_multiple_of(HUGE)?;
        if offset.checked_add(len)?.checked_sub(first)? < HUGE {
            return None;
        }
        let at = self.highest_gap(len.checked_add(HUGE)?, 0)?;
        // A gap that is congruent already has its spare 2 MB left below.
        match offset.wrapping_sub(at) % HUGE {
            0 => Some(at + HUGE),
            distance => Some(at + distance),
        }
    }

    /// Returns the lowest address congruent to `offset` modulo 2 MB in the highest gap that holds `len` bytes and almost 2 MB more,
    /// unless the highest gap for `len` bytes is congruent already. `None` when the mapping would have no huge page, or when no gap
    /// is large enough.
    fn congruent(&self, len: u64, offset: u64) -> Option<u64> {
        let offset = offset % HUGE;
        if len < HUGE || offset != 0 && offset + len < 2 * HUGE {
            return None;
        }
        let plain = self.highest_gap(len, 0)?;
        if plain % HUGE == offset {
            return Some(plain);
        }
        let at = self.highest_gap(len.checked_add(HUGE - PAGE)?, 0)?;
        Some(at + offset.wrapping_sub(at) % HUGE)
    }

    /// Returns the highest address with `len` free bytes whose bits `mask` are zero, in a gap with room for any such bits.
    fn highest_gap(&self, len: u64, mask: u64) -> Option<u64> {
        let room = len.checked_add(mask)?;
        let mut end = self.area.end;
        for (&start, &next_end) in self.taken.iter().rev() {
            if end.checked_sub(next_end).is_some_and(|gap| gap >= room) {
                break;
            }
            end = end.min(start);
        }
        let start = end.checked_sub(room).filter(|&start| start >= self.area.start)?;
        Some((start + mask) & !mask)
    }

    /// Marks the part of `span` in the area as in use, whatever it was before.
    pub fn take(&mut self, span: Range<u64>) {
        let (mut start, mut end) = (span.start.max(self.area.start), span.end.min(self.area.end));
        if start >= end {
            return;
        }
        // Spans that overlap or adjoin become one.
        while let Some((&from, &to)) = self.taken.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            (start, end) = (start.min(from), end.max(to));
            self.taken.remove(&from);
        }
        self.taken.insert(start, end);
    }

    /// Marks `span` as free.
    pub fn release(&mut self, span: Range<u64>) {
        if span.is_empty() {
            return;
        }
        while let Some((&from, &to)) = self.taken.range(..span.end).next_back().filter(|(_, to)| **to > span.start) {
            self.taken.remove(&from);
            if to > span.end {
                self.taken.insert(span.end, to);
            }
            if from < span.start {
                self.taken.insert(from, span.start);
            }
            if from <= span.start {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
