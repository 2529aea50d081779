//! The program of a run, wherever it comes from.

use crate::args::ProgramArgs;
use crate::failure::Failure;
use reach_trace::live::{self, Live};
use reach_trace::{Interruptible, Source, synthetic};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// What a shell calls the status of a program that SIGINT (2) ended.
const INTERRUPTED: u8 = 128 + 2;

/// A program, ready to be read.
pub enum Program {
    /// A process tree under capture.
    Live(Box<Live>),
    /// A trace or a synthetic program.
    Stored(Interruptible),
}

impl Program {
    /// Opens the trace or the synthetic program that the command line names; nothing where it names a live one.
    pub fn stored(args: &ProgramArgs) -> Result<Option<Program>, Failure> {
        let source = match (&args.trace, &args.program) {
            (Some(path), _) => reach_trace::open(path),
            (_, Some(spec)) => synthetic::parse(spec),
            _ => return Ok(None),
        };
        source.map(|source| Some(Program::Stored(Interruptible::new(source)))).map_err(Failure::failed)
    }

    /// Starts a program under capture. `command` is not empty.
    pub fn launch(command: &[OsString]) -> Result<Program, Failure> {
        let live = Live::launch(options(command)).map_err(Failure::failed)?;
        Ok(Program::Live(Box::new(live)))
    }

    /// Fails where [`Program::launch`] would for want of the program, or of the means to capture it.
    pub fn find(command: &[OsString]) -> Result<(), Failure> {
        Live::find(&options(command)).map_err(Failure::failed)
    }

    /// Where its references come from.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            Program::Live(live) => &mut **live,
            Program::Stored(source) => source,
        }
    }

    /// Whether the user has ended a trace or a synthetic program early. A live program ends as it likes.
    pub fn interrupted(&self) -> bool {
        matches!(self, Program::Stored(source) if source.interrupted())
    }

    /// Waits for the end of a live program, remarks on its capture, and gives the exit status that follows from its
    /// own; that of an interruption after one.
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

fn options(command: &[OsString]) -> live::Options {
    let (program, args) = command.split_first().expect("the command line asks for a program");
    live::Options { program: program.clone(), args: args.to_vec(), ..live::Options::default() }
}

/// The program's own exit status, as a shell would give it.
fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.wrapping_add(signal as u8),
        (None, None) => 1,
    }
}
