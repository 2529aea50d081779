//! Errors of programs.

use crate::{Missing, Part};
use reach_core::Shown;
use std::io;
use std::path::PathBuf;

/// The reason why a program could not be read, captured or written. Each message says what was found, where, and what to
/// do.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system returned an error.
    #[error("{path}: {source}", path = path.shown())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file does not have the format that it should have.
    #[error("{path}: {what} at byte {at}; {todo}", path = path.shown())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        what: String,
        /// The place of the damage, in bytes from the start of the file.
        at: u64,
        /// The remedy.
        todo: String,
    },
    /// A part of the program cannot be read, or not even its first reference.
    #[error("{0}")]
    Incomplete(Missing),
    /// The program that was asked for does not exist, has wrong parameters, or cannot be used in this way.
    #[error("{0}")]
    Invalid(String),
    /// Live capture failed.
    #[error("{0}")]
    Capture(String),
}

impl TraceError {
    /// Returns whether the reader of our output closed its pipe. That is not a failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, TraceError::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Turns damage into the part that is missing because of it: everything after `read` references, of `whole` where that is
    /// known. Returns other errors as they are.
    pub(crate) fn into_missing(self, read: u64, whole: Option<u64>) -> Result<Missing, TraceError> {
        match self {
            TraceError::Damaged { path, what, at, todo } => {
                let (of, why) = (path.shown().into_owned(), format!("{what} at byte {at}"));
                Ok(Missing { of, why, todo, part: Part::Rest { read, whole } })
            }
            other => Err(other),
        }
    }
}
