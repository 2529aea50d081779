//! The errors of this crate: sentences that name the file, what is wrong with it, and what to do.

use crate::elf::ElfError;
use crate::held::trust::Distrust;
use std::io;
use std::path::{Path, PathBuf};

/// An error about one file. The operation has changed nothing.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", .path.display())]
pub struct LiveError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub kind: LiveErrorKind,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum LiveErrorKind {
    /// It holds no code for this machine.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// A system call failed.
    #[error("{problem}: {}", message(.source))]
    Io {
        /// What could not be done, as a predicate: "cannot be opened".
        problem: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// It is a folder, a device or a pipe.
    #[error("is not a regular file")]
    NotAFile,
    /// It is reached by a symbolic link that others than root can change, and the user is root.
    #[error("is reached by the symbolic link {}, and {distrust}; as root, name the file itself", .link.display())]
    Link {
        /// The link.
        link: PathBuf,
        /// Who can change the link.
        distrust: Distrust,
    },
    /// Others than root can change it, and the user is root.
    #[error("is not used for root: {0}")]
    Untrusted(Distrust),
    /// Anything else, as a predicate of the path.
    #[error("{0}")]
    Plain(String),
    /// Processes map it with smaller pages.
    #[error(
        "is in use by {by} with smaller pages, which stay until they are unmapped; stop these processes, or use --replace \
         to put a promoted copy in the file's place for programs that start later"
    )]
    InUse {
        /// The processes, in one phrase.
        by: String,
    },
    /// A process has it open for writing.
    #[error("is open for writing; try again when it is closed")]
    BeingWritten,
    /// The kernel shows the page cache of a file only to its owner and to root.
    #[error("belongs to another user; only its owner and root can see what of it is in memory")]
    NotOwner,
}

impl LiveError {
    pub(crate) fn new(path: &Path, kind: impl Into<LiveErrorKind>) -> LiveError {
        LiveError { path: path.into(), kind: kind.into() }
    }

    pub(crate) fn plain(path: &Path, message: impl Into<String>) -> LiveError {
        LiveError::new(path, LiveErrorKind::Plain(message.into()))
    }

    /// Wraps an I/O error on `path`. `problem` is a predicate: "cannot be opened".
    pub(crate) fn io(path: &Path, problem: &'static str) -> impl FnOnce(io::Error) -> LiveError {
        move |source| LiveError::new(path, LiveErrorKind::Io { problem, source })
    }
}

/// Returns the operating system's message, without the error number.
fn message(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}
