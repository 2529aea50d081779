//! Writers of other tools' formats, so that other simulators run our captures.

mod champsim;
mod drmemtrace;
mod instructions;
mod unroll;

use crate::{Ending, Progress, Source, TraceError};
use champsim::ChampSimWriter;
use drmemtrace::{DrMemtraceWriter, Features};
use flate2::Compression;
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
use reach_core::{Chunk, Event};
use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use unroll::{Resumptions, Sink, Unroller};

/// A call-back for progress: the references read so far, and the progress of the source.
type Watch<'a> = &'a mut dyn FnMut(u64, Progress);

/// Traces hold addresses and code of a program, which are its owner's business.
const OWNER_ONLY: u32 = 0o600;

/// The level of xz: higher ones take long and gain little on traces.
const XZ_LEVEL: u32 = 3;

/// What was written.
pub(crate) struct Written {
    /// References that were read.
    pub refs: u64,
    /// How the program ended.
    pub ending: Ending,
}

/// Writes the program of `source` to the file `to`, as records of ChampSim. A name that ends with `.xz`, `.gz` or `.zst` decides that
/// they are compressed.
pub(crate) fn write_champsim(
    source: &mut dyn Source,
    survey: Survey,
    to: &Path,
    watch: Watch,
) -> Result<Written, TraceError> {
    let failed = |source| TraceError::Io { path: to.to_owned(), source };
    let mut writer = ChampSimWriter { out: Output::create(to).map_err(failed)? };
    let written = unroll(source, survey.resumptions, &mut writer, to, watch)?;
    writer.out.finish().map_err(failed)?;
    Ok(written)
}

/// Writes the program of `source` to the file `to`, as records of drmemtrace, compressed as those of [`write_champsim`].
pub(crate) fn write_drmemtrace(
    source: &mut dyn Source,
    survey: Survey,
    to: &Path,
    watch: Watch,
) -> Result<Written, TraceError> {
    let failed = |source| TraceError::Io { path: to.to_owned(), source };
    let out = Output::create(to).map_err(failed)?;
    let mut writer = DrMemtraceWriter::new(out, survey.features).map_err(failed)?;
    let written = unroll(source, survey.resumptions, &mut writer, to, watch)?;
    let out = writer.finish(written.ending.missing.is_empty()).map_err(failed)?;
    out.finish().map_err(failed)?;
    Ok(written)
}

/// Gives all instructions of the program to `sink`, which writes to the file `to`.
fn unroll(
    source: &mut dyn Source,
    resumptions: Resumptions,
    sink: &mut dyn Sink,
    to: &Path,
    watch: Watch,
) -> Result<Written, TraceError> {
    let failed = |source| TraceError::Io { path: to.to_owned(), source };
    let (mut unroller, mut chunk, mut refs) = (Unroller::new(resumptions), Chunk::default(), 0);
    while source.fill(&mut chunk)? {
        unroller.chunk(&chunk, source.blocks(), sink).map_err(failed)?;
        refs += chunk.refs.len() as u64;
        watch(refs, source.progress());
    }
    unroller.end(source.blocks(), sink).map_err(failed)?;
    Ok(Written { refs, ending: source.ending() })
}

/// What must be known about a program before its first record is written.
pub(crate) struct Survey {
    features: Features,
    resumptions: Resumptions,
}

impl Survey {
    /// Reads all of a program.
    pub(crate) fn of(source: &mut dyn Source, watch: Watch) -> Result<Survey, TraceError> {
        let (mut chunk, mut resumptions) = (Chunk::default(), Resumptions::default());
        let (mut threads, mut refs) = (BTreeSet::new(), 0);
        while source.fill(&mut chunk)? {
            for (_, event) in &chunk.events {
                if let Event::Switch { thread, .. } = event {
                    threads.insert(thread.0);
                }
            }
            resumptions.add(&chunk);
            refs += chunk.refs.len() as u64;
            watch(refs, source.progress());
        }
        let blocks = source.blocks();
        let has_code = !blocks.is_empty() && blocks.iter().all(|block| instructions::decode(block).is_some());
        Ok(Survey { features: Features { has_code, has_threads: threads.len() > 1 }, resumptions })
    }
}

/// A file that is written, compressed as its name says.
enum Output {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Xz(XzEncoder<BufWriter<File>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Output {
    fn create(path: &Path) -> io::Result<Output> {
        let file = File::options().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(path)?;
        if file.metadata()?.is_file() {
            // A file that existed has kept its mode.
            let _ = file.set_permissions(Permissions::from_mode(OWNER_ONLY));
        }
        let out = BufWriter::with_capacity(1 << 16, file);
        Ok(match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Output::Gzip(GzEncoder::new(out, Compression::default())),
            Some("xz") => Output::Xz(XzEncoder::new(out, XZ_LEVEL)),
            Some("zst") => Output::Zstd(zstd::stream::write::Encoder::new(out, 0)?),
            _ => Output::Plain(out),
        })
    }

    /// Writes what is left, and the ends of compressed files.
    fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Output::Plain(out) => out,
            Output::Gzip(encoder) => encoder.finish()?,
            Output::Xz(encoder) => encoder.finish()?,
            Output::Zstd(encoder) => encoder.finish()?,
        };
        out.flush()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Plain(out) => out.write(bytes),
            Output::Gzip(out) => out.write(bytes),
            Output::Xz(out) => out.write(bytes),
            Output::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Plain(out) => out.flush(),
            Output::Gzip(out) => out.flush(),
            Output::Xz(out) => out.flush(),
            Output::Zstd(out) => out.flush(),
        }
    }
}
