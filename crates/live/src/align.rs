//! Aligns the code of a program to 2 MB in a copy of its file, and pads it to whole regions, without relinking (Zhou et al.
//! 2023, section 6).
//!
//! Addresses stay the same. Only the offsets and sizes of segments in the file change. If code shares a region with
//! read-only data only, and the data is adjacent in the file, the executable segment is extended over the data.

use crate::elf::{BASE, Elf, ElfError, Kind, Segment};
use crate::layout::{self, Congruence, Fit, SUPERPAGE};
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::endian::{LittleEndian as LE, U16, U32, U64};
use object::pod;
use std::ops::Range;

/// How a copy differs from its original.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Number of segments whose alignment was raised to 2 MB.
    pub aligned: usize,
    /// Whether segments moved within the file.
    pub moved: bool,
    /// Bytes by which executable segments were extended to whole regions.
    pub padded: u64,
}

/// Why a file cannot be aligned without relinking.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlignError {
    /// It holds no code for this machine.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// Its segments cannot move in the file, for this reason.
    #[error("cannot be aligned without relinking: {0}")]
    Impossible(&'static str),
    /// It is aligned already, and padded as far as possible.
    #[error("is aligned already, and padded as far as that is possible without relinking")]
    Nothing,
}

/// Greatest growth of a file by moved segments, in bytes beyond twice its size. The gaps between segments become part of the
/// file; linkers leave some pages, and less than 2 MB at most, between two of them.
const GROWTH: u64 = 8 << 20;

/// Aligns the code in the bytes of a file, and pads it if `pad`. Returns the bytes of the copy.
///
/// # Errors
/// If that is impossible without relinking, or there is nothing to do.
pub fn align(original: &[u8], pad: bool) -> Result<(Vec<u8>, Changes), AlignError> {
    let mut elf = Elf::read(original)?;
    let mut bytes = original.to_vec();
    let mut changes = Changes::default();
    if elf.code().any(|segment| layout::congruence(&elf, segment) == Congruence::Never) {
        bytes = move_segments(original, &elf)?;
        changes.moved = true;
        elf = Elf::read(&bytes[..])?;
    }
    let headers = program_headers(&mut bytes)?;
    if elf.kind != Kind::Fixed {
        for segment in elf.code().filter(|segment| segment.align < SUPERPAGE) {
            headers[segment.index].p_align = U64::new(LE, SUPERPAGE);
            changes.aligned += 1;
        }
    }
    if pad {
        let end;
        (changes.padded, end) = extend(&elf, headers);
        bytes.reserve_exact((end as usize).saturating_sub(bytes.len()));
        bytes.resize(bytes.len().max(end as usize), 0);
    }
    if changes == Changes::default() {
        return Err(AlignError::Nothing);
    }
    // The headers are loaded too. They are the only loaded bytes that may differ, and are exchanged for the comparison.
    let aligned = Elf::read(&bytes[..])?;
    let headers = headers_of(original)?.map(|range| (bytes[range.clone()].to_vec(), range));
    headers.iter().for_each(|(_, range)| bytes[range.clone()].copy_from_slice(&original[range.clone()]));
    if !same_memory((original, &Elf::read(original)?), (&bytes, &aligned)) {
        return Err(AlignError::Impossible("the copy would differ in memory"));
    }
    headers.into_iter().for_each(|(own, range)| bytes[range].copy_from_slice(&own));
    Ok((bytes, changes))
}

/// Returns the ranges of the ELF header and of the table of segments.
fn headers_of(bytes: &[u8]) -> Result<[Range<usize>; 2], AlignError> {
    let corrupt = || AlignError::Elf(ElfError::Corrupt("the table of segments is unreadable"));
    let (header, _) = pod::from_bytes::<FileHeader64<LE>>(bytes).map_err(|()| corrupt())?;
    let (start, count) = (header.e_phoff.get(LE) as usize, usize::from(header.e_phnum.get(LE)));
    Ok([0..size_of::<FileHeader64<LE>>(), start..start + count * size_of::<ProgramHeader64<LE>>()])
}

/// Returns the table of segments, to be changed. The caller has read the file successfully.
fn program_headers(bytes: &mut [u8]) -> Result<&mut [ProgramHeader64<LE>], AlignError> {
    let [_, table] = headers_of(bytes)?;
    let corrupt = AlignError::Elf(ElfError::Corrupt("the table of segments is unreadable"));
    let count = table.len() / size_of::<ProgramHeader64<LE>>();
    match bytes.get_mut(table).and_then(|table| pod::slice_from_bytes_mut(table, count).ok()) {
        Some((headers, _)) => Ok(headers),
        None => Err(corrupt),
    }
}

