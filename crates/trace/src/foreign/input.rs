//! The input of readers of foreign traces.

use super::compressed::{Buffers, Counter, LARGE, Opened, open_with};
use super::limits::{self, Limits};
use crate::{Missing, Part, Progress, TraceError};
use reach_core::BlockTable;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

/// Decompressed content, and its origin.
pub(super) struct Input {
    /// The path in error messages.
    path: PathBuf,
    /// The name of the program in results.
    pub(super) name: String,
    /// The content itself.
    pub(super) content: Box<dyn BufRead + Send>,
    /// The bytes of the file that were read so far.
    counter: Counter,
    /// Bytes of the file; 0 if unknown.
    len: u64,
    /// What the file may take.
    limits: Limits,
    /// References that were given.
    given: u64,
    /// What is missing, once that is known.
    pub(super) missing: Option<Missing>,
}

impl Input {
    /// Opens the file `path` and decompresses it.
    pub(super) fn open(path: &Path) -> Result<Input, TraceError> {
        Input::open_with(path, LARGE)
    }

    /// Opens the file `path` as [`Input::open`] does, with buffers of these sizes.
    pub(super) fn open_with(path: &Path, buffers: Buffers) -> Result<Input, TraceError> {
        let Opened { content, counter, len, limits } = open_with(path, buffers)?;
        Ok(Input { counter, len, limits, ..Input::new(content, path) })
    }

    /// Reads from `content`, which error messages call `path`.
    pub(super) fn new(content: impl BufRead + Send + 'static, path: &Path) -> Input {
        let (path, name) = (path.to_owned(), crate::name_of(path));
        let (content, counter, limits) = (Box::new(content), Counter::default(), limits::NONE);
        Input { path, name, content, counter, len: 0, limits, given: 0, missing: None }
    }

    /// Returns the error for a failed read at byte `at` of the content: damage, unless the operating system failed.
    pub(super) fn read_error(&self, source: io::Error, at: u64) -> TraceError {
        if source.raw_os_error().is_some() {
            return TraceError::Io { path: self.path.clone(), source };
        }
        let what = match source.kind() {
            io::ErrorKind::FileTooLarge | io::ErrorKind::OutOfMemory => source.to_string(),
            io::ErrorKind::UnexpectedEof => "the compressed file is cut short".to_owned(),
            _ => format!("damaged: the file cannot be decompressed ({source})"),
        };
        self.damaged(&what, at, "fetch the trace again")
    }

    /// Verifies that a program may have as many distinct blocks, of which the last was read before byte `at` of the content.
    pub(super) fn check_blocks(&self, table: &BlockTable, at: u64) -> Result<(), TraceError> {
        if table.len() <= self.limits.blocks {
            return Ok(());
        }
        let what =
            format!("more than {} distinct blocks of code, which no trace of this length has,", self.limits.blocks);
        Err(self.damaged(&what, at, "fetch the trace again"))
    }

    /// Notes that `damage` ends the program. Fails with errors that are no damage.
    pub(super) fn end_by(&mut self, damage: TraceError) -> Result<(), TraceError> {
        self.missing = Some(damage.into_missing(0, None)?);
        Ok(())
    }

    /// Counts `references`, which a chunk gives. Fails where damage has ended the program before its first reference.
    pub(super) fn give(&mut self, references: usize) -> Result<(), TraceError> {
        self.given += references as u64;
        match &mut self.missing {
            Some(Missing { part: Part::Rest { read, .. }, .. }) if self.given > 0 => *read = self.given,
            Some(missing) => return Err(TraceError::Incomplete(missing.clone())),
            None => {}
        }
        Ok(())
    }

    /// Returns the error for damage at byte `at` of the content. `todo` is the remedy.
    pub(super) fn damaged(&self, what: &str, at: u64, todo: &str) -> TraceError {
        TraceError::Damaged { path: self.path.clone(), what: what.to_owned(), at, todo: todo.to_owned() }
    }

    /// Returns how much of the file has been read.
    pub(super) fn progress(&self) -> Progress {
        Progress { done: self.counter.read(), total: (self.len > 0).then_some(self.len) }
    }
}
