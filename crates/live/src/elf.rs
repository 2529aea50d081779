//! Reads ELF files as a loader does: the loadable segments, and whether this machine can run them.
//!
//! The file may be hostile. Every count and length that it states is bounded before memory is taken: [`MAX_SEGMENTS`],
//! [`MAX_PATH`], [`MAX_CODE`] and [`dynamic::MAX_ENTRIES`]. Reading takes less than 1 MB of memory.

pub mod dynamic;

use object::read::elf::{FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, elf};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

/// ELF's number of the machine that this crate is built for.
const HOST: elf::Machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };

/// Bytes of a base page on the machines that Reach runs on.
pub const BASE: u64 = 4 << 10;

/// Greatest number of program headers: the kernel refuses tables of more than 64 KB.
pub const MAX_SEGMENTS: u64 = (64 << 10) / size_of::<elf::ProgramHeader64<Endianness>>() as u64;

/// Greatest length of a path in bytes, with its end, as in the kernel.
pub const MAX_PATH: u64 = 4096;

/// Greatest number of bytes of code: four times as far as an instruction of x86-64 or aarch64 can call.
pub const MAX_CODE: u64 = 8 << 30;

/// Why a file holds no code for this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// It has no bytes.
    #[error("is empty")]
    Empty,
    /// It is a script: it starts with `#!`.
    #[error("is a script; name its interpreter instead: {}", .interpreter.display())]
    Script {
        /// The program that runs it.
        interpreter: PathBuf,
    },
    /// It is no ELF file.
    #[error("is not a program or library: it is no ELF file")]
    NotElf,
    /// It is a 32-bit ELF file.
    #[error("is a 32-bit program; only 64-bit programs are supported")]
    Bits32,
    /// It is for the processor with this ELF machine number.
    #[error("is for another processor (ELF machine {0}), which this computer cannot run")]
    Foreign(u16),
    /// It is an object file, a core dump or the like, with this ELF type.
    #[error("is neither a program nor a shared library (ELF type {0})")]
    NotLoadable(u16),
    /// The headers name bytes beyond the end of the file.
    #[error("is truncated: {part} ends at byte {end} of {size}")]
    Truncated {
        /// The part that lies beyond the end.
        part: &'static str,
        /// The offset where it would end.
        end: u64,
        /// Size of the file in bytes.
        size: u64,
    },
    /// The headers contradict themselves.
    #[error("is corrupt: {0}")]
    Corrupt(&'static str),
    /// No segment is executable.
    #[error("has no executable segment")]
    NoCode,
}

/// Kind of image, which decides who chooses its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Linked for one address.
    Fixed,
    /// A position-independent program: the kernel chooses a multiple of the largest segment alignment.
    Pie,
    /// A shared library: the dynamic loader chooses.
    Library,
}

/// A loadable segment. Its memory beyond `file_size` bytes is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Index of its program header, from 0.
    pub index: usize,
    /// Virtual address of its first byte, before relocation.
    pub vaddr: u64,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Bytes from the file.
    pub file_size: u64,
    /// Bytes in memory, at least `file_size`.
    pub memory_size: u64,
    /// Alignment in bytes: a power of two.
    pub align: u64,
    /// Whether it is writable.
    pub write: bool,
    /// Whether it is executable.
    pub execute: bool,
}

impl Segment {
    /// Returns address less file offset, the same for every byte, as a wrapping difference.
    pub fn delta(&self) -> u64 {
        self.vaddr.wrapping_sub(self.offset)
    }

    /// Returns the addresses of its base pages.
    pub fn pages(&self) -> Range<u64> {
        self.vaddr & !(BASE - 1)..(self.vaddr + self.memory_size).next_multiple_of(BASE)
    }

    /// Returns the addresses of its base pages that hold bytes of the file.
    pub fn file_pages(&self) -> Range<u64> {
        self.vaddr & !(BASE - 1)..(self.vaddr + self.file_size).next_multiple_of(BASE)
    }
}