/// Extends executable segments over the regions that a copy can pad, and cuts their neighbours. Returns the bytes of code
/// added, and the least size of the file.
fn extend(elf: &Elf, headers: &mut [ProgramHeader64<LE>]) -> (u64, u64) {
    let code = |segment: &Segment| if segment.execute { segment.pages().end - segment.pages().start } else { 0 };
    let mut end = 0;
    let mut segments: Vec<Option<Segment>> = elf.segments.iter().copied().map(Some).collect();
    for region in layout::regions(elf).iter().filter(|region| region.fit == Fit::PadInCopy) {
        let all = region.vaddr..region.vaddr + SUPERPAGE;
        if assign_region(&mut segments, &all).is_some() {
            end = end.max(region.offset.unwrap_or(0) + SUPERPAGE);
        }
    }
    for (before, after) in elf.segments.iter().zip(&segments).filter(|(before, after)| Some(**before) != **after) {
        let header = &mut headers[before.index];
        match after {
            None => header.p_type = U32::new(LE, elf::PT_NULL),
            Some(segment) => {
                header.p_vaddr = U64::new(LE, segment.vaddr);
                header.p_paddr = U64::new(LE, segment.vaddr);
                header.p_offset = U64::new(LE, segment.offset);
                header.p_filesz = U64::new(LE, segment.file_size);
                header.p_memsz = U64::new(LE, segment.memory_size);
            }
        }
    }
    let before: u64 = elf.segments.iter().map(code).sum();
    let after: u64 = segments.iter().flatten().map(code).sum();
    (after.saturating_sub(before), end)
}

/// Gives all of a region to the first executable segment in it. Returns `None`, with nothing changed, if that would split a
/// neighbour.
fn assign_region(segments: &mut [Option<Segment>], region: &Range<u64>) -> Option<()> {
    let inside = |segment: &Segment| segment.pages().start < region.end && segment.pages().end > region.start;
    let first =
        segments.iter().position(|segment| segment.is_some_and(|segment| segment.execute && inside(&segment)))?;
    let splits = |segment: &Segment| segment.pages().start < region.start && segment.pages().end > region.end;
    if segments.iter().flatten().any(|segment| !segment.execute && splits(segment)) {
        return None;
    }
    let taken = segments[first]?;
    let (mut start, mut stop) = (taken.vaddr.min(region.start), (taken.vaddr + taken.file_size).max(region.end));
    for (i, slot) in segments.iter_mut().enumerate().filter(|(i, _)| *i != first) {
        let Some(segment) = slot.filter(inside) else { continue };
        let (from, to) = (segment.vaddr, segment.vaddr + segment.file_size);
        *slot = if segment.execute || from >= region.start && to <= region.end {
            // Another executable segment joins this one, with its part outside of the region.
            start = if segment.execute { start.min(from) } else { start };
            stop = if segment.execute { stop.max(to) } else { stop };
            None
        } else if i < first {
            let size = region.start - from;
            Some(Segment { file_size: size, memory_size: size, ..segment })
        } else {
            let removed = region.end - from;
            Some(Segment {
                vaddr: region.end,
                offset: segment.offset + removed,
                file_size: segment.file_size - removed,
                memory_size: segment.memory_size - removed,
                ..segment
            })
        };
    }
    let (offset, size) = (start.wrapping_sub(taken.delta()), stop - start);
    segments[first] = Some(Segment { vaddr: start, offset, file_size: size, memory_size: size, ..taken });
    Some(())
}

/// Returns the file with its segments moved so that all offsets are addresses less one multiple of 2 MB. The parts that are
/// not loaded follow.
fn move_segments(original: &[u8], elf: &Elf) -> Result<Vec<u8>, AlignError> {
    let first = elf.segments[0];
    if first.offset != 0 || !first.vaddr.is_multiple_of(SUPERPAGE) {
        return Err(AlignError::Impossible("its first segment does not begin the file at a multiple of 2 MB"));
    }
    let [_, table] = headers_of(original)?;
    if table.end as u64 > first.file_size {
        return Err(AlignError::Impossible("its table of segments is not in its first segment"));
    }
    let place = |segment: &Segment| segment.vaddr - first.vaddr;
    let end = elf.segments.iter().map(|segment| place(segment) + segment.file_size).max().unwrap_or(0);
    if end > 2 * elf.size + GROWTH {
        return Err(AlignError::Impossible("its segments are so far apart that the file would more than double"));
    }
    let mut bytes = vec![0; end as usize];
    for segment in &elf.segments {
        let (from, to, size) = (segment.offset as usize, place(segment) as usize, segment.file_size as usize);
        bytes[to..to + size].copy_from_slice(&original[from..from + size]);
    }
    for header in program_headers(&mut bytes)? {
        let (offset, size) = (header.p_offset.get(LE), header.p_filesz.get(LE));
        let inside = |segment: &&Segment| {
            offset >= segment.offset && offset - segment.offset <= segment.file_size.saturating_sub(size)
        };
        // If segments share bytes of the file, the address identifies the segment.
        let same_delta = |segment: &&Segment| header.p_vaddr.get(LE).wrapping_sub(offset) == segment.delta();
        match elf.segments.iter().filter(inside).find(same_delta) {
            Some(segment) => header.p_offset = U64::new(LE, offset - segment.offset + place(segment)),
            None if size == 0 || header.p_type.get(LE) == elf::PT_NULL => {}
            None => return Err(AlignError::Impossible("its loader needs a part that is in no segment")),
        }
    }
    copy_sections(original, &mut bytes, elf, first.vaddr);
    Ok(bytes)
}

