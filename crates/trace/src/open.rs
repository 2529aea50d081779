//! Opens any trace that Reach can read, by its content.

use crate::file::{self, MAGIC};
use crate::foreign::{ChampSim, Lackey, open_compressed};
use crate::{Source, TraceError};
use std::fs::File;
use std::io::{BufRead, Read};
use std::path::Path;

/// What kind of trace a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Reach's own.
    Reach,
    /// ChampSim's standard records.
    ChampSim,
    /// Text of valgrind's lackey.
    Lackey,
}

impl Format {
    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Reach => "reach",
            Format::ChampSim => "champsim",
            Format::Lackey => "lackey",
        }
    }
}

/// How much of a foreign trace is looked at.
const LOOK: usize = 1 << 14;

/// Tells by its content what kind of trace `path` is.
pub fn recognise(path: impl AsRef<Path>) -> Result<Format, TraceError> {
    let path = path.as_ref();
    let io_error = |source| TraceError::Io { path: path.to_owned(), source };
    let mut start = Vec::new();
    File::open(path).and_then(|f| f.take(MAGIC.len() as u64).read_to_end(&mut start)).map_err(io_error)?;
    let refused = |what: &str| {
        let known = "give a .reach file, a ChampSim trace or the output of valgrind --tool=lackey --trace-mem=yes";
        Err(TraceError::Unknown(format!("{}: {what}; {known}", path.display())))
    };
    if start.is_empty() {
        return refused("the file is empty");
    }
    if MAGIC.starts_with(&start) {
        return Ok(Format::Reach);
    }
    let mut content = open_compressed(path)?.content;
    let mut look = Vec::with_capacity(LOOK);
    while look.len() < LOOK {
        let buf = match content.fill_buf() {
            Ok(buf) => buf,
            // What is there before the damage decides; reading on will meet it again.
            Err(_) if !look.is_empty() => break,
            Err(source) => return Err(io_error(source)),
        };
        if buf.is_empty() {
            break;
        }
        let take = buf.len().min(LOOK - look.len());
        look.extend_from_slice(&buf[..take]);
        content.consume(take);
    }
    if look.starts_with(&MAGIC) {
        return refused("a .reach file that was compressed once more, which gains nothing: decompress it");
    }
    if Lackey::recognises(&look) {
        return Ok(Format::Lackey);
    }
    if ChampSim::recognises(&look) {
        return Ok(Format::ChampSim);
    }
    refused("this is no trace that Reach knows")
}

/// Opens a trace of any kind that Reach can read.
pub fn open(path: impl AsRef<Path>) -> Result<Box<dyn Source>, TraceError> {
    let path = path.as_ref();
    Ok(match recognise(path)? {
        Format::Reach => Box::new(file::Reader::open(path)?),
        Format::ChampSim => Box::new(ChampSim::open(path)?),
        Format::Lackey => Box::new(Lackey::open(path)?),
    })
}
