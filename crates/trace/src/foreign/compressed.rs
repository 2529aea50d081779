//! Opens files that may be compressed. The content decides.

use super::limits::{Bounded, Limits};
use super::zip::Parts;
use crate::TraceError;
use liblzma::stream::{CONCATENATED, Stream};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes that were read from a file, for progress.
#[derive(Clone, Default)]
pub(super) struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Returns `content`, whose bytes are counted when they are read.
    pub fn count<R: Read>(&self, content: R) -> Counted<R> {
        Counted { content, counter: self.clone() }
    }

    /// Returns the bytes so far.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Content whose bytes are counted.
pub(super) struct Counted<R> {
    content: R,
    counter: Counter,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.content.read(buf)?;
        self.counter.0.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// The sizes of the buffers of a file that is read, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Buffers {
    /// For the bytes of the file.
    pub file: usize,
    /// For decompressed content.
    pub content: usize,
}

/// The buffers of a file that is read alone.
pub(super) const LARGE: Buffers = Buffers { file: 1 << 16, content: 1 << 18 };

/// The buffers of a file that is read with thousands of others.
pub(super) const SMALL: Buffers = Buffers { file: 1 << 13, content: 1 << 15 };

/// The decompressed content of a file.
pub(crate) struct Opened {
    /// The content.
    pub content: Box<dyn BufRead + Send>,
    /// The bytes of the file that were read so far.
    pub(super) counter: Counter,
    /// Bytes of the file.
    pub len: u64,
    /// What the file may take.
    pub(super) limits: Limits,
}

/// Opens `path`, and decompresses xz, gzip, zstd, framed snappy and zip.
pub(crate) fn open(path: &Path) -> Result<Opened, TraceError> {
    open_with(path, LARGE)
}

/// Opens `path` as [`open`] does, with buffers of these sizes.
pub(super) fn open_with(path: &Path, buffers: Buffers) -> Result<Opened, TraceError> {
    let io_error = |source| TraceError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io_error)?;
    let mut magic = [0; 10];
    let mut got = 0;
    while got < magic.len() {
        match file.read(&mut magic[got..]).map_err(io_error)? {
            0 => break,
            n => got += n,
        }
    }
    file.rewind().map_err(io_error)?;
    let len = file.metadata().map_err(io_error)?.len();
    let counter = Counter::default();
    let limits = Limits::of(len);
    let raw = |file| BufReader::with_capacity(buffers.file, counter.count(file));
    let bounded = |decoder: Box<dyn Read + Send>| -> Box<dyn BufRead + Send> {
        Box::new(BufReader::with_capacity(buffers.content, Bounded::new(decoder, limits)))
    };
    let content = match &magic[..got] {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let stream = Stream::new_auto_decoder(limits.memory, CONCATENATED).map_err(|e| io_error(e.into()))?;
            bounded(Box::new(liblzma::bufread::XzDecoder::new_stream(raw(file), stream)))
        }
        [0x1f, 0x8b, ..] => bounded(Box::new(flate2::bufread::MultiGzDecoder::new(raw(file)))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(raw(file)).map_err(io_error)?;
            decoder.window_log_max(limits.window_log()).map_err(io_error)?;
            bounded(Box::new(decoder))
        }
        [0xff, 6, 0, 0, b's', b'N', b'a', b'P', b'p', b'Y'] => {
            bounded(Box::new(snap::read::FrameDecoder::new(raw(file))))
        }
        [b'P', b'K', 3, 4, ..] => {
            let parts = Parts::open(file, len, counter.clone(), buffers.file);
            bounded(Box::new(parts.map_err(|error| unreadable(path, error, len))?))
        }
        _ => Box::new(raw(file)),
    };
    Ok(Opened { content, counter, len, limits })
}

/// Returns the error for a file of `len` bytes whose structure cannot be read.
fn unreadable(path: &Path, error: io::Error, len: u64) -> TraceError {
    if error.raw_os_error().is_some() {
        return TraceError::Io { path: path.to_owned(), source: error };
    }
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("{error}, so it was cut short,"),
        _ => format!("damaged: {error}"),
    };
    TraceError::Damaged { path: path.to_owned(), what, at: len, todo: "fetch the trace again".to_owned() }
}
