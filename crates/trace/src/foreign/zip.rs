//! The content of zip archives: that of all parts, one after the other. Traces of drmemtrace have one part for each chunk of
//! instructions.

use super::compressed::Counter;
use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, ErrorKind, FileReader, RangeReader, ZipArchive, ZipArchiveEntryWayfinder, ZipLocator};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::vec;

/// The parts of an archive, in the order of its directory.
pub(super) struct Parts {
    archive: ZipArchive<Arc<FileReader>>,
    left: vec::IntoIter<Part>,
    /// The content of the present part; `None` between parts.
    present: Option<Box<dyn Read + Send>>,
    counter: Counter,
    /// The bytes of the buffer for compressed content.
    buffer: usize,
}

/// What the directory says about a part.
struct Part {
    place: ZipArchiveEntryWayfinder,
    method: CompressionMethod,
    encrypted: bool,
}

impl Parts {
    /// Reads the directory of the archive `file` of `len` bytes. Takes `buffer` bytes for a part while it is read.
    pub fn open(file: File, len: u64, counter: Counter, buffer: usize) -> io::Result<Parts> {
        // The longest record of a directory is longer; none of a trace comes near.
        let mut record = vec![0; rawzip::RECOMMENDED_BUFFER_SIZE];
        let file = Arc::new(FileReader::from(file));
        let located = ZipLocator::new().locate_in_reader(file, &mut record, len);
        let archive = located.map_err(|(_, error)| explain(error))?;
        let mut parts = Vec::new();
        let mut entries = archive.entries(&mut record);
        while let Some(entry) = entries.next_entry().map_err(explain)? {
            if !entry.is_dir() {
                let (place, method) = (entry.wayfinder(), entry.compression_method());
                parts.push(Part { place, method, encrypted: entry.flags().is_encrypted() });
            }
        }
        Ok(Parts { archive, left: parts.into_iter(), present: None, counter, buffer })
    }

    /// Returns the content of a part, which ends with an error where its checksum or length is not what the directory says.
    fn content(&self, part: &Part) -> io::Result<Box<dyn Read + Send>> {
        if part.encrypted {
            return Err(invalid("a part of the zip archive is encrypted"));
        }
        let entry = self.archive.get_entry(part.place).map_err(explain)?;
        let (start, end) = entry.compressed_data_range();
        let stored = self.counter.count(RangeReader::new(self.archive.get_ref().clone(), start..end));
        let stored = BufReader::with_capacity(self.buffer, stored);
        match part.method {
            CompressionMethod::STORE => Ok(Box::new(entry.verifying_reader(stored))),
            CompressionMethod::DEFLATE => Ok(Box::new(entry.verifying_reader(DeflateDecoder::new(stored)))),
            method => {
                Err(invalid(&format!("a part of the zip archive is compressed by {method}: expected deflate or none")))
            }
        }
    }
}

impl Read for Parts {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(present) = &mut self.present {
                match present.read(buf)? {
                    0 if !buf.is_empty() => self.present = None,
                    n => return Ok(n),
                }
            }
            match self.left.next() {
                Some(part) => self.present = Some(self.content(&part)?),
                None => return Ok(0),
            }
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Turns an error of the archive's structure into one that says what it means.
fn explain(error: rawzip::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::IO(error) => error,
        ErrorKind::MissingEndOfCentralDirectory => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the zip archive lacks the directory at its end")
        }
        kind => invalid(&format!("the zip archive: {}", rawzip::Error::from(kind))),
    }
}
