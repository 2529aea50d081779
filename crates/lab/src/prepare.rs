//! Decode once: what a program gives becomes steps that any number of simulations read at the same time.

use reach_core::{BlockTable, Chunk, Step, Steps};

/// A chunk, folded, and the steps in which simulations take it.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// What the program gave.
    pub chunk: Chunk,
    /// The steps, in order: together the whole chunk.
    pub steps: Vec<Step>,
}

/// Turns chunks into batches.
#[derive(Debug, Default)]
pub struct Preparer(Steps);

impl Preparer {
    /// Divides `chunk` into steps, unless it is an outline, which consists of steps. `blocks` knows every block that it
    /// names.
    pub fn prepare(&mut self, mut chunk: Chunk, blocks: &BlockTable) -> Batch {
        if chunk.is_outline() {
            return Batch { steps: chunk.outline.clone(), chunk };
        }
        self.0.learn(blocks);
        chunk.fold();
        let mut steps = self.0.cut(&chunk.refs, &chunk.fetched, &chunk.events);
        let mut from = 0;
        for step in &mut steps {
            let end = from + chunk.entries[from..].partition_point(|entry| entry.at() < step.refs.end);
            step.entries = from..end;
            from = end;
        }
        Batch { chunk, steps }
    }
}
