//! Failures of verbs: their messages and exit statuses.

use crate::own_line::{self, Stream};
use crate::units;
use reach_core::{Shown, shown_lines};
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

/// The reason a verb failed.
#[derive(Debug)]
pub enum Failure {
    /// The arguments name something that does not exist or contradict each other: exit status 2.
    Usage(String),
    /// The run failed: exit status 1.
    Failed(String),
    /// The reader of the results closed the pipe: no message, exit status 0.
    PipeClosed,
}

/// The outcome of a verb: the exit status of the traced program if that failed, else 0.
pub type VerbResult = Result<u8, Failure>;

impl Failure {
    /// Wraps the error of a run.
    pub fn failed(error: impl Display) -> Failure {
        Failure::Failed(error.to_string())
    }

    /// Reports that `path` cannot be read.
    pub fn reading(path: &Path, error: io::Error) -> Failure {
        Failure::Failed(format!("{}: cannot be read: {}", path.shown(), units::message(&error)))
    }

    /// Reports that `path` cannot be written.
    pub fn writing(path: &Path, error: io::Error) -> Failure {
        match error.kind() {
            ErrorKind::BrokenPipe => Failure::PipeClosed,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Failure::Failed(format!("{}: the disk is full; free some space or write elsewhere", path.shown()))
            }
            ErrorKind::FileTooLarge => Failure::Failed(format!(
                "{}: the limit of file sizes is reached; raise it (ulimit -f) or write less",
                path.shown()
            )),
            _ => Failure::Failed(format!("{}: cannot be written: {}", path.shown(), units::message(&error))),
        }
    }

    /// Prints the message on standard error, and returns the exit status.
    pub fn report(self) -> ExitCode {
        let (message, status) = match self {
            Failure::Usage(message) => (message, 2),
            Failure::Failed(message) => (message, 1),
            Failure::PipeClosed => return ExitCode::SUCCESS,
        };
        print_error(&message);
        ExitCode::from(status)
    }
}

/// Prints one message on standard error, on a line of its own, without what a terminal could obey. A terminal that has gone takes none, which is no reason to fail.
pub fn print_error(message: impl Display) {
    let message = format!("reach: {message}\n");
    let _ = own_line::write(Stream::Error, &shown_lines(&message), |line| io::stderr().write_all(line.as_bytes()));
}

/// Prints a remark as [`print_error`] does, unless `quiet`.
pub fn remark(quiet: bool, message: impl Display) {
    if !quiet {
        print_error(message);
    }
}
