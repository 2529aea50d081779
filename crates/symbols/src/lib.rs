//! Functions and source lines of code in files, and names of code that programs compile while they run: what a stranger calls an
//! instruction.
//!
//! DWARF and symbol tables are read by `addr2line`; this crate finds the addresses that an ELF file gives to its bytes, and
//! says what is missing. It reads the maps that programs write for `perf` itself.

mod perf_map;

pub use perf_map::PerfMap;

use addr2line::Loader;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ReadCache, ReadRef, elf};
use std::collections::HashMap;
use std::fs::File;

/// A function, and the place in it: of the instruction itself, or of the call that was inlined there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The name of the function, demangled; `None` if neither debugging information nor a symbol table has it.
    pub function: Option<String>,
    /// The path of the source file; `None` without debugging information.
    pub source: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

/// The code of files, each read when it is first asked for.
///
/// ```
/// let mut symbols = reach_symbols::Symbols::default();
/// assert!(symbols.frames("/no/such/file", 0x1000).is_empty());
/// ```
#[derive(Default)]
pub struct Symbols {
    /// By path; `None` for files that cannot be read.
    files: HashMap<String, Option<Code>>,
}

impl Symbols {
    /// Returns the frames of the instruction at `offset` of the file `path`, the innermost first: the functions that were inlined
    /// there, then the one that contains them. Empty if the file cannot be read, is no ELF file, or names nothing there.
    pub fn frames(&mut self, path: &str, offset: u64) -> Vec<Frame> {
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), Code::open(path));
        }
        let code = self.files.get(path).and_then(|code| code.as_ref());
        code.map(|code| code.frames(offset)).unwrap_or_default()
    }
}

/// The most that debugging information may grow by when it is decompressed. Compilers' shrinks to a third or a fourth.
const MAX_EXPANSION: u64 = 32;

/// The code of one file.
struct Code {
    loader: Loader,
    /// Loaded segments: offset in the file, length there, and address.
    segments: Vec<[u64; 3]>,
}

impl Code {
    fn open(path: &str) -> Option<Code> {
        // Opening a pipe or a device could wait for ever, or do something.
        std::fs::metadata(path).ok().filter(|metadata| metadata.is_file())?;
        let cache = ReadCache::new(File::open(path).ok()?);
        let segments = segments(&cache).filter(|_| !is_bomb(&cache))?;
        Some(Code { segments, loader: Loader::new(path).ok()? })
    }

    fn frames(&self, offset: u64) -> Vec<Frame> {
        let Some(&[from, _, address]) =
            self.segments.iter().find(|[from, len, _]| offset.checked_sub(*from).is_some_and(|at| at < *len))
        else {
            return Vec::new();
        };
        let address = address.wrapping_add(offset - from);
        let mut frames = Vec::new();
        if let Ok(mut found) = self.loader.find_frames(address) {
            while let Ok(Some(frame)) = found.next() {
                let location = frame.location.as_ref();
                frames.push(Frame {
                    function: frame.function.and_then(|name| Some(name.demangle().ok()?.into_owned())),
                    source: location.and_then(|location| Some(location.file?.to_owned())),
                    line: location.and_then(|location| location.line),
                });
            }
        }
        // The symbol table knows the function that contains the others.
        if frames.is_empty() {
            frames.push(Frame::default());
        }
        if let Some(last) = frames.last_mut().filter(|last| last.function.is_none()) {
            let symbol = self.loader.find_symbol(address);
            last.function = symbol.map(|name| addr2line::demangle_auto(name.into(), None).into_owned());
        }
        frames.retain(|frame| *frame != Frame::default());
        frames
    }
}

/// Returns the loaded segments of an ELF file of 64 bits; `None` if it is none.
fn segments(cache: &ReadCache<File>) -> Option<Vec<[u64; 3]>> {
    let header = elf::FileHeader64::<Endianness>::parse(cache).ok()?;
    let endian = header.endian().ok()?;
    let loaded = |segment: &&elf::ProgramHeader64<Endianness>| segment.p_type(endian) == elf::PT_LOAD;
    let place = |segment: &elf::ProgramHeader64<Endianness>| {
        [segment.p_offset(endian), segment.p_filesz(endian), segment.p_vaddr(endian)]
    };
    let all = header.program_headers(endian, cache).ok()?;
    Some(all.iter().filter(loaded).map(place).collect())
}

/// Returns whether compressed sections of an ELF file would take more memory than a file of its length may.
fn is_bomb(cache: &ReadCache<File>) -> bool {
    let Ok(file) = object::File::parse(cache) else { return true };
    let Ok(len) = cache.len() else { return true };
    let expanded = file.sections().try_fold(0u64, |sum, section| {
        let range = section.compressed_file_range().ok()?;
        sum.checked_add(range.uncompressed_size)
    });
    expanded.is_none_or(|expanded| expanded > len.saturating_mul(MAX_EXPANSION))
}
