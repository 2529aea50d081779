//! ELF files as the loader sees them: the segments, and whether this machine can run them.

use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, elf};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

/// The machine that this was built for, as ELF names it.
const HOST: elf::Machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };

/// Base pages of the machines that Reach runs on.
pub const BASE: u64 = 4 << 10;

/// Why a file has no code that could be mapped with superpages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// Nothing in it.
    #[error("is empty")]
    Empty,
    /// It starts with `#!`.
    #[error("is a script; name its interpreter instead: {}", .interpreter.display())]
    Script {
        /// The program that runs it.
        interpreter: PathBuf,
    },
    /// No ELF file.
    #[error("is not a program or library (no ELF file)")]
    NotElf,
    /// 32-bit.
    #[error("is a 32-bit program; only 64-bit ones are supported")]
    Bits32,
    /// For another processor.
    #[error("is for another processor (ELF machine {0}); nothing here can run it")]
    Foreign(u16),
    /// An object file, a core dump or the like.
    #[error("is neither a program nor a shared library (ELF type {0})")]
    NotLoadable(u16),
    /// The headers promise more than there is.
    #[error("is truncated: {what} ends at byte {end} of {size}")]
    Truncated {
        /// What lies beyond the end.
        what: &'static str,
        /// Where it would end.
        end: u64,
        /// Bytes in the file.
        size: u64,
    },
    /// The headers contradict themselves.
    #[error("is corrupt: {0}")]
    Corrupt(&'static str),
    /// Nothing in it may be executed.
    #[error("has no executable segment")]
    NoCode,
}

/// What kind of image it is: that decides who chooses its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Linked for one address.
    Fixed,
    /// A position-independent program: the kernel chooses, at a multiple of the largest alignment asked for.
    Pie,
    /// A shared library: the dynamic loader chooses.
    Library,
}

/// A loadable segment. Its memory beyond `file_size` is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Which program header it is, from 0.
    pub index: usize,
    /// Virtual address of its first byte, before relocation.
    pub vaddr: u64,
    /// Where its bytes are in the file.
    pub offset: u64,
    /// Bytes from the file.
    pub file_size: u64,
    /// Bytes in memory, at least `file_size`.
    pub memory_size: u64,
    /// The alignment asked for: a power of two.
    pub align: u64,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
}

impl Segment {
    /// How far its addresses are from its file offsets, as a wrapping difference.
    pub fn delta(&self) -> u64 {
        self.vaddr.wrapping_sub(self.offset)
    }

    /// Addresses of the base pages that it takes.
    pub fn pages(&self) -> Range<u64> {
        self.vaddr & !(BASE - 1)..(self.vaddr + self.memory_size).next_multiple_of(BASE)
    }

    /// Addresses of the base pages that come from the file.
    pub fn file_pages(&self) -> Range<u64> {
        self.vaddr & !(BASE - 1)..(self.vaddr + self.file_size).next_multiple_of(BASE)
    }
}

/// What the loader is told by an ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    /// Who chooses its address.
    pub kind: Kind,
    /// Loadable segments, in order of address; they share no page.
    pub segments: Vec<Segment>,
    /// The dynamic loader; a program without one is static.
    pub interpreter: Option<PathBuf>,
    /// It names libraries that its loader runs while it loads (`DT_AUDIT`).
    pub audited: bool,
    /// Bytes in the file.
    pub size: u64,
}

