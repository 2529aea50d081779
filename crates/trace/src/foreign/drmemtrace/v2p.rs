//! Physical addresses of a trace's pages (`v2p.textproto`), which come beside Google's traces, or were made for DynamoRIO's own
//! simulators. Reach's operating systems place pages themselves, so a simulation does not use them.

use crate::TraceError;
use reach_core::Shown;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The most bytes of a file. A mapping takes some 100, and 16 in memory.
const MAX_BYTES: u64 = 64 << 20;

/// What a file of physical addresses says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Physical {
    /// The bytes of a page.
    pub page_bytes: u64,
    /// The pages that have a physical address.
    pub pages: u64,
    /// The runs of pages that are adjacent in both virtual and physical memory.
    pub runs: u64,
}

/// Returns the file of physical addresses that belongs to the trace `path`; `None` if there is none.
pub fn find(path: &Path) -> Option<PathBuf> {
    let folder = if path.is_dir() { path } else { path.parent()? };
    let is_inner = folder.file_name().is_some_and(|name| name == "trace");
    let outer = folder.parent().filter(|_| is_inner);
    let places = [Some(folder), outer].into_iter().flatten();
    let files = places.flat_map(|place| ["v2p.textproto", "aux/v2p.textproto"].map(|name| place.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// Reads a file of physical addresses. Fails where it cannot be read, and where a line contradicts another one.
pub fn read(path: &Path) -> Result<Physical, TraceError> {
    let failed = |source| TraceError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        return Err(TraceError::Invalid(format!(
            "{}: longer than {most} MB, which such files never are",
            path.shown()
        )));
    }
    let mut lines = BufReader::new(file.take(MAX_BYTES)).split(b'\n');
    let (mut pages, mut page_bytes, mut virtual_address, mut number) = (Vec::new(), None, 0, 0);
    let invalid = |line: u64, what: &str| Err(TraceError::Invalid(format!("{}: line {line}: {what}", path.shown())));
    while let Some(line) = lines.next().transpose().map_err(failed)? {
        number += 1;
        let Some((key, value)) = parse(&line) else { continue };
        let Some(value) = value else { return invalid(number, "expected a number after the colon") };
        match key {
            b"page_size" if page_bytes.is_some_and(|bytes| bytes != value) => {
                return invalid(number, "another page size than before");
            }
            b"page_size" if !value.is_power_of_two() => return invalid(number, "a page size that is no power of two"),
            b"page_size" => page_bytes = Some(value),
            b"virtual_address" => virtual_address = value,
            // Zero is not written.
            b"physical_address" => pages.push((std::mem::take(&mut virtual_address), value)),
            _ => {}
        }
    }
    let Some(page_bytes) = page_bytes else { return invalid(number, "the file ends without a page size") };
    pages.sort_unstable();
    if let Some(pair) = pages.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return invalid(number, &format!("the file has two physical addresses for {:#x}", pair[0].0));
    }
    let adjoins = |a: (u64, u64), b: (u64, u64)| b.0 - a.0 == page_bytes && b.1.wrapping_sub(a.1) == page_bytes;
    let breaks = pages.windows(2).filter(|pair| !adjoins(pair[0], pair[1])).count();
    let runs = if pages.is_empty() { 0 } else { breaks as u64 + 1 };
    Ok(Physical { page_bytes, pages: pages.len() as u64, runs })
}

/// Splits a line into its key and its number, decimal or hexadecimal. Returns `None` for comments and lines without a colon, and no
/// number where what follows the colon is none.
fn parse(line: &[u8]) -> Option<(&[u8], Option<u64>)> {
    let line = line.trim_ascii();
    let colon = memchr::memchr(b':', line)?;
    if line.starts_with(b"#") {
        return None;
    }
    let value = std::str::from_utf8(line[colon + 1..].trim_ascii()).ok();
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    Some((line[..colon].trim_ascii(), value.and_then(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Physical, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v2p.textproto");
        std::fs::write(&path, text).unwrap();
        assert_eq!(find(folder.path()).as_deref(), Some(path.as_path()));
        read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn pages_and_their_runs_are_counted() {
        let mapping = |virtual_address: &str, physical_address: u64| {
            format!("address_mapping {{\n {virtual_address}\n physical_address: {physical_address}\n}}\n")
        };
        let text = [
            "# a comment: 1\naddress_mapping_group {\n  page_size: 0x1000\n".to_owned(),
            mapping("", 0x8000),
            mapping("virtual_address: 0x1000", 0x9000),
            mapping("virtual_address: 8192", 0xb000),
            mapping("virtual_address: 0x10000", 0xc000),
            "}\n".to_owned(),
        ];
        assert_eq!(of(&text.concat()), Ok(Physical { page_bytes: 4096, pages: 4, runs: 3 }));
        assert_eq!(of("page_size: 2097152"), Ok(Physical { page_bytes: 2 << 20, pages: 0, runs: 0 }));
    }

    #[test]
    fn contradictions_are_told_with_their_line() {
        for (text, what) in [
            ("", "line 0: the file ends without a page size"),
            ("page_size: 4096\npage_size: 8192", "line 2: another page size than before"),
            ("page_size: 3", "line 1: a page size that is no power of two"),
            ("page_size: many", "line 1: expected a number after the colon"),
            (
                "page_size: 4096\nphysical_address: 1\nphysical_address: 2",
                "line 3: the file has two physical addresses for 0x0",
            ),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.ends_with(what), "{error}");
        }
    }
}
