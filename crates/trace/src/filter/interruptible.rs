//! Ends a program on SIGINT.

use crate::signals::Interruption;
use crate::{Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk};

/// A source that SIGINT ends, as if the program had ended there. A second SIGINT has its usual effect.
pub struct Interruptible {
    source: Box<dyn Source>,
    interruption: Interruption,
    interrupted: bool,
}

impl Interruptible {
    /// Lets SIGINT end `source` only, from now until the first one comes or this is dropped.
    pub fn new(source: Box<dyn Source>) -> Interruptible {
        Interruptible { source, interruption: Interruption::default(), interrupted: false }
    }

    /// Returns whether SIGINT has ended the source.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }
}

impl Source for Interruptible {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        self.interrupted = self.interruption.came();
        if self.interrupted {
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
