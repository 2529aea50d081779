//! Ends a program on SIGINT, SIGTERM or SIGHUP.

use crate::signals::Interruption;
use crate::{Ending, Progress, Source, Stop, TraceError};
use reach_core::{BlockTable, Chunk};
use std::time::Duration;

/// A source that SIGINT, SIGTERM and SIGHUP end, as if the program had ended there. A second signal has its usual effect.
pub struct Interruptible {
    source: Box<dyn Source>,
    interruption: Interruption,
    signal: Option<i32>,
}

impl Interruptible {
    /// Lets these signals end `source` only, from now until this is dropped.
    pub fn new(source: Box<dyn Source>) -> Interruptible {
        Interruptible { source, interruption: Interruption::default(), signal: None }
    }

    /// Returns the signal that has ended the source; `None` if none has.
    pub fn interrupted(&self) -> Option<i32> {
        self.signal
    }
}

impl Source for Interruptible {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        self.signal = self.interruption.came();
        if self.signal.is_some() {
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

    fn waited(&self) -> Duration {
        self.source.waited()
    }

    fn ending(&mut self) -> Ending {
        let ending = self.source.ending();
        match self.signal {
            Some(signal) => ending.stopped_by(Stop::Signal(signal)),
            None => ending,
        }
    }
}
