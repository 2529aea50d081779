//! Converts any readable trace to a `.reach` file, or to another tool's format.

use super::Watch;
use crate::file::{Metadata, Reader, Writer};
use crate::foreign::{Survey, write_champsim, write_drmemtrace};
use crate::{Format, Source, TraceError, open, recognise};
use reach_core::Chunk;
use std::io;
use std::path::Path;

/// The size of a converted trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// References read.
    pub refs: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// A format that traces can be converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A `.reach` file, which keeps everything.
    Reach,
    /// ChampSim's records, which keep one stream of instructions and their accesses, without sizes.
    ChampSim,
    /// Records of drmemtrace, which keep instructions, accesses, code, threads and system calls, without mappings.
    DrMemtrace,
}

/// Writes the trace `from`, of any format that Reach reads, to the file `to`. A `.reach` file is written in the present version of the
/// format and with an index; other formats are compressed if the name ends with `.gz`, `.xz` or `.zst`. Calls `watch` with the
/// references read.
///
/// Where a part of `from` is missing, fails with [`TraceError::Incomplete`]. Then `to` holds the rest, and says so if its format can.
pub fn convert(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    target: Target,
    watch: Watch,
) -> Result<Converted, TraceError> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let format = recognise(from)?;
    if let (Ok(a), Ok(b)) = (from.canonicalize(), to.canonicalize())
        && a == b
    {
        let source =
            io::Error::new(io::ErrorKind::InvalidInput, "a trace cannot be converted onto itself; name another file");
        return Err(TraceError::Io { path: to.to_owned(), source });
    }
    let (refs, ending) = match target {
        Target::Reach => to_reach(from, format, to, watch)?,
        Target::ChampSim => {
            let survey = Survey::of(open(from)?.as_mut(), watch)?;
            let written = write_champsim(open(from)?.as_mut(), survey, to, watch)?;
            (written.refs, written.ending)
        }
        Target::DrMemtrace => {
            let survey = Survey::of(open(from)?.as_mut(), watch)?;
            let written = write_drmemtrace(open(from)?.as_mut(), survey, to, watch)?;
            (written.refs, written.ending)
        }
    };
    if let Some(missing) = ending.missing.into_iter().next() {
        return Err(TraceError::Incomplete(missing));
    }
    let bytes = std::fs::metadata(to).map_err(|source| TraceError::Io { path: to.to_owned(), source })?.len();
    Ok(Converted { refs, bytes })
}

fn to_reach(from: &Path, format: Format, to: &Path, watch: Watch) -> Result<(u64, crate::Ending), TraceError> {
    let (mut source, metadata): (Box<dyn Source>, Metadata) = match format {
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
    let mut writer = Writer::create(to, &metadata)?;
    let mut chunk = Chunk::default();
    while source.fill(&mut chunk)? {
        writer.write(&chunk, source.blocks())?;
        watch(writer.refs(), source.progress());
    }
    let (refs, ending) = (writer.refs(), source.ending());
    writer.finish(&ending)?;
    Ok((refs, ending))
}
