//! The program of a run, wherever it comes from.

use crate::args::ProgramArgs;
use crate::failure::Failure;
use reach_trace::live::{self, Live};
use reach_trace::{Source, TraceError, synthetic};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// A program, ready to be read.
pub enum Program {
    /// A process tree under capture.
    Live(Box<Live>),
    /// A trace or a synthetic program.
    Stored(Box<dyn Source>),
}

impl Program {
    /// Opens the program that the command line names, or starts it.
    pub fn open(args: &ProgramArgs) -> Result<Program, TraceError> {
        match (&args.trace, &args.program) {
            (Some(path), _) => reach_trace::open(path).map(Program::Stored),
            (_, Some(spec)) => synthetic::parse(spec).map(Program::Stored),
            _ => Program::launch(&args.command),
        }
    }

    /// Starts a program under capture. `command` is not empty.
    pub fn launch(command: &[OsString]) -> Result<Program, TraceError> {
        let (program, args) = command.split_first().expect("the command line asks for a program");
        let options = live::Options { program: program.clone(), args: args.to_vec(), ..live::Options::default() };
        Ok(Program::Live(Box::new(Live::launch(options)?)))
    }

    /// Where its references come from.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            Program::Live(live) => &mut **live,
            Program::Stored(source) => &mut **source,
        }
    }

    /// Whether it runs now.
    pub fn is_live(&self) -> bool {
        matches!(self, Program::Live(_))
    }

    /// Waits for the end of a live program, remarks on its capture, and gives the exit status that follows from its
    /// own.
    pub fn end(self, quiet: bool) -> Result<u8, Failure> {
        let Program::Live(mut live) = self else { return Ok(0) };
        let status = live.wait().map_err(Failure::failed)?;
        if !quiet {
            live.notices().iter().for_each(|notice| eprintln!("reach: {notice}"));
        }
        Ok(exit_status(status))
    }
}

/// The program's own exit status, as a shell would give it.
fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.wrapping_add(signal as u8),
        (None, None) => 1,
    }
}