/// Copies the sections, for debuggers. Omits the table of sections if it is invalid.
fn copy_sections(original: &[u8], bytes: &mut Vec<u8>, elf: &Elf, base: u64) {
    let Ok((header, _)) = pod::from_bytes::<FileHeader64<LE>>(original) else { return };
    let (start, count) = (header.e_shoff.get(LE) as usize, usize::from(header.e_shnum.get(LE)));
    let table = original.get(start..).and_then(|rest| pod::slice_from_bytes::<SectionHeader64<LE>>(rest, count).ok());
    let mut table = table.map_or(Vec::new(), |(table, _)| table.to_vec());
    let limit = bytes.len() + original.len();
    for section in &mut table {
        let (offset, size) = (section.sh_offset.get(LE), section.sh_size.get(LE));
        let address = section.sh_addr.get(LE);
        let next = elf.segments.partition_point(|segment| segment.pages().end <= address);
        if address >= base && elf.segments.get(next).is_some_and(|segment| segment.pages().contains(&address)) {
            section.sh_offset = U64::new(LE, address - base);
        } else if section.sh_type.get(LE) != elf::SHT_NOBITS && size > 0 {
            let content = offset.checked_add(size).and_then(|end| original.get(offset as usize..end as usize));
            // Overlapping sections could make the file grow without bound.
            let Some(content) = content.filter(|content| bytes.len() + content.len() <= limit) else {
                table.clear();
                break;
            };
            let alignment = section.sh_addralign.get(LE).clamp(1, BASE).next_power_of_two();
            bytes.resize(bytes.len().next_multiple_of(alignment as usize), 0);
            section.sh_offset = U64::new(LE, bytes.len() as u64);
            bytes.extend_from_slice(content);
        }
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let place = bytes.len() as u64;
    bytes.extend_from_slice(pod::bytes_of_slice(&table));
    if let Ok((header, _)) = pod::from_bytes_mut::<FileHeader64<LE>>(bytes) {
        header.e_shoff = U64::new(LE, if table.is_empty() { 0 } else { place });
        if table.is_empty() {
            header.e_shnum = U16::new(LE, 0);
            header.e_shstrndx = U16::new(LE, elf::SHN_UNDEF);
        }
    }
}

/// Returns whether each byte of the original's memory is the same in the copy's, with the same permissions. Data may
/// become executable.
fn same_memory(original: (&[u8], &Elf), copy: (&[u8], &Elf)) -> bool {
    original.1.segments.iter().all(|segment| {
        let (mut address, end) = (segment.vaddr, segment.vaddr + segment.memory_size);
        while address < end {
            // Segments are in address order.
            let next = copy.1.segments.partition_point(|other| other.vaddr + other.memory_size <= address);
            let Some(other) = copy.1.segments.get(next).filter(|other| other.vaddr <= address) else { return false };
            if other.write != segment.write || segment.execute && !other.execute {
                return false;
            }
            let (a, length_a) = content(original.0, segment, address);
            let (b, length_b) = content(copy.0, other, address);
            let length = length_a.min(length_b).min(end - address);
            let (a, b) = (a.map(|bytes| &bytes[..length as usize]), b.map(|bytes| &bytes[..length as usize]));
            let zero = |bytes: Option<&[u8]>| bytes.is_none_or(|bytes| bytes.iter().all(|&byte| byte == 0));
            if a != b && !(zero(a) && zero(b)) {
                return false;
            }
            address += length;
        }
        true
    })
}

/// Returns the bytes of the file at an address of a segment (`None` for zeros), and the number of bytes up to the next
/// change between both.
fn content<'b>(bytes: &'b [u8], segment: &Segment, address: u64) -> (Option<&'b [u8]>, u64) {
    let inside = address - segment.vaddr;
    match inside < segment.file_size {
        true => {
            let from = segment.offset + inside;
            let to = segment.offset + segment.file_size;
            (Some(&bytes[from as usize..to as usize]), to - from)
        }
        false => (None, segment.memory_size - inside),
    }
}
