//! Reads the mappings of this process.

use std::io;
use std::os::fd::AsRawFd;

/// A mapping, as listed in `/proc/self/smaps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: usize,
    pub end: usize,
    pub read: bool,
    pub write: bool,
    pub execute: bool,
    pub private: bool,
    pub offset: u64,
    pub device: (u32, u32),
    pub inode: u64,
    pub path: String,
    /// Whether it has anonymous pages, which differ from the file.
    pub changed: bool,
    /// Kilobytes in anonymous superpages.
    pub huge: usize,
}

/// A file as the kernel identifies it in lists of mappings: device and inode.
pub type File = (u32, u32, u64);

impl Mapping {
    pub fn contains(&self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }

    pub fn file(&self) -> File {
        (self.device.0, self.device.1, self.inode)
    }
}

/// Lists all mappings.
pub fn read() -> io::Result<Vec<Mapping>> {
    Ok(parse(&std::fs::read_to_string("/proc/self/smaps")?))
}

/// Returns the identity of an open file as lists of mappings have it; `None` if it cannot be mapped. On some file systems,
/// such as btrfs and overlays, fstat gives another device.
pub fn identity(file: &std::fs::File) -> Option<File> {
    const PAGE: usize = 4096;
    // SAFETY: a new mapping at an address of the kernel's choice, of which nothing is read, and which is unmapped once.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    let listed = std::fs::read_to_string("/proc/self/maps");
    // SAFETY: as above.
    unsafe { libc::munmap(at, PAGE) };
    parse(&listed.ok()?).iter().find(|mapping| mapping.contains(at as usize)).map(Mapping::file)
}

fn parse(text: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = head(line) {
            mappings.push(mapping);
        } else if let (Some(last), Some((key, value))) = (mappings.last_mut(), line.split_once(':')) {
            let kilobytes = || value.trim().trim_end_matches(" kB").parse().unwrap_or(0);
            match key {
                "Anonymous" => last.changed = kilobytes() > 0,
                "AnonHugePages" => last.huge = kilobytes(),
                _ => {}
            }
        }
    }
    mappings
}

/// Parses the first line of a mapping: `55e9c7800000-55e9ca401000 r-xp 00200000 fe:00 10190875    /tmp/big`. `None` for
/// other lines.
fn head(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    let rights = words.next()?;
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode: u64 = words.next()?.parse().ok()?;
    let path = line.find('/').filter(|_| inode != 0).map_or(String::new(), |at| line[at..].to_owned());
    let has = |right| rights.contains(right);
    let rights = (has('r'), has('w'), has('x'), has('p'));
    let (read, write, execute, private) = rights;
    Some(Mapping { start, end, read, write, execute, private, offset, device, inode, path, changed: false, huge: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_has_the_identity_of_its_mappings() {
        let here = mappings_are_parsed_with_their_fields as *const () as usize;
        let own = read().unwrap().into_iter().find(|mapping| mapping.contains(here)).unwrap();
        let identity_of = |path: &str| identity(&std::fs::File::open(path).unwrap());
        assert_eq!(identity_of("/proc/self/exe"), Some(own.file()));
        assert_ne!(identity_of("/bin/sh"), Some(own.file()));
        assert_eq!(identity_of("/"), None);
    }

    #[test]
    fn mappings_are_parsed_with_their_fields() {
        let text = "55e9c7800000-55e9ca401000 r-xp 00200000 fe:00 10190875                   /tmp/a b\n\
                    Size:              45060 kB\nAnonymous:             4 kB\nAnonHugePages:      2048 kB\n\
                    7ffd1000-7ffd3000 rw-p 00000000 00:00 0                          [stack]\nVmFlags: rd wr\n";
        let maps = parse(text);
        assert_eq!(maps.len(), 2);
        assert_eq!((maps[0].path.as_str(), maps[0].offset, maps[0].inode), ("/tmp/a b", 0x200000, 10190875));
        assert!(maps[0].changed && maps[0].execute && maps[0].private && !maps[0].write);
        assert_eq!((maps[0].huge, maps[0].device), (2048, (0xfe, 0)));
        assert_eq!((maps[1].path.as_str(), maps[1].write), ("", true));
    }
}
