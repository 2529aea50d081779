//! Opens files that may be compressed. The content decides.

use super::limits::{Bounded, Limits};
use crate::TraceError;
use liblzma::stream::{CONCATENATED, Stream};
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
    /// What the file may take.
    pub(super) limits: Limits,
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
    let limits = Limits::of(len);
    let content = match &magic[..got] {
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            let stream = Stream::new_auto_decoder(limits.memory, CONCATENATED).map_err(|e| io_error(e.into()))?;
            bounded(liblzma::bufread::XzDecoder::new_stream(raw, stream), limits)
        }
        [0x1f, 0x8b, ..] => bounded(flate2::bufread::MultiGzDecoder::new(raw), limits),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(raw).map_err(io_error)?;
            decoder.window_log_max(limits.window_log()).map_err(io_error)?;
            bounded(decoder, limits)
        }
        _ => Box::new(raw),
    };
    Ok(Opened { content, read, len, limits })
}

/// Returns the content of a decompressor, within `limits`.
fn bounded(decoder: impl Read + Send + 'static, limits: Limits) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(1 << 18, Bounded::new(decoder, limits)))
}
