//! Converts any readable trace to a `.reach` file.

use super::Watch;
use crate::file::{Metadata, Reader, Writer};
use crate::{Format, Source, TraceError, open, recognise};
use reach_core::Chunk;
use std::io;
use std::path::Path;

/// The size of a converted trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// References written.
    pub refs: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// Writes the trace `from`, of any format that Reach reads, to the `.reach` file `to`. A `.reach` file is written in the
/// present version of the format and with an index. Calls `watch` with the references read.
///
/// Where `from` is damaged, fails with the damage, and `to` holds everything before it.
pub fn convert(from: impl AsRef<Path>, to: impl AsRef<Path>, watch: Watch) -> Result<Converted, TraceError> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let (mut source, metadata): (Box<dyn Source>, Metadata) = match recognise(from)? {
        Format::Reach => {
            let reader = Reader::open(from)?;
            let metadata = reader.metadata().clone();
            (Box::new(reader), metadata)
        }
        format => {
            let source = open(from)?;
            let metadata = Metadata {
                program: source.name().to_owned(),
                tool: format!("reach {} from {}", env!("CARGO_PKG_VERSION"), format.name()),
                ..Metadata::default()
            };
            (source, metadata)
        }
    };
    if let (Ok(a), Ok(b)) = (from.canonicalize(), to.canonicalize())
        && a == b
    {
        let source =
            io::Error::new(io::ErrorKind::InvalidInput, "a trace cannot be converted onto itself; name another file");
        return Err(TraceError::Io { path: to.to_owned(), source });
    }
    let mut writer = Writer::create(to, &metadata)?;
    let mut chunk = Chunk::default();
    let damage = loop {
        match source.fill(&mut chunk) {
            Ok(true) => {
                writer.write(&chunk, source.blocks())?;
                watch(writer.refs(), source.progress());
            }
            Ok(false) => break None,
            Err(damage) => break Some(damage),
        }
    };
    let refs = writer.refs();
    let file = writer.finish()?;
    match damage {
        Some(damage) => Err(damage),
        None => {
            let bytes = file.metadata().map_err(|source| TraceError::Io { path: to.to_owned(), source })?.len();
            Ok(Converted { refs, bytes })
        }
    }
}
