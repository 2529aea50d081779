//! What the readers of other tools' traces read from.

use super::compressed::{Opened, open};
use crate::{Progress, TraceError};
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Content that may have been compressed, and where it comes from.
pub(super) struct Input {
    /// What messages call it.
    path: PathBuf,
    /// What results call the program.
    pub(super) name: String,
    /// The content itself.
    pub(super) content: Box<dyn BufRead + Send>,
    /// Bytes of the file that have been read.
    read: Arc<AtomicU64>,
    /// Bytes of the file; 0: not known.
    len: u64,
}

impl Input {
    /// The content of the file `path`, decompressed.
    pub(super) fn open(path: &Path) -> Result<Input, TraceError> {
        let Opened { content, read, len } = open(path)?;
        Ok(Input { read, len, ..Input::new(content, path) })
    }

    /// This content, which messages call `path`.
    pub(super) fn new(content: impl BufRead + Send + 'static, path: &Path) -> Input {
        let (path, name) = (path.to_owned(), crate::name_of(path));
        Input { path, name, content: Box::new(content), read: Arc::default(), len: 0 }
    }

    /// The operating system refused to read it.
    pub(super) fn refused(&self, source: io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), source }
    }

    /// It is not what it should be, at byte `at` of the content.
    pub(super) fn damaged(&self, what: &str, at: u64, todo: &str) -> TraceError {
        TraceError::Damaged { path: self.path.clone(), what: what.to_owned(), at, todo: todo.to_owned() }
    }

    /// How much of the file has been read.
    pub(super) fn progress(&self) -> Progress {
        Progress { done: self.read.load(Ordering::Relaxed), total: (self.len > 0).then_some(self.len) }
    }
}
