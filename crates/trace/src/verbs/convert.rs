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
/// Where a part of `from` is missing, fails with [`TraceError::Incomplete`]. Then `to` holds the rest, and says so.
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
    while source.fill(&mut chunk)? {
        writer.write(&chunk, source.blocks())?;
        watch(writer.refs(), source.progress());
    }
    let (refs, ending) = (writer.refs(), source.ending());
    let file = writer.finish(&ending)?;
    if let Some(missing) = ending.missing.into_iter().next() {
        return Err(TraceError::Incomplete(missing));
    }
    let bytes = file.metadata().map_err(|source| TraceError::Io { path: to.to_owned(), source })?.len();
    Ok(Converted { refs, bytes })
}
