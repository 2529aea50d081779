//! How a verb ends when it does not end well.

use crate::units;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

/// Why a verb came to nothing.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for does not exist or makes no sense: exit status 2.
    Usage(String),
    /// It was tried and failed: exit status 1.
    Failed(String),
    /// Whoever read the results has had enough: nothing to complain about.
    PipeClosed,
}

/// The exit status of the traced program where it failed, else 0.
pub type Done = Result<u8, Failure>;

impl Failure {
    /// It was tried and failed, for this reason.
    pub fn failed(why: impl Display) -> Failure {
        Failure::Failed(why.to_string())
    }

    /// `path` could not be read.
    pub fn reading(path: &Path, error: io::Error) -> Failure {
        Failure::Failed(format!("{}: cannot be read: {}", path.display(), units::reason(&error)))
    }

    /// `path` could not be written.
    pub fn writing(path: &Path, error: io::Error) -> Failure {
        match error.kind() {
            ErrorKind::BrokenPipe => Failure::PipeClosed,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Failure::Failed(format!("{}: the disk is full; make room or write elsewhere", path.display()))
            }
            _ => Failure::Failed(format!("{}: cannot be written: {}", path.display(), units::reason(&error))),
        }
    }

    /// Says on standard error what went wrong, and gives the exit status.
    pub fn report(self) -> ExitCode {
        let (what, status) = match self {
            Failure::Usage(what) => (what, 2),
            Failure::Failed(what) => (what, 1),
            Failure::PipeClosed => return ExitCode::SUCCESS,
        };
        complain(&what);
        ExitCode::from(status)
    }
}

/// One error on standard error.
pub fn complain(what: impl Display) {
    eprintln!("reach: {what}");
}
