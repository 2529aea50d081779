//! Opens a trace of any format that Reach reads. The content decides the format.

use crate::file::{self, MAGIC};
use crate::foreign::{ChampSim, DrMemtrace, Lackey, Text, open_compressed};
use crate::{Source, TraceError};
use reach_core::Shown;
use std::fs::File;
use std::io::{BufRead, Read};
use std::path::Path;

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Reach's own format.
    Reach,
    /// ChampSim's standard records.
    ChampSim,
    /// Text of valgrind's lackey.
    Lackey,
    /// Records of DynamoRIO's tracer, in a file or a folder.
    DrMemtrace,
    /// Reach's own text form, for the output of other tools.
    Text,
}

impl Format {
    /// Returns the name of the format.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Reach => "reach",
            Format::ChampSim => "champsim",
            Format::Lackey => "lackey",
            Format::DrMemtrace => "drmemtrace",
            Format::Text => "text",
        }
    }
}

/// The bytes of a foreign trace's content that decide its format.
const SAMPLE_BYTES: usize = 1 << 14;

/// Returns the format of the trace `path`. Foreign traces may be compressed by xz, gzip, zstd, snappy (framed) or zip. A folder is a
/// trace of drmemtrace, with a file for each thread.
///
/// Fails with [`TraceError::Invalid`] where the file is no trace of a known format, or the folder has no traces.
pub fn recognise(path: impl AsRef<Path>) -> Result<Format, TraceError> {
    let path = path.as_ref();
    if path.is_dir() {
        return Ok(Format::DrMemtrace);
    }
    let io_error = |source| TraceError::Io { path: path.to_owned(), source };
    let mut start = Vec::new();
    File::open(path).and_then(|f| f.take(MAGIC.len() as u64).read_to_end(&mut start)).map_err(io_error)?;
    let invalid = |what: &str| {
        let known = "give a .reach file, or a trace of another tool (docs/traces.md lists them)";
        Err(TraceError::Invalid(format!("{}: {what}; {known}", path.shown())))
    };
    if start.is_empty() {
        return invalid("the file is empty");
    }
    if MAGIC.starts_with(&start) {
        return Ok(Format::Reach);
    }
    let mut content = open_compressed(path)?.content;
    let mut sample = Vec::with_capacity(SAMPLE_BYTES);
    while sample.len() < SAMPLE_BYTES {
        let buf = match content.fill_buf() {
            Ok(buf) => buf,
            // The content before the damage decides; the reader will report the damage.
            Err(_) if !sample.is_empty() => break,
            Err(source) => return Err(io_error(source)),
        };
        if buf.is_empty() {
            break;
        }
        let take = buf.len().min(SAMPLE_BYTES - sample.len());
        sample.extend_from_slice(&buf[..take]);
        content.consume(take);
    }
    if sample.starts_with(&MAGIC) {
        return invalid("a compressed .reach file; decompress it (its contents are compressed already)");
    }
    if DrMemtrace::recognises(&sample) {
        return Ok(Format::DrMemtrace);
    }
    if Text::recognises(&sample) {
        return Ok(Format::Text);
    }
    if Lackey::recognises(&sample) {
        return Ok(Format::Lackey);
    }
    if ChampSim::recognises(&sample) {
        return Ok(Format::ChampSim);
    }
    invalid("no trace of a known format")
}

/// Opens the trace `path`, of any format that Reach reads. Fails as [`recognise`] does, and where the file is damaged.
pub fn open(path: impl AsRef<Path>) -> Result<Box<dyn Source>, TraceError> {
    let path = path.as_ref();
    Ok(match recognise(path)? {
        Format::Reach => Box::new(file::Reader::open(path)?),
        Format::ChampSim => Box::new(ChampSim::open(path)?),
        Format::Lackey => Box::new(Lackey::open(path)?),
        Format::DrMemtrace => Box::new(DrMemtrace::open(path)?),
        Format::Text => Box::new(Text::open(path)?),
    })
}
