//! Reads small files as text.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The most bytes of a file that a person writes, such as machine files, scenarios and papers. The longest that come with
/// Reach have 20 KB; the tables of a parsed file take up to 160 bytes for each byte.
pub const MAX_BYTES: u64 = 1 << 18;

/// Reads all of the file `path` if it has at most `most` bytes, without believing the length that it states: devices and pipes
/// state none.
///
/// # Errors
/// When the file cannot be read, is longer, or is not UTF-8.
pub fn read(path: &Path, most: u64) -> Result<String> {
    let bytes = read_bytes(path, most)?;
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "not a text file (UTF-8)"))
}

/// Reads all of the file `path` as [`read`] does, of any content.
///
/// # Errors
/// When the file cannot be read, or is longer.
pub fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let what = format!("longer than {} KB, which such files never are; give another file", most >> 10);
        return Err(Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_up_to_the_limit_and_no_further() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read(&path, 4).unwrap(), "four");
        assert_eq!(read(&path, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read(&path, 4).unwrap_err().kind(), ErrorKind::InvalidData);
        let endless = read(Path::new("/dev/zero"), MAX_BYTES).unwrap_err().to_string();
        assert_eq!(endless, "longer than 256 KB, which such files never are; give another file");
    }
}
