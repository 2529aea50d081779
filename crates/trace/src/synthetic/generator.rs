//! A synthetic program as a source of chunks.

use super::process::Process;
use super::program::Program;
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Event};

/// References of a chunk: enough to amortise the overhead per chunk, few enough (1 MB) to stay in a cache.
pub(super) const CHUNK_REFS: usize = 128 << 10;

/// Any synthetic program as a [`Source`].
pub(crate) struct Generator {
    name: String,
    blocks: BlockTable,
    /// The events before the first reference; empty after the first chunk.
    pub(super) start: Vec<Event>,
    program: Box<dyn Program>,
    chunk_refs: usize,
    ended: bool,
}

impl Generator {
    /// Makes the source of `program`, whose process has been laid out, in chunks of about `chunk_refs` references.
    pub(super) fn new(name: String, process: Process, program: Box<dyn Program>, chunk_refs: usize) -> Generator {
        let Process { blocks, events, .. } = process;
        Generator { name, blocks, start: events, program, chunk_refs, ended: false }
    }
}

impl Source for Generator {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        if self.ended {
            return Ok(false);
        }
        for event in self.start.drain(..) {
            chunk.push_event(event);
        }
        self.program.run(chunk, self.chunk_refs);
        if chunk.refs.len() < self.chunk_refs {
            self.ended = true;
            chunk.push_event(Event::Exit);
        }
        Ok(true)
    }

    fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> Progress {
        self.program.progress()
    }

    fn ending(&mut self) -> Ending {
        Ending::default()
    }
}
