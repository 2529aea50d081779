//! Decode once: turns the chunks of a program into batches that any number of simulations read at the same time.

use crate::conditions::Timing;
use reach_core::lines::LineFilter;
use reach_core::{BlockTable, Chunk, Event, Mark, Step, StepCutter};
use reach_hardware::ooo::Code;

/// A folded chunk, and the steps in which simulations take it.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The program's chunk.
    pub chunk: Chunk,
    /// The steps in order. Together they are the whole chunk.
    pub steps: Vec<Step>,
    /// The instructions of all blocks so far; empty unless the timing is out of order.
    pub code: Code,
    /// Whether the program ends here.
    pub last: bool,
}

impl Batch {
    /// Returns the empty batch that ends a program.
    pub fn end() -> Batch {
        Batch { last: true, ..Batch::default() }
    }
}

/// Turns chunks into batches.
#[derive(Debug)]
pub struct Preparer {
    steps: StepCutter,
    /// The instructions of all blocks so far; `None` unless the timing is out of order.
    code: Option<Code>,
    /// Whether caches are only warmed from here on.
    warms_caches: bool,
}

impl Preparer {
    /// Makes batches for simulations of this timing on one hardware thread.
    pub fn new(timing: Timing) -> Preparer {
        Preparer::sliced(timing, None)
    }

    /// Makes batches with steps of at most `slices` instructions; `None`: of any length.
    pub fn sliced(timing: Timing, slices: Option<u64>) -> Preparer {
        let steps = slices.map_or_else(StepCutter::default, StepCutter::sliced);
        Preparer { steps, code: (timing == Timing::Ooo).then(Code::default), warms_caches: false }
    }

    /// Folds `chunk` and divides it into steps. An outline already consists of steps. `blocks` must hold every block of the
    /// chunk.
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
            for (_, event) in &chunk.events[step.events.clone()] {
                match event {
                    Event::Mark(Mark::WarmCaches) => self.warms_caches = true,
                    Event::Mark(Mark::WarmTlbs | Mark::Detailed) => self.warms_caches = false,
                    _ => {}
                }
            }
            // In order, caches are warmed by the loop that also times them.
            if self.warms_caches && self.code.is_some() {
                let start = chunk.line_refs.len();
                LineFilter::fold(&chunk.refs, step.refs.clone(), &mut chunk.line_refs);
                step.line_refs = start..chunk.line_refs.len();
            }
        }
        Batch { chunk, steps, code: self.code.clone().unwrap_or_default(), last: false }
    }
}
