//! What a foreign trace may take, in proportion to its bytes. Decompressors know no bound of their own: 1 MB of xz can be 7 GB of
//! content, or ask for a dictionary of 4 GB.

use std::io::{self, Read};

/// The limits of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// The most bytes of memory that a decompressor may take.
    pub memory: u64,
    /// The most bytes of decompressed content.
    pub content: u64,
    /// The most distinct blocks. A block takes about 100 bytes of memory.
    pub blocks: usize,
}

/// No limits: for content that is in memory already.
pub(super) const NONE: Limits = Limits { memory: u64::MAX, content: u64::MAX, blocks: usize::MAX };

const MB: u64 = 1 << 20;

impl Limits {
    /// Returns the limits of a file of `len` bytes. They let a file of up to 1 MB take 64 MB and two seconds. Traces of ChampSim
    /// compress up to 3,000 times, and `xz -9`, which needs 65 MB, is met from 3 MB on.
    pub fn of(len: u64) -> Limits {
        Limits {
            memory: (40 * MB).saturating_add(len.saturating_sub(MB).saturating_mul(16)).min(144 * MB),
            content: (512 * MB).saturating_add(len.saturating_sub(MB).saturating_mul(8192)),
            blocks: usize::try_from((1 << 18) + len / 16).unwrap_or(usize::MAX),
        }
    }

    /// Returns the binary logarithm of the longest window of zstd that fits the memory.
    pub fn window_log(self) -> u32 {
        self.memory.ilog2().min(27)
    }
}

/// Content of a decompressor, which ends with an error where it is longer than its limit.
pub(super) struct Bounded<R> {
    content: R,
    left: u64,
    limits: Limits,
}

impl<R: Read> Bounded<R> {
    pub fn new(content: R, limits: Limits) -> Bounded<R> {
        Bounded { content, left: limits.content, limits }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.content.read(buf).map_err(|error| too_much_memory(error, self.limits))?;
        match self.left.checked_sub(n as u64) {
            Some(left) => self.left = left,
            None => {
                let most = self.limits.content / MB;
                let what = format!("more than {most} MB when decompressed, which no trace of this length has");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
            }
        }
        Ok(n)
    }
}

/// Explains the error of a decompressor that needs more memory than its limit. Returns other errors as they are.
fn too_much_memory(error: io::Error, limits: Limits) -> io::Error {
    let is_xz = |error: &io::Error| {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<liblzma::stream::Error>());
        matches!(inner, Some(liblzma::stream::Error::MemLimit))
    };
    if !is_xz(&error) && !error.to_string().contains("too much memory") {
        return error;
    }
    let most = limits.memory / MB;
    let what =
        format!("needs more than {most} MB to decompress, too much for its length; compress it with `xz -6` instead");
    io::Error::new(io::ErrorKind::OutOfMemory, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_grow_with_the_file() {
        assert_eq!(Limits::of(0).memory, 40 * MB);
        assert_eq!(Limits::of(MB).content, 512 * MB);
        assert!(Limits::of(3 * MB).memory > 66 * MB);
        let largest = Limits::of(u64::MAX);
        assert_eq!((largest.memory, largest.content), (144 * MB, u64::MAX));
        assert_eq!((Limits::of(0).window_log(), largest.window_log()), (25, 27));
    }

    #[test]
    fn content_ends_at_its_limit() {
        let limits = Limits { content: 4, ..NONE };
        let mut text = String::new();
        assert_eq!(Bounded::new(&b"four"[..], limits).read_to_string(&mut text).unwrap(), 4);
        let error = Bounded::new(&b"more than four"[..], limits).read_to_string(&mut text).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
