//! What can go wrong, as sentences that say what, where, and what to do.

use crate::elf::ElfError;
use std::io;
use std::path::{Path, PathBuf};

/// Why something was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", .path.display())]
pub struct LiveError {
    /// What it is about.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub kind: LiveErrorKind,
}

/// The reasons.
#[derive(Debug, thiserror::Error)]
pub enum LiveErrorKind {
    /// There is no code in it for this machine.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// The operating system refused.
    #[error("{doing}: {}", reason(.source))]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// A folder, a device, a pipe.
    #[error("is not a regular file")]
    NotAFile,
    /// A sentence of its own.
    #[error("{0}")]
    Plain(String),
    /// Processes have it mapped with smaller pages.
    #[error(
        "is in use by {by}, with smaller pages that stay as long as they are mapped; stop them, or let --replace put a \
         copy in the file's place for those that start later"
    )]
    InUse {
        /// By whom.
        by: String,
    },
    /// Somebody has it open for writing.
    #[error("is being written; try again when that is done")]
    BeingWritten,
    /// Others cannot see what is in memory of a file.
    #[error("belongs to another user; only its owner and root can see what of it is in memory")]
    NotOwner,
}

impl LiveError {
    pub(crate) fn new(path: &Path, kind: impl Into<LiveErrorKind>) -> LiveError {
        LiveError { path: path.into(), kind: kind.into() }
    }

    pub(crate) fn plain(path: &Path, what: impl Into<String>) -> LiveError {
        LiveError::new(path, LiveErrorKind::Plain(what.into()))
    }

    /// The error of an attempt at `doing` something with `path`.
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> LiveError {
        move |source| LiveError::new(path, LiveErrorKind::Io { doing, source })
    }
}

/// What the operating system said, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}
