//! `reach record`, and the option `--record` of `compare` and `run`.

use crate::args::record::RecordArgs;
use crate::failure::{Failure, VerbResult};
use crate::program::Program;
use crate::progress::Progress;
use crate::units;
use reach_core::Chunk;
use reach_trace::file::{Metadata, Writer};
use reach_trace::{FastForward, FastForwarded, Limited, Sampled, Source, TraceError};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Captures a program and writes its trace.
pub fn record(args: RecordArgs, quiet: bool) -> VerbResult {
    let mut recorder = Recorder::create(&args.output, args.force, None, &args.command)?;
    let mut program = Program::launch(&args.command)?;
    let mut progress = Progress::new(true, quiet);
    let (source, fast_forward) = (program.source(), FastForward::References(args.fast_forward.unwrap_or_default()));
    let source: Box<dyn Source> = match args.sample {
        None => Box::new(FastForwarded::new(source, fast_forward)),
        Some(sampling) => {
            Box::new(FastForwarded::between_intervals(Sampled::new(source, sampling, fast_forward, args.seed)))
        }
    };
    let recorded = record_all(&mut Limited::new(source, args.limit), &mut recorder, &mut progress);
    progress.end();
    let status = program.end(quiet);
    let summary = recorder.finish();
    recorded?;
    let (status, summary) = (status?, summary?);
    if !quiet {
        eprintln!("reach: {summary}");
    }
    Ok(status)
}

/// Records all chunks of `source`, up to its end or to a failure of the recorder, which the recorder keeps.
fn record_all(source: &mut dyn Source, recorder: &mut Recorder, progress: &mut Progress) -> Result<(), Failure> {
    let mut chunk = Chunk::default();
    while source.fill(&mut chunk).map_err(Failure::failed)? {
        if !recorder.take(&chunk, source) {
            return Ok(());
        }
        progress.show(recorder.references(), source.progress());
    }
    Ok(())
}

/// Writes chunks to a trace file. After a failure it writes nothing more; the file keeps what was written before.
pub struct Recorder {
    path: PathBuf,
    writer: Option<Writer<File>>,
    failure: Option<Failure>,
}

impl Recorder {
    /// Creates the trace file `path` for the stored program `name`, or for the live program `command` if `name` is
    /// `None`. Everything that can be checked beforehand is checked before the file is touched.
    pub fn create(path: &Path, force: bool, name: Option<String>, command: &[OsString]) -> Result<Recorder, Failure> {
        refuse_to_replace(path, force)?;
        if name.is_none() {
            Program::find(command)?;
        }
        let command: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let metadata = Metadata {
            program: name.unwrap_or_else(|| command.join(" ").replace(char::is_control, " ")),
            command,
            host: host_name(),
            tool: concat!("reach ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..Metadata::default()
        };
        let writer = Writer::create(path, &metadata).map_err(|error| writing(path, error))?;
        Ok(Recorder { path: path.to_owned(), writer: Some(writer), failure: None })
    }

    /// Writes `chunk` of `source`. Returns whether writing still works.
    pub fn take(&mut self, chunk: &Chunk, source: &dyn Source) -> bool {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.write(chunk, source.blocks())
        {
            self.fail(error);
        }
        self.writer.is_some()
    }

    /// Returns the number of references written.
    pub fn references(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::refs)
    }

    fn fail(&mut self, error: TraceError) {
        self.writer = None;
        self.failure = Some(match writing(&self.path, error) {
            Failure::Failed(message) => Failure::Failed(format!("{message}; the part recorded before is kept")),
            other => other,
        });
    }

    /// Completes the trace, and returns a sentence about its contents.
    pub fn finish(mut self) -> Result<String, Failure> {
        let (references, mut bytes) = (self.references(), 0);
        if let Some(writer) = self.writer.take() {
            match writer.finish() {
                Ok(file) => bytes = file.metadata().map_or(0, |metadata| metadata.len()),
                Err(error) => self.fail(error),
            }
        }
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(format!(
                "recorded {} references in {}: {}, {:.2} bytes per reference",
                units::short(references as f64),
                self.path.display(),
                units::memory(bytes),
                bytes as f64 / references.max(1) as f64,
            )),
        }
    }
}

/// Refuses to replace an existing regular file unless `force`. Devices and pipes are always accepted.
pub fn refuse_to_replace(path: &Path, force: bool) -> Result<(), Failure> {
    if force || !path.is_file() {
        return Ok(());
    }
    Err(Failure::Usage(format!("{}: exists already; give another name, or --force to replace it", path.display())))
}

fn writing(path: &Path, error: TraceError) -> Failure {
    match error {
        TraceError::Io { source, .. } => Failure::writing(path, source),
        other => Failure::failed(other),
    }
}

/// Returns the name of this computer, empty if unknown.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
