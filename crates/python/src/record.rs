//! Captures a program on a thread of its own, into a recording.

use crate::error::{failed, of_trace, refused};
use crate::options::Options;
use crate::program::{Origin, Program};
use crate::run::beside;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use reach_core::Chunk;
use reach_lab::values;
use reach_trace::file::{Metadata, Writer};
use reach_trace::live::{self, Live};
use reach_trace::{FastForward, FastForwarded, Limited, Source, TraceError};
use std::ffi::OsString;
use std::fs;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tempfile::TempPath;

/// The signals whose handling is Python's, also while a program is captured.
const SIGNALS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// State that the thread that captures and the one that waits share.
#[derive(Default)]
struct Shared {
    /// The program's process; 0 before it has started.
    process: AtomicU32,
    /// The recording was given up, and the program killed.
    stopped: AtomicBool,
    /// References so far.
    references: AtomicU64,
}

/// The result of a capture.
struct Recorded {
    references: u64,
    /// Sentences on how it failed, and on what is missing.
    remarks: Vec<String>,
}

/// Runs a program, captures it, and returns its recording with remarks on how it ended. `path` is `None` for a temporary file.
#[pyfunction]
pub fn record(
    py: Python<'_>,
    argv: Vec<OsString>,
    path: Option<PathBuf>,
    plugin: PathBuf,
    settings: Bound<'_, PyDict>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(Program, u64, Vec<String>)> {
    let Some((program, args)) = argv.split_first() else { return Err(refused("argv is empty; name a program")) };
    let paths = |name: &str| settings.get_item(name)?.map(|path| path.extract::<PathBuf>()).transpose();
    let environment = settings.get_item("env")?.map(|all| all.extract::<Vec<(OsString, OsString)>>()).transpose()?;
    let (folder, output, own_group) = (paths("cwd")?, paths("output")?, settings.contains("own_group")?);
    let settings = Options(settings);
    let limit = settings.get("limit", values::count)?;
    let beginning = settings.get("fast_forward", values::count)?.unwrap_or_default();
    let options = live::Options {
        program: program.clone(),
        args: args.to_vec(),
        environment: environment.unwrap_or_default(),
        plugin: Some(plugin),
        folder,
        output,
        layout_seed: settings.number("aslr", 1, u64::from(u32::MAX))?.unwrap_or_default() as u32,
        own_group,
        ..live::Options::default()
    };
    Live::find(&options).map_err(of_trace)?;
    let (path, temporary) = match path {
        Some(path) => (path, None),
        None => {
            let file = tempfile::Builder::new().prefix("reach-").suffix(".reach").tempfile().map_err(failed)?;
            let file = file.into_temp_path();
            (file.to_path_buf(), Some(file))
        }
    };
    let shared = Arc::new(Shared::default());
    let work = {
        let (shared, path) = (shared.clone(), path.clone());
        move || capture(options, &path, beginning, limit, &shared)
    };
    let last = Mutex::new(0);
    let look = |_: Python<'_>| {
        let references = shared.references.load(SeqCst);
        let (Some(progress), Ok(mut last)) = (&progress, last.lock()) else { return Ok(()) };
        if std::mem::replace(&mut *last, references) == references {
            return Ok(());
        }
        progress.call1((references, references, None::<u64>)).map(drop)
    };
    let outcome = beside(py, work, look, |_| kill(&shared, own_group)).and_then(|outcome| outcome.map_err(of_trace));
    match outcome {
        Ok(Recorded { references, remarks }) => Ok((opened(path, temporary)?, references, remarks)),
        Err(error) => {
            // What was recorded before is of no use to a script; the command keeps it.
            if temporary.is_none() {
                let _ = fs::remove_file(&path);
            }
            Err(error)
        }
    }
}

/// Returns the program that was recorded.
fn opened(path: PathBuf, temporary: Option<TempPath>) -> PyResult<Program> {
    Program::new(None, Origin::File(path, temporary)).map_err(of_trace)
}

/// Kills the program, and its descendants where it has a group of its own.
fn kill(shared: &Shared, own_group: bool) {
    shared.stopped.store(true, SeqCst);
    let process = shared.process.load(SeqCst) as libc::pid_t;
    if process > 0 {
        // SAFETY: the calls take numbers only.
        unsafe { if own_group { libc::killpg(process, libc::SIGKILL) } else { libc::kill(process, libc::SIGKILL) } };
    }
}

/// Captures the program to its end.
fn capture(
    options: live::Options,
    path: &Path,
    beginning: u64,
    limit: Option<u64>,
    shared: &Shared,
) -> Result<Recorded, TraceError> {
    let command: Vec<String> =
        [&options.program].into_iter().chain(&options.args).map(|word| word.to_string_lossy().into_owned()).collect();
    let metadata = Metadata {
        program: command.join(" ").replace(char::is_control, " "),
        command,
        host: fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
        tool: concat!("reach ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..Metadata::default()
    };
    let mut writer = Writer::create(path, &metadata)?;
    let live = {
        // The command passes signals on to the program; here they are Python's.
        let _kept = KeptSignals::new();
        Live::launch(options)?
    };
    shared.process.store(live.id(), SeqCst);
    let mut source = Limited::new(FastForwarded::new(live, FastForward::References(beginning)), limit);
    let mut chunk = Chunk::default();
    while !shared.stopped.load(SeqCst) && source.fill(&mut chunk)? {
        writer.write(&chunk, source.blocks())?;
        shared.references.store(writer.refs(), SeqCst);
    }
    let ending = source.ending();
    shared.process.store(0, SeqCst);
    let references = writer.refs();
    writer.finish(&ending)?;
    let missing = ending.missing.iter().map(ToString::to_string);
    Ok(Recorded { references, remarks: ending.failures().map(ToString::to_string).chain(missing).collect() })
}

/// Restores the actions of [`SIGNALS`] when it is dropped.
struct KeptSignals([MaybeUninit<libc::sigaction>; SIGNALS.len()]);

impl KeptSignals {
    fn new() -> KeptSignals {
        KeptSignals(SIGNALS.map(|signal| {
            let mut action = MaybeUninit::zeroed();
            // SAFETY: the kernel fills the structure, which is plain data.
            unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
            action
        }))
    }
}

impl Drop for KeptSignals {
    fn drop(&mut self) {
        for (signal, action) in SIGNALS.iter().zip(&self.0) {
            // SAFETY: `sigaction` has filled the structure, or it is zero, which is the default action.
            unsafe { libc::sigaction(*signal, action.as_ptr(), std::ptr::null_mut()) };
        }
    }
}
