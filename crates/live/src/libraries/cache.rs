//! Reads the loader's cache, `/etc/ld.so.cache`: the libraries that `ldconfig` has found, by name.
//!
//! glibc 2.32 and later write the format `glibc-ld.so.cache1.1` alone; `ldconfig -c compat` puts the same behind a table of
//! the older format `ld.so-1.7.0`, and `ldconfig -c old` writes the older one alone. A damaged cache is no cache, as for the
//! loader.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Greatest size of a cache in bytes: 100 times that of a large system.
pub const MAX_SIZE: u64 = 16 << 20;

const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const NEW_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;
const NEW_HEADER: usize = 48;
const NEW_ENTRY: usize = 24;
/// Starts the extensions of the new format.
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
/// The extension that lists the names of `glibc-hwcaps` folders.
const EXTENSION_HWCAPS: u32 = 1;
/// Marks an entry of a `glibc-hwcaps` folder in the upper half of its hardware capabilities; the lower half is its number.
const HWCAPS_ENTRY: u32 = 1 << 30;

/// Kind of an entry: for glibc, on the 64-bit processor of this machine; or for glibc, on any processor.
const KINDS: [u32; 2] = [if cfg!(target_arch = "aarch64") { 0x0a03 } else { 0x0303 }, 1];

/// A library in the cache.
#[derive(Debug, Clone, Copy)]
struct Entry<'c> {
    kind: u32,
    name: &'c [u8],
    path: &'c [u8],
    /// Hardware capabilities, lower and upper half. 0 in the old format.
    hardware: [u32; 2],
}

/// The bytes of a cache, whose tables lie within it.
#[derive(Debug)]
pub struct Cache {
    bytes: Vec<u8>,
    layout: Layout,
}

/// Where the parts of a cache are.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Offset of the first entry.
    entries: usize,
    /// Bytes of an entry.
    size: usize,
    /// Number of entries.
    count: usize,
    /// What offsets of strings are relative to.
    strings: usize,
    /// Offset and number of the names of `glibc-hwcaps` folders.
    folders: (usize, usize),
}

impl Cache {
    /// Parses a cache. Returns `None` if it is damaged, or in a format of another C library.
    pub fn parse(bytes: Vec<u8>) -> Option<Cache> {
        let layout = match bytes.starts_with(OLD_MAGIC) {
            true => {
                let count = usize::try_from(word(&bytes, 12)?).ok()?;
                let end = OLD_HEADER.checked_add(count.checked_mul(OLD_ENTRY)?)?;
                // The new format follows, aligned to 8 bytes, or the strings do.
                let old = Layout { entries: OLD_HEADER, size: OLD_ENTRY, count, strings: end, folders: (0, 0) };
                new_layout(&bytes, end.checked_next_multiple_of(8)?).or((end <= bytes.len()).then_some(old))?
            }
            false => new_layout(&bytes, 0)?,
        };
        Some(Cache { bytes, layout })
    }

    /// Returns the path of the library `name` for this machine. Of several, the loader takes the one in the first of
    /// `hwcaps`, the `glibc-hwcaps` folders that this processor can use, best first.
    pub fn find(&self, name: &OsStr, hwcaps: &[&str]) -> Option<PathBuf> {
        let named = |entry: &Entry| entry.name == name.as_bytes() && KINDS.contains(&entry.kind);
        let mut best: Option<(usize, Entry)> = None;
        for entry in (0..self.layout.count).filter_map(|i| self.entry(i)).filter(named) {
            let rank = match entry.hardware {
                [0, 0] => hwcaps.len(),
                [number, HWCAPS_ENTRY] => match self.folder(number) {
                    Some(folder) => match hwcaps.iter().position(|known| known.as_bytes() == folder) {
                        Some(rank) => rank,
                        None => continue,
                    },
                    None => continue,
                },
                // For a set of processor features, in the way of glibc before 2.33.
                _ => continue,
            };
            if best.is_none_or(|(before, _)| rank < before) {
                best = Some((rank, entry));
            }
        }
        best.map(|(_, entry)| Path::new(OsStr::from_bytes(entry.path)).to_owned())
    }

    fn entry(&self, i: usize) -> Option<Entry<'_>> {
        let layout = &self.layout;
        let at = layout.entries + i * layout.size;
        let string = |offset: u32| self.string(layout.strings.checked_add(offset as usize)?);
        Some(Entry {
            kind: word(&self.bytes, at)?,
            name: string(word(&self.bytes, at + 4)?)?,
            path: string(word(&self.bytes, at + 8)?)?,
            hardware: match layout.size {
                NEW_ENTRY => [word(&self.bytes, at + 16)?, word(&self.bytes, at + 20)?],
                _ => [0, 0],
            },
        })
    }

    /// Returns the name of a `glibc-hwcaps` folder by its number.
    fn folder(&self, number: u32) -> Option<&[u8]> {
        let (start, count) = self.layout.folders;
        let at = ((number as usize) < count).then(|| start + 4 * number as usize)?;
        self.string(self.layout.strings.checked_add(word(&self.bytes, at)? as usize)?)
    }

    /// Returns the string at an offset, at most a path long.
    fn string(&self, at: usize) -> Option<&[u8]> {
        let rest = self.bytes.get(at..)?;
        let rest = &rest[..rest.len().min(crate::elf::MAX_PATH as usize)];
        rest.split(|&byte| byte == 0).next().filter(|string| string.len() < rest.len())
    }
}

/// Returns the little-endian word at an offset.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the layout of the new format at an offset. `None` if there is none, or it is damaged.
fn new_layout(bytes: &[u8], start: usize) -> Option<Layout> {
    let own = bytes.get(start..).filter(|own| own.starts_with(NEW_MAGIC))?;
    let count = usize::try_from(word(own, 20)?).ok()?;
    if NEW_HEADER.checked_add(count.checked_mul(NEW_ENTRY)?)? > own.len() {
        return None;
    }
    let folders = match word(own, 32)? {
        0 => (0, 0),
        extensions => hwcaps_names(own, extensions as usize).unwrap_or((0, 0)),
    };
    let (entries, folders) = (start + NEW_HEADER, (start + folders.0, folders.1));
    Some(Layout { entries, size: NEW_ENTRY, count, strings: start, folders })
}

/// Returns offset and number of the names of `glibc-hwcaps` folders, from the extensions at an offset.
fn hwcaps_names(own: &[u8], extensions: usize) -> Option<(usize, usize)> {
    const SECTION: usize = 16;
    if word(own, extensions)? != EXTENSION_MAGIC {
        return None;
    }
    let sections = (0..word(own, extensions.checked_add(4)?)? as usize).map(|i| extensions + 8 + i * SECTION);
    // A table of sections beyond the end of the cache ends with it.
    let mut sections = sections.map_while(|at| Some((word(own, at)?, word(own, at + 8)?, word(own, at + 12)?)));
    let (_, offset, size) = sections.find(|&(tag, ..)| tag == EXTENSION_HWCAPS)?;
    (u64::from(offset) + u64::from(size) <= own.len() as u64).then_some((offset as usize, size as usize / 4))
}

#[cfg(test)]
mod tests;
