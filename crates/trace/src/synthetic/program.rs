//! The interface of a synthetic program.

use super::parameter::{Parameter, Values};
use super::process::Process;
use crate::Progress;
use reach_core::Chunk;

/// The definition of a synthetic program, for parsers and help texts.
#[derive(Debug)]
pub struct Description {
    /// The name, before the `:` of a specification.
    pub name: &'static str,
    /// The purpose, in one line.
    pub summary: &'static str,
    /// All parameters.
    pub parameters: &'static [Parameter],
    pub(super) build: Build,
}

/// Makes a program from its parameters, and lays out its process. An error says which parameters do not fit.
pub(super) type Build = fn(&Values, &mut Process) -> Result<Box<dyn Program>, String>;

/// The loops of a program.
pub(super) trait Program: Send {
    /// Appends references until `chunk` holds at least `until`, with as few more as possible. Appending fewer means
    /// that the program has ended. Where the cuts fall must not change what is appended.
    fn run(&mut self, chunk: &mut Chunk, until: usize);

    /// Returns how far the program has come.
    fn progress(&self) -> Progress;
}