/// The parts of an ELF file that a loader uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    /// Its kind.
    pub kind: Kind,
    /// Loadable segments in address order. No two share a base page.
    pub segments: Vec<Segment>,
    /// The dynamic loader; `None` for static programs and most libraries.
    pub interpreter: Option<PathBuf>,
    /// Offset and length in the file of its dynamic section; `None` for most static programs.
    pub dynamic: Option<Range<u64>>,
    /// Size of the file in bytes.
    pub size: u64,
}

impl Elf {
    /// Reads an open file.
    ///
    /// # Errors
    /// If it is damaged, or holds no code for this machine.
    pub fn of(file: &File) -> Result<Elf, ElfError> {
        Elf::read(&ReadCache::new(file))
    }

    /// Reads an open file, which may have no code, as libraries of data have none.
    ///
    /// # Errors
    /// If it is damaged, or not for this machine.
    pub fn of_loadable(file: &File) -> Result<Elf, ElfError> {
        Elf::read_loadable(&ReadCache::new(file))
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// If they are damaged, or hold no code for this machine.
    pub fn read<'d, R: ReadRef<'d>>(data: R) -> Result<Elf, ElfError> {
        let elf = Elf::read_loadable(data)?;
        if elf.code().next().is_none() { Err(ElfError::NoCode) } else { Ok(elf) }
    }

    fn read_loadable<'d, R: ReadRef<'d>>(data: R) -> Result<Elf, ElfError> {
        let header = header(data)?;
        let endian = header.endian().map_err(|_| ElfError::Corrupt("its byte order is invalid"))?;
        let machine = header.e_machine.get(endian);
        if endian != Endianness::Little || machine != HOST {
            return Err(ElfError::Foreign(machine.0));
        }
        let file_type = header.e_type.get(endian);
        if file_type != elf::ET_EXEC && file_type != elf::ET_DYN {
            return Err(ElfError::NotLoadable(file_type.0));
        }
        let size = data.len().map_err(|()| ElfError::Corrupt("its length is unknown"))?;
        let (start, count) = (header.e_phoff.get(endian), u64::from(header.e_phnum.get(endian)));
        if count > MAX_SEGMENTS {
            return Err(ElfError::Corrupt("its table of segments has more than 64 KB, which no kernel loads"));
        }
        within("the table of segments", start, size_of::<elf::ProgramHeader64<Endianness>>() as u64 * count, size)?;
        let headers = header
            .program_headers(endian, data)
            .map_err(|_| ElfError::Corrupt("the table of segments is unreadable"))?;
        let (mut segments, mut interpreter, mut dynamic) = (Vec::new(), None, None);
        for (index, header) in headers.iter().enumerate() {
            let bytes = || header.p_offset(endian)..header.p_offset(endian).saturating_add(header.p_filesz(endian));
            match header.p_type(endian) {
                elf::PT_LOAD => segments.extend(segment(index, header, endian, size)?),
                // The kernel uses the first.
                elf::PT_INTERP if interpreter.is_none() => interpreter = Some(loader(data, bytes())?),
                elf::PT_DYNAMIC => dynamic = Some(bytes()),
                _ => {}
            }
        }
        check_order(&segments)?;
        let code: u64 = segments.iter().filter(|segment| segment.execute).map(|segment| segment.file_size).sum();
        if code > MAX_CODE {
            return Err(ElfError::Corrupt("it has more than 8 GB of code"));
        }
        let kind = match file_type {
            elf::ET_EXEC => Kind::Fixed,
            _ if dynamic.as_ref().is_some_and(|dynamic| dynamic::is_pie(data, dynamic)) => Kind::Pie,
            _ => Kind::Library,
        };
        Ok(Elf { kind, segments, interpreter, dynamic, size })
    }

    /// Returns whether it is a static program: not a library, and without a dynamic loader.
    pub fn is_static(&self) -> bool {
        self.kind != Kind::Library && self.interpreter.is_none()
    }

    /// Returns the executable segments.
    pub fn code(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.execute)
    }

