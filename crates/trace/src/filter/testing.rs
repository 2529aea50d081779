//! Helpers for the tests of filters.

use crate::{Ending, Progress, Source, TraceError};
use reach_core::{Block, BlockTable, Chunk, Event, Mark, Ref, VirtAddr};

/// Reads all of `source` into one chunk.
pub(super) fn read_all(source: &mut dyn Source) -> Chunk {
    let (mut chunk, mut all) = (Chunk::default(), Chunk::default());
    while source.fill(&mut chunk).unwrap() {
        all.append(&chunk);
    }
    all
}

/// Returns the marks of `chunk`, each with the number of the reference that it precedes.
pub(super) fn marks(chunk: &Chunk) -> Vec<(usize, Mark)> {
    let mark =
        |(at, event): &(u32, Event)| if let Event::Mark(mark) = event { Some((*at as usize, *mark)) } else { None };
    chunk.events.iter().filter_map(mark).collect()
}

/// Returns the events of `chunk` that are not marks, each with the number of the reference that it precedes.
pub(super) fn events(chunk: &Chunk) -> Vec<(u32, Event)> {
    chunk.events.iter().filter(|(_, event)| !matches!(event, Event::Mark(_))).cloned().collect()
}

/// A program of one chunk.
pub(super) struct OneChunk {
    chunk: Option<Chunk>,
    blocks: BlockTable,
}

impl OneChunk {
    pub(super) fn new(chunk: Chunk, blocks: BlockTable) -> OneChunk {
        OneChunk { chunk: Some(chunk), blocks }
    }
}

impl Source for OneChunk {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        let next = self.chunk.take();
        *chunk = next.clone().unwrap_or_default();
        Ok(next.is_some())
    }

    fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    fn name(&self) -> &str {
        "one chunk"
    }

    fn progress(&self) -> Progress {
        Progress::default()
    }

    fn ending(&mut self) -> Ending {
        Ending::default()
    }
}

/// The reserved phase names of version 2 of the trace format.
pub(super) const OLD_MARKS: [&str; 8] = [
    "skimmed",
    "measured",
    "sampled every 5",
    "interval",
    "interval ends",
    "followed",
    "followed in caches",
    "simulated",
];

/// Returns a program that announces a phase of each of these names, 10 blocks with a load apart.
pub(super) fn program_with_phases(names: &[&str]) -> OneChunk {
    let (mut chunk, mut blocks) = (Chunk::default(), BlockTable::default());
    let block = Block { pc: VirtAddr(0x1000), len: 8, instructions: 2, bytes: Box::new([]) };
    let id = blocks.push(block.clone());
    chunk.push_event(Event::Switch { asid: Default::default(), thread: Default::default() });
    for name in names {
        chunk.push_event(Event::Phase((*name).into()));
        for page in 0..10 {
            chunk.push_fetch(id, &block);
            chunk.refs.push(Ref::load(VirtAddr(page << 12)));
        }
    }
    OneChunk::new(chunk, blocks)
}
