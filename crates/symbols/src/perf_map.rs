//! Names of code that a program compiles while it runs, from the map that it writes for `perf`.
//!
//! The map is `/tmp/perf-PID.map`. A line is the start and the size of a piece of code, both hexadecimal, and its name. Compilers
//! reuse addresses, so a later line replaces what it overlaps.

use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The most bytes of a map. Node's interpreter and standard library take 0.1 MB.
const MAX_BYTES: u64 = 64 << 20;
/// The most pieces of code. Each takes some 100 bytes of memory.
const MAX_PIECES: usize = 1 << 20;
/// The most bytes of a name; longer ones are none.
const MAX_NAME: usize = 4096;

/// The names of a process's code by address.
///
/// ```
/// let map = reach_symbols::PerfMap::parse(b"1000 20 py::main:/a.py\n1010 8 py::inner:/a.py\n").unwrap();
/// assert_eq!(map.name(0x1017), Some("py::inner:/a.py"));
/// assert_eq!(map.name(0x1018), Some("py::main:/a.py"));
/// assert_eq!(map.name(0x1020), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PerfMap {
    /// Pieces by their first address, with the address behind each. They do not overlap.
    pieces: BTreeMap<u64, (u64, usize)>,
    names: Vec<Box<str>>,
}

impl PerfMap {
    /// Returns the path of the map that process `pid` writes.
    pub fn path(pid: u32) -> PathBuf {
        format!("/tmp/perf-{pid}.map").into()
    }

    /// Reads a map whose last change satisfies `written`: another process may have had the same identifier.
    ///
    /// Returns `None` where there is no such map, or it is no regular file of this user, or it is longer than 64 MB or has more than
    /// 2^20 pieces of code. Nothing else is opened: a pipe could wait for ever, and a device could do something.
    pub fn open(path: &Path, written: impl Fn(SystemTime) -> bool) -> Option<PerfMap> {
        let fits = |metadata: &std::fs::Metadata| {
            metadata.is_file()
                && metadata.uid() == rustix::process::geteuid().as_raw()
                && metadata.len() <= MAX_BYTES
                && metadata.modified().is_ok_and(&written)
        };
        std::fs::symlink_metadata(path).ok().filter(fits)?;
        // The file may have been replaced meanwhile.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        file.metadata().ok().filter(fits)?;
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).ok()?;
        if text.len() as u64 > MAX_BYTES { None } else { PerfMap::parse(&text) }
    }

    /// Reads the text of a map, and skips the lines that are malformed. A line without an end is malformed: a process that was killed
    /// may have written half of it. Returns `None` if it has more than 2^20 pieces of code.
    pub fn parse(text: &[u8]) -> Option<PerfMap> {
        let mut map = PerfMap::default();
        for (start, end, name) in text.split_inclusive(|byte| *byte == b'\n').filter_map(piece) {
            if map.names.len() >= MAX_PIECES {
                return None;
            }
            map.insert(start, end, map.names.len());
            map.names.push(name.into());
        }
        Some(map)
    }

    /// Returns the name of the code at `address`; `None` if it has none.
    pub fn name(&self, address: u64) -> Option<&str> {
        let (_, &(end, name)) = self.pieces.range(..=address).next_back()?;
        (address < end).then(|| &*self.names[name])
    }

    fn insert(&mut self, start: u64, end: u64, name: usize) {
        let before = self.pieces.range(..start).next_back().map(|(&from, &piece)| (from, piece));
        if let Some((from, (to, old))) = before.filter(|(_, (to, _))| *to > start) {
            self.pieces.insert(from, (start, old));
            if to > end {
                self.pieces.insert(end, (to, old));
            }
        }
        while let Some((&from, &(to, old))) = self.pieces.range(start..end).next() {
            self.pieces.remove(&from);
            if to > end {
                self.pieces.insert(end, (to, old));
            }
        }
        self.pieces.insert(start, (end, name));
    }
}

/// Returns the piece of code of a line: its start, the address behind it, and its name. `None` for a malformed line.
fn piece(line: &[u8]) -> Option<(u64, u64, String)> {
    let line = line.strip_suffix(b"\n")?;
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let (start, size, name) = (number(words.next()?)?, number(words.next()?)?, words.next()?.trim_ascii());
    let is_named = !name.is_empty() && name.len() <= MAX_NAME;
    let end = start.checked_add(size).filter(|&end| end > start && is_named)?;
    Some((start, end, String::from_utf8_lossy(name).into_owned()))
}

/// Reads a hexadecimal number; some programs write `0x` before it.
fn number(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"0x").unwrap_or(word);
    let is_number = digits.iter().all(u8::is_ascii_hexdigit);
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| is_number)
}
