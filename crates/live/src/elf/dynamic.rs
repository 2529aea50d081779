//! Reads the dynamic section of an ELF file: the libraries that it needs, and where its loader looks for them.

use super::{Elf, ElfError, MAX_PATH};
use object::elf::{self, Dyn64};
use object::read::ReadRef;
use object::read::elf::Dyn;
use object::{Endianness, pod};
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

/// Greatest number of entries before the end of a dynamic section.
pub const MAX_ENTRIES: u64 = 16 << 10;

/// Greatest number of libraries that one file may need.
pub const MAX_NEEDED: usize = 1024;

/// Greatest length of a list of folders (`DT_RPATH`, `DT_RUNPATH`), in bytes.
const MAX_FOLDERS: u64 = 64 << 10;

const ENTRY: u64 = size_of::<Dyn64<Endianness>>() as u64;

/// The parts of a dynamic section that decide which libraries are loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// Names or paths of the libraries that it needs (`DT_NEEDED`), in their order.
    pub needed: Vec<OsString>,
    /// The name under which other files need it (`DT_SONAME`).
    pub name: Option<OsString>,
    /// Folders to search for its libraries, and for theirs (`DT_RPATH`). Ignored if it has a `runpath`.
    pub rpath: Option<OsString>,
    /// Folders to search for the libraries that it needs itself (`DT_RUNPATH`).
    pub runpath: Option<OsString>,
    /// Whether the default folders are not searched (`DF_1_NODEFLIB`).
    pub no_default_folders: bool,
}

impl Dynamic {
    /// Reads the dynamic section of a file, whose headers are `elf`. A file without one needs nothing.
    ///
    /// # Errors
    /// If it is damaged, or exceeds a bound.
    pub fn of<'d, R: ReadRef<'d>>(data: R, elf: &Elf) -> Result<Dynamic, ElfError> {
        let Some(section) = &elf.dynamic else { return Ok(Dynamic::default()) };
        let entries = entries(data, section)?;
        let find = |tag| entries.iter().find(|entry| entry.tag(ENDIAN) == tag).map(|entry| entry.val(ENDIAN));
        let mut dynamic = Dynamic {
            no_default_folders: find(elf::DT_FLAGS_1).is_some_and(|flags| flags & elf::DF_1_NODEFLIB.0 != 0),
            ..Dynamic::default()
        };
        let Some(strings) = find(elf::DT_STRTAB) else { return Ok(dynamic) };
        let strings = Strings::at(elf, strings, find(elf::DT_STRSZ))?;
        let text = |tag, limit| find(tag).map(|offset| strings.get(data, offset, limit)).transpose();
        dynamic.name = text(elf::DT_SONAME, MAX_PATH)?;
        dynamic.rpath = text(elf::DT_RPATH, MAX_FOLDERS)?;
        dynamic.runpath = text(elf::DT_RUNPATH, MAX_FOLDERS)?;
        for entry in entries.iter().filter(|entry| entry.tag(ENDIAN) == elf::DT_NEEDED) {
            if dynamic.needed.len() == MAX_NEEDED {
                return Err(ElfError::Corrupt("it needs more than 1024 libraries"));
            }
            dynamic.needed.push(strings.get(data, entry.val(ENDIAN), MAX_PATH)?);
        }
        Ok(dynamic)
    }
}

const ENDIAN: Endianness = Endianness::Little;

/// Returns whether a dynamic section says that its file is a position-independent program. Damage says no.
pub(super) fn is_pie<'d, R: ReadRef<'d>>(data: R, section: &Range<u64>) -> bool {
    let entries = entries(data, section).unwrap_or_default();
    let flags = entries.iter().find(|entry| entry.tag(ENDIAN) == elf::DT_FLAGS_1);
    flags.is_some_and(|flags| flags.val(ENDIAN) & elf::DF_1_PIE.0 != 0)
}

/// Reads the entries of a dynamic section up to its end, in pieces, because the section may state any length.
fn entries<'d, R: ReadRef<'d>>(data: R, section: &Range<u64>) -> Result<Vec<Dyn64<Endianness>>, ElfError> {
    const PIECE: u64 = 256;
    let mut entries = Vec::new();
    let count = (section.end - section.start) / ENTRY;
    while (entries.len() as u64) < count {
        if entries.len() as u64 >= MAX_ENTRIES {
            return Err(ElfError::Corrupt("its dynamic section has more than 16384 entries"));
        }
        let length = PIECE.min(count - entries.len() as u64);
        let piece = data.read_bytes_at(section.start + ENTRY * entries.len() as u64, ENTRY * length);
        let piece = piece.and_then(|bytes| pod::slice_from_bytes::<Dyn64<Endianness>>(bytes, length as usize));
        let (piece, _) = piece.map_err(|()| ElfError::Corrupt("its dynamic section is unreadable"))?;
        let end = piece.iter().position(|entry| entry.tag(ENDIAN) == elf::DT_NULL);
        entries.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        if end.is_some() {
            break;
        }
    }
    Ok(entries)
}

/// The table of strings of a dynamic section: its range in the file.
struct Strings(Range<u64>);

impl Strings {
    /// Finds the table at an address, as it is loaded.
    fn at(elf: &Elf, address: u64, size: Option<u64>) -> Result<Strings, ElfError> {
        let holds = |start: u64, length: u64| address >= start && address - start < length;
        let segment = elf.segments.iter().find(|segment| holds(segment.vaddr, segment.file_size));
        let segment = segment.ok_or(ElfError::Corrupt("its dynamic strings are in no segment"))?;
        let (start, end) = (address.wrapping_sub(segment.delta()), segment.offset + segment.file_size);
        Ok(Strings(start..end.min(start.saturating_add(size.unwrap_or(0)))))
    }

    /// Reads the string at an offset in the table, of at most `limit` bytes with its end.
    fn get<'d, R: ReadRef<'d>>(&self, data: R, offset: u64, limit: u64) -> Result<OsString, ElfError> {
        let start = self.0.start.checked_add(offset).filter(|start| *start < self.0.end);
        let start = start.ok_or(ElfError::Corrupt("a dynamic string is outside of its table"))?;
        let length = limit.min(self.0.end - start);
        // Most are short, and data are kept in memory as they are read.
        for length in [length.min(256), length] {
            let bytes =
                data.read_bytes_at(start, length).map_err(|()| ElfError::Corrupt("a dynamic string is unreadable"))?;
            if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
                return Ok(OsStr::from_bytes(&bytes[..end]).to_owned());
            }
        }
        Err(ElfError::Corrupt("a dynamic string has no end"))
    }
}
