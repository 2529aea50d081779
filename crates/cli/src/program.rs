//! The program of a run: live, recorded, synthetic or a scenario.

use crate::args::simulate::ProgramArgs;
use crate::failure::Failure;
use reach_trace::live::{self, Live};
use reach_trace::{Interruptible, Multiprogram, Source, TraceError, scenario, synthetic};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Exit status that shells give a program ended by SIGINT (2).
pub const INTERRUPTED: u8 = 128 + 2;

/// A program whose references can be read.
pub enum Program {
    /// A process tree that is being captured.
    Live(Box<Live>),
    /// Traces, synthetic programs or a scenario.
    Stored(Interruptible),
}

impl Program {
    /// Opens the traces, synthetic programs or scenario of the command line. Several take turns of `quantum`
    /// instructions, or run one after another if it is `None`. Returns `None` if the command line names a live program.
    pub fn stored(args: &ProgramArgs, quantum: Option<u64>) -> Result<Option<Program>, Failure> {
        let ProgramArgs { traces, programs, scenario, .. } = args;
        let source = match (&scenario, &traces[..], &programs[..]) {
            (Some(path), ..) => scenario::open(path).map(|source| Box::new(source) as Box<dyn Source>),
            (_, [], []) => return Ok(None),
            (_, [path], []) => reach_trace::open(path),
            (_, [], [spec]) => synthetic::parse(spec),
            _ => several(traces, programs, quantum),
        };
        source.map(|source| Some(Program::Stored(Interruptible::new(source)))).map_err(Failure::failed)
    }

    /// Starts a program and captures it.
    ///
    /// # Panics
    /// If `command` is empty.
    pub fn launch(command: &[OsString]) -> Result<Program, Failure> {
        let live = Live::launch(options(command)).map_err(Failure::failed)?;
        Ok(Program::Live(Box::new(live)))
    }

    /// Checks that the program exists and that the emulator to capture it is installed; starts nothing.
    pub fn find(command: &[OsString]) -> Result<(), Failure> {
        Live::find(&options(command)).map_err(Failure::failed)
    }

    /// Returns the source of its references.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            Program::Live(live) => &mut **live,
            Program::Stored(source) => source,
        }
    }

    /// Returns whether the user has interrupted a stored program. A live program gets the signal itself.
    pub fn interrupted(&self) -> bool {
        matches!(self, Program::Stored(source) if source.interrupted())
    }

    /// Waits for the end of a live program, prints remarks on its capture, and returns its exit status. For a stored
    /// program, returns 0, or [`INTERRUPTED`].
    pub fn end(self, quiet: bool) -> Result<u8, Failure> {
        let mut live = match self {
            Program::Live(live) => live,
            Program::Stored(source) => return Ok(if source.interrupted() { INTERRUPTED } else { 0 }),
        };
        let status = live.wait().map_err(Failure::failed)?;
        if !quiet {
            live.notices().iter().for_each(|notice| eprintln!("reach: {notice}"));
        }
        Ok(exit_status(status))
    }
}

/// Combines several programs into one source, for one machine.
fn several(traces: &[PathBuf], programs: &[String], quantum: Option<u64>) -> Result<Box<dyn Source>, TraceError> {
    let mut members = Vec::new();
    for spec in programs {
        members.push(scenario::synthetic_member(spec)?);
    }
    for path in traces {
        members.push(scenario::trace_member(path)?);
    }
    let names = programs.iter().cloned().chain(traces.iter().map(|path| path.display().to_string()));
    let name = names.collect::<Vec<_>>().join(" + ");
    Ok(Box::new(Multiprogram::new(name, members, quantum)))
}

fn options(command: &[OsString]) -> live::Options {
    let (program, args) = command.split_first().expect("clap requires a program");
    live::Options { program: program.clone(), args: args.to_vec(), ..live::Options::default() }
}

/// Returns the exit status of a program as a shell reports it.
fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.wrapping_add(signal as u8),
        (None, None) => 1,
    }
}
