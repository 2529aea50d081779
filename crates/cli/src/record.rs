//! `reach record`, and the option `--record` of `compare` and `run`.

use crate::args::record::RecordArgs;
use crate::failure::{Failure, VerbResult, print_error};
use crate::output::refuse_to_replace;
use crate::program::Program;
use crate::progress::Progress;
use crate::units;
use crate::{emulator, own_line};
use reach_core::{Chunk, Shown};
use reach_lab::ExperimentError;
use reach_trace::file::{Metadata, Writer};
use reach_trace::{Ending, FastForward, FastForwarded, Limited, Sampled, Source, TraceError};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Captures a program and writes its trace.
pub fn record(args: RecordArgs, quiet: bool) -> VerbResult {
    let mut recorder = Recorder::create(&args.output, args.force, None, &args.command)?;
    let mut program = Program::launch(&args.command, args.aslr, false)?;
    let mut progress = Progress::new(true, quiet);
    let (source, fast_forward) = (program.source(), FastForward::References(args.fast_forward.unwrap_or_default()));
    let source: Box<dyn Source> = match args.sample {
        None => Box::new(FastForwarded::new(source, fast_forward)),
        Some(sampling) => {
            Box::new(FastForwarded::between_intervals(Sampled::new(source, sampling, fast_forward, args.seed)))
        }
    };
    let mut source = Limited::new(source, args.limit);
    let recorded = record_all(&mut source, &mut recorder, &mut progress);
    progress.end();
    // Waits for the program's end, whatever became of the recording.
    let ending = source.ending();
    drop(source);
    own_line::program_ended();
    let summary = match recorded {
        Ok(true) => recorder.finish(&ending)?,
        Ok(false) => return Err(recorder.stop()),
        Err(error) => return Err(recorder.give_up(error)),
    };
    ending.missing.iter().for_each(print_error);
    if !quiet {
        let failures = ending.failures().map(ToString::to_string);
        failures.chain(program.remark(&ending, args.limit)).chain([summary]).for_each(print_error);
    }
    emulator::offer_newer(&ending);
    let status = program.exit_status(&ending);
    Ok(if status == 0 { u8::from(!ending.missing.is_empty()) } else { status })
}

/// Records all chunks of `source` up to its end. Returns `false` where the recorder fails before, which keeps the failure.
fn record_all(source: &mut dyn Source, recorder: &mut Recorder, progress: &mut Progress) -> Result<bool, TraceError> {
    let mut chunk = Chunk::default();
    while source.fill(&mut chunk)? {
        if !recorder.take(&chunk, source) {
            return Ok(false);
        }
        progress.show(recorder.references(), source.progress());
    }
    Ok(true)
}

/// Writes chunks to a trace file. After a failure it only counts what it is given; the file keeps what was written before.
pub struct Recorder {
    path: PathBuf,
    writer: Writer<File>,
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
        survive_size_limits();
        let writer = Writer::create(path, &metadata).map_err(|error| writing(path, error))?;
        Ok(Recorder { path: path.to_owned(), writer, failure: None })
    }

    /// Writes `chunk` of `source`. Returns whether writing still works.
    pub fn take(&mut self, chunk: &Chunk, source: &dyn Source) -> bool {
        if let Err(error) = self.writer.write(chunk, source.blocks()) {
            self.fail(error);
        }
        self.failure.is_none()
    }

    /// Returns the number of references given.
    pub fn references(&self) -> u64 {
        self.writer.refs()
    }

    /// Keeps the first failure.
    fn fail(&mut self, error: TraceError) {
        let failure = match writing(&self.path, error) {
            Failure::Failed(message) => {
                Failure::Failed(format!("{message}; the part recorded before is kept, and marked as incomplete"))
            }
            other => other,
        };
        self.failure.get_or_insert(failure);
    }

    /// Completes the trace of a program that was given to its end, which was `ending`. Returns a sentence about the contents.
    pub fn finish(self, ending: &Ending) -> Result<String, Failure> {
        let Recorder { path, writer, failure } = self;
        let references = writer.refs();
        let finished = writer.finish(ending);
        let file = match (failure, finished) {
            (Some(failure), _) => return Err(failure),
            (None, Err(error)) => return Err(writing(&path, error)),
            (None, Ok(file)) => file,
        };
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        Ok(format!(
            "recorded {} references in {}: {}, {:.2} bytes per reference",
            units::short(references as f64),
            path.shown(),
            units::memory(bytes),
            bytes as f64 / references.max(1) as f64,
        ))
    }

    /// Ends with the failure of the recorder, before the end of the program.
    fn stop(self) -> Failure {
        self.failure.unwrap_or(Failure::PipeClosed)
    }

    /// Ends because the program cannot be read to its end. The file stays unfinished, and says so to its readers. Removes it
    /// where the program is not what was asked for, because then the file has nothing of use.
    pub fn give_up(self, error: impl Into<ExperimentError>) -> Failure {
        let error = error.into();
        if self.path.is_file() && matches!(error, ExperimentError::Trace(TraceError::Invalid(_))) {
            let _ = std::fs::remove_file(&self.path);
            return Failure::failed(error);
        }
        Failure::Failed(format!("{error}; {} holds the part before, and is marked as unfinished", self.path.shown()))
    }
}

/// Lets writes beyond the limit of file sizes fail, in place of the signal that would end this process. A handler does so,
/// rather than ignoring the signal, which the program would inherit.
fn survive_size_limits() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, nothing as *const () as usize) };
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
