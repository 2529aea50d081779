//! Finds the regions of an image that can be superpages, and why others cannot (Zhou et al. 2023, section 6).

use crate::elf::{BASE, Elf, Kind, Segment};
use std::ops::Range;

/// Bytes of a superpage of code: what one entry of the second-lowest level of the page table maps.
pub const SUPERPAGE: u64 = 2 << 20;

/// Bytes of a cluster, the unit in which Zhou et al. count the resident part of a superpage.
pub const CLUSTER: u64 = 64 << 10;

/// Whether addresses and file offsets agree modulo 2 MB. Only then can a folio of 2 MB be mapped as a superpage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congruence {
    /// They agree wherever the image is loaded.
    Always,
    /// They agree if the loader happens to choose a multiple of 2 MB.
    WhereLoaded,
    /// They never agree.
    Never,
}

/// How a region can become a superpage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// In place: all of it is one executable segment.
    Whole,
    /// In an aligned copy of the file: its other pages are read-only and adjacent in the file, or unused.
    PadInCopy,
    /// In a process at its start: its other pages are read-only or unused, but not adjacent in the file.
    PadAtRun,
    /// Not at all: it shares its 2 MB with writable data.
    Writable,
}

/// A region: 2 MB of an image's addresses, at a multiple of 2 MB, that hold code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First address, before relocation.
    pub vaddr: u64,
    /// Offset in the file. `None` if addresses and offsets differ modulo 2 MB.
    pub offset: Option<u64>,
    /// Bytes of the base pages in it that hold code.
    pub code: u64,
    /// How it can become a superpage.
    pub fit: Fit,
}

impl Region {
    /// Returns its 2 MB of the file. `None` if addresses and offsets differ modulo 2 MB.
    pub fn file_range(&self) -> Option<Range<u64>> {
        self.offset.map(|offset| offset..offset + SUPERPAGE)
    }
}

/// Returns whether addresses and file offsets of a segment of `elf` will agree modulo 2 MB.
pub fn congruence(elf: &Elf, segment: &Segment) -> Congruence {
    if !segment.delta().is_multiple_of(SUPERPAGE) {
        Congruence::Never
    } else if elf.kind == Kind::Fixed || elf.align() >= SUPERPAGE {
        Congruence::Always
    } else {
        Congruence::WhereLoaded
    }
}

/// Returns all regions of `elf` in address order. Takes time in proportion to their number and to that of the segments.
pub fn regions(elf: &Elf) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    // A segment without bytes from the file holds no code when it is loaded.
    for segment in elf.code().filter(|segment| segment.file_size > 0) {
        let pages = segment.file_pages();
        let mut vaddr = pages.start & !(SUPERPAGE - 1);
        while vaddr < pages.end {
            if regions.last().is_none_or(|last| last.vaddr < vaddr) {
                regions.push(region(elf, segment, vaddr));
            }
            vaddr += SUPERPAGE;
        }
    }
    regions
}

/// Returns the region at `vaddr`, which holds code of `segment`.
fn region(elf: &Elf, segment: &Segment, vaddr: u64) -> Region {
    let all = vaddr..vaddr + SUPERPAGE;
    // Segments are in address order and share no page.
    let first = elf.segments.partition_point(|other| other.pages().end <= all.start);
    let within = || elf.segments[first..].iter().take_while(|other| other.pages().start < all.end);
    let code = within().filter(|other| other.execute).map(|other| overlap(&other.file_pages(), &all)).sum();
    let congruent = segment.delta().is_multiple_of(SUPERPAGE);
    let offset = (congruent && vaddr >= segment.delta()).then(|| vaddr - segment.delta());
    // The loader writes the memory that it clears.
    let cleared = |other: &Segment| overlap(&(other.file_pages().end..other.pages().end), &all) > 0;
    let fit = if within().any(|other| other.write || cleared(other)) {
        Fit::Writable
    } else if overlap(&segment.file_pages(), &all) == SUPERPAGE {
        Fit::Whole
    } else if offset.is_some() && within().all(|other| other.delta() == segment.delta()) {
        Fit::PadInCopy
    } else {
        Fit::PadAtRun
    };
    Region { vaddr, offset, code, fit }
}

/// Returns the length of the intersection, in bytes.
fn overlap(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

/// Returns the residual code of a segment of which `regions` are the image's, head and tail: the bytes before its first and after its last whole region, with
/// the fit of their regions. `None` if there are none. A single partial region is the tail if it starts inside the
/// segment, else the head.
pub fn residual(segment: &Segment, regions: &[Region]) -> [Option<(u64, Fit)>; 2] {
    let pages = segment.file_pages();
    let own = |region: &Region| overlap(&(region.vaddr..region.vaddr + SUPERPAGE), &pages);
    let first = regions.partition_point(|region| region.vaddr + SUPERPAGE <= pages.start);
    let regions = regions[first..].iter().take_while(|region| region.vaddr < pages.end);
    let mut partial = regions.filter(|region| own(region) > 0 && own(region) < SUPERPAGE);
    let first = partial.next();
    let starts_inside = |region: &Region| region.vaddr >= pages.start.next_multiple_of(SUPERPAGE);
    let residual = |region: &Region| (own(region), region.fit);
    match (first, partial.next()) {
        (Some(only), None) if starts_inside(only) => [None, Some(residual(only))],
        (head, tail) => [head.map(residual), tail.map(residual)],
    }
}

/// Returns the bytes of all base pages that hold code.
pub fn code_bytes(elf: &Elf) -> u64 {
    elf.code().map(|segment| segment.file_pages()).map(|pages| pages.end - pages.start).sum()
}

/// Returns the regions that can be promoted: the page cache can hold each in a folio of 2 MB, and processes can map it.
pub fn promotable(elf: &Elf) -> Vec<Region> {
    // No folio of the page cache reaches beyond the end of the file.
    let whole =
        |region: &Region| region.fit == Fit::Whole && region.file_range().is_some_and(|range| range.end <= elf.size);
    regions(elf).into_iter().filter(whole).collect()
}

const _: () = assert!(SUPERPAGE.is_multiple_of(CLUSTER) && CLUSTER.is_multiple_of(BASE));
