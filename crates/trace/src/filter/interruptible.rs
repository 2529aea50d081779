//! A source that a signal from the terminal ends.

use crate::signals::Interrupts;
use crate::{Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk};

/// A source that SIGINT ends, as if the program had ended there. A second SIGINT does what it did before.
pub struct Interruptible {
    source: Box<dyn Source>,
    /// Nothing once one has come.
    interrupts: Option<Interrupts>,
}

impl Interruptible {
    /// From now on until this is dropped, SIGINT ends `source` only.
    pub fn new(source: Box<dyn Source>) -> Interruptible {
        Interruptible { source, interrupts: Some(Interrupts::hold(&[libc::SIGINT])) }
    }

    /// Whether a signal has ended it.
    pub fn interrupted(&self) -> bool {
        self.interrupts.is_none()
    }
}

impl Source for Interruptible {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        self.interrupts.take_if(Interrupts::any);
        if self.interrupted() {
            chunk.clear();
            return Ok(false);
        }
        self.source.fill(chunk)
    }

    fn outline(&mut self, on: bool) -> Result<bool, TraceError> {
        self.source.outline(on)
    }

    fn blocks(&self) -> &BlockTable {
        self.source.blocks()
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }
}
