//! Ends a program on SIGINT, SIGTERM or SIGHUP.

use crate::signals::Interruption;
use crate::{Ending, Progress, Source, Stop, TraceError};
use reach_core::{BlockTable, Chunk};
use std::time::Duration;

/// A source that SIGINT, SIGTERM and SIGHUP end, as if the program had ended there, also where it is read again. A second signal
/// has its usual effect.
pub struct Interruptible {
    source: Box<dyn Source>,
    interruption: Interruption,
    signal: Option<i32>,
    /// The chunks given since the start.
    given: u64,
    /// Those given when the signal came: all of the program from then on. `None` before.
    all: Option<u64>,
}

impl Interruptible {
    /// Lets these signals end `source` only, from now until this is dropped.
    pub fn new(source: Box<dyn Source>) -> Interruptible {
        Interruptible { source, interruption: Interruption::default(), signal: None, given: 0, all: None }
    }

    /// Returns the signal that has ended the source; `None` if none has.
    pub fn interrupted(&self) -> Option<i32> {
        self.signal
    }

    /// Makes what was given so far all of the program.
    fn interrupt(&mut self, signal: i32) {
        (self.signal, self.all) = (Some(signal), Some(self.given));
    }
}

impl Source for Interruptible {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.signal.is_none()
            && let Some(signal) = self.interruption.came()
        {
            self.interrupt(signal);
        }
        if self.all == Some(self.given) {
            chunk.clear();
            return Ok(false);
        }
        let more = self.source.fill(chunk)?;
        self.given += u64::from(more);
        Ok(more)
    }

    fn outline(&mut self, on: bool) -> Result<bool, TraceError> {
        let rewound = self.source.outline(on)?;
        if rewound {
            self.given = 0;
        }
        Ok(rewound)
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

#[cfg(test)]
mod tests {
    use super::super::testing::read_all;
    use super::*;
    use crate::synthetic;
    use crate::{Kept, KeptSize};

    #[test]
    fn after_a_signal_the_program_is_what_was_read_however_often_it_is_read_again() {
        let most = KeptSize { references: u64::MAX, bytes: u64::MAX };
        let mut kept = Kept::new(synthetic::parse("gups:bytes=64K,updates=200K").unwrap(), most).unwrap();
        let all = read_all(&mut kept).refs;
        let trace = kept.into_program().unwrap().expect("it is short").read().unwrap();
        let (mut source, mut chunk) = (Interruptible::new(Box::new(trace)), Chunk::default());
        assert!(source.fill(&mut chunk).unwrap());
        let beginning = chunk.refs.clone();
        source.interrupt(2);
        for _ in 0..2 {
            assert!(!source.fill(&mut chunk).unwrap() && chunk.is_empty());
            assert!(source.outline(false).unwrap());
            assert!(source.fill(&mut chunk).unwrap() && chunk.refs == beginning);
        }
        assert!(beginning.len() < all.len() && all.starts_with(&beginning));
        assert_eq!((source.interrupted(), source.ending().stopped), (Some(2), Some(Stop::Signal(2))));
    }
}
