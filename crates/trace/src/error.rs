//! Errors of programs.

use std::io;
use std::path::PathBuf;

/// The reason why a program could not be read, captured or written. Each message says what was found, where, and what to
/// do.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system returned an error.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file does not have the format that it should have.
    #[error("{path}: {what} at byte {at}; {todo}", path = path.display())]
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
}
