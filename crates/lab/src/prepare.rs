//! Decode once: what a program gives becomes steps that any number of simulations read at the same time.

use crate::conditions::Timing;
use reach_core::{BlockTable, Chunk, Step, StepCutter};
use reach_hardware::ooo::Code;

/// A chunk, folded, and the steps in which simulations take it.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// What the program gave.
    pub chunk: Chunk,
    /// The steps, in order: together the whole chunk.
    pub steps: Vec<Step>,
    /// The instructions of all blocks so far, where the timing asks for them.
    pub code: Code,
    /// Nothing comes after it.
    pub last: bool,
}

impl Batch {
    /// The end of a program.
    pub fn end() -> Batch {
        Batch { last: true, ..Batch::default() }
    }
}

/// Turns chunks into batches.
#[derive(Debug)]
pub struct Preparer {
    steps: StepCutter,
    /// All instructions so far, for timings that ask for them.
    code: Option<Code>,
}

impl Preparer {
    /// For simulations of this timing.
    pub fn new(timing: Timing) -> Preparer {
        Preparer::sliced(timing, None)
    }

    /// The same, with slices of so many instructions.
    pub fn sliced(timing: Timing, slices: Option<u64>) -> Preparer {
        let steps = slices.map_or_else(StepCutter::default, StepCutter::sliced);
        Preparer { steps, code: (timing == Timing::Ooo).then(Code::default) }
    }

    /// Divides `chunk` into steps, unless it is an outline, which consists of steps. `blocks` knows every block that it
    /// names.
    pub fn prepare(&mut self, mut chunk: Chunk, blocks: &BlockTable) -> Batch {
        if chunk.is_outline() {
            return Batch { steps: chunk.outline.clone(), chunk, ..Batch::default() };
        }
        self.steps.learn(blocks);
        if let Some(code) = &mut self.code {
            code.learn(blocks);
        }
        chunk.fold();
        let mut steps = self.steps.cut(&chunk.refs, &chunk.fetched, &chunk.events);
        let mut from = 0;
        for step in &mut steps {
            let end = from + chunk.page_refs[from..].partition_point(|entry| entry.index() < step.refs.end);
            step.page_refs = from..end;
            from = end;
        }
        Batch { chunk, steps, code: self.code.clone().unwrap_or_default(), last: false }
    }
}