impl Elf {
    /// Reads a file.
    ///
    /// # Errors
    /// When nothing in it could be mapped to run on this machine.
    pub fn of(file: &File) -> Result<Elf, ElfError> {
        Elf::read(&ReadCache::new(file))
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// When nothing in them could be mapped to run on this machine.
    pub fn read<'d, R: ReadRef<'d>>(data: R) -> Result<Elf, ElfError> {
        let header = header(data)?;
        let endian = header.endian().map_err(|_| ElfError::Corrupt("no byte order"))?;
        let machine = header.e_machine.get(endian);
        if endian != Endianness::Little || machine != HOST {
            return Err(ElfError::Foreign(machine.0));
        }
        let file_type = header.e_type.get(endian);
        if file_type != elf::ET_EXEC && file_type != elf::ET_DYN {
            return Err(ElfError::NotLoadable(file_type.0));
        }
        let size = data.len().map_err(|()| ElfError::Corrupt("no length"))?;
        let count = u64::from(header.e_phnum.get(endian));
        within("the table of segments", header.e_phoff.get(endian), 56 * count, size)?;
        let headers =
            header.program_headers(endian, data).map_err(|_| ElfError::Corrupt("no readable table of segments"))?;
        let (mut segments, mut interpreter, mut pie, mut audited) = (Vec::new(), None, false, false);
        for (index, header) in headers.iter().enumerate() {
            match header.p_type(endian) {
                elf::PT_LOAD => segments.extend(segment(index, header, endian, size)?),
                elf::PT_INTERP => interpreter = header.interpreter(endian, data).ok().flatten().map(path),
                elf::PT_DYNAMIC => {
                    let entries = header.dynamic(endian, data).ok().flatten().unwrap_or_default();
                    let audits = [elf::DT_AUDIT, elf::DT_DEPAUDIT];
                    audited = entries.iter().any(|entry| audits.contains(&entry.tag(endian)));
                    let flags = entries.iter().find(|entry| entry.tag(endian) == elf::DT_FLAGS_1);
                    pie = flags.is_some_and(|entry| entry.val(endian) & elf::DF_1_PIE.0 != 0);
                }
                _ => {}
            }
        }
        apart(&segments)?;
        if !segments.iter().any(|segment| segment.execute) {
            return Err(ElfError::NoCode);
        }
        let kind = match file_type {
            elf::ET_EXEC => Kind::Fixed,
            _ if pie => Kind::Pie,
            _ => Kind::Library,
        };
        Ok(Elf { kind, segments, interpreter, audited, size })
    }

    /// A program, and one without a dynamic loader.
    pub fn is_static(&self) -> bool {
        self.kind != Kind::Library && self.interpreter.is_none()
    }

    /// Segments that may be executed.
    pub fn code(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.execute)
    }

    /// The largest alignment that a segment asks for: where the image is put is a multiple of it.
    pub fn align(&self) -> u64 {
        self.segments.iter().map(|segment| segment.align).max().unwrap_or(BASE)
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

/// The header, once it is clear that there is one of 64 bits.
fn header<'d, R: ReadRef<'d>>(data: R) -> Result<&'d elf::FileHeader64<Endianness>, ElfError> {
    let size = data.len().map_err(|()| ElfError::Corrupt("no length"))?;
    let start = data.read_bytes_at(0, size.min(128)).map_err(|()| ElfError::Corrupt("it cannot be read"))?;
    match start {
        [] => Err(ElfError::Empty),
        [b'#', b'!', rest @ ..] => {
            let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
            Err(ElfError::Script { interpreter: path(words.next().unwrap_or_default()) })
        }
        [0x7f, b'E', b'L', b'F', 1, ..] => Err(ElfError::Bits32),
        [0x7f, b'E', b'L', b'F', ..] if size < 64 => Err(ElfError::Truncated { what: "the header", end: 64, size }),
        [0x7f, b'E', b'L', b'F', ..] => {
            elf::FileHeader64::parse(data).map_err(|_| ElfError::Corrupt("its header makes no sense"))
        }
        _ => Err(ElfError::NotElf),
    }
}

fn within(what: &'static str, offset: u64, length: u64, size: u64) -> Result<(), ElfError> {
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(()),
        Some(end) => Err(ElfError::Truncated { what, end, size }),
        None => Err(ElfError::Corrupt("an offset beyond all files")),
    }
}

/// What a program header says, if that makes sense; nothing for an empty segment.
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
    // Half of the addresses belong to the kernel, and no program comes near them.
    if segment.vaddr.checked_add(segment.memory_size).is_none_or(|end| end > 1 << 56) {
        return Err(ElfError::Corrupt("a segment beyond all addresses"));
    }
    if segment.memory_size < segment.file_size {
        return Err(ElfError::Corrupt("a segment with more bytes in the file than in memory"));
    }
    if !segment.align.is_power_of_two() || segment.align > 1 << 40 {
        return Err(ElfError::Corrupt("a segment whose alignment is no power of two"));
    }
    if !segment.delta().is_multiple_of(BASE) {
        return Err(ElfError::Corrupt("a segment whose address and offset differ within a page"));
    }
    Ok(Some(segment))
}

/// The loader maps page by page in order of address, so segments may not go back or share pages.
fn apart(segments: &[Segment]) -> Result<(), ElfError> {
    let overlap = segments.windows(2).any(|pair| pair[0].pages().end > pair[1].pages().start);
    if overlap { Err(ElfError::Corrupt("segments that overlap or are out of order")) } else { Ok(()) }
}
