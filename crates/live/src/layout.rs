//! Superpages of code: which 2 MB regions of an image's addresses can be one page, and what stands in the way of others
//! (Zhou et al. 2023, section 6).

use crate::elf::{BASE, Elf, Kind, Segment};
use std::ops::Range;

/// The superpages that code is mapped with: one entry of the second level of the page table.
pub const SUPERPAGE: u64 = 2 << 20;

/// The unit in which Zhou et al. count what of a superpage is in memory.
pub const CLUSTER: u64 = 64 << 10;

/// Whether addresses and file offsets agree modulo 2 MB. Only then can a superpage of the page cache be mapped as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congruence {
    /// Wherever the image is loaded.
    Always,
    /// Where the loader happens to choose a multiple of 2 MB.
    WhereLoaded,
    /// Nowhere.
    Never,
}

/// What a region of 2 MB that holds code could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// All of it is one executable segment.
    Whole,
    /// A copy of the file can make it one: its other pages are read-only neighbours in the file, or free.
    PadInCopy,
    /// A process can make it one, at its start: its other pages are read-only neighbours, or free.
    PadAtRun,
    /// Writable data shares it.
    Writable,
}

/// A region of 2 MB, aligned to 2 MB, that holds code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its first address, before relocation.
    pub vaddr: u64,
    /// Where it is in the file, where addresses and offsets are congruent.
    pub offset: Option<u64>,
    /// Bytes of code in it, in base pages.
    pub code: u64,
    /// What it could be.
    pub fit: Fit,
}

impl Region {
    /// Its part of the file, of 2 MB.
    pub fn file_range(&self) -> Option<Range<u64>> {
        self.offset.map(|offset| offset..offset + SUPERPAGE)
    }
}

/// How a segment of `elf` will lie.
pub fn congruence(elf: &Elf, segment: &Segment) -> Congruence {
    if !segment.delta().is_multiple_of(SUPERPAGE) {
        Congruence::Never
    } else if elf.kind == Kind::Fixed || elf.align() >= SUPERPAGE {
        Congruence::Always
    } else {
        Congruence::WhereLoaded
    }
}

/// All regions of `elf` that hold code, in order of address.
pub fn regions(elf: &Elf) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    // A segment with nothing from the file is no code yet.
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

/// The region at `vaddr`, which holds code of `segment`.
fn region(elf: &Elf, segment: &Segment, vaddr: u64) -> Region {
    let all = vaddr..vaddr + SUPERPAGE;
    let within = || elf.segments.iter().filter(|other| overlap(&other.pages(), &all) > 0);
    let code = within().filter(|other| other.execute).map(|other| overlap(&other.file_pages(), &all)).sum();
    let congruent = segment.delta().is_multiple_of(SUPERPAGE);
    let offset = (congruent && vaddr >= segment.delta()).then(|| vaddr - segment.delta());
    // Memory that the loader clears is written once.
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

fn overlap(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

/// The residual code of a segment: bytes in its regions that are not whole, before and after those that are. Both
/// regions come along; where there is but one, it counts as the head.
pub fn residual(segment: &Segment, regions: &[Region]) -> [Option<(u64, Fit)>; 2] {
    let pages = segment.file_pages();
    let own = |region: &Region| overlap(&(region.vaddr..region.vaddr + SUPERPAGE), &pages);
    let mut partial = regions.iter().filter(|region| own(region) > 0 && own(region) < SUPERPAGE);
    let first = partial.next();
    let whole_before = |region: &Region| region.vaddr >= pages.start.next_multiple_of(SUPERPAGE);
    let said = |region: &Region| (own(region), region.fit);
    match (first, partial.next()) {
        (Some(only), None) if whole_before(only) => [None, Some(said(only))],
        (head, tail) => [head.map(said), tail.map(said)],
    }
}

/// Code of an image, in bytes of base pages.
pub fn code_bytes(elf: &Elf) -> u64 {
    elf.code().map(|segment| segment.file_pages()).map(|pages| pages.end - pages.start).sum()
}

/// Windows of the file that the page cache can hold as superpages and processes can map as such.
pub fn promotable(elf: &Elf) -> Vec<Region> {
    // The page cache makes no superpage that would reach beyond the end of the file.
    let whole =
        |region: &Region| region.fit == Fit::Whole && region.file_range().is_some_and(|range| range.end <= elf.size);
    regions(elf).into_iter().filter(whole).collect()
}

const _: () = assert!(SUPERPAGE.is_multiple_of(CLUSTER) && CLUSTER.is_multiple_of(BASE));