    /// Returns the largest alignment of a segment. The loader may choose any multiple of it as the address.
    pub fn align(&self) -> u64 {
        self.segments.iter().map(|segment| segment.align).max().unwrap_or(BASE)
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

/// Reads the path of the dynamic loader.
fn loader<'d, R: ReadRef<'d>>(data: R, bytes: Range<u64>) -> Result<PathBuf, ElfError> {
    let length = bytes.end - bytes.start;
    if length > MAX_PATH {
        return Err(ElfError::Corrupt("the path of its dynamic loader is longer than 4096 bytes"));
    }
    let bytes = data.read_bytes_at(bytes.start, length);
    let name = bytes.ok().and_then(|bytes| bytes.split(|&byte| byte == 0).next());
    name.filter(|name| !name.is_empty())
        .map(path)
        .ok_or(ElfError::Corrupt("the path of its dynamic loader is unreadable"))
}

/// Reads the header of a 64-bit ELF file.
fn header<'d, R: ReadRef<'d>>(data: R) -> Result<&'d elf::FileHeader64<Endianness>, ElfError> {
    let size = data.len().map_err(|()| ElfError::Corrupt("its length is unknown"))?;
    let start = data.read_bytes_at(0, size.min(128)).map_err(|()| ElfError::Corrupt("it cannot be read"))?;
    match start {
        [] => Err(ElfError::Empty),
        [b'#', b'!', rest @ ..] => {
            let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
            Err(ElfError::Script { interpreter: path(words.next().unwrap_or_default()) })
        }
        [0x7f, b'E', b'L', b'F', 1, ..] => Err(ElfError::Bits32),
        [0x7f, b'E', b'L', b'F', ..] if size < 64 => Err(ElfError::Truncated { part: "the header", end: 64, size }),
        [0x7f, b'E', b'L', b'F', ..] => {
            elf::FileHeader64::parse(data).map_err(|_| ElfError::Corrupt("its header is invalid"))
        }
        _ => Err(ElfError::NotElf),
    }
}

/// Checks that `part` of a file lies within its `size`.
fn within(part: &'static str, offset: u64, length: u64, size: u64) -> Result<(), ElfError> {
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(()),
        Some(end) => Err(ElfError::Truncated { part, end, size }),
        None => Err(ElfError::Corrupt("an offset plus a length exceeds 64 bits")),
    }
}

/// Checks and converts a program header. Returns `None` for an empty segment.
fn segment(
    index: usize,
    header: &elf::ProgramHeader64<Endianness>,
    endian: Endianness,
    size: u64,
) -> Result<Option<Segment>, ElfError> {
    let flags = header.p_flags(endian);
    let segment = Segment {
        index,
        vaddr: header.p_vaddr(endian),
        offset: header.p_offset(endian),
        file_size: header.p_filesz(endian),
        memory_size: header.p_memsz(endian),
        align: header.p_align(endian).max(1),
        write: flags.contains(elf::PF_W),
        execute: flags.contains(elf::PF_X),
    };
    if segment.memory_size == 0 {
        return Ok(None);
    }
    within("a segment", segment.offset, segment.file_size, size)?;
    // The upper half of the addresses belongs to the kernel; user addresses have at most 56 bits.
    if segment.vaddr.checked_add(segment.memory_size).is_none_or(|end| end > 1 << 56) {
        return Err(ElfError::Corrupt("a segment lies beyond all user addresses"));
    }
    if segment.memory_size < segment.file_size {
        return Err(ElfError::Corrupt("a segment has more bytes in the file than in memory"));
    }
    if !segment.align.is_power_of_two() || segment.align > 1 << 40 {
        return Err(ElfError::Corrupt("the alignment of a segment is no power of two"));
    }
    if !segment.delta().is_multiple_of(BASE) {
        return Err(ElfError::Corrupt("address and offset of a segment differ modulo the page size"));
    }
    Ok(Some(segment))
}

/// Checks that segments are in address order and share no page, as the loader requires.
fn check_order(segments: &[Segment]) -> Result<(), ElfError> {
    let overlap = segments.windows(2).any(|pair| pair[0].pages().end > pair[1].pages().start);
    if overlap { Err(ElfError::Corrupt("segments overlap or are out of order")) } else { Ok(()) }
}
