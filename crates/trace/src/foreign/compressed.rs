//! Opens files that may be compressed. The content decides.

use crate::TraceError;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes that were read from the file, for progress.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buf)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// The decompressed content of a file.
pub(crate) struct Opened {
    /// The content.
    pub content: Box<dyn BufRead + Send>,
    /// Bytes of the file that were read so far.
    pub read: Arc<AtomicU64>,
    /// Bytes of the file.
    pub len: u64,
}

/// Opens `path`, and decompresses xz, gzip and zstd.
pub(crate) fn open(path: &Path) -> Result<Opened, TraceError> {
    let io_error = |source| TraceError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io_error)?;
    let mut magic = [0; 6];
    let mut got = 0;
    while got < magic.len() {
        match file.read(&mut magic[got..]).map_err(io_error)? {
            0 => break,
            n => got += n,
        }
    }
    file.rewind().map_err(io_error)?;
    let len = file.metadata().map_err(io_error)?.len();
    let read = Arc::new(AtomicU64::new(0));
    let raw = BufReader::with_capacity(1 << 16, Counted { file, read: read.clone() });
    let content: Box<dyn BufRead + Send> = match &magic[..got] {
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            Box::new(BufReader::with_capacity(1 << 18, liblzma::bufread::XzDecoder::new_multi_decoder(raw)))
        }
        [0x1f, 0x8b, ..] => Box::new(BufReader::with_capacity(1 << 18, flate2::bufread::MultiGzDecoder::new(raw))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(BufReader::with_capacity(
            1 << 18,
            zstd::stream::read::Decoder::with_buffer(raw).map_err(io_error)?,
        )),
        _ => Box::new(raw),
    };
    Ok(Opened { content, read, len })
}
