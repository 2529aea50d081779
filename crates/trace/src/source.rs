//! The one interface that every program has.

use reach_core::{BlockTable, Chunk};
use std::io;
use std::path::PathBuf;

/// Where references come from.
pub trait Source: Send {
    /// Clears `chunk` and fills it with what comes next, as much as is convenient (some 100,000 references). `false`
    /// when the program has ended and the chunk is empty. Blocks on a live program.
    ///
    /// The first event of a program is a [`Switch`](reach_core::Event::Switch).
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError>;

    /// Goes back to the start, to give outlines ([`Chunk::is_outline`]) from there on, or no more outlines where `on` is
    /// false. Returns whether it has done so; a source that cannot stays where it is.
    fn outline(&mut self, on: bool) -> Result<bool, TraceError> {
        let _ = on;
        Ok(false)
    }

    /// All blocks that chunks so far have named.
    fn blocks(&self) -> &BlockTable;

    /// What to call the program in results, on one line.
    fn name(&self) -> &str;

    /// How far the program has come.
    fn progress(&self) -> Progress;
}

/// A source behind a pointer is one.
macro_rules! pointed_to {
    ($($pointer:ty),*) => {$(
        impl<S: Source + ?Sized> Source for $pointer {
            fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
                (**self).fill(chunk)
            }

            fn outline(&mut self, on: bool) -> Result<bool, TraceError> {
                (**self).outline(on)
            }

            fn blocks(&self) -> &BlockTable {
                (**self).blocks()
            }

            fn name(&self) -> &str {
                (**self).name()
            }

            fn progress(&self) -> Progress {
                (**self).progress()
            }
        }
    )*};
}

pointed_to!(&mut S, Box<S>);

/// How far a program has come, in units of its own (bytes of a file, references of a generator).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Progress {
    /// Done.
    pub done: u64,
    /// Of how many, where that is known.
    pub total: Option<u64>,
}

/// Why a program could not be read. Every message says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The bytes are not what they should be.
    #[error("{path}: {what} at byte {at}; {todo}", path = path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
        /// Where.
        at: u64,
        /// What can be done.
        todo: String,
    },
    /// A synthetic program or its parameters are not known.
    #[error("{0}")]
    Unknown(String),
    /// Live capture failed.
    #[error("{0}")]
    Capture(String),
}

impl TraceError {
    /// Whether who reads our output has gone away, which is no failure of ours.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, TraceError::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}
