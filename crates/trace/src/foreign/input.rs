//! The input of readers of foreign traces.

use super::compressed::{Opened, open};
use crate::{Progress, TraceError};
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Decompressed content, and its origin.
pub(super) struct Input {
    /// The path in error messages.
    path: PathBuf,
    /// The name of the program in results.
    pub(super) name: String,
    /// The content itself.
    pub(super) content: Box<dyn BufRead + Send>,
    /// Bytes of the file that were read so far.
    read: Arc<AtomicU64>,
    /// Bytes of the file; 0 if unknown.
    len: u64,
}

impl Input {
    /// Opens the file `path` and decompresses it.
    pub(super) fn open(path: &Path) -> Result<Input, TraceError> {
        let Opened { content, read, len } = open(path)?;
        Ok(Input { read, len, ..Input::new(content, path) })
    }

    /// Reads from `content`, which error messages call `path`.
    pub(super) fn new(content: impl BufRead + Send + 'static, path: &Path) -> Input {
        let (path, name) = (path.to_owned(), crate::name_of(path));
        Input { path, name, content: Box::new(content), read: Arc::default(), len: 0 }
    }

    /// Returns the error for a failed read.
    pub(super) fn io_error(&self, source: io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), source }
    }

    /// Returns the error for damage at byte `at` of the content. `todo` is the remedy.
    pub(super) fn damaged(&self, what: &str, at: u64, todo: &str) -> TraceError {
        TraceError::Damaged { path: self.path.clone(), what: what.to_owned(), at, todo: todo.to_owned() }
    }

    /// Returns how much of the file has been read.
    pub(super) fn progress(&self) -> Progress {
        Progress { done: self.read.load(Ordering::Relaxed), total: (self.len > 0).then_some(self.len) }
    }
}
